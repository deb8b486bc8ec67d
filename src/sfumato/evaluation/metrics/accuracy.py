"""Top-1 accuracy, its chance line, and the average over the clips of one video."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

# A softmax in single precision may end this far outside [0, 1]; a logit goes further.
_ROUNDING = 1e-6


def as_probabilities(values: ArrayLike) -> NDArray[np.float64]:
    """`values` as float64, or a ValueError when one is not in [0, 1]: logits are not probabilities.

    >>> as_probabilities([0.2, 1.0])
    array([0.2, 1. ])
    """
    array = np.asarray(values, dtype=np.float64)
    if not np.all((array >= -_ROUNDING) & (array <= 1 + _ROUNDING)):
        raise ValueError("values outside [0, 1]: pass probabilities (sigmoid or softmax), not logits")
    return array


def as_classes(labels: ArrayLike, classes: int) -> NDArray[np.intp]:
    """`labels` (N,) as indices, or a ValueError when there are none or one is not in 0 … classes − 1.

    >>> as_classes([1, 0], classes=2)
    array([1, 0])
    """
    array = np.asarray(labels)
    if array.ndim != 1 or array.size == 0 or not np.issubdtype(array.dtype, np.integer):
        raise ValueError(f"labels must be whole numbers of shape (N,) with N > 0, not {array.dtype} {array.shape}")
    if array.min() < 0 or array.max() >= classes:
        raise ValueError(f"labels span {array.min()} … {array.max()}, but there are {classes} classes from 0")
    return array.astype(np.intp)


def top1(scores: ArrayLike, labels: ArrayLike) -> float:
    """The share of items whose highest score is at their label; scores (N, K), labels (N,).

    Scores may be logits or probabilities; of equal scores the first class counts as the answer.

    >>> top1([[0.9, 0.1], [0.8, 0.2]], [0, 1])
    0.5
    """
    table = np.asarray(scores, dtype=np.float64)
    if table.ndim != 2 or np.isnan(table).any():
        raise ValueError(f"scores must be (N, K) without NaN, not {table.shape}")
    truth = as_classes(labels, classes=table.shape[1])
    if len(truth) != len(table):
        raise ValueError(f"{len(table)} rows of scores, but {len(truth)} labels")
    return float(np.mean(table.argmax(axis=1) == truth))


def chance_top1(labels: ArrayLike, classes: int) -> float:
    """The best accuracy without looking: the share of the split's most frequent class.

    As the K shares sum to 1, it is never below a uniform guess, 1/K: this is the larger of the two chance lines.

    >>> chance_top1([0, 0, 0, 1], classes=2)
    0.75
    """
    truth = as_classes(labels, classes)
    return float(np.bincount(truth).max() / len(truth))


def average_clips(probabilities: ArrayLike) -> NDArray[np.float64]:
    """The mean over the clips of each video: (N, clips, K) to (N, K). Averages probabilities, as the papers do.

    >>> average_clips([[[1.0, 0.0], [0.5, 0.5]]])
    array([[0.75, 0.25]])
    """
    array = as_probabilities(probabilities)
    if array.ndim != 3 or array.shape[1] == 0:
        raise ValueError(f"probabilities must be (N, clips, K) with clips > 0, not {array.shape}")
    return array.mean(axis=1)
