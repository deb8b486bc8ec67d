"""Spans by hand: overlaps, the pyramid's points, soft-NMS, and the way from answers to detections."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from sfumato.recognizers.temporal_detection import Predictions, detect, distance_iou, make_grid, soft_nms, temporal_iou


def span(start: float, end: float) -> Tensor:
    return torch.tensor([float(start), float(end)])


@pytest.mark.parametrize(
    ("a", "b", "iou", "centres"),
    [
        ((0, 4), (0, 4), 1.0, 0.0),
        ((0, 4), (2, 6), 2 / 6, (2 / 6) ** 2),
        ((0, 10), (2, 4), 0.2, (2 / 10) ** 2),  # one inside the other
        ((0, 2), (2, 4), 0.0, (2 / 4) ** 2),  # they touch
        ((0, 2), (6, 8), 0.0, (6 / 8) ** 2),  # apart
        ((3, 3), (3, 3), 0.0, 0.0),  # of no length
    ],
)
def test_overlaps_by_hand(a: tuple[float, float], b: tuple[float, float], iou: float, centres: float) -> None:
    for one, other in ((span(*a), span(*b)), (span(*b), span(*a))):
        assert temporal_iou(one, other).item() == pytest.approx(iou)
        assert distance_iou(one, other).item() == pytest.approx(iou - centres)


def test_overlaps_broadcast() -> None:
    many = torch.tensor([[[0.0, 4.0]], [[2.0, 6.0]], [[5.0, 9.0]]])
    assert temporal_iou(many, many[:, 0]).shape == (3, 3)


def test_distance_iou_pulls_spans_that_share_nothing() -> None:
    found = torch.tensor([0.0, 2.0], requires_grad=True)
    distance_iou(found, span(6, 8)).backward()
    assert found.grad is not None and found.grad[1] > 0
    assert not temporal_iou(found, span(6, 8)).item()


def test_points_stand_in_the_middle_of_clips_and_levels_share_the_lengths_out() -> None:
    grid = make_grid(5, levels=3)
    assert grid.points.tolist() == [0.5, 1.5, 2.5, 3.5, 4.5, 0.5, 2.5, 4.5, 0.5, 4.5]
    assert grid.strides.tolist() == [1] * 5 + [2] * 3 + [4] * 2
    assert grid.reach.tolist() == [[0, 4]] * 5 + [[4, 8]] * 3 + [[8, math.inf]] * 2


def test_soft_nms_by_hand() -> None:
    spans = torch.tensor([[0.0, 4.0], [10.0, 14.0], [0.0, 3.0], [2.0, 6.0]])
    taken, scores = soft_nms(spans, torch.tensor([0.8, 0.5, 0.9, 0.6]), sigma=0.5)
    # [0, 3] first. With it [0, 4] has 3/4, [2, 6] 1/6; then [2, 6] is better than [10, 14] and lowers [0, 4] by 1/3.
    second = 0.6 * math.exp(-((1 / 6) ** 2) / 0.5)
    last = 0.8 * math.exp(-((3 / 4) ** 2) / 0.5) * math.exp(-((1 / 3) ** 2) / 0.5)
    assert taken.tolist() == [2, 3, 1, 0]
    assert scores.tolist() == pytest.approx([0.9, second, 0.5, last])


def test_soft_nms_stops_at_the_floor_and_at_the_most() -> None:
    spans, scores = torch.tensor([[0.0, 2.0], [0.0, 2.0], [4.0, 5.0]]), torch.tensor([0.9, 0.8, 0.3])
    assert soft_nms(spans, scores, floor=0.2)[0].tolist() == [0, 2]  # 0.8 · exp(−2) is 0.11
    assert soft_nms(spans, scores, most=1)[0].tolist() == [0]
    assert scores.tolist() == pytest.approx([0.9, 0.8, 0.3])  # and what was given is as it was
    # What is taken is taken once, even if what is left is far below it.
    assert soft_nms(spans[1:], torch.tensor([0.9, 0.002]))[0].tolist() == [0, 1]
    assert soft_nms(spans[:0], scores[:0])[0].tolist() == []


def predictions(logits: dict[tuple[int, int], float], distances: tuple[float, float], inside: int = 4) -> Predictions:
    """One video of `inside` clips among four points of one level and two classes; all but `logits` is sure to be nothing."""
    table = torch.full((1, 4, 2), -20.0)
    for (point, label), value in logits.items():
        table[0, point, label] = value
    return Predictions(
        table, torch.tensor(distances).expand(1, 4, 2), torch.arange(4)[None] < inside, make_grid(4, levels=1)
    )


def test_detections_are_spans_around_their_point_cut_at_the_videos_ends() -> None:
    (found,) = detect(predictions({(1, 0): 0.0, (3, 1): math.log(3)}, (1.0, 1.25)))
    assert found.spans.tolist() == [[2.5, 4.0], [0.5, 2.75]]
    assert found.labels.tolist() == [1, 0]
    assert found.scores.tolist() == pytest.approx([0.75, 0.5])


def test_one_class_does_not_lower_another() -> None:
    (same,) = detect(predictions({(1, 0): 0.0, (2, 0): math.log(3)}, (2.0, 2.0)))
    (other,) = detect(predictions({(1, 0): 0.0, (2, 1): math.log(3)}, (2.0, 2.0)))
    assert other.scores.tolist() == pytest.approx([0.75, 0.5])
    overlap = 3 / 4  # [0, 3.5] and [.5, 4]
    assert same.scores.tolist() == pytest.approx([0.75, 0.5 * math.exp(-(overlap**2) / 0.5)])


def test_classes_are_ranked_together_each_as_if_alone() -> None:
    torch.manual_seed(0)
    given = Predictions(
        torch.randn(1, 30, 3), 4 * torch.rand(1, 30, 2), torch.ones(1, 30).bool(), make_grid(30, levels=1)
    )
    (found,) = detect(given)
    assert found.scores.tolist() == sorted(found.scores.tolist(), reverse=True)
    for label in range(3):
        taken, scores = soft_nms(given.spans[0].clamp(0, 30), given.logits[0, :, label].sigmoid())
        own = found.labels == label
        assert torch.allclose(found.scores[own], scores, rtol=1e-4) and len(taken) == own.sum()
        assert torch.equal(found.spans[own], given.spans[0].clamp(0, 30)[taken])


def test_nothing_is_found_outside_the_video_or_of_no_length() -> None:
    sure = {(0, 0): 2.0, (3, 0): 9.0}
    (found,) = detect(predictions(sure, (0.25, 0.25), inside=2))
    assert found.spans.tolist() == [[0.25, 0.75]]
    (cut,) = detect(predictions({(1, 0): 9.0}, (0.25, 2.0), inside=2))
    assert cut.spans.tolist() == [[1.25, 2.0]]
    assert len(detect(predictions(sure, (0.0, 0.0)))[0].spans) == 0
    assert len(detect(predictions(sure, (1.0, 1.0), inside=0))[0].spans) == 0
