"""A number together with what it becomes on resamples, of videos and of persons; from these come intervals and pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sfumato.evaluation.metrics import Interval, percentile_interval

VIDEOS, PERSONS = "videos", "persons"


@dataclass(frozen=True)
class Draws:
    """A value, and its value on every resample, (samples,), by what was resampled.

    The videos of one person are alike. An interval over persons says how it may be with other people, and is given where
    there are enough of them; one over videos how it may be with other videos of these.
    """

    value: float
    over: dict[str, np.ndarray]
    units: Mapping[str, int] = field(default_factory=dict)  # how many were resampled; not told: as if many

    def __sub__(self, other: Draws) -> Draws:
        """The paired difference: both must be on the same resamples of the same items."""
        shared = {by: drawn - other.over[by] for by, drawn in self.over.items() if by in other.over}
        return Draws(self.value - other.value, shared, {**other.units, **self.units})

    @staticmethod
    def largest(several: Sequence[Draws]) -> Draws:
        """The largest of several values, found again in every resample, so that its interval holds the choice.

        Where persons cannot be resampled for one of them, its resamples of videos stand in.

        >>> Draws.largest([Draws(0.1, {"videos": np.array([0.0, 0.2])}), Draws(0.0, {"videos": np.array([0.3, 0.1])})])
        Draws(value=0.1, over={'videos': array([0.3, 0.2])}, units={})
        """
        over = {
            by: np.fmax.reduce([draws.over.get(by, draws.over[VIDEOS]) for draws in several])
            for by in dict.fromkeys(by for draws in several for by in draws.over)
        }
        units = {by: count for draws in reversed(several) for by, count in draws.units.items()}
        return Draws(max(draws.value for draws in several), over, units)

    def intervals(self) -> dict[str, Interval]:
        """Over videos and, where that is defined on most resamples, over persons.

        >>> Draws(0.5, {"videos": np.array([0.4, 0.6])}).intervals()["videos"].value
        0.5
        """
        told = [VIDEOS]
        if PERSONS in self.over and 2 * np.isfinite(self.over[PERSONS]).sum() >= len(self.over[PERSONS]):
            told.append(PERSONS)
        return {by: percentile_interval(self.value, self.over[by], units=self.units.get(by)) for by in told}

    def widest(self) -> Interval:
        """The interval that is shown.

        >>> Draws(0.5, {"videos": np.array([0.4, 0.6]), "persons": np.array([0.0, 1.0])}).widest().high
        0.975
        """
        return max(self.intervals().values(), key=lambda interval: interval.high - interval.low)

    def stored(self) -> dict[str, Any]:
        """`value`, `low`, `high` and, where there are two, `intervals`, as a result holds them."""
        shown, every = self.widest(), self.intervals()
        both = {by: [found.low, found.high] for by, found in every.items()} if len(every) > 1 else {}
        return {"value": shown.value, "low": shown.low, "high": shown.high, "intervals": both}
