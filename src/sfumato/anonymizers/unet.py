"""`unet`: SPAct's anonymizer, a U-Net on each frame (Ronneberger et al., 2015; SPEC.md section 1)."""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor, nn
from torch.nn import functional

from sfumato.anonymizers.bottleneck import CENTRED, FrameNetwork
from sfumato.errors import SfumatoError
from sfumato.recognizers.layers import make_norm


class UNet(FrameNetwork):
    """Four halvings and four doublings, each level seeing the encoder's features of its own size.

    With w = `width` the encoder has w, 2w, 4w, 8w, 8w channels (SPAct: 64-128-256-512-512) and the decoder
    4w, 2w, w, w; upsampling is bilinear. norm: "batch" is the paper's, "group" has no statistics of a batch. The rest
    is explained at `Bottleneck` and `FrameNetwork`.

    >>> UNet(width=16, levels=4, cell=4)(video)
    """

    name = "unet"
    summary = "SPAct's U-Net on each frame; by name untrained, from a folder as trained"

    def __init__(
        self, width: int = 64, norm: str = "group", levels: int = 0, cell: int = 1, grey: bool = False, size: int = 112,
        frames: int = 0, frame_step: int = 1, centred: float = CENTRED.default,
    ) -> None:  # fmt: skip
        super().__init__(levels, cell, grey, size, frames, frame_step, centred)
        if width < 1:
            raise SfumatoError(f"width = {width} leaves no channels", "use 1 or more; the paper has 64")
        self.width, self.norm = width, norm
        encoder = [width, 2 * width, 4 * width, 8 * width, 8 * width]
        decoder = [4 * width, 2 * width, width, width]
        self.down = nn.ModuleList(
            double_conv(inputs, outputs, outputs, norm)
            for inputs, outputs in zip([3, *encoder[:-1]], encoder, strict=True)
        )
        joined = [
            below + skip for below, skip in zip([encoder[-1], *decoder[:-1]], reversed(encoder[:-1]), strict=True)
        ]
        self.up = nn.ModuleList(
            double_conv(inputs, inputs // 2, outputs, norm) for inputs, outputs in zip(joined, decoder, strict=True)
        )
        self.output = nn.Conv2d(decoder[-1], self.bottleneck.channels, 1)

    def settings(self) -> dict[str, float | int | str | bool]:
        """The constructor's arguments."""
        return {"width": self.width, "norm": self.norm, **super().settings()}

    def logits(self, frames: Tensor) -> Tensor:
        """(N, 3, H, W) to (N, bottleneck.channels, H, W)."""
        hidden: Tensor = self.down[0](frames)
        skips = []
        for block in self.down[1:]:
            skips.append(hidden)
            hidden = block(functional.max_pool2d(hidden, 2))
        for block in self.up:
            hidden = block(torch.cat([skips.pop(), doubled(hidden)], dim=1))
        logits: Tensor = self.output(hidden)
        return logits


def doubled(frames: Tensor) -> Tensor:
    """Bilinear with the corners kept: (N, C, H, W) to (N, C, 2H, 2W).

    >>> doubled(torch.tensor([[[[0.0, 3.0]]]]))
    tensor([[[[0., 1., 2., 3.],
              [0., 1., 2., 3.]]]])
    """
    if not frames.is_cuda:
        return functional.interpolate(frames, scale_factor=2, mode="bilinear", align_corners=True)
    # There `interpolate` leaves half precision for full, and is slower than two matrix products.
    return doubled_by_products(frames)


def doubled_by_products(frames: Tensor) -> Tensor:
    """What `doubled` gives, as products with the matrices that blend neighbouring rows, then columns."""
    count, channels, height, width = frames.shape
    rows, columns = (_blend(side, frames.dtype, frames.device) for side in (height, width))
    # Channels-last: a row is one run of numbers, so is a pixel.
    tall = rows @ frames.permute(0, 2, 3, 1).reshape(count, height, width * channels)
    wide = columns @ tall.view(count * 2 * height, width, channels)
    return wide.view(count, 2 * height, 2 * width, channels).permute(0, 3, 1, 2)


@lru_cache
def _blend(side: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """(2·side, side): how much of each of `side` pixels each of twice as many takes."""
    with torch.inference_mode(False):  # kept for later, when it may be needed for a gradient
        place = torch.arange(2 * side, dtype=torch.float64)[:, None] * (side - 1) / (2 * side - 1)
        return (1 - (place - torch.arange(side)).abs()).clamp(min=0).to(device, dtype)


def double_conv(inputs: int, middle: int, outputs: int, norm: str) -> nn.Sequential:
    """Two 3×3 convolutions, each with norm and ReLU: (N, inputs, H, W) to (N, outputs, H, W).

    >>> double_conv(3, 64, 64, "group")(frames)
    """
    return nn.Sequential(
        nn.Conv2d(inputs, middle, 3, padding=1, bias=False),
        make_norm(norm, middle, 2),
        nn.ReLU(inplace=True),
        nn.Conv2d(middle, outputs, 3, padding=1, bias=False),
        make_norm(norm, outputs, 2),
        nn.ReLU(inplace=True),
    )
