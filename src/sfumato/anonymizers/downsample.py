"""`downsample`: fewer pixels, then back to the old size."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional

from sfumato.anonymizers.base import Anonymizer, Knob

FACTOR = Knob("factor", 4.0, low=1.0, high=64.0, summary="how many times fewer pixels per side")


class Downsample(Anonymizer):
    """Shrinks each frame by averaging areas, then brings it back with bilinear interpolation.

    A side that `factor` does not divide is rounded down to fewer pixels, never to more than were asked for.

    >>> Downsample(factor=16)(video)  # 112×112 frames that hold 7×7 pixels
    """

    name = "downsample"
    summary = "fewer pixels: shrunk by a factor and brought back to size"
    knobs = (FACTOR,)

    def __init__(self, factor: float = FACTOR.default) -> None:
        super().__init__()
        self.factor = FACTOR.check(factor)

    def forward(self, video: Tensor) -> Tensor:
        """(B, T, C, H, W) to the same shape."""
        frames = video.flatten(0, 1)
        height, width = frames.shape[-2:]
        small = (max(1, int(height / self.factor)), max(1, int(width / self.factor)))
        frames = functional.interpolate(frames, size=small, mode="area")
        frames = functional.interpolate(frames, size=(height, width), mode="bilinear", align_corners=False)
        return frames.clamp(0, 1).reshape(video.shape)
