"""Which frames and which part of the picture: pure arithmetic on indices, nothing is decoded here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from sfumato.errors import SfumatoError
from sfumato.registry import unknown_name

if TYPE_CHECKING:
    import torch
    from torch import Tensor


@dataclass(frozen=True)
class Box:
    """A rectangle of the picture.

    >>> Box(top=2, left=3, height=4, width=5).cut(torch.zeros(8, 3, 20, 20)).shape
    torch.Size([8, 3, 4, 5])
    """

    top: int
    left: int
    height: int
    width: int

    def cut(self, video: Tensor) -> Tensor:
        """(…, H, W) to (…, height, width)."""
        return video[..., self.top : self.top + self.height, self.left : self.left + self.width]


def clip_indices(
    frames: int,
    length: int,
    skip: int = 1,
    mode: Literal["centre", "random", "uniform"] = "centre",
    clips: int = 1,
    generator: torch.Generator | None = None,
    short: Literal["loop", "error"] = "loop",
) -> Tensor:
    """Frame indices of `clips` clips of `length` frames, every `skip`-th frame: long (clips, length).

    centre: all clips from the middle of the video; random: each start drawn evenly over all that fit; uniform: starts
    spread evenly from the first that fits to the last (a single one: the middle). A video shorter than
    (length − 1)·skip + 1 frames starts again from its beginning ("loop"), or is a SfumatoError ("error").

    >>> clip_indices(frames=100, length=4, skip=2, mode="uniform", clips=2).tolist()
    [[0, 2, 4, 6], [93, 95, 97, 99]]
    """
    import torch

    if frames < 1 or length < 1 or skip < 1 or clips < 1:
        raise SfumatoError(
            f"no clip has frames = {frames}, length = {length}, skip = {skip}, clips = {clips}", "use 1 or more of each"
        )
    span = (length - 1) * skip + 1
    if short == "error" and frames < span:
        raise SfumatoError(
            f"{length} frames at skip {skip} need {span} frames, the video has {frames}",
            "use a shorter clip, a smaller skip or a longer video",
        )
    room = max(0, frames - span)
    if mode == "random":
        starts = torch.randint(room + 1, (clips,), generator=generator)
    elif mode == "centre" or (mode == "uniform" and clips == 1):
        starts = torch.full((clips,), room // 2)
    elif mode == "uniform":
        starts = torch.tensor([(2 * number * room + clips - 1) // (2 * (clips - 1)) for number in range(clips)])
    else:
        raise unknown_name("sampling mode", mode, ["centre", "random", "uniform"])
    return (starts[:, None] + skip * torch.arange(length)) % frames


def crop_boxes(height: int, width: int, factor: float = 1.0, crops: int = 1) -> tuple[Box, ...]:
    """`crops` boxes of `factor` times the size, spread evenly from end to end of the longer side, centred on the other.

    One crop is the centre; three are left, centre, right (top, centre, bottom of an upright picture).

    >>> [box.left for box in crop_boxes(100, 200, factor=0.8, crops=3)]
    [0, 20, 40]
    """
    tall, wide = _scaled(height, width, factor)
    if crops < 1:
        raise SfumatoError(f"crops = {crops} is out of range", "use 1 or more")
    down, right = height - tall, width - wide
    shares = [0.5] if crops == 1 else [number / (crops - 1) for number in range(crops)]
    if width >= height:
        return tuple(Box(down // 2, round(share * right), tall, wide) for share in shares)
    return tuple(Box(round(share * down), right // 2, tall, wide) for share in shares)


def random_crop_box(
    height: int, width: int, low: float = 0.6, high: float = 1.0, generator: torch.Generator | None = None
) -> Box:
    """A box of U(low, high) times the size, at a place drawn evenly: one box for a whole clip.

    >>> random_crop_box(100, 200, low=1.0)
    Box(top=0, left=0, height=100, width=200)
    """
    import torch

    if not 0 < low <= high <= 1:
        raise SfumatoError(f"crop factors from {low:g} to {high:g} are out of range", "use 0 < low ≤ high ≤ 1")
    factor = low + (high - low) * torch.rand((), generator=generator).item()
    tall, wide = _scaled(height, width, factor)
    top = int(torch.randint(height - tall + 1, (), generator=generator))
    left = int(torch.randint(width - wide + 1, (), generator=generator))
    return Box(top, left, tall, wide)


def _scaled(height: int, width: int, factor: float) -> tuple[int, int]:
    if not 0 < factor <= 1:
        raise SfumatoError(f"crop factor {factor:g} is out of range", "use more than 0 and at most 1")
    return max(1, round(height * factor)), max(1, round(width * factor))
