"""`masked-transformer`: LaF-Privacy's anonymizer repaints every patch and blackens those no action needs (SPEC.md section 6).

A masked patch is black, and nothing that was decoded for it is anywhere in the output. *That is not all that can be told
about it.* The masking module comes after the encoder: by then every token has looked at all places of its frame and at
its own place in all frames, in every block, so that the kept patches are painted from tokens that have seen the masked
ones. What a masked patch held can come out beside it, and nothing in the architecture or in the losses forbids it. Which
patches are kept is itself read off the picture, and is in plain sight. The paper speaks of neither. The leak is measured
with the mask held: `spread(masks(video)) * decode(encode(other))`, where `other` differs from `video` in masked patches.

There is no [CLS] token: the paper's z⁰ is (N·T, D). Where it is silent: a last layer norm, as ViT has it, before scores
and pixels; no dropout, whose rate is not given; pixels by a sigmoid. It counts 122 M parameters and this is 116 M at its
settings: the rest is about what TimeSformer's code has in a linear map behind the projection of each attention over time,
and two linear maps in a row are one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sfumato.anonymizers.base import ClipSpec, Knob, PartialAnonymizer
from sfumato.anonymizers.settings import require_least
from sfumato.anonymizers.tubelets import kept_counts
from sfumato.errors import SfumatoError, counted
from sfumato.recognizers.base import IMAGENET
from sfumato.recognizers.layers import head_count, initialise_transformer
from sfumato.recognizers.vit import tubelets

THRESHOLD = Knob(
    "threshold", 0.0, low=-100.0, high=100.0, summary="score above the frame's mean that a patch needs; more hides more"
)
RATIO = Knob(
    "ratio", 0.0, low=0.0, high=1.0, summary="share of each frame's patches kept; 0 leaves it to the threshold"
)

TRAINING_MASKS = ("hard", "soft", "softmax")


@dataclass(frozen=True)
class Rendered:
    """A clip anonymized, and how: what the losses need.

    output: X' (B, T, 3, H, W). mask: (B, T, N), how much each patch shows; with a gradient in training, 0 or 1 in
    eval mode. scores: s̃ (B, T, N), all 0 where nothing was scored.
    """

    output: Tensor
    mask: Tensor
    scores: Tensor


class MaskedTransformer(PartialAnonymizer):
    """A ViT with divided space-time attention repaints all patches; the action-aware masking module (AAMM) hides some.

    An MLP gives every token a score s, from which its frame's mean is taken (s̃). In eval mode patches with
    s̃ > `threshold` are shown as they were painted, and the others are black; the best of each frame is always shown. In
    training (`train()`) the soft mask m = σ((s̃ − threshold)/temperature) gives the gradient, and `training_mask` says what
    is shown: "hard", as in use; "soft", patches as bright as m, which training likes best at ½ everywhere, so that it never
    masks (the paper, as SPEC.md reads it); "softmax", the paper's letter, below.
    The threshold is in units of the score, which are those of the weights at hand: 0 is the paper's, higher hides more.

    ratio: not 0, the best ⌊N·ratio⌋ patches of every frame are kept instead, at least one; in training the soft mask is
    then ½ half-way between the last kept score and the first masked one, so that training and use keep the same.
    training_mask="softmax": a softmax of s̃/temperature over the patches of a frame instead of m. It sums to 1: a frame's
    patches share the light of one, and a loss of its mean moves nothing. In eval mode nothing is different.
    masked: off, there is no AAMM and every patch is shown (the paper's "unmasked"). frame_step: every n-th frame of a video
    makes a clip, as in training (the paper: 2 on HMDB51, 4 on UCF101).

    >>> MaskedTransformer(threshold=0.1).eval()(torch.rand(1, 8, 3, 112, 112))
    """

    name = "masked-transformer"
    summary = "LaF-Privacy's transformer: repaints all patches, blackens those no action needs"
    knobs = (THRESHOLD, RATIO)
    needs_weights = True
    mean: Tensor
    std: Tensor

    def __init__(
        self,
        embedding: int = 192,
        depth: int = 6,
        patch: int = 16,
        frames: int = 8,
        size: int = 112,
        frame_step: int = 1,
        masked: bool = True,
        threshold: float = THRESHOLD.default,
        ratio: float = RATIO.default,
        training_mask: str = "hard",
        temperature: float = 0.05,
    ) -> None:
        super().__init__()
        # the scorer's hidden layer has half of the embedding
        require_least(
            {"embedding": 2},
            embedding=embedding,
            depth=depth,
            patch=patch,
            frames=frames,
            size=size,
            frame_step=frame_step,
        )
        if size % patch:
            raise SfumatoError(f"patches of {patch} do not fill frames of {size}×{size}", "use a multiple as the size")
        if not temperature > 0:
            raise SfumatoError(f"temperature = {temperature:g} makes no soft mask", "use a number above 0, such as .05")
        if training_mask not in TRAINING_MASKS:
            raise SfumatoError(
                f"there is no training_mask '{training_mask}'", f"use one of {', '.join(TRAINING_MASKS)}"
            )
        _require_one(masked, threshold, ratio)
        self.embedding, self.depth, self.patch = embedding, depth, patch  # D, L, P
        self.frames, self.size = frames, size  # T, H = W
        self.masked, self.training_mask, self.temperature = masked, training_mask, temperature  # τ
        self.threshold, self.ratio = THRESHOLD.check(threshold), RATIO.check(ratio)  # θ
        # Faded into each other, a patch that one window masks and the other keeps would be half masked.
        self.spec = ClipSpec(length=frames, size=(size, size), frame_step=frame_step, blend=False)
        self.side = size // patch
        self.places = self.side**2  # N

        values = patch * patch
        self.register_buffer("mean", torch.tensor(IMAGENET.mean).repeat_interleave(values), persistent=False)
        self.register_buffer("std", torch.tensor(IMAGENET.std).repeat_interleave(values), persistent=False)
        self.tokenizer = nn.Linear(3 * values, embedding)  # E
        self.position = nn.Parameter(torch.zeros(frames, self.places, embedding))  # e^pos
        self.blocks = nn.Sequential(*(Block(embedding) for _ in range(depth)))
        self.norm = nn.LayerNorm(embedding)
        half = embedding // 2
        self.scorer = nn.Sequential(nn.Linear(embedding, half), nn.GELU(), nn.Linear(half, 1)) if masked else None
        self.decoder = nn.ConvTranspose2d(embedding, 3, patch, stride=patch, bias=False)  # D(·)
        self.colour = nn.Parameter(torch.zeros(3, 1, 1))  # its bias
        for parameter in (self.position, self.decoder.weight):
            nn.init.trunc_normal_(parameter, std=0.02)
        initialise_transformer(self)

    def settings(self) -> dict[str, float | int | str | bool]:
        """The constructor's arguments."""
        return {
            "embedding": self.embedding, "depth": self.depth, "patch": self.patch, "frames": self.frames,
            "size": self.size, "frame_step": self.spec.frame_step, "masked": self.masked, "threshold": self.threshold,
            "ratio": self.ratio, "training_mask": self.training_mask, "temperature": self.temperature,
        }  # fmt: skip

    def forward(self, video: Tensor) -> Tensor:
        """(B, T, 3, H, W) to the same shape; in training under the soft mask, in eval mode under the hard one."""
        return self.render(video).output

    def forward_and_mask(self, video: Tensor) -> tuple[Tensor, Tensor]:
        """X' and M, (B, T, 1, H, W).

        >>> output, mask = anonymizer.eval().forward_and_mask(video)
        """
        found = self.render(video)
        return found.output, self.spread(found.mask)

    def render(self, video: Tensor, *, masked: bool = True) -> Rendered:
        """X' = X̂ ⊙ M for (B, T, 3, H, W), with the mask and the scores that made it.

        masked: off, all patches are shown and none is scored, as in the paper's pretraining and first phase, before the
        AAMM comes in.

        >>> found = anonymizer.train().render(video)
        >>> loss = mask_loss(found.mask) - visual_loss(video, found.output, anonymizer.spread(found.mask > 0.5))
        """
        tokens = self.encode(video)
        if masked and self.masked:
            scores = self.score(tokens)
            mask = self.mask_in_training(scores) if self.training else self.hard_mask(scores).float()
        else:
            scores = torch.zeros(tokens.shape[:3], device=tokens.device)
            mask = torch.ones_like(scores)
        output = self.decode(tokens) * self.spread(mask)
        return Rendered(output.to(video.dtype), mask, scores)

    def masks(self, video: Tensor) -> Tensor:
        """Which patches of (B, T, 3, H, W) are kept in eval mode, whatever the mode now: bool (B, T, N), row by row.

        >>> anonymizer.spread(anonymizer.masks(video)) * video  # the kept patches as they came in
        """
        tokens = self.encode(video)
        if not self.masked:
            return torch.ones(tokens.shape[:3], dtype=torch.bool, device=tokens.device)
        return self.hard_mask(self.score(tokens))

    def kept_share(self, video: Tensor) -> Tensor:
        """Which share of the patches of each clip (B, T, 3, H, W) is kept in eval mode: (B,).

        >>> anonymizer.kept_share(video).mean()
        """
        return self.masks(video).float().mean((1, 2))

    def encode(self, video: Tensor) -> Tensor:
        """The transformer encoder: (B, T, 3, H, W) to tokens z^L (B, T, N, D), the last layer norm done.

        >>> anonymizer.encode(video).shape
        torch.Size([1, 8, 49, 192])
        """
        if video.ndim != 5 or video.shape[2] != 3:
            raise SfumatoError(f"{tuple(video.shape)} is no video", "give (batch, frames, 3 colours, height, width)")
        time, _, height, width = video.shape[1:]
        if (time, height, width) != (self.frames, self.size, self.size):
            raise SfumatoError(
                f"this anonymizer was made for {counted(self.frames, 'frame')} of {self.size}×{self.size}, "
                f"not {time} of {height}×{width}",
                "bring clips to its size, as `anonymize_stream` does",
            )
        patches = tubelets(video.transpose(1, 2), (1, self.patch, self.patch)).unflatten(1, (time, self.places))
        pixels = (patches.to(self.position.dtype) - self.mean) / self.std
        tokens: Tensor = self.norm(self.blocks(self.tokenizer(pixels) + self.position))
        return tokens

    def score(self, tokens: Tensor) -> Tensor:
        """The AAMM's s̃: tokens (B, T, N, D) to float32 (B, T, N), each score less the mean of its frame.

        >>> anonymizer.score(anonymizer.encode(video)).mean(-1)  # 0, but for rounding
        """
        if self.scorer is None:
            raise SfumatoError("this anonymizer has no mask, and scores nothing", "make it with masked=true")
        # At temperature .05 the steps of a half-precision score would be seen in the mask: no mixed precision here.
        with torch.autocast(tokens.device.type, enabled=False):
            scores: Tensor = self.scorer(tokens.to(self.position.dtype))[..., 0].float()
        return scores - scores.mean(-1, keepdim=True)

    def soft_mask(self, scores: Tensor) -> Tensor:
        """m in [0, 1] of scores s̃ (B, T, N), with its gradient.

        >>> MaskedTransformer().soft_mask(torch.tensor([[[0.1, -0.1]]]))
        tensor([[[0.8808, 0.1192]]])
        """
        cut: Tensor | float = self.threshold
        if self.ratio and self._kept_count() < self.places:
            last_kept = self._kept_count() - 1
            cut = scores.sort(-1, descending=True).values[..., last_kept : last_kept + 2].mean(-1, keepdim=True)
        elif self.ratio:
            cut = -math.inf  # all are kept
        return ((scores - cut) / self.temperature).sigmoid()

    def mask_in_training(self, scores: Tensor) -> Tensor:
        """How much each patch shows in training, with a gradient: scores s̃ (B, T, N) to the same shape.

        >>> MaskedTransformer().mask_in_training(torch.tensor([[[0.1, -0.1]]]))
        tensor([[[1., 0.]]])
        """
        if self.training_mask == "softmax":
            return (scores / self.temperature).softmax(-1)
        soft = self.soft_mask(scores)
        if self.training_mask == "soft":
            return soft
        # Straight-through: the difference is exactly 0, and its gradient that of the soft mask.
        return self.hard_mask(scores).float() + (soft - soft.detach())

    def hard_mask(self, scores: Tensor) -> Tensor:
        """Which patches are kept in use: scores s̃ (B, T, N) to bool (B, T, N); at least one of every frame, its best.

        >>> MaskedTransformer().hard_mask(torch.tensor([[[0.1, -0.1], [0.0, 0.0]]]))
        tensor([[[ True, False],
                 [ True, False]]])
        """
        if self.ratio:
            best = scores.argsort(dim=-1, descending=True, stable=True)[..., : self._kept_count()]
            return torch.zeros_like(scores, dtype=torch.bool).scatter(-1, best, True)
        return (scores > self.threshold).scatter(-1, scores.argmax(-1, keepdim=True), True)

    def decode(self, tokens: Tensor) -> Tensor:
        """The decoder, X̂ = D(z^L): tokens (B, T, N, D) to all patches painted, unmasked: float32 (B, T, 3, H, W) in [0, 1].

        >>> anonymizer.decode(anonymizer.encode(video))
        """
        # A transposed convolution whose kernel is its stride is a linear map of each token, and quicker as one.
        values = F.linear(tokens, self.decoder.weight.flatten(1).T).unflatten(3, (3, self.patch, self.patch))
        # In half precision a sigmoid near 1 would be coarse.
        pieces = (values.float() + self.colour).sigmoid().unflatten(2, (self.side, self.side))
        # (B, T, row, column, 3, P, P) to (B, T, 3, row, P, column, P)
        return pieces.permute(0, 1, 4, 2, 5, 3, 6).flatten(5, 6).flatten(3, 4)

    def spread(self, mask: Tensor) -> Tensor:
        """The mask at full resolution, M: (B, T, N), soft or hard, to (B, T, 1, H, W), the same for all colours.

        >>> anonymizer.spread(found.mask > 0.5)
        """
        grid = mask.unflatten(2, (self.side, self.side))[:, :, None]
        return grid.repeat_interleave(self.patch, dim=-2).repeat_interleave(self.patch, dim=-1)

    def _kept_count(self) -> int:
        return kept_counts(self.places, self.ratio, 1)[0]


class Attention(nn.Module):
    """Multi-head self-attention along the third axis of (B, groups, n, D): groups do not see each other."""

    def __init__(self, embedding: int) -> None:
        super().__init__()
        self.heads = head_count(embedding)  # A
        self.qkv = nn.Linear(embedding, 3 * embedding)
        self.project = nn.Linear(embedding, embedding)

    def forward(self, tokens: Tensor) -> Tensor:
        """(B, groups, n, D) to the same."""
        # (B·groups, n, 3·D) to three of (B·groups, heads, n, D/heads): attention is quickest on four axes.
        split = self.qkv(tokens).flatten(0, 1).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        query, key, value = split.unbind(0)
        attended = F.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2)
        result: Tensor = self.project(attended).unflatten(0, tokens.shape[:2])
        return result


