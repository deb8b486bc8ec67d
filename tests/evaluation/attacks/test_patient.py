from __future__ import annotations

from .conftest import NOTHING_HIDDEN, Lab, Parade


def test_it_learns_four_times_as_long_and_finds_more() -> None:
    """Two epochs are too few to tell these people apart, eight are not."""
    lab = Lab(Parade(), epochs=2)
    short, long = (lab.attack(name, NOTHING_HIDDEN) for name in ("identity-frames", "patient-identity-frames"))
    assert (len(short.curve[0]), len(long.curve[0])) == (2, 8)
    assert long.score.value > short.score.value + 0.1
