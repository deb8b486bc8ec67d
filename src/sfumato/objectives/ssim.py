"""SSIM (Wang et al., 2004): how alike two pictures look, by brightness, contrast and structure around every pixel."""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from sfumato.errors import SfumatoError

WINDOW, SIGMA = 11, 1.5  # a Gaussian of 11×11 pixels
C1, C2 = 0.01**2, 0.03**2  # (K1·range)² and (K2·range)², where values range over 1


def ssim(first: Tensor, second: Tensor) -> Tensor:
    """The structural similarity of each pair of frames: twice (B, T, C, H, W) in [0, 1] to float32 (B, T).

    1 for equal frames, about 0 for unrelated ones, down to −1 for structure turned into its opposite. Means, variances
    and the covariance are those under the Gaussian window; the outcome is the mean over colours and over the places
    where the window lies inside the frame.

    >>> ssim(torch.ones(1, 1, 3, 16, 16), torch.zeros(1, 1, 3, 16, 16)).item()  # C1 / (1 + C1)
    9.999...e-05
    """
    if first.shape != second.shape:
        raise ValueError(f"frames of {tuple(first.shape)} and of {tuple(second.shape)} cannot be compared")
    height, width = first.shape[-2:]
    if min(height, width) < WINDOW:
        raise SfumatoError(
            f"frames of {height}×{width} are smaller than SSIM's window", f"use {WINDOW}×{WINDOW} or larger"
        )
    # A variance is the small difference of two large numbers: not for half precision. As matrices, because convolutions
    # on a GPU are rounded to 10 bits even in float32.
    with torch.autocast(first.device.type, enabled=False):
        x, y = first.float(), second.float()
        rows, columns = (_window_matrix(side, x.device) for side in (height, width))
        mean_x, mean_y, xx, yy, xy = rows @ torch.stack([x, y, x * x, y * y, x * y]) @ columns.T
    variance_x, variance_y, covariance = xx - mean_x**2, yy - mean_y**2, xy - mean_x * mean_y
    brightness = (2 * mean_x * mean_y + C1) / (mean_x**2 + mean_y**2 + C1)
    structure = (2 * covariance + C2) / (variance_x + variance_y + C2)
    return (brightness * structure).mean((-3, -2, -1))


@lru_cache(maxsize=16)  # a training asks for the same ones in every step, and a GPU would wait for each
@torch.inference_mode(False)  # a later training cannot use what was made under that mode
def _window_matrix(side: int, device: torch.device) -> Tensor:
    """(side − 10, side), rows summing to 1: row i is the Gaussian over pixels i … i + 10."""
    offsets = torch.arange(WINDOW)
    weights = torch.exp(-0.5 * ((offsets - WINDOW // 2) / SIGMA) ** 2)
    count = side - WINDOW + 1
    targets = torch.arange(count)[:, None] + offsets
    return torch.zeros(count, side).scatter_(1, targets, (weights / weights.sum()).repeat(count, 1)).to(device)
