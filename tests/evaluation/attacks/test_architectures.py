"""Attackers by other networks, against anonymizers of which the right answer is known; by night, but one in test_planted.py."""

from __future__ import annotations

import pytest

from sfumato.evaluation.attacks import attacks_named
from sfumato.evaluation.attacks.architectures import ARCHITECTURES

from .conftest import ALL_HIDDEN, NOTHING_HIDDEN, Lab, Parade, Told, grey

# Of the four people two are shown bright: who sees it is right once in two instead of once in four.
BRIGHT = Told(lambda video, person, coin: grey(video) + 0.5 * (person % 2).view(-1, 1, 1, 1, 1).float())
WHO = [exam.name for exam in ARCHITECTURES if exam.target == "identity"]


@pytest.mark.nightly
@pytest.mark.parametrize("name", WHO)
def test_everything_nothing_and_one_bit_are_found_by_every_network(name: str) -> None:
    lab = Lab(Parade(), epochs=20)
    raw = lab.attack(name, NOTHING_HIDDEN)
    assert raw.score.value > 0.8 and (raw.leakage.value, raw.leakage.verdict) == (1, "measured")
    hidden, bit = lab.attack(name, ALL_HIDDEN).leakage, lab.attack(name, BRIGHT).leakage
    assert abs(hidden.value) < 0.1 and hidden.low - 1e-9 <= 0 <= hidden.high + 1e-9
    assert bit.low > 0 and bit.low <= 1 / 3 <= bit.high


def test_each_begins_with_what_raw_video_taught_too() -> None:
    pretrained = {exam.name: exam for exam in attacks_named("pretrained")}
    for exam in ARCHITECTURES:
        found = pretrained[f"pretrained-{exam.name}"]
        assert (found.recognizer, found.target, found.level) == (exam.recognizer, exam.target, exam.level)
