"""The trade-off in one number: the normalised hypervolume (NHV) of (utility kept, leakage removed)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.evaluation.metrics.leakage import FLOORS, reaches_floor, residual_leakage

# Nothing kept and nothing removed. Printed with every NHV, as the number means nothing without it.
REFERENCE = (0.0, 0.0)


def utility_kept(top1: float, chance: float, raw: float) -> float:
    """(top1 − chance) / (raw − chance), in [0, 1]; NaN where raw does not reach the action's floor.

    >>> utility_kept(0.75, chance=0.5, raw=1.0)
    0.5
    """
    if not reaches_floor(raw, chance, FLOORS["action"]):
        return float("nan")
    return float(np.clip(residual_leakage(top1, chance, raw), 0.0, 1.0))


def leakage_removed(residual: float) -> float:
    """1 − residual leakage, in [0, 1].

    >>> leakage_removed(0.25)
    0.75
    """
    return float(np.clip(1.0 - residual, 0.0, 1.0))


def pareto_front(points: ArrayLike) -> NDArray[np.intp]:
    """Indices of the points (P, 2) that no other beats in both, by growing utility; of equal points the first.

    >>> pareto_front([[0.2, 0.9], [0.1, 0.5], [1.0, 0.0]])
    array([0, 2])
    """
    table = _as_points(points)
    front: list[int] = []
    best = -1.0
    # From the highest utility down (then the highest leakage removed), a point counts only if it removes more.
    for index in np.lexsort((-table[:, 1], -table[:, 0])):
        if table[index, 1] > best:
            front.append(int(index))
            best = table[index, 1]
    return np.array(front[::-1], dtype=np.intp)


def nhv(points: ArrayLike) -> float:
    """The area that the points (P, 2), as (utility kept, leakage removed), dominate in the unit square.

    It is the union of the rectangles from `REFERENCE` to each point: 0 for none, 1 for an anonymizer that keeps
    everything and removes everything. Points are clipped to [0, 1]; NaN (an inconclusive line) raises a ValueError.

    >>> nhv([[1.0, 0.5], [0.5, 1.0]])
    0.75
    """
    front = _as_points(points)[pareto_front(points)]
    widths = np.diff(front[:, 0], prepend=REFERENCE[0])
    return float(np.sum(widths * (front[:, 1] - REFERENCE[1])))


def _as_points(points: ArrayLike) -> NDArray[np.float64]:
    table = np.asarray(points, dtype=np.float64).reshape(-1, 2)
    if np.isnan(table).any():
        raise ValueError("a point is undefined (NaN): leave inconclusive lines out of the trade-off, and say so")
    return np.clip(table, 0.0, 1.0)
