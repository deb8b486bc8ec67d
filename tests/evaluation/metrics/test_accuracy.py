import numpy as np
import pytest
import torch

from sfumato.evaluation.metrics import average_clips, chance_top1, top1


def test_top1_counts_the_rows_whose_highest_score_is_at_the_label() -> None:
    scores = [[2.0, -1.0, 0.0], [0.0, 5.0, 1.0], [0.1, 0.2, 0.3], [9.0, 0.0, 0.0]]
    assert top1(scores, [0, 1, 2, 1]) == 0.75
    assert top1(torch.tensor(scores), torch.tensor([1, 0, 0, 1])) == 0.0


@pytest.mark.parametrize("labels", [[0, 2], [-1, 0], [0], [0.0, 1.0]])
def test_top1_refuses_labels_that_do_not_fit_the_scores(labels: list[float]) -> None:
    with pytest.raises(ValueError, match="label"):
        top1([[0.1, 0.9], [0.9, 0.1]], labels)


def test_top1_refuses_nan_scores_and_an_empty_split() -> None:
    with pytest.raises(ValueError, match="NaN"):
        top1([[np.nan, 0.1]], [0])
    with pytest.raises(ValueError, match="N > 0"):
        top1(np.zeros((0, 3)), np.zeros(0, dtype=int))


@pytest.mark.parametrize(
    ("labels", "classes", "expected"),
    [([0, 1, 2, 3], 4, 1 / 4), ([0, 1, 1, 1], 4, 3 / 4), ([0, 1], 10, 1 / 2), ([2], 3, 1.0)],
)
def test_chance_is_the_majority_and_never_below_uniform(labels: list[int], classes: int, expected: float) -> None:
    assert chance_top1(labels, classes) == expected >= 1 / classes


def test_chance_is_what_a_constant_answer_reaches() -> None:
    labels = np.random.default_rng(0).integers(0, 7, size=50)
    constant = max(top1(np.tile(np.eye(7)[k], (50, 1)), labels) for k in range(7))
    assert chance_top1(labels, classes=7) == constant


def test_clips_are_averaged_as_probabilities() -> None:
    # One confident clip outweighs two lukewarm ones; a vote would have said class 1.
    clips = [[[0.99, 0.01], [0.4, 0.6], [0.4, 0.6]]]
    np.testing.assert_allclose(average_clips(clips), [[1.79 / 3, 1.21 / 3]])
    with pytest.raises(ValueError, match="not logits"):
        average_clips([[[3.0, -2.0]]])
    with pytest.raises(ValueError, match="clips"):
        average_clips([[0.5, 0.5]])
