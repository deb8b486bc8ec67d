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


def total_change(output: Tensor) -> Tensor:
    """Mean absolute change between neighbouring frames of the output (B, T, 3, H, W); 0 for a single frame.

    What does not change says nothing new: made small, this leaves only the movement that something else pays for.

    >>> total_change(torch.tensor([0.0, 0.5]).view(1, 2, 1, 1, 1).expand(1, 2, 3, 4, 4)).item()
    0.5
    """
    change = output.float().diff(dim=1)
    return change.abs().sum() / max(1, change.numel())
