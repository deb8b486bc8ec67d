from __future__ import annotations

import numpy as np
import pytest

from sfumato.evaluation.draws import Draws

NARROW, WIDE = np.linspace(0.4, 0.6, 101), np.linspace(0.0, 1.0, 101)


def test_both_intervals_are_kept_and_the_wider_one_is_shown() -> None:
    for videos, persons, low in ((NARROW, WIDE, 0.025), (WIDE, NARROW, 0.025), (NARROW, NARROW / 2 + 0.25, 0.405)):
        stored = Draws(0.5, {"videos": videos, "persons": persons}).stored()
        assert (stored["value"], stored["low"], stored["high"]) == pytest.approx((0.5, low, 1 - low))
        ends = {by: np.quantile(drawn, [0.025, 0.975]) for by, drawn in (("videos", videos), ("persons", persons))}
        assert stored["intervals"] == {by: pytest.approx(found) for by, found in ends.items()}


def test_without_persons_the_interval_is_over_videos() -> None:
    stored = Draws(0.5, {"videos": NARROW}).stored()
    assert (stored["low"], stored["intervals"]) == (pytest.approx(0.405), {})


def test_persons_count_only_where_most_resamples_are_defined() -> None:
    rare = np.where(np.arange(101) < 60, np.nan, WIDE)
    assert Draws(0.5, {"videos": NARROW, "persons": rare}).stored()["intervals"] == {}
    often = np.where(np.arange(101) < 40, np.nan, WIDE)
    assert Draws(0.5, {"videos": NARROW, "persons": often}).widest().high == pytest.approx(0.985)


def test_a_difference_is_paired() -> None:
    """Two numbers that are unsure together differ surely."""
    one, other = Draws(0.6, {"videos": WIDE + 0.1, "persons": WIDE}), Draws(0.5, {"videos": WIDE})
    found = one - other
    assert list(found.over) == ["videos"]
    assert found.widest() == pytest.approx((0.1, 0.1, 0.1))


def test_what_is_undefined_has_no_interval() -> None:
    assert np.isnan(Draws(float("nan"), {"videos": NARROW}).widest()).all()


def test_few_units_have_wider_intervals_also_of_differences_and_of_the_largest() -> None:
    few = Draws(0.5, {"videos": NARROW, "persons": WIDE}, {"videos": 400, "persons": 8})
    both = few.intervals()
    assert both["videos"].low == pytest.approx(0.405, abs=1e-3)
    assert both["persons"].low == pytest.approx(0.0057, abs=1e-3)  # not .025: of eight, the percentiles of 98.86%
    still = Draws(0.0, {"videos": 0 * NARROW, "persons": 0 * WIDE}, few.units)
    assert (few - still).widest() == Draws.largest([few, still - still]).widest() == few.widest()
