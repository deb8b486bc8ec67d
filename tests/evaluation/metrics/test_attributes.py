import math

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score, f1_score

from sfumato.evaluation.metrics import (
    always_yes_f1,
    attribute_ap,
    average_precision,
    by_attribute,
    chance_ap,
    cmap,
    coin_f1,
    f1,
    macro_f1,
    mean_defined,
    one_hot_columns,
)
from sfumato.evaluation.metrics.attributes import RankedScores

# Positives per attribute (skin colour, face, gender, nudity, relationship) and items on test split 1.
VP_TEST = {"hmdb51": ([1391, 911, 1389, 474, 333], 1530), "ucf101": ([3467, 2310, 3398, 949, 973], 3783)}


def test_average_precision_by_hand() -> None:
    # Ranked 1 0 1 1 0: precision 1/1, 2/3, 3/4 at the three positives.
    assert average_precision([5, 4, 3, 2, 1], [1, 0, 1, 1, 0]) == pytest.approx((1 + 2 / 3 + 3 / 4) / 3)
    # All tied: one threshold, and the precision there is the prevalence.
    assert average_precision([7, 7, 7, 7], [1, 0, 0, 0]) == 0.25
    # A tie of one positive and one negative on top, then a positive: (1/2 + 2/3) / 2.
    assert average_precision([2, 2, 1], [0, 1, 1]) == pytest.approx((1 / 2 + 2 / 3) / 2)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("levels", [3, 10, 10**6])
def test_average_precision_equals_sklearn_with_ties(seed: int, levels: int) -> None:
    rng = np.random.default_rng(seed)
    scores = rng.integers(levels, size=60) / levels
    labels = rng.permutation(np.arange(60) < rng.integers(1, 60))
    assert average_precision(scores, labels) == pytest.approx(average_precision_score(labels, scores), abs=1e-12)


@pytest.mark.parametrize("seed", range(10))
def test_weighted_average_precision_equals_sklearn_and_a_plain_one_on_repeated_items(seed: int) -> None:
    rng = np.random.default_rng(seed)
    scores, labels = rng.integers(8, size=(3, 40)) / 8, rng.integers(2, size=40)
    ranked = RankedScores(scores, labels)
    items = rng.integers(40, size=40)
    resampled = ranked.average_precision(np.bincount(items, minlength=40))
    np.testing.assert_allclose(resampled, [average_precision(row[items], labels[items]) for row in scores], atol=1e-12)
    weights = rng.random(40)
    expected = [average_precision_score(labels, row, sample_weight=weights) for row in scores]
    np.testing.assert_allclose(ranked.average_precision(weights), expected, atol=1e-12)


def test_without_a_positive_it_is_undefined_and_left_out_of_the_mean() -> None:
    assert math.isnan(average_precision([0.3, 0.4], [0, 0]))
    scores, labels = [[0.9, 0.5, 0.1], [0.1, 0.4, 0.9]], [[1, 0, 1], [0, 0, 0]]
    np.testing.assert_array_equal(attribute_ap(scores, labels), [1.0, np.nan, 0.5])
    assert cmap(scores, labels) == (0.75, 2)
    np.testing.assert_array_equal(chance_ap(labels), [0.5, np.nan, 0.5])
    value, counted = mean_defined([np.nan])
    assert math.isnan(value)
    assert counted == 0


def test_cmap_takes_tensors_and_only_the_order_of_scores_matters() -> None:
    rng = np.random.default_rng(0)
    logits, labels = rng.normal(size=(50, 5)), rng.integers(2, size=(50, 5))
    expected = np.mean([average_precision_score(labels[:, a], logits[:, a]) for a in range(5)])
    assert cmap(torch.tensor(logits), torch.tensor(labels)).value == pytest.approx(expected)
    assert cmap(1 / (1 + np.exp(-logits)), labels).value == pytest.approx(expected)


def test_a_categorical_attribute_is_one_value_against_the_rest_over_the_values_present() -> None:
    columns, owner = one_hot_columns([[1, 0], [0, 2], [1, 2], [0, 0]], n_values=[2, 4])
    np.testing.assert_array_equal(columns, [[1, 1, 0, 0, 0], [0, 0, 0, 1, 0], [1, 0, 0, 1, 0], [0, 1, 0, 0, 0]])
    np.testing.assert_array_equal(owner, [0, 1, 1, 1, 1])
    scores = np.array([[0.9, 0.9, 0.1, 0, 0], [0.1, 0.8, 0, 0.2, 0], [0.8, 0.2, 0, 0.9, 0], [0.2, 0.1, 0, 0.1, 0.9]])
    # Value 0 is ranked + - - +, (1 + 2/4) / 2; value 2 is ranked + + - -, 1; values 1 and 3 do not occur.
    np.testing.assert_allclose(attribute_ap(scores, columns, owner), [1.0, (0.75 + 1.0) / 2])
    assert cmap(scores, columns, owner) == (pytest.approx((1 + 0.875) / 2), 2)
    np.testing.assert_allclose(chance_ap(columns, owner), [0.5, 0.5])


