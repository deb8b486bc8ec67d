"""Re-identification: a probe is compared with every clip of a gallery; rank-1, average precision, and their chance."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.evaluation.metrics.attributes import Array, RankedScores


def best_match(similarity: ArrayLike, gallery: ArrayLike, persons: int) -> Array:
    """How alike a probe is to each person's nearest gallery clip: (Q, G) and persons (G,) to (Q, persons).

    Whose is largest is the person of the nearest clip of all: the answer that rank-1 counts. −∞ for who is in no gallery.

    >>> best_match([[0.2, 0.9, 0.4]], [0, 0, 1], persons=2)
    array([[0.9, 0.4]])
    """
    table, owner = np.asarray(similarity, dtype=np.float64), np.asarray(gallery)
    found = np.full((len(table), persons), -np.inf)
    for person in np.unique(owner):
        found[:, person] = table[:, owner == person].max(axis=1)
    return found


def retrieval_ap(similarity: ArrayLike, matches: ArrayLike) -> Array:
    """Average precision of each probe's ranking of the gallery: (Q, G) and matches (Q, G) in {0, 1} to (Q,).

    Their mean is the mAP of re-identification. NaN for a probe that matches nothing.

    >>> retrieval_ap([[0.9, 0.8, 0.7, 0.6]], [[1, 0, 1, 0]])  # (1/1 + 2/3) / 2
    array([0.83333333])
    """
    table = np.asarray(similarity, dtype=np.float64)
    return RankedScores(table, matches).average_precision(np.ones(table.shape[-1]))


def chance_retrieval_ap(matches: NDArray[np.intp], gallery: int) -> Array:
    """The average precision that is expected of a random order: so many `matches` among so many `gallery` clips.

    The clip at rank k is a match with probability m/n; if it is, of the k−1 before it (m−1)/(n−1) are matches too:
    Σ_k (1 + (k−1)(m−1)/(n−1)) / k, over n.

    >>> chance_retrieval_ap(np.array([1, 2]), gallery=2)
    array([0.75, 1.  ])
    """
    rank = np.arange(1, gallery + 1)
    before = (np.asarray(matches)[..., None] - 1) / max(gallery - 1, 1) * (rank - 1)
    return np.asarray(((1 + before) / rank).mean(axis=-1))
