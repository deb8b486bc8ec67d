"""How much an output shows at all: what is black says nothing, and what stands still says nothing new."""

from __future__ import annotations

import torch
from torch import Tensor


def sparsity(output: Tensor) -> Tensor:
    """The mean of the output (B, T, 3, H, W): how much is shown on black, 0 (nothing) to 1 (all white).

    What is black says nothing: made small, this leaves only the light that something else pays for.

    >>> sparsity(torch.full((1, 8, 3, 4, 4), 0.25)).item()
    0.25
    """
    return output.mean(dtype=torch.float32)
