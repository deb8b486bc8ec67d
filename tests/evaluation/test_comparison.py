from __future__ import annotations

import math

import numpy as np
import pytest

from sfumato.evaluation.comparison import difference_notes, differences, front, tradeoff_notes
from sfumato.evaluation.draws import Draws
from sfumato.evaluation.result import Leakage, Line, Score

NOISE = np.linspace(-0.2, 0.2, 101)  # what all of them share
OWN = np.tile([-0.05, 0.05], 51)[:101]  # what one of them has for itself


def draws(value: float, own: float = 0.0) -> Draws:
    return Draws(value, {"videos": value + NOISE + own * OWN})


def line(name: str, kept: float, leak: float, verdict: str = "measured") -> Line:
    """Chance ½, raw 1: half of what is above 0.5 is kept at 0.75."""
    return Line(name, Score(0.5 + kept / 2, 0, 1, 0.5, 1.0), [], [], [], Leakage(leak, 0, 1, verdict), math.nan)


def test_what_two_share_cancels() -> None:
    """Each is ±20 points unsure, and yet they surely differ by ten."""
    (found,) = differences({"a": {"action": draws(0.6)}, "b": {"action": draws(0.5, own=1.0)}})
    assert (found.first, found.second, found.what) == ("a", "b", "action")
    assert (found.value, found.low, found.high) == pytest.approx((0.1, 0.05, 0.15))
    assert found.distinct


@pytest.mark.parametrize(("value", "distinct"), [(0.52, False), (0.48, False), (0.56, True), (0.44, True)])
def test_an_interval_that_holds_zero_is_no_difference(value: float, distinct: bool) -> None:
    (found,) = differences({"a": {"identity": draws(value)}, "b": {"identity": draws(0.5, own=1.0)}})
    assert found.distinct is distinct


def test_the_wider_interval_decides() -> None:
    persons = Draws(0.6, {"videos": np.full(101, 0.6), "persons": 0.6 + 2 * NOISE})
    flat = Draws(0.5, {"videos": np.full(101, 0.5), "persons": np.full(101, 0.5)})
    (found,) = differences({"a": {"action": persons}, "b": {"action": flat}})
    assert not found.distinct and set(found.intervals) == {"videos", "persons"}


def test_every_two_are_compared_in_what_both_have() -> None:
    both, action = {"action": draws(0.5), "identity": draws(0.5)}, {"action": draws(0.5)}
    found = [(d.first, d.second, d.what) for d in differences({"a": both, "b": both, "c": action})]
    assert found == [
        ("a", "b", "action"), ("a", "b", "identity"), ("a", "c", "action"), ("b", "c", "action"),
    ]  # fmt: skip
    assert differences({"a": both}) == []


def test_neighbours_by_leakage_are_told_apart_or_said_not_to_be() -> None:
    evidence = {
        "a": {"action": draws(0.6), "identity": draws(0.8)},
        "b": {"action": draws(0.5, own=1.0), "identity": draws(0.2)},
        "c": {"action": draws(0.49), "identity": draws(0.7, own=4.0)},
    }
    lines = [line("a", 1, 0.8), line("b", 1, 0.2), line("c", 1, 0.7), line("doubtful", 1, math.nan, "inconclusive")]
    assert difference_notes(differences(evidence), lines) == [
        "b − c: action not distinguishable (+1.0 [−4.0 to 6.0]), leakage of identity −50.0 [−70.0 to −30.0]",
        "c − a: action −11.0 [−11.0 to −11.0], leakage of identity not distinguishable (−10.0 [−30.0 to 10.0])",
    ]


def test_the_front_holds_those_that_nobody_beats_in_both() -> None:
    lines = [line("sharp", 0.9, 0.9), line("beaten", 0.4, 0.6), line("good", 0.5, 0.2), line("?", 1, 0, "inconclusive")]
    assert front(lines) == ["good", "sharp"]
    first, second = tradeoff_notes(lines)
    # 0.5 · 0.8 and, beside it, 0.4 · 0.1.
    assert first.startswith("NHV is from reference point (0, 0)") and first.endswith("together reach 0.44")
    assert second.endswith("good, sharp")
    assert front(lines[-1:]) == [] and tradeoff_notes(lines[-1:]) == []
    (alone,) = tradeoff_notes(lines[:1])
    assert "reference point (0, 0)" in alone and "together" not in alone