def test_by_attribute_leaves_undefined_columns_out() -> None:
    values = [[0.2, 0.4, np.nan, np.nan], [0.2, 0.4, 0.8, 1.0]]
    np.testing.assert_allclose(by_attribute(values, [0, 1, 1, 2]), [[0.2, 0.4, np.nan], [0.2, 0.6, 1.0]])


@pytest.mark.parametrize(("values", "n_values"), [([[2]], [2]), ([[-1]], [3]), ([[0, 1]], [2]), ([[0]], [1])])
def test_one_hot_columns_refuses_values_that_are_not_there(values: list[list[int]], n_values: list[int]) -> None:
    with pytest.raises(ValueError, match="value"):
        one_hot_columns(values, n_values)


def test_trap_5_logits_thresholded_as_probabilities() -> None:
    logits, labels = np.array([0.3, -2.0, 2.0, -1.0]), [1, 0, 1, 0]
    # The logit .3 is a probability of .57, a "yes"; thresholded as it stands it would be a "no", and F1 2/3.
    assert f1(1 / (1 + np.exp(-logits)), labels) == 1.0
    for score in (f1, macro_f1):
        with pytest.raises(ValueError, match="not logits"):
            score(logits, labels)
        with pytest.raises(ValueError, match="not logits"):
            score([0.5, np.nan, 0.5, 0.5], labels)


def test_f1_by_hand() -> None:
    # TP 2, FP 1, FN 1, TN 1; .5 itself is a "yes".
    probabilities, labels = [0.9, 0.5, 0.7, 0.4, 0.1], [1, 1, 0, 1, 0]
    assert f1(probabilities, labels) == pytest.approx(4 / 6)
    assert macro_f1(probabilities, labels) == pytest.approx((4 / 6 + 2 / 4) / 2)
    assert f1(probabilities, labels, threshold=0.6) == pytest.approx(2 / 5)


def test_f1_and_macro_f1_equal_sklearn_per_column() -> None:
    rng = np.random.default_rng(3)
    probabilities, labels = rng.random((80, 5)), rng.integers(2, size=(80, 5))
    for ours, average in ((f1, "binary"), (macro_f1, "macro")):
        expected = [f1_score(labels[:, a], probabilities[:, a] >= 0.5, average=average) for a in range(5)]
        np.testing.assert_allclose(ours(probabilities, labels), expected)


def test_f1_of_a_class_that_never_occurs_is_undefined() -> None:
    assert math.isnan(f1([0.9, 0.1], [0, 0]))
    assert macro_f1([0.9, 0.1], [0, 0]) == pytest.approx(2 / 3)  # of "no" alone: precision 1, recall 1/2


def test_chance_lines_of_f1_are_what_those_answers_score() -> None:
    labels = np.arange(10) < 3
    assert always_yes_f1(0.3) == pytest.approx(f1(np.ones(10), labels))
    coin = np.tile([0.0, 1.0], (10, 1))  # each item asked twice, answered once each way
    assert coin_f1(0.3) == pytest.approx(f1(coin.ravel(), np.repeat(labels, 2)))


@pytest.mark.parametrize(("name", "chance", "always_yes"), [("hmdb51", 0.588, 0.696), ("ucf101", 0.587, 0.694)])
def test_chance_lines_on_the_vp_test_splits(name: str, chance: float, always_yes: float) -> None:
    positives, items = VP_TEST[name]
    prevalence = chance_ap(np.arange(items)[:, None] < positives)
    assert prevalence.mean() == pytest.approx(chance, abs=5e-4)
    assert always_yes_f1(prevalence).mean() == pytest.approx(always_yes, abs=5e-4)


@pytest.mark.parametrize(
    ("scores", "labels"), [([0.1, 0.2], [1]), ([], []), ([0.1, 0.2], [1, 2]), ([np.nan, 0.2], [1, 0])]
)
def test_average_precision_refuses_what_it_cannot_rank(scores: list[float], labels: list[int]) -> None:
    with pytest.raises(ValueError, match="must"):
        average_precision(scores, labels)
