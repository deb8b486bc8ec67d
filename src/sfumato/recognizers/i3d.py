"""I3D-R50: a ResNet-50 inflated in time (Carreira & Zisserman, 2017; Wang et al., 2018, without non-local blocks).

The layout and the parameter names are those of the widely published Kinetics-400 model (28.04 M parameters, made for
8 frames taken every 8th), whose first 1×1 convolution in every block, or every second one, becomes 3×1×1.
"""

from __future__ import annotations

from itertools import cycle, islice

from torch import Tensor, nn

from sfumato.recognizers.base import Clip, Pixels, VideoRecognizer
from sfumato.recognizers.layers import initialise, make_norm, scaled

# (blocks, spatial stride, temporal kernels of the blocks in turn) of the four stages.
STAGES = ((3, 1, (3,)), (4, 2, (3, 1)), (6, 2, (3, 1)), (3, 2, (1, 3)))


class I3DResNet50(VideoRecognizer):
    """(B, T, 3, H, W) to (B, outputs). Space shrinks 32 times, time only once, by 2, after the first stage.

    >>> I3DResNet50(10, (16, 224, 224), width=0.125).feature_width
    256
    """

    head_name = "blocks.6.proj"

    def __init__(self, outputs: int, clip: Clip, *, width: float = 1.0, norm: str = "batch") -> None:
        super().__init__(outputs, clip, Pixels((0.45, 0.45, 0.45), (0.225, 0.225, 0.225)))
        stem = scaled(64, width)
        inner = [scaled(channels, width) for channels in (64, 128, 256, 512)]
        before = [stem, *(4 * channels for channels in inner[:-1])]
        first, *others = (
            _Stage(inputs, channels, *stage, norm)
            for inputs, channels, stage in zip(before, inner, STAGES, strict=True)
        )
        self.feature_width = 4 * inner[-1]
        # ceil_mode: an odd last frame, or a clip of one frame, is kept.
        halve_time = nn.MaxPool3d((2, 1, 1), (2, 1, 1), ceil_mode=True)
        self.blocks = nn.ModuleList([_Stem(stem, norm), first, halve_time, *others, _Head(self.feature_width, outputs)])
        initialise(self)

    def encode(self, clips: Tensor) -> Tensor:
        hidden = clips
        for block in self.blocks[:-1]:
            hidden = block(hidden)
        return hidden.mean((2, 3, 4))

    def classify(self, features: Tensor) -> Tensor:
        logits: Tensor = self.blocks[-1](features)
        return logits


class _Stem(nn.Module):
    def __init__(self, outputs: int, norm: str) -> None:
        super().__init__()
        self.conv = nn.Conv3d(3, outputs, (5, 7, 7), (1, 2, 2), (2, 3, 3), bias=False)
        self.norm = make_norm(norm, outputs, 3)
        self.activation = nn.ReLU(inplace=True)
        self.pool = nn.MaxPool3d((1, 3, 3), (1, 2, 2), (0, 1, 1))

    def forward(self, clips: Tensor) -> Tensor:
        hidden: Tensor = self.pool(self.activation(self.norm(self.conv(clips))))
        return hidden


class _Bottleneck(nn.Module):
    """t×1×1 down to `inner` channels, 1×3×3 with the stride, 1×1×1 up to four times `inner`."""

    def __init__(self, inputs: int, inner: int, stride: int, time_kernel: int, norm: str) -> None:
        super().__init__()
        self.conv_a = nn.Conv3d(inputs, inner, (time_kernel, 1, 1), padding=(time_kernel // 2, 0, 0), bias=False)
        self.norm_a = make_norm(norm, inner, 3)
        self.conv_b = nn.Conv3d(inner, inner, (1, 3, 3), (1, stride, stride), (0, 1, 1), bias=False)
        self.norm_b = make_norm(norm, inner, 3)
        self.conv_c = nn.Conv3d(inner, 4 * inner, 1, bias=False)
        self.norm_c = make_norm(norm, 4 * inner, 3)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, hidden: Tensor) -> Tensor:
        hidden = self.relu(self.norm_a(self.conv_a(hidden)))
        hidden = self.relu(self.norm_b(self.conv_b(hidden)))
        result: Tensor = self.norm_c(self.conv_c(hidden))
        return result


class _ResidualBlock(nn.Module):
    def __init__(self, inputs: int, inner: int, stride: int, time_kernel: int, norm: str) -> None:
        super().__init__()
        self.branch1_conv: nn.Module = nn.Identity()
        self.branch1_norm: nn.Module = nn.Identity()
        if inputs != 4 * inner or stride != 1:
            self.branch1_conv = nn.Conv3d(inputs, 4 * inner, 1, (1, stride, stride), bias=False)
            self.branch1_norm = make_norm(norm, 4 * inner, 3)
        self.branch2 = _Bottleneck(inputs, inner, stride, time_kernel, norm)
        self.activation = nn.ReLU(inplace=True)

    def forward(self, hidden: Tensor) -> Tensor:
        result: Tensor = self.activation(self.branch1_norm(self.branch1_conv(hidden)) + self.branch2(hidden))
        return result


class _Stage(nn.Module):
    def __init__(
        self, inputs: int, inner: int, depth: int, stride: int, time_kernels: tuple[int, ...], norm: str
    ) -> None:
        super().__init__()
        self.res_blocks = nn.Sequential(
            *(
                _ResidualBlock(4 * inner if i else inputs, inner, 1 if i else stride, kernel, norm)
                for i, kernel in enumerate(islice(cycle(time_kernels), depth))
            )
        )

    def forward(self, hidden: Tensor) -> Tensor:
        result: Tensor = self.res_blocks(hidden)
        return result


class _Head(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.dropout = nn.Dropout(0.5)
        self.proj = nn.Linear(inputs, outputs)

    def forward(self, features: Tensor) -> Tensor:
        logits: Tensor = self.proj(self.dropout(features))
        return logits
