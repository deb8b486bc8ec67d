"""`tubelets`: STPrivacy's anonymizer drops the tubelets an action can do without and repaints the others (SPEC.md section 4)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sfumato.anonymizers.base import ClipSpec, Knob, PartialAnonymizer
from sfumato.anonymizers.settings import require_least
from sfumato.anonymizers.tubelet_layers import Predictor, Stack, TubeletStem, draw_decision, kept_mean, most_wanted
from sfumato.errors import SfumatoError, counted
from sfumato.recognizers.base import IMAGENET
from sfumato.recognizers.layers import initialise_transformer
from sfumato.recognizers.vit import tubelets

ALPHA = Knob(
    "alpha", 0.7, low=0.001, high=1.0, summary="share of the tubelets that each block keeps; at least one per step"
)


@dataclass(frozen=True)
class Decision:
    """Which tubelets stay: `kept[m]`, (B, L, K_m), are those that block m leaves in each step of time.

    They are places 0 … N−1 in rising order, each block's among those of the block before.
    """

    kept: tuple[Tensor, ...]

    def masks(self, places: int) -> tuple[Tensor, ...]:
        """Î_(1) … Î_(M): each (B, L, N), 1 where the tubelet stays, else 0."""
        return tuple(torch.zeros(*kept.shape[:2], places, device=kept.device).scatter(2, kept, 1) for kept in self.kept)


@dataclass(frozen=True)
class Sparsified:
    """What training sees of a clip: all tokens are still there, and the decision, with its gradient, says which count.

    decisions: Î_(1) … Î_(M), each (B, L, N); features: (B, L, N, D), what the output is painted from, after the
    anonymization block's layers.
    """

    decisions: tuple[Tensor, ...]
    features: Tensor

    @property
    def decision(self) -> Tensor:
        """Î after the last block, (B, L, N)."""
        return self.decisions[-1]

    def pooled(self) -> Tensor:
        """(B, D): the mean of the kept tokens' features, for a linear head that names the action (L'_Action, eq. 12)."""
        return kept_mean(self.features, self.decision, (1, 2)).flatten(1)


class Tubelets(PartialAnonymizer):
    """A ViT over tubelets of `duration`×`patch`×`patch` pixels that drops tokens on its way and paints the rest anew.

    `blocks` sparsification blocks of `depth` layers (PSBs) each drop what is left to share `alpha`, in every step of time
    by itself; the anonymization block (PAB: `depth` layers, a linear map, a sigmoid) paints the kept tubelets, and the
    dropped ones are black. In training (`train()`) the dropping is drawn, by masks; in use the best are taken, and the
    others leave the network. Pixels come in with ImageNet's mean and deviation taken out, as for the video ViT.

    two_pass: kept tokens have seen dropped ones in the layers before the drop, so that what was dropped may come out
    beside its place. With two passes the first only decides; the second sees the kept tubelets alone, from the start.
    anonymize: off, kept tubelets come out as they came in (no PAB). sparsify: off, all are kept (alpha must be 1).
    frame_step: every n-th frame of a video makes a clip, as in training. stem: two convolutions make a tubelet's token, and not
    the paper's one (a linear map of its pixels), which wants a pretrained network behind it.

    >>> Tubelets(alpha=0.5, two_pass=True).eval()(torch.rand(1, 16, 3, 112, 112))
    """

    name = "tubelets"
    summary = "STPrivacy's transformer: drops tubelets that no action needs, repaints the others"
    knobs = (ALPHA,)
    needs_weights = True
    mean: Tensor
    std: Tensor

    def __init__(
        self,
        embedding: int = 384,
        depth: int = 3,
        blocks: int = 3,
        duration: int = 2,
        patch: int = 16,
        frames: int = 16,
        size: int = 112,
        frame_step: int = 1,
        alpha: float = ALPHA.default,
        two_pass: bool = False,
        anonymize: bool = True,
        sparsify: bool = True,
        stem: bool = False,
    ) -> None:
        super().__init__()
        # the predictor's last layer has a quarter of the embedding
        require_least(
            {"embedding": 4},
            embedding=embedding,
            depth=depth,
            blocks=blocks,
            duration=duration,
            patch=patch,
            frame_step=frame_step,
        )
        if duration > frames or patch > size:
            raise SfumatoError(
                f"clips of {counted(frames, 'frame')} of {size}×{size} are less than a tubelet of {duration}×{patch}×{patch}",
                "use smaller tubelets or larger clips",
            )
        if not (anonymize or sparsify):
            raise SfumatoError("tubelets with neither anonymize nor sparsify hide nothing", "leave at least one on")
        self.embedding, self.depth = embedding, depth  # D
        self.frames, self.size, self.tubelet = frames, size, (duration, patch, patch)  # T, H = W, δT×δH×δW
        self.two_pass, self.anonymizes, self.sparsifies = two_pass, anonymize, sparsify
        if not sparsify and alpha < 1:
            raise SfumatoError(
                f"without sparsify nothing is dropped, and alpha = {alpha:g} does nothing", "set it to 1"
            )
        self.alpha = ALPHA.check(alpha)
        # Faded into each other, a tubelet that one window drops and the other keeps would be half dropped.
        self.spec = ClipSpec(length=frames, size=(size, size), frame_step=frame_step, blend=False)
        side = math.ceil(size / patch)
        self.grid = (math.ceil(frames / duration), side, side)
        self.steps, self.places = self.grid[0], side * side  # L, N

        values = duration * patch * patch
        self.register_buffer("mean", torch.tensor(IMAGENET.mean).repeat_interleave(values), persistent=False)
        self.register_buffer("std", torch.tensor(IMAGENET.std).repeat_interleave(values), persistent=False)
        self.tokenizer: nn.Linear | TubeletStem = nn.Linear(3 * values, embedding)
        self.position = nn.Parameter(torch.zeros(self.steps, self.places, embedding))
        self.blocks = nn.ModuleList(Stack(embedding, depth) for _ in range(blocks))
        self.predictors = nn.ModuleList(Predictor(embedding) for _ in range(blocks if sparsify else 0))
        self.repaint = Stack(embedding, depth if anonymize else 0)
        self.norm = nn.LayerNorm(embedding)
        self.output = nn.Linear(embedding, 3 * values) if anonymize else None
        nn.init.trunc_normal_(self.position, std=0.02)
        initialise_transformer(self)
        if stem:
            self.tokenizer = TubeletStem(duration, patch, embedding)

    @property
    def changes_nothing(self) -> bool:
        return self.alpha == 1 and not self.anonymizes

    def settings(self) -> dict[str, float | int | str | bool]:
        """The constructor's arguments."""
        return {
            "embedding": self.embedding, "depth": self.depth, "blocks": len(self.blocks), "duration": self.tubelet[0],
            "patch": self.tubelet[1], "frames": self.frames, "size": self.size,
            "frame_step": self.spec.frame_step, "alpha": self.alpha,
            "two_pass": self.two_pass, "anonymize": self.anonymizes, "sparsify": self.sparsifies,
            "stem": isinstance(self.tokenizer, TubeletStem),
        }  # fmt: skip

    def forward(self, video: Tensor) -> Tensor:
        """(B, T, 3, H, W) to the same shape; in training with drawn decisions, in eval mode with the best."""
        if self.training:
            return self.render(video, self.sparsify(video))
        return self._use(video)[0]

    def forward_and_mask(self, video: Tensor) -> tuple[Tensor, Tensor]:
        """What `forward` gives in eval mode, and where tubelets are kept, (B, T, 1, H, W).

        >>> output, mask = anonymizer.eval().forward_and_mask(video)
        """
        output, decision = self._use(video)
        kept = decision.masks(self.places)[-1][..., None].expand(-1, -1, -1, 3 * math.prod(self.tubelet))
        return output, self._assemble(kept, video)[:, :, :1]

    def decide(self, video: Tensor) -> Decision:
        """Which tubelets of (B, T, 3, H, W) are kept, as `forward` in eval mode decides it.

        >>> anonymizer.forward_with(video, anonymizer.decide(video))  # what anonymizer(video) gives
        """
        return self._prune(self._cut(video))[0]

    def forward_with(self, video: Tensor, held: Decision) -> Tensor:
        """`forward` in eval mode with the decision held, whatever is to be seen: (B, T, 3, H, W) to the same shape.

        With `two_pass` dropped tubelets have no part in it.

        >>> anonymizer.forward_with(other_video, anonymizer.decide(video))
        """
        cut = self._cut(video)
        self._check_held(held, len(cut))
        return self._show(video, cut, held)

    def keep(self, video: Tensor) -> Tensor:
        """The kept tubelets as they came in, on black: what sparsification alone would show. (B, T, 3, H, W) to the same.

        >>> anonymizer.keep(video)
        """
        cut = self._cut(video)
        mask = self._prune(cut)[0].masks(self.places)[-1]
        return self._assemble(cut * mask[..., None], video)

    def sparsify(self, video: Tensor, *, held: Decision | None = None) -> Sparsified:
        """The way of training: (B, T, 3, H, W) through all layers, with decisions drawn, or held as they are given.

        >>> shown = anonymizer.render(video, found := anonymizer.sparsify(video))
        >>> loss = sparsification_loss(found.decisions, 0.7)
        """
        cut = self._cut(video)
        if held is not None:
            self._check_held(held, len(cut))
        masks = None if held is None else held.masks(self.places)
        tokens = start = self._embed(cut)
        decision: Tensor | None = None  # Î, which begins with all kept
        decisions = []
        for number, block in enumerate(self.blocks):
            tokens = block(tokens, decision)
            if masks is not None:
                decision = masks[number]
            elif self.sparsifies:
                drawn = draw_decision(self.predictors[number](tokens, decision))
                decision = drawn if decision is None else decision * drawn  # once dropped, always dropped
            decisions.append(torch.ones(cut.shape[:3], device=cut.device) if decision is None else decision)
        if self.two_pass and decision is not None:
            tokens = start
            for block in self.blocks:
                tokens = block(tokens, decision)
        features = self.norm(self.repaint(tokens, decision))
        return Sparsified(tuple(decisions), features)

    def render(self, video: Tensor, found: Sparsified) -> Tensor:
        """What training shows of `video`, (B, T, 3, H, W): kept tubelets times their decision, so that it has a gradient.

        >>> anonymizer.render(video, anonymizer.sparsify(video))
        """
        shown = self._cut(video) if self.output is None else self._paint(self.output, found.features)
        return self._assemble(shown * found.decision[..., None], video)

    def multiply_adds(self, alpha: float | None = None) -> int:
        """How many multiply-adds one clip takes in eval mode at that α (its own, unless given): all matrix products.

        >>> Tubelets().multiply_adds(0.7) / Tubelets().multiply_adds(1.0)  # doctest: +ELLIPSIS
        0.60...
        """
        share = (self.alpha if alpha is None else ALPHA.check(alpha)) if self.sparsifies else 1.0
        # tokens in each block, and last those that are painted
        counts = [self.steps * n for n in (self.places, *kept_counts(self.places, share, len(self.blocks)))]
        tokenizer = self.tokenizer
        tokenizing = tokenizer.work if isinstance(tokenizer, TubeletStem) else tokenizer.weight.numel()
        total = counts[0] * tokenizing + sum(map(self._layers_work, counts[:-1]))
        for count, predictor in zip(counts, self.predictors, strict=False):
            total += count * sum(weight.numel() for weight in predictor.parameters() if weight.ndim == 2)
        if self.output is not None:
            if self.two_pass and self.sparsifies:
                total += counts[-1] * tokenizing + len(self.blocks) * self._layers_work(counts[-1])
            total += self._layers_work(counts[-1]) + counts[-1] * self.output.weight.numel()
        return total

    def _layers_work(self, tokens: int) -> int:
        """Of one stack: query, key, value and projection 4·D² a token, feed-forward 8·D², attention 2·D a pair of tokens."""
        return self.depth * (12 * tokens * self.embedding**2 + 2 * tokens**2 * self.embedding)

    def _cut(self, video: Tensor) -> Tensor:
        """(B, T, 3, H, W) to tubelets (B, L, N, 3·δT·δH·δW), filled up with the last frame and the border pixels."""
        if video.ndim != 5 or video.shape[2] != 3:
            raise SfumatoError(f"{tuple(video.shape)} is no video", "give (batch, frames, 3 colours, height, width)")
        clips = video.transpose(1, 2)
        time, height, width = clips.shape[2:]
        if time < self.tubelet[0]:
            raise SfumatoError(
                f"a clip of {counted(time, 'frame')} is shorter than a tubelet of {self.tubelet[0]}",
                f"give {counted(self.frames, 'frame')}",
            )
        if tuple(-(-side // step) for side, step in zip((time, height, width), self.tubelet, strict=True)) != self.grid:
            raise SfumatoError(
                f"this anonymizer was made for {counted(self.frames, 'frame')} of {self.size}×{self.size}, "
                f"not {time} of {height}×{width}",
                "bring clips to its size, as `anonymize_stream` does",
            )
        missing = [-side % step for side, step in zip((time, height, width), self.tubelet, strict=True)]
        if any(missing):
            clips = F.pad(clips, (0, missing[2], 0, missing[1], 0, missing[0]), mode="replicate")
        return tubelets(clips, self.tubelet).unflatten(1, (self.steps, self.places))

    def _assemble(self, shown: Tensor, video: Tensor) -> Tensor:
        """The way back from `_cut`, to the size and type of `video`."""
        # (B, L, rows, columns, 3, δT, δH, δW) to (B, L, δT, 3, rows, δH, columns, δW)
        pieces = shown.unflatten(3, (3, *self.tubelet)).unflatten(2, self.grid[1:]).permute(0, 1, 5, 4, 2, 6, 3, 7)
        whole = pieces.flatten(6, 7).flatten(4, 5).flatten(1, 2)
        return whole[:, : video.shape[1], :, : video.shape[3], : video.shape[4]].to(video.dtype)

    def _embed(self, cut: Tensor, kept: Tensor | None = None) -> Tensor:
        """Tubelets (B, L, K, values) to tokens (B, L, K, D); kept: their places, where they are not all."""
        position = self.position.expand(len(cut), -1, -1, -1)
        pixels = (cut.to(self.position.dtype) - self.mean) / self.std
        tokens: Tensor = self.tokenizer(pixels) + (position if kept is None else take(position, kept))
        return tokens

    def _prune(self, cut: Tensor, held: Decision | None = None) -> tuple[Decision, Tensor]:
        """Tubelets through the sparsification blocks, each dropping tokens: what was kept, and tokens (B, L, K_M, D)."""
        everything = torch.arange(self.places, device=cut.device).expand(*cut.shape[:2], -1).contiguous()
        if held is None and not self.sparsifies:
            held = Decision((everything,) * len(self.blocks))
        counts = kept_counts(self.places, self.alpha, len(self.blocks))
        tokens, kept, steps = self._embed(cut), everything, []
        for number, block in enumerate(self.blocks):
            tokens = block(tokens)
            if held is None:
                chosen = most_wanted(self.predictors[number](tokens), counts[number])
            else:
                chosen = torch.searchsorted(kept, held.kept[number])
            tokens, kept = take(tokens, chosen), kept.gather(2, chosen)
            steps.append(kept)
        return Decision(tuple(steps)), tokens

    def _use(self, video: Tensor) -> tuple[Tensor, Decision]:
        """(B, T, 3, H, W) anonymized by the best decision, and that decision."""
        cut = self._cut(video)
        decision, tokens = self._prune(cut)
        shown = self._show(video, cut, decision, None if self.two_pass and self.sparsifies else tokens)
        return shown, decision

    def _show(self, video: Tensor, cut: Tensor, decision: Decision, tokens: Tensor | None = None) -> Tensor:
        """The kept tubelets on black; tokens: as the sparsification blocks left them, made here where they are not at hand."""
        kept = decision.kept[-1]
        shown = take(cut, kept)
        if self.output is not None:
            if tokens is None and self.two_pass:
                tokens = self._embed(shown, kept)
                for block in self.blocks:
                    tokens = block(tokens)
            elif tokens is None:
                tokens = self._prune(cut, decision)[1]
            shown = self._paint(self.output, self.norm(self.repaint(tokens)))
        black = shown.new_zeros(cut.shape)
        return self._assemble(black.scatter(2, kept[..., None].expand_as(shown), shown), video)

    def _paint(self, output: nn.Linear, features: Tensor) -> Tensor:
        """Eq. 11: (B, L, K, D) to pixels in [0, 1]. In half precision a sigmoid near 1 would be coarse."""
        values: Tensor = output(features)
        return values.float().sigmoid()

    def _check_held(self, held: Decision, batch: int) -> None:
        """Places that are not there, or not among those of the block before, would be taken for others."""
        before = torch.arange(self.places, device=self.position.device).expand(batch, self.steps, -1)
        fits = len(held.kept) == len(self.blocks)
        for kept in held.kept:
            fits = fits and kept.shape[:2] == before.shape[:2] and kept.shape[2] > 0
            fits = fits and bool((kept.diff(dim=2) > 0).all())
            fits = fits and bool((kept[..., None] == before[..., None, :]).any(-1).all())
            before = kept
        if not fits:
            raise SfumatoError(
                f"the held decision does not fit {counted(batch, 'clip')} of {counted(self.steps, 'step')} and "
                f"{counted(len(self.blocks), 'block')}",
                "take it from `decide`, on as many clips",
            )


def kept_counts(places: int, alpha: float, blocks: int) -> tuple[int, ...]:
    """How many of `places` tubelets of a step are left after each block: max(1, ⌊N·α^m⌋).

    >>> kept_counts(49, 0.7, 3)
    (34, 24, 16)
    """
    # 100 · 0.29 is 28.999…6 in floating point: what is a whole number but for rounding is that number.
    return tuple(max(1, math.floor(places * alpha**block + 1e-9)) for block in range(1, blocks + 1))


def take(values: Tensor, kept: Tensor) -> Tensor:
    """Those of (B, L, N, W) that are at the places `kept`, (B, L, K): (B, L, K, W).

    >>> take(torch.tensor([[[[5.0], [6.0], [7.0]]]]), torch.tensor([[[0, 2]]])).flatten().tolist()
    [5.0, 7.0]
    """
    return values.gather(2, kept[..., None].expand(-1, -1, -1, values.shape[-1]))
