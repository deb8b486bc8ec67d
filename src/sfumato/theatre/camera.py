"""How it is filmed: viewpoint, pan, exposure, noise, compression."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import lru_cache

import torch
from torch import Tensor

_DISTANCE = 4.5  # metres from the camera to the middle of the stage
_METRES_HIGH = 2.3  # how much of the stage the picture shows


@dataclass
class Camera:
    """One camera per frame; every field (N,).

    side: the picture's side in pixels. shift: how many pixels the pan has moved the picture.
    """

    side: int
    zoom: Tensor
    centre: Tensor
    elevation: Tensor
    shift: Tensor

    def project(self, point: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """(N, 3) metres on stage → x, y in pixels, depth in metres (larger is nearer), pixels per metre; each (N,)."""
        x, y, z = point.unbind(-1)
        scale = self.side / _METRES_HIGH * self.zoom * _DISTANCE / (_DISTANCE - z)
        floor = 0.95 * self.side
        column = 0.5 * self.side + (x - self.centre) * scale + self.shift
        row = floor - (y * torch.cos(self.elevation) - z * torch.sin(self.elevation)) * scale
        return column, row, z, scale

    def select(self, rows: Tensor) -> Camera:
        """The cameras of some of the frames."""
        kept = {f.name: getattr(self, f.name)[rows] for f in fields(self) if f.name != "side"}
        return Camera(self.side, **kept)


def pan(backdrop: Tensor, shift: Tensor, side: int) -> Tensor:
    """Cut each frame's window out of the wider backdrop: (B, S, S, 3) and whole pixels (B, T) → (B·T, side, side, 3)."""
    clips, wide = backdrop.shape[:2]
    margin = (wide - side) // 2
    # Every window a row can show, as a view: each copied row is then one contiguous run of memory.
    windows = backdrop.view(clips, wide, wide * 3)[:, margin : margin + side].unfold(2, side * 3, 3)
    clip = torch.arange(clips, device=shift.device)[:, None]
    return windows.transpose(1, 2)[clip, margin - shift.long()].view(-1, side, side, 3)


@lru_cache(maxsize=4)
def _grain(side: int, device: str) -> Tensor:
    """A sheet of unit noise larger than a frame; every frame looks at its own corner of it."""
    generator = torch.Generator().manual_seed(20)
    return torch.randn(side + 97, 3, side + 97, generator=generator).to(device)


def develop(rgb: Tensor, gain: Tensor, noise: Tensor, corner: Tensor, step: Tensor) -> Tensor:
    """Exposure, sensor noise and compression: (N, side, side, 3) in [0, 1] → uint8 (N, 3, side, side).

    gain (N, 3): exposure and white balance; noise, step (N,); corner (N, 2): the frame's corner of the grain.
    """
    side = rgb.shape[1]
    rows = corner[:, :1] + torch.arange(side, device=rgb.device)
    windows = _grain(side, str(rgb.device)).unfold(2, side, 1)
    grain = windows[rows, :, corner[:, 1:]].permute(0, 2, 1, 3)
    planes = rgb.permute(0, 3, 1, 2) * gain[:, :, None, None]
    planes = planes.contiguous().addcmul_(grain, noise[:, None, None, None]).clamp_(0, 1)
    return compress(planes, step).mul_(255).round_().to(torch.uint8)


def compress(planes: Tensor, step: Tensor) -> Tensor:
    """JPEG's idea in miniature: of every 2×2 block keep the mean, round the detail to multiples of `step` (N,).

    planes: (N, 3, side, side) in [0, 1], and so is the answer.
    """
    mean = torch.nn.functional.avg_pool2d(planes, 2)
    mean = torch.nn.functional.interpolate(mean, scale_factor=2, mode="nearest")
    q = step[:, None, None, None]
    return (planes - mean).div_(q).round_().mul_(q).add_(mean).clamp_(0, 1)
