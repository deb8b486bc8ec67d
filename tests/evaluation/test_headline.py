"""The headline: chosen on validation, the worst of the targets, with an interval that holds both choices."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sfumato.evaluation import scoring
from sfumato.evaluation.attacks.identity import IDENTITY
from sfumato.evaluation.draws import Draws
from sfumato.evaluation.exam import Answers
from sfumato.evaluation.result import Leakage, Score, Strongest
from sfumato.evaluation.scoring import Choice, Ruler, Sitting, choose, headline

PEOPLE, N = 4, 160


@pytest.fixture(autouse=True)
def fewer_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "SAMPLES", 300)


def blind(seed: int) -> Answers:
    """Who guesses."""
    draw, truth = np.random.default_rng(seed), (np.arange(N) % PEOPLE)[:, None]
    validation, test = (np.eye(PEOPLE)[draw.integers(PEOPLE, size=N)] for _ in range(2))
    return Answers(validation, truth, test, truth, np.zeros(1), 0.0)


def attackers(count: int, first: int = 0) -> list[Ruler]:
    sure = np.eye(PEOPLE)[np.arange(N) % PEOPLE]
    raw = Answers(sure, blind(0).test_labels, sure, blind(0).test_labels, np.zeros(1), 0.0)
    return [Ruler(Sitting(IDENTITY, "net", [blind(first + n)], [raw]), (PEOPLE,)) for n in range(count)]


def test_the_interval_of_the_strongest_is_wider_than_that_of_one_and_holds_the_truth() -> None:
    """Twelve who guess, nothing leaks: in other resamples another one of them would have been chosen."""
    widths, held, off = [], [], []
    for trial in range(8):
        many, alone = choose(attackers(12, 20 * trial)), choose(attackers(1, 20 * trial))
        leak, single = many.strongest.leakage, alone.strongest.leakage
        widths.append((leak.high - leak.low) / (single.high - single.low))
        held.append(leak.low <= 0 <= leak.high)
        off.append(leak.value)
    assert np.mean(widths) > 1.08 and sum(held) >= 7
    assert abs(float(np.mean(off))) < 0.05  # the choice is made on validation, so that luck there is no score here


def found(target: str, value: float, spread: float, seed: int) -> Choice:
    drawn = Draws(value, {"videos": value + spread * np.random.default_rng(seed).standard_normal(2000)})
    leak = Leakage(**drawn.stored(), verdict="measured")
    return Choice(Strongest(target, [target], Score(0.5, 0.4, 0.6, 0.1, 0.9), leak), drawn)


def told(*choices: Choice) -> Leakage:
    drawn = {choice.strongest.target: choice.leakage for choice in choices if choice.leakage is not None}
    return headline([choice.strongest for choice in choices], drawn)


def test_the_worst_of_two_targets_is_found_again_in_every_resample() -> None:
    close = told(found("attributes", 0.30, 0.1, 1), found("identity", 0.31, 0.1, 2))
    assert (close.value, close.verdict) == (0.31, "measured")
    # The larger of two that are alike: above .3 by .56 of a deviation on average, its 2.5% point at −1.0, not −1.96.
    assert close.low == pytest.approx(0.305 - 0.1 * 1.0, abs=0.015)
    assert close.high == pytest.approx(0.305 + 0.1 * 2.24, abs=0.02)
    # Where one is clearly the worst, the other does not matter.
    clear = told(found("attributes", 0.1, 0.02, 1), found("identity", 0.8, 0.02, 2))
    alone = found("identity", 0.8, 0.02, 2).strongest.leakage
    assert (clear.value, clear.low, clear.high) == (alone.value, alone.low, alone.high)


def test_a_target_without_a_measure_leaves_the_interval_to_the_others() -> None:
    measured = found("attributes", 0.4, 0.05, 3)
    weak = Choice(Strongest("identity", [], measured.strongest.score, Leakage(*[math.nan] * 3, "inconclusive")), None)
    both = told(measured, weak)
    assert both.verdict == "inconclusive"
    assert (both.value, both.low) == (0.4, measured.strongest.leakage.low)
    assert math.isnan(told(weak).value) and told(weak).verdict == "inconclusive"


def test_the_largest_of_draws_worked_by_hand() -> None:
    one = Draws(0.1, {"videos": np.array([0.0, 0.2]), "persons": np.array([0.5, math.nan])})
    other = Draws(0.0, {"videos": np.array([0.3, 0.1])})
    found = Draws.largest([one, other])
    assert found.value == 0.1 and found.over["videos"].tolist() == [0.3, 0.2]
    assert found.over["persons"].tolist() == [0.5, 0.1]  # of the other, its resamples of videos stand in
    assert Draws.largest([one]).over["videos"].tolist() == [0.0, 0.2]
