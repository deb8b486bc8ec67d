"""`downsample`: fewer pixels, then back to the old size."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional

from sfumato.anonymizers.base import Anonymizer, Knob, enlargement

FACTOR = Knob("factor", 4.0, low=1.0, high=64.0, summary="how many times fewer pixels per side, at up to 112 px")

LEAST_FACTOR = 1.25  # below it more than 90 of 112 pixels are left per side, and everything can still be seen


class Downsample(Anonymizer):
    """Shrinks each frame by averaging areas, then brings it back with bilinear interpolation.

    A side that `factor` does not divide is rounded down to fewer pixels, never to more than were asked for. Frames
    larger than 112 px are brought down to as few pixels as one of 112 px would be.

    >>> Downsample(factor=16)(video)  # 112×112 frames that hold 7×7 pixels
    """

    name = "downsample"
    summary = "fewer pixels: shrunk by a factor and brought back to size"
    knobs = (FACTOR,)

    def __init__(self, factor: float = FACTOR.default) -> None:
        super().__init__()
        self.factor = FACTOR.check(factor)

    @property
    def changes_nothing(self) -> bool:
        return self.factor < LEAST_FACTOR

    def forward(self, video: Tensor) -> Tensor:
        """(B, T, C, H, W) to the same shape."""
        frames = video.flatten(0, 1)
        height, width = frames.shape[-2:]
        factor = self.factor * (enlargement(video) if self.factor > 1 else 1)
        small = (max(1, int(height / factor)), max(1, int(width / factor)))
        frames = functional.interpolate(frames, size=small, mode="area")
        frames = functional.interpolate(frames, size=(height, width), mode="bilinear", align_corners=False)
        return frames.clamp(0, 1).reshape(video.shape)
