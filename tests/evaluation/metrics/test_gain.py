from __future__ import annotations

import math

import numpy as np
import pytest

from sfumato.evaluation.metrics import always_yes_f1, average_precision, coin_f1, f1, gain_over_random, random_f1

# LaF-Privacy's Table 8: F1, cMAP, and their gains. The prevalences are printed rounded; cMAP minus its gain has the third
# decimal.
TABLE_8 = {
    "face": (0.5925, 0.9192, -0.0519, 0.0132),
    "skin colour": (0.7129, 0.7426, 0.1601, 0.1246),
    "gender": (0.5314, 0.9249, -0.1165, 0.0049),
    "nudity": (0.6747, 0.4167, 0.3343, 0.1587),
    "relationships": (0.6526, 0.3547, 0.3548, 0.1427),
}


@pytest.mark.parametrize("attribute", TABLE_8)
def test_it_is_the_gain_of_the_paper(attribute: str) -> None:
    score, ap, f1_gain, ap_gain = TABLE_8[attribute]
    gain = gain_over_random(score, ap, prevalence=ap - ap_gain)
    assert gain.f1 == pytest.approx(f1_gain, abs=1e-4)
    assert gain.ap == pytest.approx(ap_gain)


def test_by_hand() -> None:
    # 1 in 4 is positive. A coin: precision 1/4, recall 1/2, F1 = 2·(1/8)/(3/4) = 1/3.
    assert random_f1(0.25) == pytest.approx(1 / 3)
    assert gain_over_random(0.5, 0.45, 0.25) == pytest.approx((0.5 - 1 / 3, 0.2))
    # Who says yes to 1 in 4 has precision and recall 1/4.
    assert gain_over_random(0.5, 0.45, 0.25, yes=0.25) == pytest.approx((0.25, 0.2))
    assert random_f1(0.25, yes=1.0) == pytest.approx(always_yes_f1(0.25))
    assert random_f1(0.9) == pytest.approx(coin_f1(0.9))


def test_an_attribute_of_several_values_is_the_mean_over_those_that_occur() -> None:
    # Coins: .5/(.5+.5) = 1/2 and .25/(.25+.5) = 1/3, twice; nobody has the last value.
    gain = gain_over_random(0.6, 0.6, [0.5, 0.25, 0.25, 0.0])
    assert gain == pytest.approx((0.6 - (1 / 2 + 1 / 3 + 1 / 3) / 3, 0.6 - 1 / 3))
    assert all(map(math.isnan, gain_over_random(math.nan, math.nan, 0.0)))


def test_who_always_says_yes_gains_in_f1_alone() -> None:
    truth = np.arange(1000) < 906  # VP-HMDB51's faces
    gain = gain_over_random(float(f1(np.ones(1000), truth)), float(average_precision(np.ones(1000), truth)), 0.906)
    assert gain == pytest.approx((always_yes_f1(0.906) - coin_f1(0.906), 0))
    assert gain.f1 == pytest.approx(0.306, abs=5e-4)


@pytest.mark.parametrize("share", [0.01, 0.2, 0.5, 0.9, 1.0])
def test_no_blind_answer_has_a_higher_f1_than_always_yes(share: float) -> None:
    assert (random_f1(share, np.linspace(0, 1, 101)) <= always_yes_f1(share)).all()


@pytest.mark.parametrize("yes", [0.5, 0.3])
def test_answers_really_given_at_random_gain_nothing(yes: float) -> None:
    rng = np.random.default_rng(0)
    truth, said = rng.random(200_000) < 0.3, rng.random(200_000) < yes
    assert gain_over_random(float(f1(said, truth)), 0.3, truth.mean(), yes).f1 == pytest.approx(0, abs=0.005)
