"""Augmentation of stored clips: a clip is augmented as one, every clip of a batch for itself."""

from __future__ import annotations

import torch
from torch import Tensor


def augment(
    clips: Tensor,
    generator: torch.Generator,
    *,
    flip: bool,
    shift: float = 0.08,
    zoom: float = 0.15,
    light: float = 0.15,
) -> Tensor:
    """uint8 (B, T, 3, H, W) → float in [0, 1]: moved, enlarged or shrunk, flipped and lit anew, each within its share.

    What moves in from outside repeats the edge; pixels are picked, not blended, so that stored values stay what they are.

    >>> augment(torch.zeros(2, 4, 3, 8, 8, dtype=torch.uint8), torch.Generator(), flip=True).shape
    torch.Size([2, 4, 3, 8, 8])
    """
    batch, _, _, height, width = clips.shape
    device = clips.device

    def uniform(low: float, high: float) -> Tensor:
        return low + (high - low) * torch.rand(batch, 1, generator=generator, device=device)

    scale = uniform(1 - zoom, 1 + zoom)

    def picked(side: int) -> Tensor:
        """Which pixel each pixel of a side shows, (B, side): scaled about the middle, then moved."""
        from_middle = (torch.arange(side, device=device) + 0.5 - side / 2) * scale
        return (from_middle + side / 2 + uniform(-shift, shift) * side).floor().long()

    rows, columns = picked(height), picked(width)
    if flip:
        columns = torch.where(uniform(0, 1) < 0.5, width - 1 - columns, columns)
    rows, columns = rows.clamp(0, height - 1), columns.clamp(0, width - 1)
    every = torch.arange(batch, device=device)[:, None, None]
    # Advanced indices apart from each other come first in the answer: (B, H, W, T, 3).
    moved = clips[every, :, :, rows[:, :, None], columns[:, None, :]].permute(0, 3, 4, 1, 2)
    gain = uniform(1 - light, 1 + light)[..., None, None, None]
    return (moved.float() * (gain / 255)).clamp_(0, 1)
