"""Augmentation of stored clips: a clip is augmented as one, every clip of a batch for itself."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


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


DRAWS = 13  # random numbers that `distort` uses for one clip


def distort(clips: Tensor, chance: Tensor, *, flip: bool) -> Tensor:
    """SPAct's augmentation: uint8 (B, T, 3, H, W) → float in [0, 1]; a clip is augmented as one.

    chance: (B, DRAWS) uniform in [0, 1), one row per clip, drawn by whoever knows the whole batch.

    A crop of .6 to 1 of the side brought back to size, flipped half of the time (where left and right do not matter),
    light, contrast and colour changed by up to a tenth, grey in one of ten, a rectangle erased in one of four.

    >>> distort(torch.zeros(2, 4, 3, 8, 8, dtype=torch.uint8), torch.rand(2, DRAWS), flip=True).shape
    torch.Size([2, 4, 3, 8, 8])
    """

    def between(column: int, low: float, high: float) -> Tensor:
        return low + (high - low) * chance[:, column]

    scale = between(0, 0.6, 1)
    # The crop lies anywhere inside the picture.
    centre = torch.stack([(1 - scale) * between(column, -1, 1) for column in (2, 3)], 1)
    out = _moved(clips, scale, centre, (chance[:, 1] < 0.5) & flip)

    def per_clip(values: Tensor) -> Tensor:
        return values.view(-1, 1, 1, 1, 1)

    red, green, blue = out.split(1, dim=2)
    grey = 0.299 * red + 0.587 * green + 0.114 * blue  # how bright they look (ITU-R BT.601)
    colour = torch.where(chance[:, 4] < 0.1, torch.zeros_like(scale), between(5, 0.9, 1.1))
    out = grey + per_clip(colour) * (out - grey)
    middle = out.mean((1, 2, 3, 4), keepdim=True)
    out = per_clip(between(6, 0.9, 1.1)) * (middle + per_clip(between(7, 0.9, 1.1)) * (out - middle))
    return (out * ~_rectangle(chance[:, 8:13], *out.shape[-2:])).clamp(0, 1)


def nudge(clips: Tensor, chance: Tensor, *, flip: bool) -> Tensor:
    """A gentle augmentation with `distort`'s shapes: zoomed by up to .15, moved by up to .08 of the side, lit anew, flipped.

    What the judge's own recognizers are trained with, drawn from `chance`: nothing is cut away or erased.

    >>> nudge(torch.zeros(2, 4, 3, 8, 8, dtype=torch.uint8), torch.rand(2, DRAWS), flip=True).shape
    torch.Size([2, 4, 3, 8, 8])
    """
    scale, light = 0.85 + 0.3 * chance[:, 0], 0.85 + 0.3 * chance[:, 4]
    out = _moved(clips, scale, 2 * 0.08 * (2 * chance[:, 2:4] - 1), (chance[:, 1] < 0.5) & flip)
    return (out * light.view(-1, 1, 1, 1, 1)).clamp(0, 1)


def _moved(clips: Tensor, scale: Tensor, centre: Tensor, mirrored: Tensor) -> Tensor:
    """uint8 (B, T, 3, H, W) → float: the part of each picture around `centre` (B, 2) in [-1, 1], `scale` (B,) of its side."""
    batch, frames, _, height, width = clips.shape

    def picked(side: int, zoom: Tensor, middle: Tensor) -> Tensor:
        """Which place in [-1, 1] each pixel of a side shows, (B, side)."""
        place = (2 * torch.arange(side, device=clips.device) + 1) / side - 1
        return zoom[:, None] * place + middle[:, None]

    # Not by F.affine_grid, which is a matrix product: under autocast it would place pixels with bf16's eight bits.
    columns = picked(width, torch.where(mirrored, -scale, scale), centre[:, 0])
    rows = picked(height, scale, centre[:, 1])
    grid = torch.stack(torch.broadcast_tensors(columns[:, None, :], rows[:, :, None]), -1)
    moved = F.grid_sample(clips.flatten(1, 2).float() / 255, grid, padding_mode="border", align_corners=False)
    return moved.view(batch, frames, 3, height, width)


def _rectangle(chance: Tensor, height: int, width: int) -> Tensor:
    """Draws (B, 5) in [0, 1] → (B, 1, 1, H, W) bool: in one clip of four a rectangle of .15 to .5 of each side."""

    def span(size: Tensor, start: Tensor, side: int) -> Tensor:
        share = 0.15 + 0.35 * size
        first = (start * (1 - share))[:, None]
        place = (torch.arange(side, device=chance.device) + 0.5) / side
        return (place >= first) & (place < first + share[:, None])

    rows, columns = span(chance[:, 1], chance[:, 2], height), span(chance[:, 3], chance[:, 4], width)
    erased = (chance[:, 0] < 0.25)[:, None, None]
    return (rows[:, :, None] & columns[:, None, :] & erased)[:, None, None]
