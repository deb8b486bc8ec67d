"""Video ViT: tubelets of 2×16×16 pixels as tokens, joint space-time attention, learned positions, mean-pooled.

Mean pooling, not a class token: every token then gets a gradient of its own, and dropping tokens (as STPrivacy does)
leaves the pooled feature defined.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from sfumato.errors import SfumatoError
from sfumato.recognizers.base import IMAGENET, Clip, VideoRecognizer
from sfumato.recognizers.layers import TransformerLayer, initialise_transformer, scaled

TUBELET = (2, 16, 16)


def vit_s(outputs: int, clip: Clip, *, width: float = 1.0, depth: int = 12) -> VideoViT:
    """Video ViT-S: 384 wide, 6 heads, 12 layers. (B, T, 3, H, W) to (B, outputs).

    >>> vit_s(10, (16, 112, 112), width=0.25, depth=2).feature_width
    96
    """
    return VideoViT(outputs, clip, scaled(384, width), depth)


def vit_b(outputs: int, clip: Clip, *, width: float = 1.0, depth: int = 12) -> VideoViT:
    """Video ViT-B: 768 wide, 12 heads, 12 layers. (B, T, 3, H, W) to (B, outputs).

    >>> vit_b(10, (16, 112, 112), width=0.25, depth=2).feature_width
    192
    """
    return VideoViT(outputs, clip, scaled(768, width), depth)


class VideoViT(VideoRecognizer):
    """Pre-norm transformer over the (T/2)·(H/16)·(W/16) tubelets of a clip of exactly the given size."""

    def __init__(self, outputs: int, clip: Clip, embedding: int, depth: int) -> None:
        super().__init__(outputs, clip, IMAGENET)
        if any(size % step for size, step in zip(clip, TUBELET, strict=True)):
            raise SfumatoError(
                f"a ViT cannot cut {clip[0]} frames of {clip[1]}×{clip[2]} into tubelets",
                "use an even number of frames, and a height and width that are multiples of 16",
            )
        tokens = (clip[0] // 2) * (clip[1] // 16) * (clip[2] // 16)
        self.feature_width = embedding
        self.patch = nn.Linear(3 * 2 * 16 * 16, embedding)
        self.position = nn.Parameter(torch.zeros(1, tokens, embedding))
        self.layers = nn.Sequential(*(TransformerLayer(embedding) for _ in range(depth)))
        self.norm = nn.LayerNorm(embedding)
        self.fc = nn.Linear(embedding, outputs)
        nn.init.trunc_normal_(self.position, std=0.02)
        initialise_transformer(self)

    def encode(self, clips: Tensor) -> Tensor:
        self.require_size(clips)
        tokens: Tensor = self.norm(self.layers(self.patch(tubelets(clips)) + self.position))
        return tokens.mean(1)


def tubelets(clips: Tensor, size: Clip = TUBELET) -> Tensor:
    """(B, 3, T, H, W) to (B, tokens, 3·2·16·16), for tubelets of that size; tokens in the order time, row, column.

    With a linear map this is the usual 3-D convolution with stride = kernel, but quick on every device.

    >>> tubelets(torch.rand(1, 3, 4, 32, 32)).shape
    torch.Size([1, 8, 1536])
    """
    grid = clips
    for axis, step in zip((2, 4, 6), size, strict=True):
        grid = grid.unflatten(axis, (-1, step))
    return grid.permute(0, 2, 4, 6, 1, 3, 5, 7).flatten(4).flatten(1, 3)
