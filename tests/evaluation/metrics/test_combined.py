from __future__ import annotations

import numpy as np
import pytest

from sfumato.evaluation.metrics import combined_score


@pytest.mark.parametrize(
    ("top1", "privacy", "score"),
    [
        (1.0, 0.0, 1.0),  # all is recognised, nothing is read
        (0.0, 1.0, 0.0),  # the other way round
        (1.0, 1.0, 0.5),  # each alone is half of it
        (0.0, 0.0, 0.5),
        (0.9, 0.6, 0.65),  # (.9 + .4) / 2
        (0.74, 0.54, 0.6),  # (.74 + .46) / 2
    ],
)
def test_by_hand(top1: float, privacy: float, score: float) -> None:
    assert combined_score(top1, privacy) == pytest.approx(score)


def test_along_a_training() -> None:
    # accuracy kept while privacy falls by .2: the score rises by .1
    scores = combined_score(np.array([0.9, 0.9]), np.array([0.8, 0.6]))
    assert scores == pytest.approx([0.55, 0.65])
