"""Frame-level ROC AUC against pairs counted by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from sfumato.evaluation.metrics.anomaly import CHANCE_AUC, frame_auc


def test_by_hand() -> None:
    # Anomalous .9 and .4 against normal .5, .4 and .1: three and one pairs are right, .4 with .4 is a tie.
    assert frame_auc([[0.9, 0.5], [0.1, 0.4, 0.4]], [[1, 0], [0, 0, 1]]) == pytest.approx((3 + 1.5) / 6)


def test_frames_are_ranked_over_all_videos() -> None:
    # Each video for itself is told perfectly; together the second one's normal frame is above the first one's anomaly.
    assert frame_auc([[0.2, 0.1], [0.9, 0.8]], [[1, 0], [1, 0]]) == pytest.approx(3 / 4)


def test_scores_that_are_all_the_same_are_chance() -> None:
    assert frame_auc([[0.3] * 5], [[1, 0, 0, 0, 1]]) == CHANCE_AUC
    assert frame_auc([[0.0, 1.0]], [[1, 0]]) == 0


def test_equals_sklearn_with_many_ties() -> None:
    rng = np.random.default_rng(0)
    scores, labels = rng.integers(6, size=(3, 50)) / 5, rng.integers(2, size=(3, 50))
    assert frame_auc(list(scores), list(labels)) == pytest.approx(roc_auc_score(labels.ravel(), scores.ravel()))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("label", [0, 1])
def test_with_frames_of_one_kind_it_is_undefined(label: int) -> None:
    assert math.isnan(frame_auc([[0.1, 0.2]], [[label, label]]))


@pytest.mark.parametrize(
    ("scores", "labels"),
    [
        ([], []),
        ([[0.1]], [[1], [0]]),
        ([[0.1, 0.2], [0.3]], [[1], [0, 1]]),
        ([[[0.1]]], [[[1]]]),
        ([[0.1, math.nan]], [[0, 1]]),
        ([[0.1, 0.2]], [[0, 2]]),
    ],
)
def test_what_cannot_be_ranked_is_refused(scores: list[list[float]], labels: list[list[int]]) -> None:
    with pytest.raises(ValueError, match="must be"):
        frame_auc(scores, labels)
