"""A small vision-language model in X-CLIP's shape, for worlds that published models have never seen.

A ViT reads every frame, with its change to the next, into a [CLS] token, attention in time runs over these tokens, and a
causal text transformer reads sentences out of a vocabulary of whole words. It learns with `objectives.alignment`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn

from sfumato.errors import SfumatoError, counted
from sfumato.recognizers.base import Clip
from sfumato.recognizers.layers import TransformerLayer, make_norm, scaled, with_change
from sfumato.recognizers.vlm.base import CLIP_PIXELS, Recomputed, VideoEmbeddings, VideoLanguageModel, recompute
from sfumato.recognizers.vlm.words import Vocabulary

PATCH = 16
FIRST_SCALE, LARGEST_SCALE = 1 / 0.07, 100.0  # as CLIP begins and ends


@dataclass(frozen=True)
class SmallVLMConfig:
    """Everything that makes a `SmallVLM` but its weights."""

    clip: Clip  # (T, H, W)
    words: tuple[str, ...]
    width: int = 192  # D
    depth: int = 6
    temporal_depth: int = 2
    text_width: int = 128
    text_depth: int = 4
    text_length: int = 32  # tokens of the longest sentence, its end included
    embedding: int = 128  # E

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            numbers = value if name == "clip" else () if name == "words" else (value,)
            if not all(isinstance(number, int) and number > 0 for number in numbers):
                raise SfumatoError(f"{name} = {value} makes no model", "use whole numbers above 0")
        if len(self.clip) != 3:
            raise SfumatoError(f"{self.clip} is no clip", "give (frames, height, width)")


class SmallVLM(VideoLanguageModel):
    """Frames of H×W in patches of 16, T of them. It learns until it is frozen; `load_vlm` freezes it.

    >>> SmallVLM(SmallVLMConfig((8, 64, 64), ("a", "person", "waves"))).grid
    (4, 4)
    """

    def __init__(self, config: SmallVLMConfig) -> None:
        super().__init__(config.clip, PATCH, CLIP_PIXELS)
        self.config = config
        self.vocabulary = Vocabulary(config.words)
        self.frames = _FrameEncoder(math.prod(self.grid), config.width, config.depth)
        self.time = nn.Parameter(torch.empty(config.clip[0], config.width))
        self.temporal = nn.Sequential(*(TransformerLayer(config.width) for _ in range(config.temporal_depth)))
        self.project_video = nn.Linear(config.width, config.embedding)
        self.text = _TextEncoder(len(self.vocabulary), config)
        self.log_scale = nn.Parameter(torch.tensor(math.log(FIRST_SCALE)))
        _initialise(self)
        frames, height, width = self.clip
        made_for = f"{counted(frames, 'frame')} of {height}×{width} in patches of {PATCH}"
        self.summary = f"small X-CLIP-shaped model, {made_for}, {counted(len(config.words), 'word')}"

    @property
    def scale(self) -> Tensor:
        return self.log_scale.exp().clamp(max=LARGEST_SCALE)

    def encode_video(self, pixels: Tensor) -> VideoEmbeddings:
        seen = with_change(pixels.transpose(1, 2)).transpose(1, 2)
        tokens = self.frames(seen.flatten(0, 1)).unflatten(0, pixels.shape[:2])
        frame, patch = tokens[:, :, 0], tokens[:, :, 1:]
        attended = self.temporal(frame + self.time) + frame
        return VideoEmbeddings(patch, frame, self.project_video(attended.mean(1)))

    def encode_text(self, prompts: Sequence[str]) -> Tensor:
        tokens, ends = self.vocabulary.numbers(prompts, self.config.text_length)
        text: Tensor = self.text(tokens.to(self.mean.device), ends.to(self.mean.device))
        return text

    def tokens(self, prompts: Sequence[str]) -> list[tuple[int, ...]]:
        """The numbers of the words."""
        return self.vocabulary.rows(prompts)

    def unknown_words(self, prompts: Sequence[str]) -> tuple[str, ...]:
        """Those that are not in its list."""
        return self.vocabulary.unknown(prompts)


class _FrameEncoder(nn.Module):
    """The ViT of one frame and its change: (F, 6, H, W) to tokens (F, 1 + N, D), [CLS] first.

    Patches are embedded by a few convolutions: after 8,000 steps a linear map had learnt half the motions that a
    convolutional network of a tenth of the size knows after 6,000 (39 and 72%).
    """

    def __init__(self, patches: int, width: int, depth: int) -> None:
        super().__init__()
        self.stem = Recomputed(_stem(width))
        self.class_token = nn.Parameter(torch.empty(width))
        self.position = nn.Parameter(torch.empty(1 + patches, width))
        self.layers = nn.ModuleList(TransformerLayer(width) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        recompute(self.layers)

    def forward(self, frames: Tensor) -> Tensor:
        first = self.class_token.expand(len(frames), 1, -1)
        patches = self.stem(frames).flatten(2).transpose(1, 2)  # (F, N, D), row by row
        tokens = torch.cat((first, patches), 1) + self.position
        for layer in self.layers:
            tokens = layer(tokens)
        result: Tensor = self.norm(tokens)
        return result


def _stem(width: int) -> nn.Sequential:
    """(F, 6, H, W) to (F, D, H/16, W/16), halved four times; each frame by itself, so group norm.

    With kernels of 4 a patch stays in the middle of what its token sees; with 3 that moves by half a patch.
    """
    channels = [6, *(scaled(width, share) for share in (1 / 8, 1 / 4, 1 / 2)), width]
    halvings = [
        (nn.Conv2d(a, b, 4, stride=2, padding=1, bias=False), make_norm("group", b, dims=2), nn.GELU())
        for a, b in pairwise(channels)
    ]
    return nn.Sequential(*(layer for halving in halvings for layer in halving), nn.Conv2d(width, width, 1))


class _TextEncoder(nn.Module):
    """Tokens (P, L) and the place of their ends (P,) to (P, E), through the mean of all tokens up to the end.

    No token sees what comes after it, so that the padding behind the end changes nothing. The mean, not the end alone as
    in CLIP: sentences then differ from the first step on, and clips do not all run to one place meanwhile.
    """

    def __init__(self, words: int, config: SmallVLMConfig) -> None:
        super().__init__()
        width = config.text_width
        self.word = nn.Embedding(words, width)
        self.position = nn.Parameter(torch.empty(config.text_length, width))
        self.layers = nn.Sequential(*(TransformerLayer(width, causal=True) for _ in range(config.text_depth)))
        self.norm = nn.LayerNorm(width)
        self.project = nn.Linear(width, config.embedding)

    def forward(self, tokens: Tensor, ends: Tensor) -> Tensor:
        read = self.norm(self.layers(self.word(tokens) + self.position[: tokens.shape[1]]))
        inside = torch.arange(tokens.shape[1], device=ends.device) <= ends[:, None]
        mean = (read * inside[..., None]).sum(1) / inside.sum(1, keepdim=True)
        result: Tensor = self.project(mean)
        return result


def _initialise(model: SmallVLM) -> None:
    """Linear layers keep the size of what they get, words and moments are as large as what they are added to.

    With the usual .02 for all, clips of one look begin so much alike that hundreds of steps pass before the order of
    the frames is noticed.
    """
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.trunc_normal_(module.weight, std=module.in_features**-0.5)
            nn.init.zeros_(module.bias)
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
    for parameter, std in (
        (model.text.word.weight, 1.0),
        (model.time, 1.0),  # the frames' tokens are normed
        (model.text.position, 0.02),
        (model.frames.position, 0.02),
        (model.frames.class_token, 0.02),
    ):
        nn.init.trunc_normal_(parameter, std=std)
