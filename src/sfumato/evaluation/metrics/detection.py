"""Temporal action detection: average precision at a temporal overlap (tIoU), and its mean, as THUMOS14 counts them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.evaluation.metrics.attributes import mean_defined

Array = NDArray[np.float64]
TIOU = (0.3, 0.4, 0.5, 0.6, 0.7)  # THUMOS14's thresholds


class Truth(NamedTuple):
    """What a video holds: spans (N, 2) as start and end, labels (N,) as indices."""

    spans: ArrayLike
    labels: ArrayLike


class Found(NamedTuple):
    """What was detected in a video: spans (N, 2), labels (N,), scores (N,), in any order."""

    spans: ArrayLike
    labels: ArrayLike
    scores: ArrayLike


class DetectionMap(NamedTuple):
    """mAP at each threshold, (thresholds,), and the mean of these."""

    at: Array
    average: float


def detection_map(
    found: Sequence[Found], truth: Sequence[Truth], classes: int, thresholds: Sequence[float] = TIOU
) -> DetectionMap:
    """The mean of `detection_ap` over the classes that occur, at each threshold; item i of both is video i.

    >>> detection_map([Found([[0, 6]], [0], [0.9])], [Truth([[0, 10]], [0])], classes=1).at  # tIoU 0.6
    array([1., 1., 1., 1., 0.])
    """
    table = detection_ap(found, truth, classes, thresholds)
    at = np.array([mean_defined(row).value for row in table])
    return DetectionMap(at, float(at.mean()))


def detection_ap(
    found: Sequence[Found], truth: Sequence[Truth], classes: int, thresholds: Sequence[float] = TIOU
) -> Array:
    """Interpolated average precision of each class at each threshold, (thresholds, classes); NaN for what never occurs.

    All videos' detections of a class are gone through by falling score (of equal ones, in the order given). One is right if,
    of its video's segments of that class that none before it took, the one with the highest tIoU reaches the threshold; it
    takes it. So a second detection of a segment is wrong, and so is any in a video without the class.

    >>> detection_ap([Found([[0, 4], [0, 4]], [0, 0], [0.9, 0.8])], [Truth([[0, 4]], [0])], classes=2, thresholds=[0.5])
    array([[ 1., nan]])
    """
    if len(found) != len(truth) or not truth:
        raise ValueError(
            f"{len(found)} videos' detections, but {len(truth)} videos' segments: there must be as many, and one"
        )
    answers = [_checked(*each, classes=classes) for each in found]
    rights = [_checked(*each, scores=None, classes=classes) for each in truth]
    table = np.full((len(thresholds), classes), np.nan)
    for label in range(classes):
        segments = [spans[labels == label] for spans, labels, _ in rights]
        total = sum(map(len, segments))
        if total:
            own = [(spans[labels == label], scores[labels == label]) for spans, labels, scores in answers]
            overlaps, videos = _ranked(own, segments)
            table[:, label] = [_precision(_hits(overlaps, videos, segments, each), total) for each in thresholds]
    return table


def temporal_overlap(a: ArrayLike, b: ArrayLike) -> Array:
    """tIoU of spans (N, 2) with spans (M, 2): (N, M); 0 of two spans of no length.

    >>> temporal_overlap([[0, 3]], [[1, 5], [3, 4]])
    array([[0.4, 0. ]])
    """
    first, second = np.asarray(a, dtype=np.float64)[:, None], np.asarray(b, dtype=np.float64)[None]
    shared = np.minimum(first[..., 1], second[..., 1]) - np.maximum(first[..., 0], second[..., 0])
    shared = np.clip(shared, 0.0, None)
    covered = np.diff(first)[..., 0] + np.diff(second)[..., 0] - shared
    return np.asarray(np.divide(shared, covered, out=np.zeros_like(shared), where=covered > 0))


def _ranked(own: list[tuple[Array, Array]], segments: list[Array]) -> tuple[list[Array], list[int]]:
    """The detections of a class over all videos by falling score: tIoU with their video's segments, and the video."""
    overlaps = [row for (spans, _), right in zip(own, segments, strict=True) for row in temporal_overlap(spans, right)]
    videos = [video for video, (spans, _) in enumerate(own) for _ in spans]
    order = np.argsort(-np.concatenate([scores for _, scores in own]), kind="stable")
    return [overlaps[i] for i in order], [videos[i] for i in order]


def _hits(overlaps: list[Array], videos: list[int], segments: list[Array], threshold: float) -> NDArray[np.bool_]:
    """Which of the ranked detections are right at that threshold."""
    free = [np.ones(len(each), dtype=bool) for each in segments]
    hits = np.zeros(len(overlaps), dtype=bool)
    for rank, (overlap, video) in enumerate(zip(overlaps, videos, strict=True)):
        if free[video].any():
            best = int(np.where(free[video], overlap, -1.0).argmax())
            if overlap[best] >= threshold:
                hits[rank], free[video][best] = True, False
    return hits


def _precision(hits: NDArray[np.bool_], total: int) -> float:
    """Interpolated AP: the mean over all `total` segments of the best precision at their recall or beyond; 0 if never found."""
    precision = hits.cumsum() / np.arange(1, len(hits) + 1)
    envelope = np.maximum.accumulate(precision[::-1])[::-1]
    return float(envelope[hits].sum() / total)


def _checked(
    spans: ArrayLike, labels: ArrayLike, scores: ArrayLike | None, classes: int
) -> tuple[Array, NDArray[np.intp], Array]:
    """A video's spans (N, 2), labels (N,) and scores (N,; zeros for none given), or a ValueError."""
    table = np.asarray(spans, dtype=np.float64).reshape(-1, 2)
    names = np.asarray(labels).reshape(-1).astype(np.intp)
    ranks = np.zeros(len(table)) if scores is None else np.asarray(scores, dtype=np.float64).reshape(-1)
    if not len(table) == len(names) == len(ranks):
        raise ValueError(
            f"{len(table)} spans, {len(names)} labels and {len(ranks)} scores: there must be as many of each"
        )
    if not (np.isfinite(table).all() and np.isfinite(ranks).all()) or (table[:, 1] < table[:, 0]).any():
        raise ValueError("a span or a score is not finite, or a span ends before it starts")
    if len(names) and (names.min() < 0 or names.max() >= classes):
        raise ValueError(f"labels span {names.min()} … {names.max()}, but there are {classes} classes from 0")
    return table, names, ranks
