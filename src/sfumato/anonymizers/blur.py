"""`blur`: a Gaussian over the whole frame, and the Gaussian itself for others to use."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from sfumato.anonymizers.base import Anonymizer, Knob, enlargement

SIGMA = Knob("sigma", 8.0, low=0.1, high=128.0, summary="standard deviation of the Gaussian in pixels, at up to 112 px")

LEAST_SIGMA = 0.5  # below it a pixel keeps more than three fifths of itself, and everything can still be seen


def gaussian_blur(video: Tensor, sigma: float, kernel: int) -> Tensor:
    """Blur (..., H, W) with a Gaussian of `sigma` cut off to `kernel` pixels (odd); the border pixel repeats outside.

    The blur is separable, so it is one matrix from the left and one from the right: faster than depthwise convolutions
    on a CPU, the more so the larger σ, and the border is free.

    >>> gaussian_blur(video, sigma=2.0, kernel=13)
    """
    rows = _blur_matrix(video.shape[-2], sigma, kernel).to(video)
    columns = _blur_matrix(video.shape[-1], sigma, kernel).to(video)
    return (rows @ video @ columns.T).clamp(0, 1)


def _blur_matrix(side: int, sigma: float, kernel: int) -> Tensor:
    """(side, side), rows summing to 1: row i is the Gaussian around pixel i, with what falls outside on the border."""
    offsets = torch.arange(kernel) - kernel // 2
    weights = torch.exp(-0.5 * (offsets / sigma) ** 2)
    targets = (torch.arange(side)[:, None] + offsets).clamp(0, side - 1)
    return torch.zeros(side, side).scatter_add_(1, targets, (weights / weights.sum()).repeat(side, 1))


class Blur(Anonymizer):
    """Gaussian blur of whole frames; the kernel covers 3σ to each side. In frames larger than 112 px σ grows with the frame.

    >>> Blur(sigma=8)(video)
    """

    name = "blur"
    summary = "Gaussian blur of the whole frame"
    knobs = (SIGMA,)

    def __init__(self, sigma: float = SIGMA.default) -> None:
        super().__init__()
        self.sigma = SIGMA.check(sigma)

    @property
    def changes_nothing(self) -> bool:
        return self.sigma < LEAST_SIGMA

    def forward(self, video: Tensor) -> Tensor:
        """(B, T, C, H, W) to the same shape."""
        sigma = self.sigma * enlargement(video)
        return gaussian_blur(video, sigma, kernel=2 * math.ceil(3 * sigma) + 1)
