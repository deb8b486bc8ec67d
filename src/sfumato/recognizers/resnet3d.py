"""R3D-18 and R(2+1)D-18 (Tran et al., 2018), with torchvision's parameter names so that its weights load."""

from __future__ import annotations

from torch import Tensor, nn

from sfumato.recognizers.base import KINETICS, Clip, VideoRecognizer
from sfumato.recognizers.layers import initialise, make_norm, scaled


def r3d_18(
    outputs: int, clip: Clip, *, width: float = 1.0, norm: str = "batch", dilated_last_stage: bool = False
) -> ResNet3D:
    """R3D-18: every convolution 3×3×3. (B, T, 3, H, W) to (B, outputs).

    `dilated_last_stage` is SPAct's f_T (SPEC.md section 1): the last stage keeps the temporal resolution, and the
    convolution that would have halved it is dilated by 2 in time instead. The parameters' shapes do not change.

    >>> r3d_18(10, (16, 112, 112), width=0.125).feature_width
    64
    """
    return ResNet3D(outputs, clip, factorised=False, width=width, norm=norm, dilated_last_stage=dilated_last_stage)


def r2plus1d_18(outputs: int, clip: Clip, *, width: float = 1.0, norm: str = "batch") -> ResNet3D:
    """R(2+1)D-18: every 3×3×3 convolution split into 1×3×3 and 3×1×1. (B, T, 3, H, W) to (B, outputs).

    >>> r2plus1d_18(10, (16, 112, 112), width=0.125).feature_width
    64
    """
    return ResNet3D(outputs, clip, factorised=True, width=width, norm=norm, dilated_last_stage=False)


class ResNet3D(VideoRecognizer):
    """Eighteen layers in four stages of two blocks; time and space are halved at the start of stages 2, 3 and 4."""

    def __init__(
        self, outputs: int, clip: Clip, *, factorised: bool, width: float, norm: str, dilated_last_stage: bool
    ) -> None:
        super().__init__(outputs, clip, KINETICS)
        planes = [scaled(channels, width) for channels in (64, 128, 256, 512)]
        self.stem = _split_stem(planes[0], scaled(45, width), norm) if factorised else _stem(planes[0], norm)
        self.layer1 = _stage(planes[0], planes[0], factorised, norm)
        self.layer2 = _stage(planes[0], planes[1], factorised, norm, stride=(2, 2, 2))
        self.layer3 = _stage(planes[1], planes[2], factorised, norm, stride=(2, 2, 2))
        last_stride, last_dilation = ((1, 2, 2), 2) if dilated_last_stage else ((2, 2, 2), 1)
        self.layer4 = _stage(planes[2], planes[3], factorised, norm, last_stride, last_dilation)
        self.feature_width = planes[3]
        self.fc = nn.Linear(planes[3], outputs)
        initialise(self)

    def encode(self, clips: Tensor) -> Tensor:
        hidden: Tensor = self.layer4(self.layer3(self.layer2(self.layer1(self.stem(clips)))))
        return hidden.mean((2, 3, 4))


Stride = tuple[int, int, int]


class _Block(nn.Module):
    """Two convolutions with a shortcut; only the first one strides or dilates."""

    def __init__(
        self, inputs: int, outputs: int, factorised: bool, norm: str, stride: Stride = (1, 1, 1), dilation: int = 1
    ) -> None:
        super().__init__()
        # torchvision takes this width, which makes a split pair as heavy as one 3×3×3, from the block's *input* and
        # uses it for both convolutions.
        middle = (inputs * outputs * 27) // (inputs * 9 + 3 * outputs)
        first, second = (
            (_split(inputs, outputs, middle, norm, stride), _split(outputs, outputs, middle, norm))
            if factorised
            else (_conv(inputs, outputs, stride, dilation), _conv(outputs, outputs))
        )
        self.conv1 = nn.Sequential(first, make_norm(norm, outputs, 3), nn.ReLU(inplace=True))
        self.conv2 = nn.Sequential(second, make_norm(norm, outputs, 3))
        self.downsample: nn.Module = nn.Identity()
        if inputs != outputs:
            shortcut = nn.Conv3d(inputs, outputs, 1, stride, bias=False)
            self.downsample = nn.Sequential(shortcut, make_norm(norm, outputs, 3))
        self.relu = nn.ReLU(inplace=True)

    def forward(self, hidden: Tensor) -> Tensor:
        result: Tensor = self.relu(self.conv2(self.conv1(hidden)) + self.downsample(hidden))
        return result


def _stage(
    inputs: int, outputs: int, factorised: bool, norm: str, stride: Stride = (1, 1, 1), dilation: int = 1
) -> nn.Sequential:
    return nn.Sequential(
        _Block(inputs, outputs, factorised, norm, stride, dilation), _Block(outputs, outputs, factorised, norm)
    )


def _conv(inputs: int, outputs: int, stride: Stride = (1, 1, 1), dilation: int = 1) -> nn.Conv3d:
    """3×3×3, dilated in time only."""
    return nn.Conv3d(inputs, outputs, 3, stride, (dilation, 1, 1), (dilation, 1, 1), bias=False)


def _split(inputs: int, outputs: int, middle: int, norm: str, stride: Stride = (1, 1, 1)) -> nn.Sequential:
    """1×3×3 in space, then 3×1×1 in time."""
    return nn.Sequential(
        nn.Conv3d(inputs, middle, (1, 3, 3), (1, *stride[1:]), (0, 1, 1), bias=False),
        make_norm(norm, middle, 3),
        nn.ReLU(inplace=True),
        nn.Conv3d(middle, outputs, (3, 1, 1), (stride[0], 1, 1), (1, 0, 0), bias=False),
    )


def _stem(outputs: int, norm: str) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv3d(3, outputs, (3, 7, 7), (1, 2, 2), (1, 3, 3), bias=False),
        make_norm(norm, outputs, 3),
        nn.ReLU(inplace=True),
    )


def _split_stem(outputs: int, middle: int, norm: str) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv3d(3, middle, (1, 7, 7), (1, 2, 2), (0, 3, 3), bias=False),
        make_norm(norm, middle, 3),
        nn.ReLU(inplace=True),
        nn.Conv3d(middle, outputs, (3, 1, 1), 1, (1, 0, 0), bias=False),
        make_norm(norm, outputs, 3),
        nn.ReLU(inplace=True),
    )
