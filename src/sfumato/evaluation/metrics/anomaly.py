"""Anomalies in time: how well scores tell the frames of an anomaly from all others, over all videos at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

CHANCE_AUC = 0.5  # of scores that know nothing, whatever the prevalence


def frame_auc(scores: Sequence[ArrayLike], labels: Sequence[ArrayLike]) -> float:
    """Frame-level ROC AUC over all videos: scores and labels in {0, 1} of each video's frames, (T,), T as the video has.

    The share of pairs of an anomalous and a normal frame, of any two videos, in which the anomalous one scores higher; a
    tie is half. NaN where all frames are of one kind.

    >>> frame_auc([[0.9, 0.3], [0.3, 0.1]], [[1, 1], [0, 0]])  # 3 pairs of 4 are right, one is a tie
    0.875
    """
    table, truth = _frames(scores, labels)
    distinct, place = np.unique(table, return_inverse=True)
    anomalous = np.bincount(place, weights=truth, minlength=len(distinct))
    normal = np.bincount(place, weights=1 - truth, minlength=len(distinct))
    pairs = anomalous.sum() * normal.sum()
    if pairs == 0:
        return float("nan")
    below = normal.cumsum() - normal
    return float((anomalous * (below + normal / 2)).sum() / pairs)


def _frames(scores: Sequence[ArrayLike], labels: Sequence[ArrayLike]) -> tuple[np.ndarray, np.ndarray]:
    """All frames of all videos, (N,) each in float64; videos must come with as many labels as scores."""
    if len(scores) != len(labels) or len(scores) == 0:
        raise ValueError(f"scores of {len(scores)} videos and labels of {len(labels)} must be as many, and at least 1")
    tables = [np.asarray(video, dtype=np.float64) for video in scores]
    truths = [np.asarray(video, dtype=np.float64) for video in labels]
    for number, (table, truth) in enumerate(zip(tables, truths, strict=True)):
        if table.ndim != 1 or table.shape != truth.shape:
            raise ValueError(
                f"video {number}: scores {table.shape} and labels {truth.shape} must be (T,), both the same"
            )
    table, truth = np.concatenate(tables), np.concatenate(truths)
    if np.isnan(table).any():
        raise ValueError("scores must be numbers: NaN has no rank")
    if not np.all((truth == 0) | (truth == 1)):
        raise ValueError("labels must be 0 or 1")
    return table, truth
