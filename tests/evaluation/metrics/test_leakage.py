import math

import numpy as np
import pytest

from sfumato.evaluation.metrics import FLOORS, above_chance, reaches_floor, residual_leakage


@pytest.mark.parametrize(("score", "expected"), [(0.9, 1.0), (0.6, 0.0), (0.7, 1 / 3), (0.5, -1 / 3), (1.0, 4 / 3)])
def test_residual_is_the_share_of_raw_leakage_and_is_not_clipped(score: float, expected: float) -> None:
    assert residual_leakage(score, chance=0.6, raw=0.9) == pytest.approx(expected)


@pytest.mark.parametrize("raw", [0.6, 0.6 + 1e-12, 0.4])
def test_residual_is_undefined_when_nothing_leaks_from_raw(raw: float) -> None:
    assert math.isnan(residual_leakage(0.7, chance=0.6, raw=raw))


def test_residual_works_per_attribute() -> None:
    residual = residual_leakage(np.array([0.7, 0.7]), np.array([0.6, 0.6]), np.array([0.8, 0.6]))
    np.testing.assert_allclose(residual, [0.5, np.nan])


def test_above_chance_runs_from_blind_to_perfect() -> None:
    assert [above_chance(score, 0.2) for score in (0.2, 0.6, 1.0)] == pytest.approx([0.0, 0.5, 1.0])
    assert math.isnan(above_chance(1.0, 1.0))


def test_an_attacker_that_fails_on_raw_proves_nothing() -> None:
    # Chance .584: the default floor, half of the way up, lies at .792.
    assert reaches_floor(0.80, chance=0.584)
    assert not reaches_floor(0.78, chance=0.584)
    assert reaches_floor(0.78, chance=0.584, floor=0.4)
    assert not reaches_floor(1.0, chance=1.0)
    assert not reaches_floor(math.nan, chance=0.5)
    assert FLOORS == {"attributes": 0.5, "identity": 0.5, "re-identification": 0.5, "action": 0.2}