class Block(nn.Module):
    """Divided space-time attention: over the frames at each place, over the places of each frame, then an MLP.

    Each is pre-norm and residual; the MLP's hidden layer is four times as wide.

    >>> Block(192)(torch.rand(1, 8, 49, 192)).shape
    torch.Size([1, 8, 49, 192])
    """

    def __init__(self, embedding: int) -> None:
        super().__init__()
        self.norm_time, self.time = nn.LayerNorm(embedding), Attention(embedding)
        self.norm_space, self.space = nn.LayerNorm(embedding), Attention(embedding)
        self.norm_feed = nn.LayerNorm(embedding)
        self.feed = nn.Sequential(nn.Linear(embedding, 4 * embedding), nn.GELU(), nn.Linear(4 * embedding, embedding))

    def forward(self, tokens: Tensor) -> Tensor:
        """(B, T, N, D) to the same."""
        tokens = tokens + self.time(self.norm_time(tokens).transpose(1, 2)).transpose(1, 2)
        tokens = tokens + self.space(self.norm_space(tokens))
        result: Tensor = tokens + self.feed(self.norm_feed(tokens))
        return result


def _require_one(masked: bool, threshold: float, ratio: float) -> None:
    """A strength that somebody set and that does nothing would be trusted all the same."""
    if threshold and ratio:
        raise SfumatoError(
            f"threshold = {threshold:g} and ratio = {ratio:g} both say what is kept", "set one of them to 0"
        )
    if (threshold or ratio) and not masked:
        raise SfumatoError("nothing is masked, so that threshold and ratio do nothing", "leave both 0, or masked on")
