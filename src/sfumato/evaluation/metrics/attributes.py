"""Private attributes: average precision, cMAP, F1, and the lines that a blind attacker reaches.

Everything here works on *columns*, (N, C), one yes/no question each. A binary attribute is one column (the probability
of "yes"); one with K > 2 values is K columns, one value against the rest. `owner` (C,) names the attribute of every
column; without it each column is its own attribute. What has no positive is undefined, and NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.evaluation.metrics.accuracy import as_probabilities

Array = NDArray[np.float64]
Numbers = TypeVar("Numbers", float, NDArray[np.float64])


class Columns(NamedTuple):
    """Attribute labels as yes/no columns: labels (N, C) in {0, 1}, owner (C,) the attribute of each column."""

    labels: Array
    owner: NDArray[np.intp]


class Mean(NamedTuple):
    """A mean over attributes, and how many of them it is over: the undefined ones are left out."""

    value: float
    counted: int


def one_hot_columns(values: ArrayLike, n_values: Sequence[int]) -> Columns:
    """Attribute values (N, A), as indices, to columns; `n_values[a]` is how many values attribute `a` has.

    >>> one_hot_columns([[1, 2], [0, 0]], n_values=[2, 3]).labels
    array([[1., 0., 0., 1.],
           [0., 1., 0., 0.]])
    """
    table = np.asarray(values)
    if table.ndim != 2 or table.shape[1] != len(n_values) or min(n_values, default=0) < 2:
        raise ValueError(f"values {table.shape} must be (N, A) with at least two values per attribute, not {n_values}")
    if np.any((table < 0) | (table >= np.asarray(n_values))):
        raise ValueError(f"an attribute's value is not an index below its number of values {list(n_values)}")
    asked = [(a, v) for a, n in enumerate(n_values) for v in ([1] if n == 2 else range(n))]
    owner = np.array([a for a, _ in asked], dtype=np.intp)
    return Columns((table[:, owner] == [v for _, v in asked]).astype(np.float64), owner)


def by_attribute(values: ArrayLike, owner: ArrayLike | None = None) -> Array:
    """The mean of each attribute's defined columns: (..., C) to (..., A); NaN where none is defined.

    >>> by_attribute([0.5, 0.2, 0.4], owner=[0, 1, 1])
    array([0.5, 0.3])
    """
    array = np.asarray(values, dtype=np.float64)
    if owner is None:
        return array
    attribute = np.asarray(owner)
    member = (attribute[:, None] == np.arange(attribute.max() + 1)).astype(np.float64)
    defined = ~np.isnan(array)
    return _ratio(np.where(defined, array, 0.0) @ member, defined @ member)


def mean_defined(values: ArrayLike) -> Mean:
    """The mean over the attributes that are defined, with their count.

    >>> mean_defined([0.5, float("nan"), 0.7])
    Mean(value=0.6, counted=2)
    """
    array = np.asarray(values, dtype=np.float64)
    kept = array[~np.isnan(array)]
    return Mean(float(kept.mean()) if kept.size else float("nan"), kept.size)


class RankedScores:
    """Scores sorted once, so that the average precision of any reweighting, such as a resample, costs no sorting.

    scores (..., N) and labels in {0, 1}, of a shape that broadcasts to it; items are on the *last* axis.

    >>> RankedScores([0.9, 0.8, 0.7], [1, 0, 1]).average_precision([1, 0, 2])
    array(1.)
    """

    def __init__(self, scores: ArrayLike, labels: ArrayLike) -> None:
        table = np.asarray(scores, dtype=np.float64)
        if not np.isfinite(table).all():
            raise ValueError("scores must be finite: NaN or infinite scores have no rank")
        truth = np.broadcast_to(_as_binary(labels), table.shape)
        self._order = np.argsort(-table, axis=-1, kind="stable")
        self._positive = np.take_along_axis(truth, self._order, axis=-1)
        self._last = _last_of_ties(np.take_along_axis(table, self._order, axis=-1))

    def average_precision(self, weights: ArrayLike) -> Array:
        """Average precision (...), with `weights` (N,) ≥ 0 per item; NaN where no positive has weight.

        It is the mean, over the positives, of the precision among all that score at least as high.
        """
        weight = np.asarray(weights, dtype=np.float64)[self._order]
        hits = weight * self._positive
        precision = _ratio(hits.cumsum(axis=-1), weight.cumsum(axis=-1), undefined=0.0)
        at_threshold = np.take_along_axis(precision, self._last, axis=-1)
        return _ratio((hits * at_threshold).sum(axis=-1), hits.sum(axis=-1))


def average_precision(scores: ArrayLike, labels: ArrayLike) -> float:
    """Average precision of scores (N,) for labels (N,) in {0, 1}; ties share a threshold; NaN without a positive.

    >>> average_precision([0.9, 0.8, 0.7, 0.6], [1, 0, 1, 0])  # (1/1 + 2/3) / 2
    0.8333333333333333
    """
    table, truth = _pair(np.asarray(scores, dtype=np.float64), labels)
    if table.ndim != 1:
        raise ValueError(f"scores must be (N,), not {table.shape}: attribute_ap takes columns")
    return float(RankedScores(table, truth).average_precision(np.ones(len(table))))


def attribute_ap(scores: ArrayLike, labels: ArrayLike, owner: ArrayLike | None = None) -> Array:
    """Average precision per attribute: scores and labels (N, C) to (A,). Only the order of the scores matters.

    >>> attribute_ap([[0.9, 0.1], [0.2, 0.3]], [[1, 0], [0, 0]])
    array([ 1., nan])
    """
    table, truth = _pair(np.asarray(scores, dtype=np.float64), labels)
    if table.ndim != 2:
        raise ValueError(f"scores must be (N, C), not {table.shape}")
    return by_attribute(RankedScores(table.T, truth.T).average_precision(np.ones(len(table))), owner)


def cmap(scores: ArrayLike, labels: ArrayLike, owner: ArrayLike | None = None) -> Mean:
    """cMAP: the mean of `attribute_ap` over the attributes that have a positive, with their count.

    >>> cmap([[0.9, 0.1], [0.2, 0.3]], [[1, 0], [0, 0]])
    Mean(value=1.0, counted=1)
    """
    return mean_defined(attribute_ap(scores, labels, owner))


def chance_ap(labels: ArrayLike, owner: ArrayLike | None = None) -> Array:
    """What blind scores reach: the prevalence per attribute, (N, C) to (A,); NaN where there is no positive.

    Their mean is the chance line of cMAP. (In expectation, random scores come out a little above it on small sets.)

    >>> chance_ap([[1, 0], [0, 0]])
    array([0.5, nan])
    """
    prevalence = _as_binary(labels).mean(axis=0)
    return by_attribute(np.where(prevalence > 0, prevalence, np.nan), owner)


def f1(probabilities: ArrayLike, labels: ArrayLike, threshold: float = 0.5) -> Array:
    """Positive-class F1 per column, (N, C) to (C,) or (N,) to one number; "yes" is a probability ≥ `threshold`.

    Logits raise a ValueError. NaN where there is no positive.

    >>> f1([0.9, 0.6, 0.2, 0.1], [1, 0, 1, 0])
    array(0.5)
    """
    chances, truth = _pair(as_probabilities(probabilities), labels)
    return _f1(chances >= threshold, truth)


def macro_f1(probabilities: ArrayLike, labels: ArrayLike, threshold: float = 0.5) -> Array:
    """The mean of the F1 of "yes" and the F1 of "no", shapes as in `f1`; a class that never occurs is left out.

    >>> macro_f1([0.9, 0.6, 0.2, 0.1], [1, 0, 1, 0])
    array(0.5)
    """
    chances, truth = _pair(as_probabilities(probabilities), labels)
    yes = chances >= threshold
    both = np.stack([_f1(yes, truth), _f1(~yes, 1 - truth)], axis=-1)
    return by_attribute(both, owner=[0, 0])[..., 0]


def always_yes_f1(prevalence: Numbers) -> Numbers:
    """Positive-class F1 of answering "yes" to everything: precision p, recall 1.

    >>> always_yes_f1(0.5)
    0.6666666666666666
    """
    return 2 * prevalence / (1 + prevalence)


def coin_f1(prevalence: Numbers) -> Numbers:
    """Positive-class F1 of a fair coin: precision p, recall 1/2.

    >>> coin_f1(0.5)
    0.5
    """
    return prevalence / (prevalence + 0.5)


def _f1(answers: NDArray[np.bool_], truth: Array) -> Array:
    """2·TP / (answered yes + truly yes), along the items; NaN where nothing is truly yes."""
    hits = (answers * truth).sum(axis=0)
    positives = truth.sum(axis=0)
    return np.asarray(np.where(positives > 0, _ratio(2 * hits, answers.sum(axis=0) + positives), np.nan))


def _last_of_ties(ranked: Array) -> NDArray[np.intp]:
    """For each position of scores sorted along the last axis, the last position with the same score."""
    n = ranked.shape[-1]
    ends = np.ones(ranked.shape, dtype=bool)
    ends[..., :-1] = ranked[..., :-1] != ranked[..., 1:]
    nearest = np.where(ends, np.arange(n), n - 1)[..., ::-1]
    return np.minimum.accumulate(nearest, axis=-1)[..., ::-1]


def _pair(table: Array, labels: ArrayLike) -> tuple[Array, Array]:
    """Scores with their labels, which must have the same shape and at least one item."""
    truth = _as_binary(labels)
    if table.shape != truth.shape or len(table) == 0:
        raise ValueError(f"scores {table.shape} and labels {truth.shape} must have the same shape, and an item")
    return table, truth


def _as_binary(labels: ArrayLike) -> Array:
    truth = np.asarray(labels, dtype=np.float64)
    if not np.all((truth == 0) | (truth == 1)):
        raise ValueError("labels must be 0 or 1: one_hot_columns turns values into such columns")
    return truth


def _ratio(above: ArrayLike, below: ArrayLike, undefined: float = np.nan) -> Array:
    """above / below, `undefined` where below is 0."""
    top, bottom = np.asarray(above, dtype=np.float64), np.asarray(below, dtype=np.float64)
    return np.divide(top, bottom, out=np.full(top.shape, undefined), where=bottom != 0)
