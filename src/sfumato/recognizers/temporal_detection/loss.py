"""What TriDet learns from: which points answer for which segment, and the loss of SPLAVU's eq. 8."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from sfumato.recognizers.temporal_detection.segments import (
    Grid,
    Predictions,
    Segments,
    distance_iou,
    temporal_iou,
)

RADIUS = 1.5  # positives stand at most this many strides from a segment's centre
ALPHA, GAMMA = 0.25, 2.0  # of the focal loss, as its paper has them


class Targets(NamedTuple):
    """What each point should answer: classes (P, K) in {0, 1}, spans (P, 2), positive (P,); spans count where positive."""

    classes: Tensor
    spans: Tensor
    positive: Tensor


def centre_sampling(grid: Grid, spans: Tensor) -> Tensor:
    """Which points (P,) may answer for which of spans (N, 2): bool (P, N).

    A point must stand inside the span, within RADIUS strides of its centre, and on the level whose reach fits the span.

    >>> centre_sampling(make_grid(6, levels=1), torch.tensor([[1.0, 5.0]]))[:, 0]
    tensor([False,  True,  True,  True,  True, False])
    """
    points, strides = grid.points[:, None], grid.strides[:, None]
    to_start, to_end = points - spans[:, 0], spans[:, 1] - points
    inside = torch.minimum(to_start, to_end) > 0
    central = (to_start - to_end).abs() / 2 <= RADIUS * strides
    further = torch.maximum(to_start, to_end)
    return inside & central & (further >= grid.reach[:, :1]) & (further < grid.reach[:, 1:])


def assign(grid: Grid, truth: Segments, classes: int) -> Targets:
    """Each point's target: of the segments it may answer for the shortest, and all classes of segments as short as that.

    >>> assign(make_grid(6, 1), Segments(torch.tensor([[1.0, 5.0]]), torch.tensor([2])), classes=3).positive.sum()
    tensor(4)
    """
    if len(truth.spans) == 0:
        nothing = grid.points.new_zeros(len(grid.points), classes)
        return Targets(nothing, grid.points.new_zeros(len(grid.points), 2), nothing.new_zeros(len(nothing)).bool())
    spans = truth.spans.to(grid.points)
    lengths = (spans[:, 1] - spans[:, 0]).masked_fill(~centre_sampling(grid, spans), torch.inf)
    shortest, chosen = lengths.min(1)
    # Two classes may be annotated with one span, up to the rounding of its ends.
    asked = lengths.isfinite() & (lengths <= shortest[:, None] + 1e-3)
    named = F.one_hot(truth.labels.to(spans.device), classes).to(spans)
    return Targets((asked.to(spans) @ named).clamp(max=1), spans[chosen], shortest.isfinite())


def focal_loss(logits: Tensor, classes: Tensor) -> Tensor:
    """−α_t (1 − p_t)^γ log p_t of each yes/no question; logits and classes in {0, 1} of one shape, and so the result.

    p_t is the probability of the right answer, α_t is ALPHA for yes and 1 − ALPHA for no.

    >>> focal_loss(torch.tensor([0.0]), torch.tensor([1.0])).item()  # 1/4 · (1/2)² · log 2
    0.0433...
    """
    log_right = F.logsigmoid(torch.where(classes > 0, logits, -logits))
    weight = torch.where(classes > 0, ALPHA, 1 - ALPHA)
    return -weight * (1 - log_right.exp()).pow(GAMMA) * log_right


def detection_loss(predictions: Predictions, truth: Sequence[Segments]) -> Tensor:
    """L_TAD (SPLAVU's eq. 8) of a batch, one `Segments` for each video; a scalar.

    The mean over positives of IoU · focal + (1 − DIoU), and the mean over negatives of focal. Each focal loss is summed
    over the classes; the IoU that weighs it is a number, not something to learn from: else overlap would cost.

    >>> detection_loss(TriDet(16, 3)(torch.rand(1, 20, 16)), [Segments(torch.rand(0, 2), torch.ones(0).long())]).shape
    torch.Size([])
    """
    classes = predictions.logits.shape[-1]
    each = [assign(predictions.grid, segments, classes) for segments in truth]
    wanted = Targets(*(torch.stack(parts) for parts in zip(*each, strict=True)))
    positive, negative = wanted.positive & predictions.mask, ~wanted.positive & predictions.mask
    focal = focal_loss(predictions.logits.float(), wanted.classes).sum(-1)
    found, right = predictions.spans[positive], wanted.spans[positive]
    weight = temporal_iou(found, right).detach()  # σ_IoU
    of_positives = (weight * focal[positive] + 1 - distance_iou(found, right)).sum() / positive.sum().clamp(min=1)
    return of_positives + focal[negative].sum() / negative.sum().clamp(min=1)
