from __future__ import annotations

import numpy as np
import pytest

from sfumato.evaluation.metrics import bootstrap, percentile_interval, student
from sfumato.evaluation.metrics.student import expanded


@pytest.mark.parametrize(
    ("level", "freedom", "t"),
    [(0.95, 1, 12.706), (0.95, 2, 4.303), (0.95, 3, 3.182), (0.95, 10, 2.228), (0.99, 5, 4.032), (0.999, 4, 8.610)],
)
def test_student_as_the_tables_have_it(level: float, freedom: int, t: float) -> None:
    assert student(level, freedom) == pytest.approx(t, abs=5e-4)


def test_the_fewer_units_the_further_out() -> None:
    # t of 4 degrees of freedom 2.776, times √(5/4): 3.104, beyond which .19% of a normal distribution lie.
    assert expanded(0.95, 5) == pytest.approx(0.99809, abs=1e-5)
    assert 0.95 < expanded(0.95, 400) < 0.951 < expanded(0.95, 20) < expanded(0.95, 8)


def test_an_interval_over_few_people_holds_the_truth_as_often_as_it_says() -> None:
    """Eight people who differ, 400 times: plain percentiles miss the mean of all people too often."""
    draw = np.random.default_rng(0)
    holds = {None: 0, 8: 0}
    for _ in range(400):
        people = draw.normal(size=8)
        means = people[draw.integers(8, size=(1000, 8))].mean(axis=1)
        for units in holds:
            _, low, high = percentile_interval(float(people.mean()), means, units=units)
            holds[units] += low <= 0 <= high
    assert holds[None] / 400 < 0.91 and 0.93 <= holds[8] / 400 <= 0.97


def test_groups_are_the_units() -> None:
    values = np.random.default_rng(0).random(200)
    groups = np.repeat(np.arange(8), 25)

    def drawn(units: int | None) -> tuple[float, float, float]:
        resample, same = np.random.default_rng(0), [np.flatnonzero(groups == g) for g in range(8)]
        means = [values[np.concatenate([same[g] for g in resample.integers(8, size=8)])].mean() for _ in range(1000)]
        return percentile_interval(float(values.mean()), np.array(means), units=units)

    assert bootstrap(lambda items: float(values[items].mean()), 200, groups=groups) == pytest.approx(drawn(8))
    assert drawn(8)[2] > drawn(None)[2]
