"""How close a reconstructed picture comes to the one that was hidden. SSIM is in `objectives.ssim`."""

from __future__ import annotations

from torch import Tensor

MOST = 100.0  # dB of pictures that are equal, whose PSNR would be infinite


def psnr(first: Tensor, second: Tensor) -> Tensor:
    """Peak signal-to-noise ratio of each pair of frames, in dB: twice (B, T, C, H, W) in [0, 1] to (B, T).

    −10·log₁₀ of the mean squared difference, at most 100.

    >>> psnr(torch.ones(1, 1, 3, 2, 2), torch.full((1, 1, 3, 2, 2), 0.9)).item()
    20.0...
    """
    error = (first.float() - second.float()).square().mean((-3, -2, -1))
    return -10 * error.clamp(min=10 ** (-MOST / 10)).log10()
