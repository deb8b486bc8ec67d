"""What TriDet and MGFN must beat: a classifier of single clips whose answers are strung together, and the length of features."""

from __future__ import annotations

from itertools import groupby

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sfumato.evaluation.latent.detection import Untrimmed
from sfumato.evaluation.latent.material import Rows
from sfumato.evaluation.latent.readers import Lesson, learn, read
from sfumato.evaluation.metrics import Found
from sfumato.recognizers.anomaly import magnitude
from sfumato.training.feature_data import FeatureSet


def clip_classifier(data: FeatureSet, untrimmed: Untrimmed, seed: int, smooth: int = 1) -> list[Found]:
    """The test videos, each clip named by a linear reader; runs of clips with one name are detections.

    A clip is of the segment that covers most of it, if that is half of the clip; else of none. A run's score is its mean
    probability. smooth: probabilities are first averaged over so many clips, an odd number.

    >>> clip_classifier(features, Untrimmed(features), seed=0)[0].spans.shape  # doctest: +SKIP
    """
    classes, train = len(untrimmed.labels), untrimmed.parts.train
    labels = torch.cat([_of_clips(untrimmed, video, int(data.count[video])) for video in train.tolist()])
    rows = _every_clip(data, train)
    reader, _ = learn("linear", Lesson(rows, labels[:, None]), (classes + 1,), seed=seed)
    found = []
    for video in untrimmed.parts.test.tolist():
        shares = read(reader, _every_clip(data, torch.tensor([video])), (classes + 1,)).double().numpy()
        kernel = np.ones(smooth)
        weight = np.convolve(np.ones(len(shares)), kernel, "same")
        even = np.stack([np.convolve(column, kernel, "same") / weight for column in shares.T], 1)
        found.append(_runs(even[: len(shares)], background=classes))
    return found


def _every_clip(data: FeatureSet, videos: Tensor) -> Rows:
    clips = torch.cat([data.clips(video) for video in videos.tolist()])
    return Rows(clips, torch.arange(len(clips), device=clips.device), len(clips))


def _of_clips(untrimmed: Untrimmed, video: int, clips: int) -> Tensor:
    """The class of every clip, (S,); as many as there are classes stands for none."""
    labels = torch.full((clips,), len(untrimmed.labels))
    best = torch.full((clips,), 0.5)
    starts = torch.arange(clips)
    for (start, end), label in zip(*untrimmed.truth[video], strict=True):
        inside = (torch.minimum(end, starts + 1.0) - torch.maximum(start, starts.float())).clamp(min=0)
        better = inside >= best
        labels[better], best[better] = label, inside[better]
    return labels


def _runs(shares: NDArray[np.float64], background: int) -> Found:
    """From the probabilities (S, classes + 1) of a video's clips."""
    named = shares.argmax(1)
    spans, labels, scores = [], [], []
    for label, run in groupby(range(len(named)), key=lambda clip: int(named[clip])):
        clips = list(run)
        if label != background:
            spans.append((clips[0], clips[-1] + 1))
            labels.append(label)
            scores.append(float(shares[clips, label].mean()))
    return Found(np.array(spans, dtype=np.float64).reshape(-1, 2), np.array(labels, dtype=np.intp), np.array(scores))


def magnitude_scores(data: FeatureSet, videos: Tensor) -> list[NDArray[np.float64]]:
    """How long the feature of its clip is, for every frame of those videos (n,).

    >>> magnitude_scores(features, torch.tensor([3]))[0].shape  # doctest: +SKIP
    """
    clip = data.manifest.clip[0] * data.manifest.frame_step
    return [magnitude(data.clips(v)).repeat_interleave(clip).double().cpu().numpy() for v in videos.tolist()]
