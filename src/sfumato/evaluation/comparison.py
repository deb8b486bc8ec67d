"""Anonymizers side by side: paired differences, and who is on the Pareto front.

All anonymizers are judged on the same videos and, with the same seed, on the same resamples of them. What these share (a
hard test clip, a person who is easily named) cancels in the difference of two, whose interval is therefore often narrow
where those of the two overlap.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations, pairwise

from sfumato.evaluation.draws import Draws
from sfumato.evaluation.metrics import REFERENCE, leakage_removed, nhv, pareto_front, utility_kept
from sfumato.evaluation.result import Difference, Line

# "action" and every target whose leakage was measured, with what they are on the resamples.
Evidence = Mapping[str, Draws]
ACTION = "action"


def differences(evidence: Mapping[str, Evidence]) -> list[Difference]:
    """Every two anonymizers, in all that both have: the first minus the second.

    evidence: by the anonymizer's name.

    >>> [d.what for d in differences({"blur": {"action": draws}, "pixelate": {"action": draws}})]
    ['action']
    """
    found = []
    for first, second in combinations(evidence, 2):
        for what in evidence[first]:
            if what in evidence[second]:
                drawn = evidence[first][what] - evidence[second][what]
                told = drawn.stored()
                found.append(Difference(first, second, what, distinct=told["low"] > 0 or told["high"] < 0, **told))
    return found


def difference_notes(pairs: Sequence[Difference], lines: Sequence[Line]) -> list[str]:
    """Each anonymizer beside the one that leaks next to nothing more: is the order between them real?

    >>> difference_notes(result.differences, result.lines)[0]
    'blur − pixelate: action +4.0 [1.5 to 6.5], leakage of identity not distinguishable (−1.0 [−4.0 to 2.0])'
    """
    ranked = sorted((x for x in lines if math.isfinite(x.headline.value)), key=lambda line: line.headline.value)
    notes = []
    for one, next_one in pairwise(line.anonymizer for line in ranked):
        between = [d for d in pairs if {d.first, d.second} == {one, next_one}]
        told = [_told(d, 1 if d.first == one else -1) for d in between]
        if told:
            notes.append(f"{one} − {next_one}: {', '.join(told)}")
    return notes


def _told(d: Difference, sign: int) -> str:
    low, high = sorted((sign * d.low, sign * d.high))
    what = ACTION if d.what == ACTION else f"leakage of {d.what}"
    numbers = f"{_points(sign * d.value, '+')} [{_points(low)} to {_points(high)}]"
    return f"{what} {numbers}" if d.distinct else f"{what} not distinguishable ({numbers})"


def _points(share: float, plus: str = "") -> str:
    """Percentage points with one decimal and a true minus sign."""
    rounded = round(100 * share, 1) + 0.0
    return f"{rounded:{plus}.1f}".replace("-", "−")


def front(lines: Sequence[Line]) -> list[str]:
    """The anonymizers that no other beats both in utility kept and in leakage removed, by growing utility.

    Lines that are inconclusive are no points, and are left out.

    >>> front(result.lines)
    ['pixelate', 'blur']
    """
    points = _points_of(lines)
    names = list(points)
    return [names[i] for i in pareto_front(list(points.values()))] if points else []


def tradeoff_notes(lines: Sequence[Line]) -> list[str]:
    """The NHV of all anonymizers together, with its reference point, and the Pareto front where it leaves some out.

    >>> tradeoff_notes(result.lines)[0]
    'NHV is from reference point (0, 0), nothing kept and nothing removed; all anonymizers together reach 0.61'
    """
    points = _points_of(lines)
    if not points:
        return []
    where = ", ".join(f"{x:g}" for x in REFERENCE)
    together = f"; all anonymizers together reach {nhv(list(points.values())):.2f}" if len(points) > 1 else ""
    notes = [f"NHV is from reference point ({where}), nothing kept and nothing removed{together}"]
    if len(points) > 1:
        notes.append(f"on the Pareto front, where no other keeps more and leaks less: {', '.join(front(lines))}")
    return notes


def _points_of(lines: Sequence[Line]) -> dict[str, tuple[float, float]]:
    found = {}
    for line in lines:
        kept = utility_kept(line.utility.value, line.utility.chance, line.utility.raw)
        if line.headline.verdict == "measured" and math.isfinite(kept) and math.isfinite(line.headline.value):
            found[line.anonymizer] = kept, leakage_removed(line.headline.value)
    return found
