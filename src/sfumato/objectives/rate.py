"""How much an output shows at all: what is black says nothing, and what stands still says nothing new."""

from __future__ import annotations

from torch import Tensor


def sparsity(output: Tensor, free: float = 0.0) -> Tensor:
    """How much clips (B, T, 3, H, W) show on black beyond the share that is free, from 0 (no more) to 1 (all white).

    What is black says nothing: made small, this leaves only the light that something else pays for.

    >>> sparsity(torch.full((1, 8, 3, 4, 4), 0.75), free=0.5).item()
    0.25
    """
    return (output.float().flatten(1).mean(1) - free).relu().mean()
