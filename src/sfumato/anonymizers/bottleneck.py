"""The narrow end of a learned anonymizer, and the frame networks that end in it.

What an attacker can read from a picture is bounded by what the picture can carry: few values of few levels hold few
bits, whatever the network before them has learnt to put there. That an adversary did not succeed in training is no
such bound. It speaks of that one adversary; a fresh one may read what it could not. The bound is per frame: a clip of
T frames may carry T times as much.
"""

from __future__ import annotations

import math
from abc import abstractmethod

import torch
from torch import Tensor, nn
from torch.nn import functional

from sfumato.anonymizers.base import Anonymizer, ClipSpec, Knob
from sfumato.anonymizers.placing import recentred
from sfumato.anonymizers.settings import require_least
from sfumato.errors import SfumatoError

CENTRED = Knob(
    "centred", 0.0, low=0.0, high=1.0, summary="how far a clip's drawing is brought to the middle and one size"
)
STRIDE = 16  # four halvings: the networks' deepest features have a sixteenth of the sides


class Bottleneck(nn.Module):
    """Logits (N, `channels`, H, W) to a picture (N, 3, H, W) in [0, 1] that carries no more than it is allowed to.

    cell: logits are averaged over cell×cell squares, and each square is shown as one value; squares cut by the border
    average what is there. levels: the values are rounded to so many, equally spaced in [0, 1], with the gradient of no
    rounding (straight-through); 0 leaves them continuous. grey: one value for red, green and blue.

    >>> Bottleneck(levels=2, cell=8, grey=True)(torch.randn(1, 1, 112, 112)).unique()
    tensor([0., 1.])
    """

    def __init__(self, levels: int = 0, cell: int = 1, grey: bool = False) -> None:
        super().__init__()
        if levels < 0 or levels == 1:
            raise SfumatoError(f"levels = {levels} leaves nothing to see", "use 2 or more, or 0 for continuous values")
        if cell < 1:
            raise SfumatoError(f"cell = {cell} is no size of a square", "use 1 for single pixels, or more")
        self.levels, self.cell, self.grey = levels, cell, grey

    @property
    def channels(self) -> int:
        """How many logits per pixel it takes."""
        return 1 if self.grey else 3

    def bits(self, height: int, width: int) -> float:
        """The most bits that one frame of that size can carry; infinite for continuous values.

        >>> Bottleneck(levels=2, cell=8, grey=True).bits(112, 112)
        196.0
        """
        if not self.levels:
            return math.inf
        cells = math.ceil(height / self.cell) * math.ceil(width / self.cell) * self.channels
        return cells * math.log2(self.levels)

    def forward(self, logits: Tensor) -> Tensor:
        """(N, channels, H, W) to (N, 3, H, W)."""
        return self.show(self.draw(logits), logits.shape[-2], logits.shape[-1])

    def draw(self, logits: Tensor) -> Tensor:
        """(N, channels, H, W) to one value for each square, (N, channels, H / cell, W / cell) rounded up."""
        if self.cell > 1:
            logits = functional.avg_pool2d(logits, self.cell, ceil_mode=True)
        cells = logits.sigmoid()
        if self.levels:
            steps = self.levels - 1
            rounded = (cells.detach() * steps).round() / steps
            # The difference is exactly 0, so that the values are exactly the levels, and its gradient is exactly 1.
            cells = rounded + (cells - cells.detach())
        return cells

    def show(self, cells: Tensor, height: int, width: int) -> Tensor:
        """What `draw` gave, as a picture (N, 3, height, width)."""
        if self.cell > 1:
            cells = cells.repeat_interleave(self.cell, dim=-2).repeat_interleave(self.cell, dim=-1)
        return cells[..., :height, :width].repeat(1, 3 // self.channels, 1, 1)


class FrameNetwork(Anonymizer):
    """An anonymizer whose `logits` see one frame at a time, through a `Bottleneck`.

    Frames whose sides 16 does not divide are filled up with their border pixels and cut back. size: the side of the
    frames it is trained on, to which a video is brought when it is anonymized; 0 takes frames as they come, and then
    cells keep their pixels, so that a larger frame carries more. frames: of the clips it is trained on, every
    `frame_step`-th of a video. centred: how far the drawing of such a clip is brought to the middle and to one size; at 0 all
    stays where it is, and each frame is seen alone.
    """

    needs_weights = True
    knobs = (CENTRED,)

    def __init__(
        self, levels: int, cell: int, grey: bool, size: int, frames: int, frame_step: int, centred: float
    ) -> None:
        super().__init__()
        require_least({"frames": 0}, frames=frames, frame_step=frame_step)
        if size < 0:
            raise SfumatoError(f"size = {size} is no side of a frame", "use pixels such as 112, or 0 for any size")
        self.bottleneck = Bottleneck(levels, cell, grey)
        self.size, self.frames, self.frame_step, self.centred = size, frames, frame_step, CENTRED.check(centred)
        if centred and not frames:
            raise SfumatoError(
                "these weights do not say how long a clip is, so nothing can be centred in it", "leave centred at 0"
            )
        sides = (size, size) if size else None
        # A drawing that fades into another one, placed otherwise, would be seen twice.
        self.spec = ClipSpec(frames, sides, frame_step, blend=False) if centred else ClipSpec(None, sides)

    def settings(self) -> dict[str, float | int | str | bool]:
        """What every frame network takes; each adds its own."""
        narrow = self.bottleneck
        return {
            "levels": narrow.levels, "cell": narrow.cell, "grey": narrow.grey, "size": self.size,
            "frames": self.frames, "frame_step": self.frame_step, "centred": self.centred,
        }  # fmt: skip

    @abstractmethod
    def logits(self, frames: Tensor) -> Tensor:
        """(N, 3, H, W), channels-last, H and W multiples of 16, to (N, bottleneck.channels, H, W)."""

    def forward(self, video: Tensor) -> Tensor:
        """(B, T, 3, H, W) to the same shape."""
        height, width = video.shape[-2:]
        frames = video.flatten(0, 1).to(next(self.parameters()).dtype)
        frames = functional.pad(frames, (0, -width % STRIDE, 0, -height % STRIDE), mode="replicate")
        logits = self.logits(frames.contiguous(memory_format=torch.channels_last))[..., :height, :width]
        # In half precision a cell's mean and a sigmoid near 1 would be coarse.
        cells = self.bottleneck.draw(logits.float()).unflatten(0, video.shape[:2])
        if self.centred:
            cells = recentred(cells, self.centred)
        pictures = self.bottleneck.show(cells.flatten(0, 1), height, width)
        return pictures.to(video.dtype).unflatten(0, video.shape[:2])
