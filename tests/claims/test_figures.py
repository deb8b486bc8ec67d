"""From a line of a judgement to the columns of a row, worked by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from sfumato.claims.figures import by_networks, figures
from sfumato.evaluation.result import AttackResult, Leakage, Line, Reader, Score

WEAK = Leakage(math.nan, math.nan, math.nan, "inconclusive")


def leakage(value: float, below: float = 0.1, above: float = 0.1) -> Leakage:
    return Leakage(value, value - below, value + above, "measured")


def attack(
    name: str, target: str, leak: Leakage, *, level: str = "frame", by: str = "resnet-18", validation: float = 0.5
) -> AttackResult:
    score = Score(0.5, 0.4, 0.6, 0.1, 1.0)
    return AttackResult(name, target, level, by, "top-1", score, leak, 0.1, validation, [], [])


def reader(by: str, value: float, raw: float, kept: Leakage) -> Reader:
    return Reader(by, Score(value, value - 0.2, value + 0.2, 0.1, raw), kept, [value], [])


def line(attacks: list[AttackResult], readers: list[Reader] | None = None) -> Line:
    return Line("f_A", Score(0.5, 0.4, 0.6, 0.1, 1.0), [], attacks, [], leakage(0.9), 0.0, readers=readers or [])


def test_what_leaks_to_single_frames_has_columns_where_it_was_measured() -> None:
    found = figures(line([]), leakage(0.5))
    told = [found[name] for name in ("frames_residual", "frames_residual_low", "frames_residual_high")]
    assert told == pytest.approx([0.5, 0.4, 0.6])
    assert "frames_residual" not in figures(line([]), WEAK)
    assert "frames_residual" not in figures(line([]))


def test_of_the_networks_that_can_read_raw_video_the_one_that_loses_most_counts() -> None:
    readers = [
        reader("r3d-18", 0.88, 0.9, leakage(0.975)),
        # Of the .8 above chance .9 are kept, at least .85 and at most .925 of them: −.08, from −.12 to −.06.
        reader("c3d", 0.82, 0.9, leakage(0.9, 0.05, 0.025)),
        reader("i3d-r50", 0.5, 0.5, leakage(1.0)),  # reads less than both, but all that it read before
        reader("mvit-v2-s", 0.1, 0.3, WEAK),
    ]
    found = by_networks(line([], readers))
    names = ("reader_change", "reader_change_low", "reader_change_high")
    assert [found[name] for name in names] == pytest.approx([-0.08, -0.12, -0.06])
    assert found["readers"] == 3 and "attacker_lead" not in found
    assert by_networks(line([], readers[3:])) == {"readers": 0}


def ahead(*attacks: AttackResult) -> list[float] | None:
    """The lead of other ResNets with its interval."""
    found = figures(line(list(attacks), [reader("r3d-18", 0.9, 0.9, leakage(1.0))]))
    names = ("attacker_lead", "attacker_lead_low", "attacker_lead_high")
    return [found[name] for name in names] if names[0] in found else None


def test_other_resnets_lead_by_what_leaks_to_the_best_of_them_more_than_to_f_b_s_own() -> None:
    attributes = [
        attack("frame", "attributes", leakage(0.5, 0.03, 0.06), by="resnet-34"),
        attack("frame", "attributes", leakage(0.2), by="resnet-152"),
        attack("frame", "attributes", leakage(0.4, 0.08, 0.04), by="resnet-50"),
    ]
    # .5 − .4; below it .03 of the one and .04 of the other, above it .06 and .08.
    assert ahead(*attributes) == pytest.approx([0.1, 0.05, 0.2])
    # Who is the best validation tells: on test clips the best of many is partly lucky.
    lucky = [replace(attributes[0], validation=0.1), replace(attributes[1], validation=0.9), attributes[2]]
    assert ahead(*lucky) == pytest.approx([0.2 - 0.4, *ahead(attributes[1], attributes[2])[1:]])  # type: ignore[index]
    narrow = [replace(each, recognizer=f"{each.recognizer}, 0.125 as wide") for each in attributes]
    assert ahead(*narrow) == pytest.approx([0.1, 0.05, 0.2])
    identity = [
        attack("identity-frames", "identity", leakage(0.9, 0, 0), by="resnet-18"),
        attack("identity-frames", "identity", leakage(0.7, 0, 0), by="resnet-50"),
    ]
    assert ahead(*attributes, *identity) == pytest.approx([0.2, 0.2, 0.2])  # the worse target
    # Where f_B's own reads most of all, the best other one is behind it.
    own = replace(attributes[2], leakage=leakage(0.6, 0, 0))
    assert ahead(*attributes[:2], own) == pytest.approx([-0.1, -0.13, -0.04])


def test_a_lead_is_only_told_of_who_can_read_raw_video() -> None:
    other, own = attack("frame", "attributes", leakage(0.5), by="resnet-34"), attack("frame", "attributes", WEAK)
    assert ahead(other, replace(own, recognizer="resnet-50")) is None
    assert ahead(replace(other, recognizer="resnet-50"), own) is None
    assert ahead(replace(other, recognizer="resnet-50"), replace(other, recognizer="mobilenet-v1")) is None
    # Where only the usual f'_T reads, the protocol is another one, and so is the question.
    assert "attacker_lead" not in figures(line([other, replace(other, recognizer="resnet-50")]))
