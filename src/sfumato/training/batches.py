"""Which clips and frames come when: every draw is a pure function of the seed and the step.

Nothing has to be stored to resume, and two data sets of different lengths never cut each other short.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from sfumato.errors import SfumatoError


def mix(seed: int, *parts: int | str) -> int:
    """A seed of its own for every purpose, the same on every machine.

    >>> mix(0, "augment", 3) != mix(0, "augment", 4)
    True
    """
    return int.from_bytes(hashlib.sha256(repr((seed, *parts)).encode()).digest()[:7], "big")


class Rounds:
    """Endless rounds over `count` rows, each round in a random order of its own; no row is ever left out of a round.

    A batch may end one round and begin the next, so that the longer of two data sets is seen whole as well.

    >>> sorted(torch.cat([Rounds(5, 2, seed=0).rows(step) for step in range(5)]).tolist())
    [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    """

    def __init__(self, count: int, batch: int, *, seed: int) -> None:
        if count < 1:
            raise SfumatoError("there is no clip to train on", "give a data set with clips in its training part")
        self.count, self.batch, self.seed = count, batch, seed
        self._order = lru_cache(maxsize=2)(self._shuffled)

    def _shuffled(self, turn: int) -> Tensor:
        return torch.randperm(self.count, generator=torch.Generator().manual_seed(mix(self.seed, "round", turn)))

    def rows(self, step: int) -> Tensor:
        """The rows (batch,) int64 of that step."""
        places = range(step * self.batch, (step + 1) * self.batch)
        return torch.stack([self._order(place // self.count)[place % self.count] for place in places])


@dataclass(frozen=True)
class Positives:
    """S_F: which two frames of a video make a positive pair: "any" two, or fewer ("<8") / more (">64") frames apart.

    Distances are in frames of the source video; two different frames are at least 1 apart.

    >>> Positives.parse("<8").allowed(torch.tensor([[0, 4, 12]])).long()[0]
    tensor([[0, 1, 0],
            [1, 0, 0],
            [0, 0, 0]])
    """

    rule: str
    low: int
    high: int

    @staticmethod
    def parse(rule: str) -> Positives:
        """Read "any", "<N" or ">N"."""
        if rule == "any":
            return Positives(rule, 1, 2**31)
        if match := re.fullmatch(r"([<>])([1-9]\d*)", rule):
            distance = int(match[2])
            return Positives(rule, 1, distance - 1) if match[1] == "<" else Positives(rule, distance + 1, 2**31)
        raise SfumatoError(f"positives = '{rule}' is no rule", "use any, <8 (near frames) or >64 (far frames)")

    def allowed(self, times: Tensor) -> Tensor:
        """times (B, F), the frame numbers of each video → (B, F, F) bool: which ordered pairs may be drawn.

        A picture alone (F = 1) pairs with itself: its two views differ by augmentation.
        """
        if times.shape[1] == 1:
            return torch.ones(len(times), 1, 1, dtype=torch.bool, device=times.device)
        apart = (times[:, :, None] - times[:, None, :]).abs()
        return (apart >= self.low) & (apart <= self.high)

    def check(self, times: Tensor, name: str) -> None:
        """Stop before the first step if some video of a data set has no such pair."""
        lacking = int((~self.allowed(times).flatten(1).any(1)).sum())
        if lacking:
            longest = int((times.amax(1) - times.amin(1)).max())
            raise SfumatoError(
                f"{lacking} videos of {name} have no two frames {self.rule} frames apart (the longest spans {longest})",
                "set positives to any, or to a distance that its videos have",
            )

    def draw(self, times: Tensor, generator: torch.Generator) -> Tensor:
        """times (B, F) → (B, 2) int64: two frames of each video, every allowed pair equally likely."""
        choices = self.allowed(times).flatten(1).float()
        pick = torch.multinomial(choices, 1, generator=generator)[:, 0]
        return torch.stack([pick // times.shape[1], pick % times.shape[1]], 1)
