"""Spans of time: their overlap, the points a pyramid looks from, and the way from its answers to detections."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

FLOOR = 0.001  # a detection with a lower score is none
SIGMA = 0.5  # how gently soft-NMS lowers the score of what overlaps a better detection
CANDIDATES = 2000  # as many answers of a video, the best ones, go into soft-NMS
MOST = 200  # detections of a video
FINEST = 4.0  # the finest level looks this many clips far, each further one twice as far


class Segments(NamedTuple):
    """What one video holds: spans (N, 2) as start and end in clips, labels (N,) as indices."""

    spans: Tensor
    labels: Tensor


class Detections(NamedTuple):
    """What was found in one video, best first: spans (N, 2) in clips, labels (N,), scores (N,) in [0, 1]."""

    spans: Tensor
    labels: Tensor
    scores: Tensor


class Grid(NamedTuple):
    """The P points of all levels, finest level first: where they stand (P,), their strides (P,), how far they look.

    reach (P, 2): a point answers for a span whose further end is at least the first and less than the second away.
    """

    points: Tensor
    strides: Tensor
    reach: Tensor


class Predictions(NamedTuple):
    """A network's answers at every point: logits (B, P, K), distances to start and end (B, P, 2) in clips, both ≥ 0.

    mask: bool (B, P), False where a point stands outside the video.
    """

    logits: Tensor
    distances: Tensor
    mask: Tensor
    grid: Grid

    @property
    def spans(self) -> Tensor:
        """Starts and ends (B, P, 2), in clips."""
        points = self.grid.points
        return torch.stack([points - self.distances[..., 0], points + self.distances[..., 1]], -1)


def make_grid(clips: int, levels: int, device: torch.device | None = None) -> Grid:
    """The points of a pyramid over that many clips: level l has one in the middle of every 2^l-th clip.

    >>> make_grid(3, levels=2).points
    tensor([0.5000, 1.5000, 2.5000, 0.5000, 2.5000])
    """
    points, strides, reach = [], [], []
    for level in range(levels):
        stride = 2**level
        standing = torch.arange(0, clips, stride, device=device) + 0.5
        near = FINEST * stride / 2 if level else 0.0
        far = FINEST * stride if level < levels - 1 else math.inf
        points.append(standing)
        strides.append(torch.full_like(standing, stride))
        reach.append(standing.new_tensor([near, far]).expand(len(standing), 2))
    return Grid(torch.cat(points), torch.cat(strides), torch.cat(reach))


def temporal_iou(a: Tensor, b: Tensor) -> Tensor:
    """What two spans share, over what they cover together: (..., 2) and (..., 2), broadcast, to (...) in [0, 1].

    >>> temporal_iou(torch.tensor([0.0, 3.0]), torch.tensor([1.0, 5.0])).item()  # 2 / 5
    0.4000...
    """
    shared = (torch.minimum(a[..., 1], b[..., 1]) - torch.maximum(a[..., 0], b[..., 0])).clamp(min=0)
    covered = (a[..., 1] - a[..., 0]) + (b[..., 1] - b[..., 0]) - shared
    return shared / covered.clamp(min=torch.finfo(covered.dtype).eps)


def distance_iou(a: Tensor, b: Tensor) -> Tensor:
    """DIoU: `temporal_iou` less the squared distance of the centres over the squared length from first to last end.

    It still says which way to go when two spans share nothing. Shapes as there, values in (−1, 1].

    >>> distance_iou(torch.tensor([0.0, 3.0]), torch.tensor([1.0, 5.0])).item()  # 2/5 − (1.5/5)²
    0.3100...
    """
    hull = torch.maximum(a[..., 1], b[..., 1]) - torch.minimum(a[..., 0], b[..., 0])
    apart = (a.sum(-1) - b.sum(-1)) / 2
    return temporal_iou(a, b) - (apart / hull.clamp(min=torch.finfo(hull.dtype).eps)).square()


def soft_nms(
    spans: Tensor, scores: Tensor, sigma: float = SIGMA, floor: float = FLOOR, most: int = MOST
) -> tuple[Tensor, Tensor]:
    """Take the best span, lower the others' scores by exp(−IoU² / sigma) with it, and again until none reaches `floor`.

    spans (N, 2) of one class, scores (N,). Gives the indices of at most `most` spans, best first, and their new scores.

    >>> soft_nms(torch.tensor([[0.0, 2.0], [0.0, 2.0]]), torch.tensor([0.5, 0.9]))  # 0.5 · exp(−2)
    (tensor([1, 0]), tensor([0.9000, 0.0677]))
    """
    left = scores
    taken: list[int] = []
    new_scores: list[float] = []
    while len(taken) < min(most, len(spans)):
        best = int(left.argmax())
        if left[best] < floor:
            break
        taken.append(best)
        new_scores.append(float(left[best]))
        left = left * torch.exp(-temporal_iou(spans[best], spans).square() / sigma)
        left[best] = -math.inf
    return torch.tensor(taken, dtype=torch.long), torch.tensor(new_scores, dtype=scores.dtype)


@torch.no_grad()
def detect(predictions: Predictions) -> list[Detections]:
    """The detections of each video of a batch, on the CPU: every class at every point asks, soft-NMS per class decides.

    >>> len(detect(TriDet(16, classes=3, width=8)(torch.rand(2, 20, 16))))
    2
    """
    scores, spans, inside = (each.cpu() for each in (predictions.logits.sigmoid(), predictions.spans, predictions.mask))
    first = predictions.grid.points.cpu() - 0.5
    return [
        _detect_one(video_scores[seen], video_spans[seen], clips=float(first[seen].max()) + 1 if seen.any() else 0.0)
        for video_scores, video_spans, seen in zip(scores, spans, inside, strict=True)
    ]


def _detect_one(scores: Tensor, spans: Tensor, clips: float) -> Detections:
    """From scores (P, K) and spans (P, 2) of the points inside one video of that many clips."""
    best = scores.flatten().topk(min(CANDIDATES, scores.numel()))
    points, labels = best.indices // scores.shape[1], best.indices % scores.shape[1]
    candidates = spans[points].clamp(0, clips)
    real = (best.values >= FLOOR) & (candidates[:, 1] > candidates[:, 0])
    candidates, labels, asked = candidates[real], labels[real], best.values[real]
    # Each class on a stretch of time of its own: one round of soft-NMS then leaves the classes to themselves.
    apart = candidates.double() + (clips + 1) * labels[:, None]
    taken, new_scores = soft_nms(apart, asked)
    return Detections(candidates[taken], labels[taken], new_scores)
