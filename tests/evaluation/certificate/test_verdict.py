"""The rules that make words of numbers, each at its edge."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import pytest

from sfumato.evaluation.certificate.document import Finding
from sfumato.evaluation.certificate.verdict import (
    ENOUGH_PEOPLE,
    MEANING,
    Exposure,
    exposure,
    meaning,
    persons_needed,
    recordings_needed,
    worst,
)
from sfumato.evaluation.certificate.wording import _NEVER, doubts, headline, not_tested
from sfumato.evaluation.result import Leakage, Score

NAN = math.nan


def finding(level: Exposure, target: str = "identity", title: str = "who a person is", **changed: float) -> Finding:
    told = {
        "detectable": 0.1,
        "high": 0.2,
        "recordings": 12,
        "needed": 40,
        "persons": 0,
        "persons_needed": 0,
        **changed,
    }
    return Finding(
        title, title, target, "identity", "top-1", Score(0.1, 0.0, 0.2, 0.05, 0.4),
        Leakage(0.05, -0.1, told["high"], "measured"), int(told["recordings"]), 24, told["detectable"], level.value,
        int(told["needed"]), int(told["persons"]), int(told["persons_needed"]),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("leak", "lucky", "detectable", "recordings", "level"),
    [
        ((0.90, 0.7, 1.1), True, 0.1, 40, Exposure.full),
        ((0.90, 0.7, 1.1), True, 0.9, 5, Exposure.full),  # a leak that was found counts, however little footage
        ((0.89, 0.7, 1.1), True, 0.1, 40, Exposure.large),
        ((0.50, 0.2, 0.8), True, 0.1, 40, Exposure.large),
        ((0.49, 0.2, 0.8), True, 0.1, 40, Exposure.reduced),
        ((0.49, 0.0, 0.8), True, 0.1, 40, Exposure.too_little),  # the interval holds nothing
        ((0.90, 0.7, 1.1), False, 0.1, 40, Exposure.too_little),  # and so would luck
        ((0.02, -0.1, 0.25), False, 0.25, 20, Exposure.not_shown),
        ((0.02, -0.1, 0.26), False, 0.25, 20, Exposure.too_little),
        ((0.02, -0.1, 0.25), False, 0.26, 20, Exposure.too_little),
        ((0.02, -0.1, 0.25), False, 0.25, 19, Exposure.too_little),
    ],
)
def test_levels(
    leak: tuple[float, float, float], lucky: bool, detectable: float, recordings: int, level: Exposure
) -> None:
    found = exposure(Leakage(*leak, "measured"), beats_luck=lucky, detectable=detectable, recordings=recordings)
    assert found is level


def test_a_leak_of_these_people_counts_and_that_there_is_none_must_hold_for_others_too() -> None:
    def level(videos: list[float], persons: list[float]) -> Exposure:
        leak = Leakage(sum(videos) / 2, *persons, "measured", {"videos": videos, "persons": persons})
        return exposure(leak, beats_luck=videos[0] > 0, detectable=0.1, recordings=200)

    assert level([0.6, 0.8], [-0.2, 1.2]) is Exposure.large
    assert level([-0.1, 0.1], [-0.4, 0.7]) is Exposure.too_little
    assert level([-0.1, 0.1], [-0.2, 0.2]) is Exposure.not_shown


@pytest.mark.parametrize(
    ("persons", "level"),
    [
        (1, Exposure.few_people),
        (ENOUGH_PEOPLE - 1, Exposure.few_people),
        (ENOUGH_PEOPLE, Exposure.not_shown),
        (0, Exposure.not_shown),  # of whom nobody is named: the doubts say so
    ],
)
def test_few_people_rule_no_leak_out_and_show_one(persons: int, level: Exposure) -> None:
    def found(leak: tuple[float, float, float], beats_luck: bool = False, recordings: int = 200) -> Exposure:
        told = Leakage(*leak, "measured")
        return exposure(told, beats_luck=beats_luck, detectable=0.1, recordings=recordings, persons=persons)

    assert found((0.02, -0.1, 0.15)) is level
    assert found((0.95, 0.8, 1.1), beats_luck=True) is Exposure.full
    assert found((0.3, 0.1, 0.5), beats_luck=True) is Exposure.reduced
    assert found((0.02, -0.1, 0.15), recordings=19) is found((0.1, -0.1, 0.4)) is Exposure.too_little


def test_an_attacker_that_fails_on_raw_video_proves_nothing_by_failing_but_what_it_reads_is_read() -> None:
    weak = Leakage(NAN, NAN, NAN, "inconclusive")
    assert exposure(weak, beats_luck=False, detectable=0.1, recordings=400) is Exposure.weak
    assert exposure(weak, beats_luck=True, detectable=0.1, recordings=400) is Exposure.unmeasured


def test_the_worst_counts_and_doubt_is_worse_than_nothing_found() -> None:
    assert worst([Exposure.not_shown, Exposure.reduced, Exposure.large]) is Exposure.large
    assert worst([Exposure.not_shown, Exposure.too_little]) is Exposure.too_little
    assert worst([Exposure.weak, Exposure.not_shown]) is Exposure.weak
    assert worst([Exposure.few_people, Exposure.not_shown]) is Exposure.few_people
    assert [level for level in Exposure if level.leaks] == list(Exposure)[:4]


@pytest.mark.parametrize(
    ("asked", "unnoticed", "total", "needed"), [(12, 0.1, 12, 20), (40, 0.5, 40, 160), (10, 0.5, 40, 160), (7, 0.3, 28, 80)]
)  # fmt: skip
def test_how_much_footage_would_do(asked: int, unnoticed: float, total: int, needed: int) -> None:
    assert recordings_needed(asked, unnoticed, total) == needed  # intervals shrink with the root; 20 at least


@pytest.mark.parametrize(("asked", "total", "needed"), [(2, 10, 25), (4, 4, 5), (3, 14, 24), (1, 4, 20)])
def test_how_many_people_would_do(asked: int, total: int, needed: int) -> None:
    assert persons_needed(asked, total) == needed


def test_words() -> None:
    assert headline(Exposure.full, [finding(Exposure.full)]) == "Identity is fully exposed"
    both = [
        finding(Exposure.full, "re-identification"),
        finding(Exposure.full),
        finding(Exposure.full, "attributes", "age"),
    ]
    assert headline(Exposure.full, both) == "Identity and age are fully exposed"
    assert "who a person is and age can be read about as well as from raw" in meaning(
        Exposure.full, ["who a person is", "age"]
    )
    many = [finding(Exposure.full, "attributes", name) for name in "abcdef"]
    assert headline(Exposure.full, many) == "A, b, c and 3 more are fully exposed"
    assert headline(Exposure.too_little, both) == "Too little footage for a conclusion"
    assert headline(Exposure.few_people, both) == "Too few people to tell"


def test_too_little_footage_is_said_with_how_much_would_do_and_what_could_have_escaped() -> None:
    (line,) = doubts(Exposure.too_little, [finding(Exposure.too_little, high=0.4)], 12, 12)
    assert line == (
        "12 recordings are too few for a conclusion about who a person is: give at least 40 in all. "
        "A leak of up to 40% of what raw video gives away could have gone unnoticed."
    )
    assert "up to 100%" in doubts(Exposure.too_little, [finding(Exposure.too_little, detectable=1.7)], 12, 12)[0]
    assert doubts(Exposure.full, [finding(Exposure.full)], 12, 12) == [
        "12 recordings are enough to show this leak, and too few to rule others out: give at least 20 in all."
    ]
    assert doubts(Exposure.full, [finding(Exposure.full)], 20, 20) == []
    assert "up to 20%" in doubts(Exposure.not_shown, [finding(Exposure.not_shown)], 40, 40)[0]
    assert "scores 40%, where guessing scores 5%" in doubts(Exposure.weak, [finding(Exposure.weak)], 40, 40)[0]


def test_too_few_people_are_said_with_how_many_would_do() -> None:
    def said(level: Exposure, *found: Finding) -> list[str]:
        return doubts(level, found, 200, 200)

    few = {"recordings": 200, "persons": 2, "persons_needed": 25}
    assert said(Exposure.few_people, finding(Exposure.few_people, **few)) == [
        "About who a person is: tested on 2 people only, too few to tell how it is with others. "
        "Give recordings of at least 25 people in all."
    ]
    (line,) = said(Exposure.too_little, finding(Exposure.too_little, needed=300, **few))
    assert line.startswith(
        "200 recordings of 2 people are too few for a conclusion about who a person is: "
        "give at least 300 in all, of 25 people or more. A leak of up to 20%"
    )


def test_a_leak_that_few_people_showed_says_on_how_many_it_rests() -> None:
    two = {"persons": 2, "persons_needed": 25}
    leaks = [
        finding(Exposure.large, **two),
        finding(Exposure.full, "attributes", "age", **two),
        finding(Exposure.full, "attributes", "hat", persons=1, persons_needed=20),
        finding(Exposure.full, "attributes", "bag", persons=5),
    ]
    assert doubts(Exposure.full, leaks, 200, 200) == [
        "1 person is enough to show this leak (hat), and too few to tell how it is with others: "
        "give recordings of at least 20 people in all.",
        "2 people are enough to show this leak (who a person is and age), and too few to tell how it is with others: "
        "give recordings of at least 25 people in all.",
    ]


def test_where_nobody_is_named_a_leak_that_was_not_shown_says_nothing_about_others() -> None:
    found = finding(Exposure.not_shown, recordings=200)
    (line,) = doubts(Exposure.not_shown, [found], 200, 200)
    assert line.endswith("Who is in each recording is not known: of fewer than 5 people it tells nothing about others.")
    both = {"videos": [-0.1, 0.1], "persons": [-0.1, 0.2]}
    named = replace(found, persons=9, leakage=replace(found.leakage, intervals=both))
    assert doubts(Exposure.not_shown, [named], 200, 200)[0].endswith("could have gone unnoticed.")


def test_what_was_not_tested() -> None:
    lines = not_tested(
        {"action": "there are no labels of it", "attributes": "there are no labels of it"}, ["long_hair"], linked=True,
        used=10, found=12, problems=["x.mp4: no video"], size=112, thorough=True,
    )  # fmt: skip
    assert lines[0] == "Whether actions stay recognisable: there are no labels of it."
    assert lines[1] == "Long hair: too rare in the labels."  # and not that there were none
    assert "clothes, place or light" in lines[2] and lines[3] == "What could not be used: x.mp4: no video."
    assert lines[4] == "2 of 12 recordings: 10 were used."
    assert not any(
        "clothes" in line
        for line in not_tested({}, [], linked=False, used=1, found=1, problems=[], size=1, thorough=True)
    )


def test_no_word_promises_too_much() -> None:
    said = " ".join([*MEANING.values(), *(level.value for level in Exposure), *_NEVER])
    said += "".join(headline(level, [finding(level)]) for level in Exposure)
    assert not re.search(r"\b(anonymous|safe|secure|private|protected|guarantee\w*)\b", said, re.IGNORECASE)


def test_who_has_more_footage_than_was_used_is_told_to_use_it() -> None:
    (line,) = doubts(Exposure.too_little, [finding(Exposure.too_little, high=0.4)], 12, 100)
    assert "who a person is: use 40 of the 100 that are there, --recordings 40. A leak" in line
    (line,) = doubts(Exposure.too_little, [finding(Exposure.too_little, high=0.4)], 12, 39)
    assert "give at least 40 in all" in line
    assert "--recordings 20." in doubts(Exposure.full, [finding(Exposure.full)], 12, 30)[0]
