"""Every attack against anonymizers of which the right answer is known: nothing hidden, all hidden, one bit left."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.evaluation.attacks import ATTACKS, FAMILIES, attacks_named
from sfumato.evaluation.metrics import chance_retrieval_ap

from .conftest import ALL_HIDDEN, NOTHING_HIDDEN, ONE_BIT, Lab

BROKEN_BY_ONE_BIT = tuple(
    f"{way}-identity-placed" for way in ("patient", "pretrained", "reconstruct", "decode", "aggregate")
)


@pytest.mark.parametrize(
    "name", ["transfer-identity-placed", "transfer-frame", *BROKEN_BY_ONE_BIT, "reid", "reid-frames"]
)
def test_who_hides_nothing_leaks_everything_and_who_hides_all_nothing(name: str, lab: Lab) -> None:
    raw = lab.attack(name, NOTHING_HIDDEN)
    assert raw.score.value > 0.9 and (raw.leakage.value, raw.leakage.verdict) == (1, "measured")
    hidden = lab.attack(name, ALL_HIDDEN).leakage
    assert hidden.verdict == "measured" and abs(hidden.value) < 0.1
    assert hidden.low - 1e-9 <= 0 <= hidden.high + 1e-9


@pytest.mark.parametrize("name", BROKEN_BY_ONE_BIT)
def test_one_bit_about_four_people_is_found_and_counted(name: str, lab: Lab) -> None:
    """Half of the people have it: who reads it is right once in two instead of once in four, 1/3 of the way to always."""
    found = lab.attack(name, ONE_BIT)
    assert found.leakage.low <= 1 / 3 <= found.leakage.high
    assert found.leakage.value == pytest.approx(1 / 3, abs=0.05)
    assert found.leakage.low > 0 and found.score.chance == 0.25


@pytest.mark.parametrize("name", ["reid", "reid-frames"])
def test_one_bit_halves_the_gallery(name: str, lab: Lab) -> None:
    """The nearest is any of the two people who share it, and the gallery's order that of a half in random order."""
    found = lab.attack(name, ONE_BIT)
    assert found.score.low <= 0.5 <= found.score.high and found.leakage.low > 0
    assert found.score.chance == 0.25
    (precision,) = found.measures
    half, whole = (chance_retrieval_ap(np.array([15]), clips)[0] for clips in (30, 60))
    assert precision.name == "mAP" and precision.score.value == pytest.approx(half, abs=0.02)
    assert precision.score.chance == pytest.approx(whole)


def test_the_bit_that_is_the_attribute_leaks_all_of_it(lab: Lab) -> None:
    assert lab.attack("pretrained-video-placed", ONE_BIT).leakage.value == pytest.approx(1, abs=0.02)


def test_a_family_is_all_its_attackers_and_a_name_is_one() -> None:
    for family in (family for family in FAMILIES if family.name != "architectures"):
        names = [exam.name for exam in attacks_named(family.name)]
        assert names == [name for name in ATTACKS.names() if name.startswith(f"{family.name}-")]
        assert len(names) == (18 if family.name == "pretrained" else 6)
        levels = {(exam.target, exam.level) for exam in attacks_named(family.name)}
        assert levels == {(t, v) for t in ("attributes", "identity") for v in ("frame", "video")}
    assert {exam.recognizer for exam in attacks_named("architectures")} == {
        "r2plus1d-18", "i3d-r50", "mvit-v2-s", "vit-s", "resnet-50", "mobilenet-v1",
    }  # fmt: skip
    assert [exam.name for exam in attacks_named("reid")] == ["reid"]
