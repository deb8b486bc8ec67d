import math

import numpy as np
import pytest

from sfumato.evaluation.metrics import (
    Interval,
    attribute_ap,
    bootstrap,
    bootstrap_draws,
    bootstrap_max,
    cmap,
    max_draws,
    one_hot_columns,
    paired_difference,
    percentile_interval,
    resampled_ap,
    resampled_cmap,
    strongest,
)


def attackers(skill: list[float], n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Scores (attackers, n, 2) that follow the labels (n, 2) as closely as each attacker's skill."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(2, size=(n, 2))
    noise = rng.normal(size=(len(skill), n, 2))
    return labels * np.array(skill)[:, None, None] + noise, labels


def test_the_interval_of_a_mean_is_the_textbook_one() -> None:
    values = np.random.default_rng(1).normal(size=400)
    value, low, high = bootstrap(lambda items: values[items].mean(), n=400)
    half = 1.96 * values.std() / 20
    assert value == pytest.approx(values.mean())
    assert (low, high) == pytest.approx((value - half, value + half), abs=0.1 * half)


def test_a_higher_level_is_wider_and_the_same_seed_gives_the_same_interval() -> None:
    values = np.random.default_rng(2).normal(size=50)

    def run(seed: int = 0, level: float = 0.95) -> Interval:
        return bootstrap(lambda items: values[items].mean(), 50, samples=200, seed=seed, level=level)

    assert run() == run()
    assert run() != run(seed=1)
    assert run(level=0.5).low > run(level=0.95).low
    assert run(level=0.5).high < run(level=0.95).high


def test_groups_are_drawn_whole() -> None:
    groups = np.array(["a", "b", "b", "c", "d", "d", "d", "e"])
    seen: list[np.ndarray] = []

    def statistic(items: np.ndarray) -> float:
        seen.append(items)
        return 0.0

    bootstrap(statistic, 8, groups=groups, samples=50)
    assert len({tuple(items) for items in seen}) > 25
    for items in seen:
        counts = np.bincount(items, minlength=8)
        assert all(len(set(counts[groups == g])) == 1 for g in "abcde")
        assert sum(counts[np.unique(groups, return_index=True)[1]]) == 5


def test_items_of_one_group_count_as_one() -> None:
    values = np.repeat(np.random.default_rng(3).normal(size=10), 20)
    alone = bootstrap(lambda items: values[items].mean(), 200)
    whole = bootstrap(lambda items: values[items].mean(), 200, groups=np.repeat(np.arange(10), 20))
    # 20 copies of 10 values: the width is that of 10 values, √20 times the naive one.
    assert (whole.high - whole.low) / (alone.high - alone.low) == pytest.approx(math.sqrt(20), rel=0.2)


def test_too_few_groups_have_no_interval() -> None:
    with pytest.raises(ValueError, match="too few"):
        bootstrap(lambda items: 0.0, 100, groups=np.arange(100) % 4)
    with pytest.raises(ValueError, match="too few"):
        bootstrap(lambda items: 0.0, 4)
    with pytest.raises(ValueError, match="each of the 9"):
        bootstrap(lambda items: 0.0, 9, groups=np.arange(8))


def test_undefined_resamples_are_dropped_unless_they_are_most() -> None:
    def with_item(*wanted: int) -> float:
        return bootstrap(lambda items: 1.0 if np.isin(wanted, items).all() else math.nan, 30, samples=300).low

    assert with_item(0) == 1.0  # missing from 36% of the resamples
    with pytest.raises(ValueError, match="undefined in"):
        with_item(0, 1, 2)  # all three are in about one of four
    assert all(map(math.isnan, bootstrap(lambda items: math.nan, 30)))


def test_a_paired_difference_is_narrower_than_the_scores_themselves() -> None:
    base = np.random.default_rng(4).normal(size=100)
    better = base + 0.1 + 0.01 * np.random.default_rng(5).normal(size=100)
    difference = paired_difference(lambda items: better[items].mean(), lambda items: base[items].mean(), 100)
    alone = bootstrap(lambda items: base[items].mean(), 100)
    assert difference.value == pytest.approx((better - base).mean())
    assert 0.09 < difference.low < difference.value < difference.high < 0.11
    assert alone.high - alone.low > 0.3


def test_resampled_ap_and_cmap_equal_the_plain_ones_on_the_resampled_items() -> None:
    rng = np.random.default_rng(6)
    labels, owner = one_hot_columns(np.stack([rng.integers(2, size=60), rng.integers(4, size=60)], axis=1), [2, 4])
    scores = rng.integers(10, size=(3, 60, 5)) / 10
    per_attribute, mean = resampled_ap(scores, labels, owner), resampled_cmap(scores, labels, owner)
    for _ in range(10):
        items = rng.integers(60, size=60)
        expected = [attribute_ap(run[items], labels[items], owner) for run in scores]
        np.testing.assert_allclose(per_attribute(items), expected, atol=1e-12)
        assert mean(items) == pytest.approx(np.mean([cmap(run[items], labels[items], owner).value for run in scores]))


def test_a_resample_that_lacks_an_attribute_is_undefined_but_one_that_never_had_a_positive_is_left_out() -> None:
    labels = np.array([[1, 1, 0], [0, 1, 0], [0, 0, 0]])
    score = resampled_cmap(np.arange(9).reshape(3, 3), labels)
    assert score(np.arange(3)) == pytest.approx((1 / 3 + (1 / 2 + 2 / 3) / 2) / 2)
    assert math.isnan(score(np.array([1, 1, 2])))


def test_the_strongest_is_chosen_on_validation_and_reported_on_test() -> None:
    validation = [[0.6, 0.9, np.nan], [0.8, 0.7, np.nan], [np.nan, 0.9, np.nan]]
    test = [[0.99, 0.5, 0.4], [0.7, 0.6, 0.4], [0.9, 0.9, 0.4]]
    chosen, values = strongest(validation, test)
    np.testing.assert_array_equal(chosen, [1, 0, -1])
    np.testing.assert_array_equal(values, [0.7, 0.5, np.nan])


def test_the_strongest_is_the_one_with_the_best_mean_over_seeds() -> None:
    validation = np.array([[[0.9], [0.5]], [[0.8], [0.8]]])  # a lucky seed does not win
    test = np.array([[[1.0], [1.0]], [[0.6], [0.8]]])
    chosen, values = strongest(validation, test)
    assert chosen.tolist() == [1]
    np.testing.assert_allclose(values, [0.7])
    with pytest.raises(ValueError, match="same attackers"):
        strongest(validation, test[:1])


def test_the_headline_is_the_strongest_attackers_test_score() -> None:
    validation, validation_labels = attackers([-3.0, 1.0, -2.0], 80, seed=0)
    test, test_labels = attackers([-3.0, 1.0, -2.0], 100, seed=1)
    headline = bootstrap_max(
        resampled_ap(validation, validation_labels), resampled_ap(test, test_labels), 80, 100, samples=200
    )
    expected = attribute_ap(test[1], test_labels)
    assert headline.chosen.tolist() == [1, 1]
    assert headline.counted == 2
    assert [interval.value for interval in headline.per_attribute] == pytest.approx(expected.tolist())
    assert headline.mean.value == pytest.approx(expected.mean())
    # The choice is never in doubt here, so the interval is that of this attacker alone.
    alone = bootstrap(resampled_cmap(test[1], test_labels), 100, samples=200)
    assert headline.mean[1:] == pytest.approx(alone[1:], abs=0.02)


def test_the_headlines_interval_holds_the_uncertainty_of_the_choice() -> None:
    # Two attackers level on validation, far apart on test: the interval must reach both.
    coin = np.random.default_rng(7).normal(size=(2, 60))
    coin -= coin.mean(axis=1, keepdims=True)
    test_scores = np.array([[0.9], [0.6]])
    headline = bootstrap_max(lambda items: coin[:, items].mean(axis=1)[:, None], lambda items: test_scores, 60, 60)
    assert (headline.mean.low, headline.mean.high) == (0.6, 0.9)


def test_choosing_on_validation_does_not_flatter_blind_attackers() -> None:
    # 30 blind attackers: the best on test looks like a leak, the one chosen on validation does not.
    chosen, best = [], []
    for seed in range(40):
        validation, validation_labels = attackers([0.0] * 30, 60, seed=2 * seed)
        test, test_labels = attackers([0.0] * 30, 60, seed=2 * seed + 1)
        everything = np.arange(60)
        on_test = resampled_ap(test, test_labels)(everything) - test_labels.mean(axis=0)
        chosen.append(strongest(resampled_ap(validation, validation_labels)(everything), on_test)[1].mean())
        best.append(on_test.max(axis=0).mean())
    assert np.mean(best) > 0.1
    assert abs(np.mean(chosen)) < 0.04


def test_an_attribute_without_positives_is_left_out_of_the_headline() -> None:
    scores, labels = attackers([2.0, 1.0], 60, seed=8)
    labels[:, 1] = 0
    score = resampled_ap(scores, labels)
    headline = bootstrap_max(score, score, 60, 60, samples=100)
    assert headline.counted == 1
    assert all(map(math.isnan, headline.per_attribute[1]))
    assert headline.mean == headline.per_attribute[0]


def test_the_headline_respects_groups() -> None:
    scores, labels = attackers([2.0], 40, seed=9)
    score = resampled_ap(scores, labels)
    two = np.arange(40) % 2
    with pytest.raises(ValueError, match="too few"):
        bootstrap_max(score, score, 40, 40, validation_groups=two)
    with pytest.raises(ValueError, match="too few"):
        bootstrap_max(score, score, 40, 40, test_groups=two)


def test_the_draws_are_those_of_the_interval_and_are_paired() -> None:
    groups = np.arange(40) // 4
    options = {"groups": groups, "samples": 50, "seed": 3}
    one, other = (bootstrap_draws(lambda items, k=k: float(items.mean()) + k, 40, **options) for k in (0, 7))
    assert other - one == pytest.approx(7)
    found = bootstrap(lambda items: float(items.mean()), 40, **options)
    assert percentile_interval(found.value, one, units=10) == found
    scores = np.random.default_rng(0).random((2, 40))
    table = lambda items: scores[:, items].mean(1, keepdims=True)  # noqa: E731
    drawn = max_draws(table, table, 40, 40, samples=50)
    assert drawn.shape == (50, 1)
    assert (
        percentile_interval(float(table(np.arange(40)).max()), drawn[:, 0], units=40)
        == bootstrap_max(table, table, 40, 40, samples=50).mean
    )
