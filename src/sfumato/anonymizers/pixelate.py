"""`pixelate`: a mosaic of flat blocks."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional

from sfumato.anonymizers.base import Anonymizer, Knob, enlargement
from sfumato.errors import SfumatoError

BLOCK = Knob("block", 8.0, low=1.0, high=256.0, summary="side of a mosaic block in pixels, at up to 112 px")


class Pixelate(Anonymizer):
    """Fills each `block`×`block` square with its mean colour; blocks cut by the border average what is there.

    In frames larger than 112 px the blocks grow with the frame.

    >>> Pixelate(block=8)(video)  # 112×112 frames of 14×14 flat squares
    """

    name = "pixelate"
    summary = "a mosaic: every block takes its mean colour"
    knobs = (BLOCK,)

    def __init__(self, block: float = BLOCK.default) -> None:
        super().__init__()
        if not BLOCK.check(block).is_integer():
            raise SfumatoError(f"block = {block:g} does not fit: block is a whole number", f"use {block:.0f}")
        self.block = int(block)

    @property
    def changes_nothing(self) -> bool:
        return self.block == 1

    def forward(self, video: Tensor) -> Tensor:
        """(B, T, C, H, W) to the same shape."""
        height, width = video.shape[-2:]
        block = round(self.block * (enlargement(video) if self.block > 1 else 1))
        means = functional.avg_pool2d(video.flatten(0, 1), block, ceil_mode=True)
        mosaic = means.repeat_interleave(block, dim=-2).repeat_interleave(block, dim=-1)
        return mosaic[..., :height, :width].clamp(0, 1).reshape(video.shape)
