"""`unet++`: the anonymizer of TeD-SPAD and of the penalty-driven paper, a nested U-Net (Zhou et al., 2018) on each frame."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from sfumato.anonymizers.bottleneck import CENTRED, FrameNetwork
from sfumato.anonymizers.unet import double_conv
from sfumato.recognizers.layers import make_norm, scaled

DECODER = (256, 128, 64, 32)


class UNetPlusPlus(FrameNetwork):
    """A ResNet-18 encoder of depth 4 with a triangle of decoder nodes over it.

    In Zhou's notation X(i, 0) is the encoder's feature at stride 2^(i+1), and X(i, j) sees X(i, 0) … X(i, j-1) and
    X(i+1, j-1) brought up to its size. The last node of each row, the diagonal, has the decoder's width, the others
    that of their row in the encoder. The last of all is brought up to the frame's own size. width multiplies all
    channels; norm and the rest are as in `UNet`.

    >>> UNetPlusPlus(width=0.25, levels=4, cell=4)(video)
    """

    name = "unet++"
    summary = (
        "TeD-SPAD's and the penalty-driven paper's U-Net++ on each frame; by name untrained, from a folder as trained"
    )

    def __init__(
        self, width: float = 1.0, norm: str = "group", levels: int = 0, cell: int = 1, grey: bool = False,
        size: int = 112, frames: int = 0, frame_step: int = 1, centred: float = CENTRED.default,
    ) -> None:  # fmt: skip
        super().__init__(levels, cell, grey, size, frames, frame_step, centred)
        self.width, self.norm = width, norm
        *diagonal, last = (scaled(channels, width) for channels in DECODER)
        self.encoder = _ResNet18(width, norm)
        rows = self.encoder.channels

        def width_of(row: int, column: int) -> int:
            on_diagonal = column > 0 and row + column == len(diagonal)
            return diagonal[-1 - row] if on_diagonal else rows[row]

        self.nodes = nn.ModuleDict()
        for row in range(len(diagonal)):
            for column in range(1, len(rows) - row):
                inputs, outputs = column * rows[row] + width_of(row + 1, column - 1), width_of(row, column)
                self.nodes[f"{row}_{column}"] = double_conv(inputs, outputs, outputs, norm)
        self.last = double_conv(diagonal[-1], last, last, norm)
        self.output = nn.Conv2d(last, self.bottleneck.channels, 3, padding=1)

    def settings(self) -> dict[str, float | int | str | bool]:
        """The constructor's arguments."""
        return {"width": self.width, "norm": self.norm, **super().settings()}

    def logits(self, frames: Tensor) -> Tensor:
        """(N, 3, H, W) to (N, bottleneck.channels, H, W)."""
        rows = [[feature] for feature in self.encoder(frames)]
        for column in range(1, len(rows)):
            for row in range(len(rows) - column):
                seen = [*rows[row], _doubled(rows[row + 1][column - 1])]
                rows[row].append(self.nodes[f"{row}_{column}"](torch.cat(seen, dim=1)))
        logits: Tensor = self.output(self.last(_doubled(rows[0][-1])))
        return logits


def _doubled(hidden: Tensor) -> Tensor:
    return functional.interpolate(hidden, scale_factor=2, mode="nearest")


class _ResNet18(nn.Module):
    """ResNet-18 without its last stage, with torchvision's parameter names: features at strides 2, 4, 8 and 16."""

    def __init__(self, width: float, norm: str) -> None:
        super().__init__()
        a, b, c = (scaled(channels, width) for channels in (64, 128, 256))
        self.channels = (a, a, b, c)
        self.conv1 = nn.Conv2d(3, a, 7, 2, 3, bias=False)
        self.bn1 = make_norm(norm, a, 2)
        self.layer1 = nn.Sequential(_Block(a, a, 1, norm), _Block(a, a, 1, norm))
        self.layer2 = nn.Sequential(_Block(a, b, 2, norm), _Block(b, b, 1, norm))
        self.layer3 = nn.Sequential(_Block(b, c, 2, norm), _Block(c, c, 1, norm))

    def forward(self, frames: Tensor) -> list[Tensor]:
        features = [functional.relu(self.bn1(self.conv1(frames)))]
        features.append(self.layer1(functional.max_pool2d(features[-1], 3, 2, 1)))
        features.append(self.layer2(features[-1]))
        features.append(self.layer3(features[-1]))
        return features


class _Block(nn.Module):
    """Two 3×3 convolutions with a shortcut; only the first one strides."""

    def __init__(self, inputs: int, outputs: int, stride: int, norm: str) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = make_norm(norm, outputs, 2)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = make_norm(norm, outputs, 2)
        self.downsample: nn.Module = nn.Identity()
        if stride > 1:
            self.downsample = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), make_norm(norm, outputs, 2)
            )

    def forward(self, hidden: Tensor) -> Tensor:
        inner = functional.relu(self.bn1(self.conv1(hidden)))
        return functional.relu(self.bn2(self.conv2(inner)) + self.downsample(hidden))
