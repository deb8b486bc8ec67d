from __future__ import annotations

import math

from sfumato.evaluation.comparison import shortfalls
from sfumato.evaluation.result import Leakage, Line, Result, Score


def judged(effort: str, **leaks: tuple[float, float, str]) -> Result:
    """Anonymizers by name with the value of their headline, half of its interval and its verdict."""
    lines = [
        Line(name, Score(1, 1, 1, 0, 1), [], [], [], Leakage(value, value - half, value + half, verdict), math.nan)
        for name, (value, half, verdict) in leaks.items()
    ]
    return Result("known", "d", 2, 2, 9, 9, [0], {}, 1, "", {}, "", lines, effort=effort)


def test_only_what_both_intervals_exclude_is_a_shortfall() -> None:
    sure = "measured"
    quick = judged(
        "quick", blur=(0.5, 0.1, sure), mask=(0.5, 0.1, sure), noise=(0.9, 0.01, sure), only=(0.9, 0.0, sure)
    )
    more = judged("thorough", blur=(0.31, 0.1, sure), mask=(0.29, 0.1, sure), noise=(0.1, 0.01, "inconclusive"))
    assert shortfalls(quick, more) == ["mask: 0.29 [0.19–0.39] by thorough effort, 0.50 [0.40–0.60] by quick"]
    assert shortfalls(more, quick) == []  # more was found by more effort
