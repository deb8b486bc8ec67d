"""Two small networks made to be trained on a laptop's CPU, on clips of about 8×64×64.

Plain 3×3×3 convolutions in channels-last memory: on two CPU cores these train about as fast as (2+1)-D ones with half
the parameters, and faster than 2-D convolutions with shifted channels. Channels-last helps too.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from sfumato.recognizers.base import CENTRED, Clip, FrameRecognizer, VideoRecognizer
from sfumato.recognizers.layers import initialise, make_norm, scaled, with_change


class TinyVideo(VideoRecognizer):
    """Four convolutions, 0.24 M parameters at width 1: (B, T, 3, H, W) to (B, outputs).

    Sees every frame and its change to the next. Space shrinks 16 times, time twice; the features are the averages and
    the maxima of the last layer.

    >>> TinyVideo(10, (8, 64, 64)).feature_width
    192
    """

    def __init__(self, outputs: int, clip: Clip, *, width: float = 1.0, norm: str = "batch") -> None:
        super().__init__(outputs, clip, CENTRED)
        a, b, c, d = (scaled(channels, width) for channels in (16, 32, 64, 96))
        self.body = nn.Sequential(
            *_conv3d(6, a, (1, 5, 5), (1, 2, 2), norm),
            *_conv3d(a, b, (3, 3, 3), (1, 2, 2), norm),
            *_conv3d(b, c, (3, 3, 3), (2, 2, 2), norm),
            *_conv3d(c, d, (3, 3, 3), (1, 2, 2), norm),
        )
        self.feature_width = 2 * d
        self.fc = nn.Linear(self.feature_width, outputs)
        initialise(self)

    def encode(self, clips: Tensor) -> Tensor:
        hidden: Tensor = self.body(with_change(clips))
        return torch.cat([hidden.mean((2, 3, 4)), hidden.amax((2, 3, 4))], 1)


class TinyFrame(FrameRecognizer):
    """Six convolutions, 205 k parameters at width 1, on each frame; logits are averaged over T.

    >>> TinyFrame(10, (1, 64, 64)).feature_width
    192
    """

    def __init__(self, outputs: int, clip: Clip, *, width: float = 1.0, norm: str = "batch") -> None:
        super().__init__(outputs, clip, CENTRED)
        a, b, c, d = (scaled(channels, width) for channels in (16, 32, 64, 96))
        self.body = nn.Sequential(
            *_conv2d(3, a, 5, 2, norm),
            *_conv2d(a, b, 3, 2, norm),
            *_conv2d(b, c, 3, 2, norm),
            *_conv2d(c, c, 3, 1, norm),
            *_conv2d(c, d, 3, 2, norm),
            *_conv2d(d, d, 3, 1, norm),
        )
        self.feature_width = 2 * d
        self.fc = nn.Linear(self.feature_width, outputs)
        initialise(self)

    def encode(self, frames: Tensor) -> Tensor:
        hidden: Tensor = self.body(frames)
        return torch.cat([hidden.mean((2, 3)), hidden.amax((2, 3))], 1)


Triple = tuple[int, int, int]


def _conv3d(inputs: int, outputs: int, kernel: Triple, stride: Triple, norm: str) -> list[nn.Module]:
    padding = tuple(size // 2 for size in kernel)
    conv = nn.Conv3d(inputs, outputs, kernel, stride, padding, bias=False)  # type: ignore[arg-type]
    return [conv, make_norm(norm, outputs, 3), nn.ReLU(inplace=True)]


def _conv2d(inputs: int, outputs: int, kernel: int, stride: int, norm: str) -> list[nn.Module]:
    conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)
    return [conv, make_norm(norm, outputs, 2), nn.ReLU(inplace=True)]
