"""Columns of a row from what the latent protocols leave, worked by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sfumato.claims.latent_figures import Gauge, columns, figures
from sfumato.datasets.sample import AttributeSpec
from sfumato.evaluation import scoring
from sfumato.evaluation.exam import Answers, Exam
from sfumato.evaluation.latent.base import Asked, LatentProtocol, Sheet, per_item

LABELS = np.array([0, 1] * 10)


@pytest.fixture(autouse=True)
def fewer_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "SAMPLES", 100)


def constant(value: float) -> Gauge:
    return Gauge(10, lambda items: value, lambda items: 0.9, lambda items: 0.5)


def test_a_score_is_told_with_raw_and_with_what_is_kept() -> None:
    found = columns("action", constant(0.7))
    assert found["action"] == 0.7 and found["action_raw"] == 0.9 and found["action_chance"] == 0.5
    assert found["action_change"] == pytest.approx(-0.2) and found["action_kept"] == pytest.approx(0.5)
    assert found["action_change_low"] == found["action_change_high"] == pytest.approx(-0.2)


def test_a_change_is_measured_on_the_same_videos() -> None:
    hard = np.array([0.0, 1.0] * 20)  # every second video is hard, before and after
    gauge = Gauge(
        40, lambda items: float(hard[items].mean()) - 0.1, lambda items: float(hard[items].mean()), lambda items: 0.1
    )
    found = columns("x", gauge)
    assert found["x_high"] - found["x_low"] > 0.2
    assert found["x_change_low"] == pytest.approx(-0.1) and found["x_change_high"] == pytest.approx(-0.1)


def test_nothing_is_kept_of_what_raw_features_do_not_give() -> None:
    weak = Gauge(10, lambda items: 0.52, lambda items: 0.55, lambda items: 0.5)  # a tenth of the way to perfect
    assert "x_kept" not in columns("x", weak) and columns("x", weak)["x_change"] == pytest.approx(-0.03)


def read(right: float, seed: int = 0) -> Answers:
    """Somebody who tells two values apart in that share of 20 videos."""
    sure = np.random.default_rng(seed).random(20) < right
    said = np.where(sure, LABELS, 1 - LABELS)
    table = np.stack([said == 0, said == 1], 1).astype(float)
    return Answers(table, LABELS[:, None], table, LABELS[:, None], np.empty(0), 0.0)


class Asking(LatentProtocol):
    """Asks nothing by itself: sheets are given."""

    name = "probe"

    def __init__(self, *asked: Asked) -> None:
        self.asked = list(asked)

    def prepare(self) -> None: ...

    def examine(self, subject: object, seed: int) -> Sheet:
        raise NotImplementedError


def attack(name: str) -> Asked:
    exam = Exam(name, "", "attributes", "frame", "clip")
    return Asked(exam, "linear", (2,), "attack", (AttributeSpec("hat"),))


def test_of_several_attackers_the_strongest_on_validation_counts() -> None:
    names = ("attributes-static-linear", "attributes-static-mlp", "attributes-whole-mlp")
    protocol = Asking(*map(attack, names))
    raw = Sheet({name: read(1.0) for name in names})
    mine = Sheet(dict(zip(names, (read(0.5, 1), read(1.0), read(0.5, 1)), strict=True)))
    found = figures([protocol], {"probe": mine}, {"probe": raw})
    assert found["static_residual"] == pytest.approx(1.0) and found["static_attackers"] == "attributes-static-mlp"
    assert found["whole_residual"] < 0.8 and found["residual"] == pytest.approx(1.0)  # the worst of both
    assert found["static_raw"] == 1.0 and found["static_chance"] == 0.5


def test_who_cannot_read_raw_features_proves_nothing() -> None:
    protocol, name = Asking(attack("attributes-static-mlp")), "attributes-static-mlp"
    found = figures([protocol], {"probe": Sheet({name: read(0.5, 1)})}, {"probe": Sheet({name: read(0.5, 2)})})
    assert math.isnan(found["static_residual"]) and found["verdict"] == "inconclusive"


def test_of_an_attack_more_is_asked_before_a_ratio_is_told() -> None:
    names = ("inversion-black-box-action", "inversion-black-box-attributes")
    exams = (Exam(names[0], "", "action", "video", "clip"), Exam(names[1], "", "attributes", "video", "clip"))
    protocol = Asking(*(Asked(exam, "mlp", (2,), "score", (AttributeSpec("hat"),)) for exam in exams))

    def of(right: float, seed: int) -> dict[str, object]:
        sheet = {"probe": Sheet(dict.fromkeys(names, read(right, seed)))}
        return figures([protocol], sheet, sheet)

    weak = of(0.75, 1)  # .39 of the way from chance to perfect on attributes: too little, unless the action were asked
    assert weak["black_attributes_raw"] == pytest.approx(0.694, abs=1e-3) and weak["black_attributes_chance"] == 0.5
    assert "black_attributes_kept" not in weak and weak["black_action_kept"] == 1
    assert of(1.0, 0)["black_attributes_kept"] == 1


def test_tallies_have_their_own_columns_and_the_gap_is_of_both_splits() -> None:
    protocol = Asking()
    mine = Sheet(tallies=[
        per_item("TAD mAP", [0.5] * 8, 0.1), per_item("TAD mAP@0.3", [0.9] * 8, 0.1),
        per_item("bias-man subclass gap", [0.1] * 8, 0.0), per_item("bias-woman subclass gap", [0.3] * 8, 0.0),
    ])  # fmt: skip
    raw = Sheet(tallies=[
        per_item("TAD mAP", [0.9] * 8, 0.1), per_item("TAD mAP@0.3", [0.9] * 8, 0.1),
        per_item("bias-man subclass gap", [0.2] * 8, 0.0), per_item("bias-woman subclass gap", [0.4] * 8, 0.0),
    ])  # fmt: skip
    found = figures([protocol], {"probe": mine}, {"probe": raw})
    assert found["detection_change"] == pytest.approx(-0.4) and found["detection_kept"] == pytest.approx(0.5)
    assert found["gap"] == pytest.approx(0.2) and found["gap_raw"] == pytest.approx(0.3)
    assert found["gap_change"] == pytest.approx(-0.1)


def by_person(right: tuple[int, ...]) -> Answers:
    """Of five persons with four videos each those are read, and the others taken for what they are not."""
    said = np.where(np.isin(np.arange(20) // 4, right), LABELS, 1 - LABELS)
    table = np.stack([said == 0, said == 1], 1).astype(float)
    return Answers(table, LABELS[:, None], table, LABELS[:, None], np.empty(0), 0.0)


def test_persons_are_resampled_too_where_they_are_known() -> None:
    """What differs from person to person is less sure than twenty videos make it look."""
    who = np.arange(20) // 4
    for role, exam in (
        ("utility", Exam("action", "", "action", "video", "person")),
        ("attack", Exam("attributes-static-mlp", "", "attributes", "frame", "clip")),
    ):
        found = {}
        for persons in (None, (who, who)):
            asked = Asked(exam, "linear", (2,), role, (AttributeSpec("hat"),), persons)  # type: ignore[arg-type]
            mine, raw = Sheet({exam.name: by_person((0, 1))}), Sheet({exam.name: by_person((0, 1, 2, 3, 4))})
            found[persons is None] = figures([Asking(asked)], {"probe": mine}, {"probe": raw})
        for name in ("action", "action_change") if role == "utility" else ("static_residual", "residual"):
            lone, together = (found[alone][f"{name}_high"] - found[alone][f"{name}_low"] for alone in (True, False))
            assert together > 1.1 * lone, name


def test_the_worst_of_several_is_looked_for_in_every_resample() -> None:
    """Of two that are level one is the worse one in each resample, which no interval of one of them alone tells."""
    names = ("attributes-static-mlp", "attributes-whole-mlp")
    protocol = Asking(*map(attack, names))
    raw = Sheet({name: read(1.0) for name in names})
    mine = Sheet(dict(zip(names, (read(0.7, 1), read(0.7, 2)), strict=True)))
    found = figures([protocol], {"probe": mine}, {"probe": raw})
    assert found["residual"] == max(found["static_residual"], found["whole_residual"])
    assert found["residual_low"] > max(found["static_residual_low"], found["whole_residual_low"])
