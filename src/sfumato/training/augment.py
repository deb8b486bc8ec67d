"""Augmentation of stored clips: a clip is augmented as one, every clip of a batch for itself."""

from __future__ import annotations

import torch
from torch import Tensor


def augment(
    clips: Tensor, generator: torch.Generator, *, flip: bool, shift: float = 0.08, light: float = 0.15
) -> Tensor:
    """uint8 (B, T, 3, H, W) → float in [0, 1]: moved by up to `shift` of the side (edges repeat), flipped, lit anew.

    >>> augment(torch.zeros(2, 4, 3, 8, 8, dtype=torch.uint8), torch.Generator(), flip=True).shape
    torch.Size([2, 4, 3, 8, 8])
    """
    batch, _, _, height, width = clips.shape
    device = clips.device

    def uniform(low: float, high: float) -> Tensor:
        return low + (high - low) * torch.rand(batch, generator=generator, device=device)

    rows = torch.arange(height, device=device) + (uniform(-shift, shift) * height).round().long()[:, None]
    columns = torch.arange(width, device=device) + (uniform(-shift, shift) * width).round().long()[:, None]
    if flip:
        columns = torch.where((uniform(0, 1) < 0.5)[:, None], width - 1 - columns, columns)
    rows, columns = rows.clamp(0, height - 1), columns.clamp(0, width - 1)
    every = torch.arange(batch, device=device)[:, None, None]
    # Advanced indices apart from each other come first in the answer: (B, H, W, T, 3).
    moved = clips[every, :, :, rows[:, :, None], columns[:, None, :]].permute(0, 3, 4, 1, 2)
    gain = uniform(1 - light, 1 + light)[:, None, None, None, None]
    return (moved.float() * (gain / 255)).clamp_(0, 1)
