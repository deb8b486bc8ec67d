"""Random numbers that belong to a (seed, index): the same on every device and in every batch."""

from __future__ import annotations

import torch
from torch import Tensor

# SplitMix64 (Steele, Lea, Flood 2014), its constants as signed 64-bit numbers.
_GOLDEN = -7046029254386353131
_MIX_1 = -4658895280553007687
_MIX_2 = -7723592293110705685


def _shift_right(x: Tensor, bits: int) -> Tensor:
    """Logical shift: int64's own `>>` would drag the sign along."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)


def _mix(x: Tensor) -> Tensor:
    x = (x ^ _shift_right(x, 30)) * _MIX_1
    x = (x ^ _shift_right(x, 27)) * _MIX_2
    return x ^ _shift_right(x, 31)


class Dice:
    """One throw after another for a batch of indices; throw k of index i never depends on the other indices.

    index: int64 (B,). Every throw is (B,).

    >>> Dice(0, torch.arange(3)).uniform().shape
    torch.Size([3])
    """

    def __init__(self, seed: int, index: Tensor, stream: int = 0, throws: int = 128) -> None:
        start = _mix(index.to(torch.int64) * _GOLDEN + seed) + 7919 * stream
        slots = torch.arange(1, throws + 1, device=index.device, dtype=torch.int64) * _GOLDEN
        bits = _mix(_mix(start)[:, None] + slots)
        self._uniform = _shift_right(bits, 40).to(torch.float32) * 2.0**-24  # 24 bits: exact in float32
        self._next = 0

    def uniform(self, low: float = 0.0, high: float = 1.0) -> Tensor:
        """Uniform in [low, high)."""
        value = self._uniform[:, self._next]
        self._next += 1
        return low + (high - low) * value

    def chance(self, probability: float) -> Tensor:
        """True with that probability, as bool."""
        return self.uniform() < probability

    def choice(self, count: int) -> Tensor:
        """An integer in 0 .. count-1, as int64."""
        return (self.uniform() * count).to(torch.int64).clamp(max=count - 1)

    def sign(self) -> Tensor:
        """-1 or +1, as float."""
        return torch.where(self.uniform() < 0.5, -1.0, 1.0)

    def colour(self, low: float = 0.05, high: float = 0.95) -> Tensor:
        """An RGB colour, (B, 3)."""
        return torch.stack([self.uniform(low, high) for _ in range(3)], dim=-1)
