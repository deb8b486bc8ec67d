from __future__ import annotations

import math

import pytest

from sfumato.evaluation.notes import effort_notes, measured_notes, persons_note, seeds_note
from sfumato.evaluation.result import AttackResult, Leakage, Line, Measure, Score
from sfumato.evaluation.scoring import late_gain


def line(name: str, *curves: tuple[str, list[float]], score: Score | None = None) -> Line:
    sure, leak = Score(0.5, 0.4, 0.6, 0.1, 0.9), Leakage(0.5, 0.4, 0.6, "measured")
    attacks = [
        AttackResult(
            who, "identity", "video", "net", "top-1", sure, leak, 0.5, 0.5, [0.5], [curve], late_gain=late_gain([curve])
        )
        for who, curve in curves
    ]  # fmt: skip
    return Line(name, score or sure, [], attacks, [], leak, 0.5)


FLAT, RISING = [0.2, 0.6, 0.7, 0.7, 0.7, 0.7, 0.7, 0.705], [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8]


def test_who_still_rises_at_the_end_is_named() -> None:
    (note,) = effort_notes([line("blur", ("frame", FLAT), ("video", RISING)), line("grey", ("frame", FLAT))], 8)
    assert note.startswith("blur: more epochs might have helped video, whose") and "rose by 0.20 in the last" in note
    (many,) = effort_notes([line("blur", *((f"a{n}", RISING) for n in range(8)))], 8)
    assert "a4 and 3 more" in many and "up to 0.20" in many


def test_whose_measure_it_is_is_said_where_they_differ() -> None:
    found = line("blur", ("face", FLAT), ("reid", FLAT), ("reid-frames", FLAT))
    for attack, value in zip(found.attacks, (0.9, 0.4, 0.4), strict=True):
        attack.measures = [Measure("mAP", Score(value, value, value, 0.5, 1.0)), Measure("size", Score(1, 1, 1, 1, 1))]
    assert measured_notes([found, line("grey", ("frame", FLAT))]) == [
        "blur: mAP of face 0.90 [0.90–0.90], without looking 0.50, raw 1.00",
        "blur: mAP of reid, reid-frames 0.40 [0.40–0.40], without looking 0.50, raw 1.00",
        "blur: size 1.00 [1.00–1.00], without looking 1.00, raw 1.00",  # the same for all
    ]


def test_few_epochs_tell_nothing() -> None:
    (note,) = effort_notes([line("blur", ("frame", RISING[:3])), line("grey", ("frame", RISING[:3]))], 3)
    assert note == "3 epochs are too few to see whether attackers would have gained from more"
    assert effort_notes([line("blur", ("zero-shot", []))], 3) == []  # who learns nothing has no epochs


def test_the_late_gain_worked_by_hand() -> None:
    assert late_gain([RISING]) == pytest.approx(0.2)
    assert late_gain([FLAT, RISING]) == pytest.approx((0.005 + 0.2) / 2)
    assert late_gain([[0.9, 0.1, 0.2, 0.3]]) == 0  # the best epoch was the first
    assert late_gain([[math.nan, 0.25, 0.5, 0.75]]) == 0.25
    assert math.isnan(late_gain([[0.1, 0.2, 0.3]])) and math.isnan(late_gain([[]]))


def test_intervals_over_persons_are_mentioned_where_there_are_some() -> None:
    both = Score(0.5, 0.3, 0.7, 0.1, 0.9, {"videos": [0.4, 0.6], "persons": [0.3, 0.7]})
    assert persons_note([line("blur")]) == ""
    assert persons_note([line("blur"), line("grey", score=both)]) == ", or over persons where that is wider"


def test_what_intervals_over_clips_leave_out() -> None:
    assert seeds_note(1).startswith(
        "each network was trained once: another seed may give other numbers and another order"
    )
    assert seeds_note(3).startswith("seeds are averaged: other 3 may give other numbers and another order")
