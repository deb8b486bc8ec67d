"""Percentile bootstrap intervals, also of the strongest attacker, whose choice is redone in every resample.

A *score* here is a function of item indices, so that one rule serves every metric:
`bootstrap(lambda items: correct[items].mean(), n)`. For average precision, `resampled_ap` sorts once and makes such a
function. Scores of several seeds are averaged inside each resample: the interval is that of the mean over seeds on new
items, not of a new seed. To bootstrap a residual leakage, recompute score, chance and raw on the same indices.

Percentiles are taken further out the fewer units were resampled (`expanded`), as for few they would be too near.

Average precision is biased upwards on few items, so its intervals are too, and hold the true value less often than they
say: use several hundred test items.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.evaluation.metrics.attributes import Array, RankedScores, by_attribute, chance_ap, mean_defined
from sfumato.evaluation.metrics.student import expanded

Items = NDArray[np.intp]
Statistic = Callable[[Items], float]
Scores = Callable[[Items], Array]

# With fewer units to resample, an interval is an artefact: report the value alone, and say why.
MIN_GROUPS = 5


class Interval(NamedTuple):
    """A value with the ends of its interval."""

    value: float
    low: float
    high: float


class Headline(NamedTuple):
    """The strongest attacker per attribute: which one (A,), its test score with interval, and their mean."""

    chosen: Items
    per_attribute: tuple[Interval, ...]
    mean: Interval
    counted: int


def bootstrap(
    statistic: Statistic,
    n: int,
    *,
    groups: ArrayLike | None = None,
    samples: int = 1000,
    seed: int = 0,
    level: float = 0.95,
) -> Interval:
    """`statistic` on all of `n` items, with the percentile interval over resamples of them.

    groups: (n,) labels of videos or persons; whole groups are then drawn, as their items are not independent. Fewer
    than `MIN_GROUPS` groups raise a ValueError. The same `n`, `groups` and `seed` draw the same resamples. A resample
    where the statistic is NaN (no positive in it) is dropped; more than half of them raise a ValueError. A statistic
    that is NaN on all items has a NaN interval.

    >>> bootstrap(lambda items: float(np.mean(items < 50)), n=100).value
    0.5
    """
    drawn = bootstrap_draws(statistic, n, groups=groups, samples=samples, seed=seed)
    return percentile_interval(float(statistic(np.arange(n))), drawn, level, units=count_units(n, groups))


def bootstrap_draws(
    statistic: Statistic, n: int, *, groups: ArrayLike | None = None, samples: int = 1000, seed: int = 0
) -> Array:
    """`statistic` on each of the resamples that `bootstrap` draws, (samples,).

    Two statistics of the same items, with the same groups and seed, are on the same resamples: the differences of their
    draws are paired.

    >>> bootstrap_draws(lambda items: 0.5, n=9, samples=2)
    array([0.5, 0.5])
    """
    draw = resampler(n, groups)
    rng = np.random.default_rng(seed)
    return np.array([statistic(draw(rng)) for _ in range(samples)], dtype=np.float64)


def paired_difference(
    first: Statistic,
    second: Statistic,
    n: int,
    *,
    groups: ArrayLike | None = None,
    samples: int = 1000,
    seed: int = 0,
    level: float = 0.95,
) -> Interval:
    """`first − second`, both on the same resamples of the same items, so that what they share cancels.

    >>> paired_difference(lambda items: items.sum() + 1.0, lambda items: items.sum(), n=10)
    Interval(value=1.0, low=1.0, high=1.0)
    """
    return bootstrap(
        lambda items: first(items) - second(items), n, groups=groups, samples=samples, seed=seed, level=level
    )


def resampled_ap(scores: ArrayLike, labels: ArrayLike, owner: ArrayLike | None = None) -> Scores:
    """A function from item indices to `attribute_ap` on them, fast: scores (..., N, C), labels (N, C), result (..., A).

    Leading axes (attackers, seeds) are kept. An attribute with several values is averaged over those in the resample.

    >>> resampled_ap([[0.9], [0.8], [0.7]], [[1], [0], [1]])(np.array([0, 2, 2]))
    array([1.])
    """
    table, truth = np.asarray(scores, dtype=np.float64), np.asarray(labels)
    if truth.ndim != 2 or table.shape[-2:] != truth.shape:
        raise ValueError(f"scores {table.shape} must be (..., N, C) and labels {truth.shape} (N, C)")
    ranked = RankedScores(np.swapaxes(table, -1, -2), truth.T)

    def score(items: Items) -> Array:
        return by_attribute(ranked.average_precision(np.bincount(items, minlength=len(truth))), owner)

    return score


def resampled_cmap(scores: ArrayLike, labels: ArrayLike, owner: ArrayLike | None = None) -> Statistic:
    """A function from item indices to cMAP, for `bootstrap`: scores (N, C), or (seeds, N, C) to average over seeds.

    The mean is over the attributes that have a positive among all items; a resample that lacks one is NaN, since a
    mean over fewer attributes would be of something else.

    >>> resampled_cmap([[0.9], [0.8], [0.7]], [[1], [0], [1]])(np.array([0, 2, 2]))
    1.0
    """
    per_attribute = resampled_ap(scores, labels, owner)
    kept = ~np.isnan(chance_ap(labels, owner))
    return lambda items: float(per_attribute(items)[..., kept].mean())


def strongest(validation: ArrayLike, test: ArrayLike) -> tuple[Items, Array]:
    """Per attribute, the attacker best on validation, and its *test* score: both (attackers, A), results (A,).

    (attackers, seeds, A) is averaged over seeds first. Of equal attackers the first is taken; NaN is never chosen.
    Where validation is NaN for all, there is no choice: index −1 and NaN.

    >>> strongest([[0.6, 0.9], [0.8, 0.7]], [[0.9, 0.8], [0.7, 0.6]])
    (array([1, 0]), array([0.7, 0.8]))
    """
    on_validation, on_test = _over_seeds(validation), _over_seeds(test)
    if on_validation.shape != on_test.shape:
        raise ValueError(f"validation {on_validation.shape} and test {on_test.shape} must be the same attackers")
    best = np.where(np.isnan(on_validation), -np.inf, on_validation).argmax(axis=0)
    known = ~np.isnan(on_validation).all(axis=0)
    return np.where(known, best, -1), np.where(known, on_test[best, np.arange(len(best))], np.nan)


def bootstrap_max(
    validation: Scores,
    test: Scores,
    n_validation: int,
    n_test: int,
    *,
    validation_groups: ArrayLike | None = None,
    test_groups: ArrayLike | None = None,
    samples: int = 1000,
    seed: int = 0,
    level: float = 0.95,
) -> Headline:
    """The headline: the attacker `strongest` on validation, per attribute, with intervals on test.

    `validation` and `test` map item indices to scores (attackers, A) or (attackers, seeds, A). Each resample redraws
    the validation *and* the test items and chooses again, so the intervals hold the uncertainty of the choice.
    The mean is over the `counted` attributes that are defined on all items. Groups, NaN and errors as in `bootstrap`.

    >>> bootstrap_max(lambda items: np.ones((2, 1)), lambda items: np.ones((2, 1)), 9, 9).mean
    Interval(value=1.0, low=1.0, high=1.0)
    """
    chosen, values = strongest(validation(np.arange(n_validation)), test(np.arange(n_test)))
    draws = max_draws(
        validation, test, n_validation, n_test, validation_groups=validation_groups, test_groups=test_groups,
        samples=samples, seed=seed,
    )  # fmt: skip
    units = count_units(n_test, test_groups)
    per_attribute = tuple(percentile_interval(float(v), draws[:, a], level, units) for a, v in enumerate(values))
    value, counted = mean_defined(values)
    mean = percentile_interval(value, draws[:, ~np.isnan(values)].sum(axis=1) / max(counted, 1), level, units)
    return Headline(chosen, per_attribute, mean, counted)


def max_draws(
    validation: Scores, test: Scores, n_validation: int, n_test: int, *, validation_groups: ArrayLike | None = None,
    test_groups: ArrayLike | None = None, samples: int = 1000, seed: int = 0,
) -> Array:  # fmt: skip
    """The test score of the attacker strongest on validation, on each resample of `bootstrap_max`, (samples, A).

    >>> max_draws(lambda items: np.ones((2, 1)), lambda items: np.ones((2, 1)), 9, 9, samples=2)
    array([[1.],
           [1.]])
    """
    draw_validation, draw_test = resampler(n_validation, validation_groups), resampler(n_test, test_groups)
    rng = np.random.default_rng(seed)
    return np.stack([strongest(validation(draw_validation(rng)), test(draw_test(rng)))[1] for _ in range(samples)])


def resampler(n: int, groups: ArrayLike | None) -> Callable[[np.random.Generator], Items]:
    """A function that draws one resample: as many items, or whole groups, as there are, with replacement.

    Fewer than `MIN_GROUPS` items or groups raise a ValueError.

    >>> resampler(9, None)(np.random.default_rng(0)).shape
    (9,)
    """
    labels = np.arange(n) if groups is None else np.asarray(groups)
    if labels.shape != (n,):
        raise ValueError(f"groups {labels.shape} must label each of the {n} items")
    _, group, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    if len(sizes) < MIN_GROUPS:
        raise ValueError(
            f"{len(sizes)} items or groups are too few for an interval (at least {MIN_GROUPS}): report the value alone"
        )
    if len(sizes) == n:
        return lambda rng: rng.integers(n, size=n)
    members = np.split(np.argsort(group, kind="stable"), np.cumsum(sizes)[:-1])
    return lambda rng: np.concatenate([members[g] for g in rng.integers(len(members), size=len(members))])


def count_units(n: int, groups: ArrayLike | None) -> int:
    """How many items, or groups of them, a resample draws.

    >>> count_units(9, None)
    9
    """
    return n if groups is None else len(np.unique(np.asarray(groups)))


def _over_seeds(scores: ArrayLike) -> Array:
    table = np.asarray(scores, dtype=np.float64)
    if table.ndim not in (2, 3):
        raise ValueError(f"scores must be (attackers, A) or (attackers, seeds, A), not {table.shape}")
    return table.mean(axis=1) if table.ndim == 3 else table


def percentile_interval(value: float, draws: Array, level: float = 0.95, units: int | None = None) -> Interval:
    """The value with the percentiles of its draws (samples,); NaN, and too many NaN, as in `bootstrap`.

    units: how many items or groups were resampled, for percentiles that hold as they say with few; None: as if many.

    >>> percentile_interval(0.5, np.array([0.0, 0.5, 1.0]), level=0.5)
    Interval(value=0.5, low=0.25, high=0.75)
    """
    if np.isnan(value):
        return Interval(value, value, value)
    kept = draws[~np.isnan(draws)]
    if 2 * len(kept) < len(draws):
        raise ValueError(
            f"undefined in {len(draws) - len(kept)} of {len(draws)} resamples: too few positives for an interval"
        )
    level = expanded(level, units) if units else level
    low, high = np.quantile(kept, [(1 - level) / 2, (1 + level) / 2])
    return Interval(value, float(low), float(high))
