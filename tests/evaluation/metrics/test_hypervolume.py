import math

import numpy as np
import pytest

from sfumato.evaluation.metrics import REFERENCE, leakage_removed, nhv, pareto_front, utility_kept


@pytest.mark.parametrize(
    ("points", "area"),
    [
        ([], 0.0),
        ([(1.0, 0.0)], 0.0),  # raw video: all utility, nothing removed
        ([(0.0, 1.0)], 0.0),  # a black frame
        ([(1.0, 1.0)], 1.0),
        ([(0.8, 0.5)], 0.4),
        ([(0.8, 0.5), (0.4, 0.9)], 0.4 * 0.9 + 0.4 * 0.5),
        ([(0.8, 0.5), (0.4, 0.9), (0.4, 0.3)], 0.56),  # a dominated point adds nothing
        ([(0.2, 0.9), (0.5, 0.6), (0.9, 0.1)], 0.2 * 0.9 + 0.3 * 0.6 + 0.4 * 0.1),
        ([(1.3, 0.5), (0.5, -0.2)], 0.5),  # clipped to the unit square
    ],
)
def test_nhv_by_hand(points: list[tuple[float, float]], area: float) -> None:
    assert nhv(points) == pytest.approx(area)
    assert nhv(points[::-1]) == pytest.approx(area)


def test_nhv_is_the_area_of_the_union_of_rectangles() -> None:
    points = np.random.default_rng(0).integers(0, 101, size=(12, 2)) / 100
    cells = np.arange(100) / 100 + 0.005
    covered = np.zeros((100, 100), dtype=bool)
    for u, v in points:
        covered |= (cells[:, None] < u) & (cells < v)
    assert nhv(points) == pytest.approx(covered.mean())
    assert REFERENCE == (0.0, 0.0)


def test_the_front_holds_what_no_other_point_beats_by_growing_utility() -> None:
    points = [(0.5, 0.5), (0.9, 0.1), (0.5, 0.4), (0.1, 0.9), (0.4, 0.5), (0.5, 0.5)]
    assert pareto_front(points).tolist() == [3, 0, 1]


def test_an_inconclusive_point_is_refused() -> None:
    with pytest.raises(ValueError, match="inconclusive"):
        nhv([(0.5, math.nan)])


def test_utility_kept_and_leakage_removed_are_clipped() -> None:
    assert utility_kept(0.55, chance=0.1, raw=1.0) == pytest.approx(0.5)
    assert utility_kept(0.05, chance=0.1, raw=1.0) == 0.0
    assert utility_kept(0.95, chance=0.1, raw=0.9) == 1.0
    assert math.isnan(utility_kept(0.5, chance=0.1, raw=0.1))
    assert [leakage_removed(r) for r in (-0.1, 0.25, 1.2)] == [1.0, 0.75, 0.0]
