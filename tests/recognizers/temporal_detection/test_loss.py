"""TriDet's targets and losses, by hand."""

from __future__ import annotations

import math

import pytest
import torch

from sfumato.recognizers.temporal_detection import (
    Predictions,
    Segments,
    assign,
    centre_sampling,
    detection_loss,
    focal_loss,
    make_grid,
)

NOTHING = Segments(torch.empty(0, 2), torch.empty(0, dtype=torch.long))


def segments(*spans: tuple[float, float, int]) -> Segments:
    return Segments(torch.tensor([each[:2] for each in spans]), torch.tensor([each[2] for each in spans]))


@pytest.mark.parametrize(
    ("probability", "answer", "loss"),
    [
        (0.9, 1.0, -0.25 * 0.1**2 * math.log(0.9)),
        (0.1, 1.0, -0.25 * 0.9**2 * math.log(0.1)),
        (0.9, 0.0, -0.75 * 0.9**2 * math.log(0.1)),
        (0.1, 0.0, -0.75 * 0.1**2 * math.log(0.9)),
    ],
)
def test_focal_loss_by_hand(probability: float, answer: float, loss: float) -> None:
    logit = math.log(probability / (1 - probability))
    assert focal_loss(torch.tensor([logit]), torch.tensor([answer])).item() == pytest.approx(loss, rel=1e-4)


def test_focal_loss_is_finite_for_answers_however_wrong() -> None:
    logits = torch.tensor([200.0, -200.0], requires_grad=True)
    loss = focal_loss(logits, torch.tensor([0.0, 1.0]))
    assert loss.tolist() == pytest.approx([0.75 * 200, 0.25 * 200])
    loss.sum().backward()
    assert logits.grad is not None and logits.grad.isfinite().all()


def chosen(clips: int, levels: int, span: tuple[float, float]) -> list[tuple[float, float]]:
    """(stride, point) of the points that may answer for the span."""
    grid = make_grid(clips, levels)
    asked = centre_sampling(grid, torch.tensor([span]))[:, 0]
    return list(zip(grid.strides[asked].tolist(), grid.points[asked].tolist(), strict=True))


def test_centre_sampling_takes_points_near_the_centre() -> None:
    # Centre 3.5, so 2 to 5; on one level, which is for all lengths.
    assert chosen(9, 1, (0.0, 7.0)) == [(1, 2.5), (1, 3.5), (1, 4.5)]
    # Exactly 1.5 strides away counts.
    assert chosen(9, 1, (0.0, 8.0)) == [(1, 2.5), (1, 3.5), (1, 4.5), (1, 5.5)]


def test_centre_sampling_takes_only_points_inside() -> None:
    assert chosen(9, 1, (3.25, 4.25)) == [(1, 3.5)]
    assert chosen(9, 1, (3.5, 4.5)) == []  # an end is not inside


def test_centre_sampling_gives_a_span_to_the_level_of_its_length() -> None:
    assert chosen(32, 3, (8.0, 11.0)) == [(1, 8.5), (1, 9.5), (1, 10.5)]  # further ends 2.5, 1.5, 2.5: finest
    # Centre 16.5: on the second level, 3 to both sides, further ends 7.5, 5.5, 7.5; on the third, 6 to both sides, 9.5 twice.
    assert chosen(32, 3, (11.0, 22.0)) == [(2, 14.5), (2, 16.5), (2, 18.5), (4, 12.5), (4, 20.5)]
    assert chosen(32, 3, (2.0, 30.0)) == [(4, 12.5), (4, 16.5), (4, 20.5)]  # the last level has no upper end
    # The bounds themselves: from 4.5, a further end of 4 belongs to the second level, one of 8 to the third.
    assert chosen(32, 3, (0.5, 8.5)) == [(2, 2.5), (2, 4.5), (2, 6.5)]
    assert chosen(32, 3, (-3.5, 12.5)) == [(4, 0.5), (4, 4.5), (4, 8.5)]


def test_a_point_answers_for_the_shortest_of_its_segments() -> None:
    targets = assign(make_grid(9, 1), segments((1.0, 8.0, 0), (4.0, 6.0, 1)), classes=2)
    assert targets.positive.tolist() == [False, False, False, True, True, True, False, False, False]
    assert targets.spans[3:6].tolist() == [[1, 8], [4, 6], [4, 6]]
    assert targets.classes[3:6].tolist() == [[1, 0], [0, 1], [0, 1]]
    assert targets.classes.sum() == 3


def test_two_classes_with_one_span_are_both_right() -> None:
    targets = assign(make_grid(4, 1), segments((1.0, 3.0, 0), (1.0, 3.0004, 2), (1.0, 3.0, 0)), classes=3)
    assert targets.classes[1].tolist() == [1, 0, 1]


def test_a_video_without_a_segment_has_no_positive() -> None:
    targets = assign(make_grid(4, 2), NOTHING, classes=3)
    assert targets.classes.shape == (6, 3) and not targets.classes.any() and not targets.positive.any()


def predictions(videos: int = 1) -> Predictions:
    """Four points of one level, two classes, even chances; spans of one clip to both sides. Leaves of a graph."""
    logits = torch.zeros(videos, 4, 2, requires_grad=True)
    distances = torch.ones(videos, 4, 2, requires_grad=True)
    return Predictions(logits, distances, torch.ones(videos, 4, dtype=torch.bool), make_grid(4, 1))


YES, NO = 0.25 / 4 * math.log(2), 0.75 / 4 * math.log(2)  # the focal loss at even chances


def test_the_whole_loss_by_hand() -> None:
    # One positive, the point 1.5 in [1.25, 2.25]. It says [.5, 2.5]: IoU 1/2, centres 1/4 apart over a length of 2.
    given = predictions()
    loss = detection_loss(given, [segments((1.25, 2.25, 0))])
    diou = 1 / 2 - (0.25 / 2) ** 2
    assert loss.item() == pytest.approx(1 / 2 * (YES + NO) + 1 - diou + 2 * NO)
    loss.backward()
    assert given.distances.grad is not None
    # The weight σ_IoU does not pull at the boundaries: their gradient is that of 1 − DIoU alone, where IoU is 1 over the length.
    only = predictions()
    start, end = only.spans[0, 1]
    (1 - 1 / (end - start) + (((start + end) / 2 - 1.75) / (end - start)) ** 2).backward()
    assert only.distances.grad is not None
    assert torch.allclose(given.distances.grad, only.distances.grad)


def test_positives_and_negatives_are_averaged_over_the_batch_each_by_itself() -> None:
    one = detection_loss(predictions(), [segments((1.25, 2.25, 0))]).item()
    twice = detection_loss(predictions(2), [segments((1.25, 2.25, 0))] * 2).item()
    with_empty = detection_loss(predictions(2), [segments((1.25, 2.25, 0)), NOTHING]).item()
    assert twice == pytest.approx(one) and with_empty == pytest.approx(one)
    assert detection_loss(predictions(), [NOTHING]).item() == pytest.approx(2 * NO)


def test_points_outside_the_video_do_not_count() -> None:
    given = predictions()
    hidden = torch.tensor([[True, True, True, False]])
    wild = given.logits.detach().clone()
    wild[0, 3] = 50.0
    assert detection_loss(given._replace(mask=hidden, logits=wild), [NOTHING]).item() == pytest.approx(2 * NO)
    # Nor as positives: the segment lies where no point is.
    assert detection_loss(given._replace(mask=hidden), [segments((3.0, 4.0, 1))]).item() == pytest.approx(2 * NO)
