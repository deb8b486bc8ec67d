"""The *detection* protocol (SPLAVU section 4.2, temporal action detection): a fresh TriDet on whole untrimmed videos.

mAP at temporal overlaps of .3 to .7 and their mean. The epoch is chosen on validation. Without looking: what is found in one
video, counted as the answer about the next.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from sfumato.evaluation.latent.base import Items, LatentProtocol, Sheet, Tally
from sfumato.evaluation.latent.material import LONGEST, Subject, parts_of
from sfumato.evaluation.metrics import Found, Truth, mean_defined
from sfumato.evaluation.metrics.detection import TIOU, temporal_overlap
from sfumato.recognizers.temporal_detection import Segments, TriDet, detect, detection_loss
from sfumato.training.batches import Rounds
from sfumato.training.device import autocast
from sfumato.training.feature_data import FeatureSet
from sfumato.training.optimisation import adam, one_cycle, set_rate

EPOCHS, BATCH = 40, 8
RATES = {"tiny": 2e-3, "standard": 1e-4}  # the second is TriDet's own, of a network eight times as wide
WEIGHT_DECAY = 0.025
CLIPPED = 1.0  # the gradient's norm
CHECKS = 5  # times that validation is looked at

Array = NDArray[np.float64]


class Untrimmed:
    """Videos with their segments, counted in clips; labels are those of the training videos."""

    def __init__(self, data: FeatureSet) -> None:
        told = [annotation.segments for annotation in data.annotations]
        self.parts = parts_of(data, [segments is not None for segments in told], "person")
        names = sorted({s.label for video in self.parts.train.tolist() for s in told[video] or ()})
        self.labels = {name: number for number, name in enumerate(names)}
        clip = data.manifest.clip[0] * data.manifest.frame_step
        self.truth = []
        for segments in told:
            known = [s for s in segments or () if s.label in self.labels]
            spans = torch.tensor([[s.start / clip, s.end / clip] for s in known]).view(-1, 2)
            self.truth.append(Segments(spans, torch.tensor([self.labels[s.label] for s in known], dtype=torch.long)))

    def rights(self, videos: Tensor) -> list[Truth]:
        """What those videos (n,) hold."""
        return [Truth(*(each.numpy() for each in self.truth[video])) for video in videos.tolist()]

    def lacks(self) -> str:
        """As of a protocol."""
        return self.parts.lacks() if self.labels else "tells no segments of its training videos"


class DetectionProtocol(LatentProtocol):
    """TAD."""

    name = "detection"
    summary = "a fresh TriDet finds actions in untrimmed videos, mAP at tIoU .3 to .7; section 4.2"
    models = "tridet"

    def prepare(self) -> None:
        """The videos whose segments are told."""
        self.videos = Untrimmed(self.data)
        self.lacks = self.videos.lacks()
        self.notes += filter(None, [self.videos.parts.note and f"detection: {self.videos.parts.note}"])

    def examine(self, subject: Subject, seed: int) -> Sheet:
        """One TriDet."""
        network = self.train(subject.features, seed)
        test = self.videos.parts.test
        return Sheet(
            tallies=tally(find(network, subject.features, test), self.videos.rights(test), len(self.videos.labels))
        )

    def train(self, data: FeatureSet, seed: int) -> TriDet:
        """A TriDet of its best epoch on validation, by mean mAP."""
        torch.manual_seed(seed)
        parts, classes = self.videos.parts, len(self.videos.labels)
        network = TriDet(data.manifest.width, classes, width=self.config.pick(64, 512)).to(data.vectors.device)
        rate, epochs = RATES[self.config.models], self.config.epochs or EPOCHS
        optimizer = adam(network, rate, WEIGHT_DECAY, data.vectors.device)
        rounds = Rounds(len(parts.train), min(BATCH, len(parts.train)), seed=seed)
        steps = math.ceil(len(parts.train) / rounds.batch) * epochs
        every, rights = max(1, steps // CHECKS), self.videos.rights(parts.val)
        best, state = -math.inf, network.state_dict()
        for step in range(steps):
            network.train()
            set_rate(optimizer, rate * one_cycle(step / steps))
            videos = parts.train[rounds.rows(step)].tolist()
            self._descend(network, optimizer, data, videos)
            if (step + 1) % every == 0 or step + 1 == steps:
                score = mean_map(find(network, data, parts.val), rights, classes)
                if score >= best:
                    best, state = score, copy.deepcopy(network.state_dict())
        network.load_state_dict(state)
        return network

    def _descend(self, network: TriDet, optimizer: torch.optim.Optimizer, data: FeatureSet, videos: list[int]) -> None:
        clips = [data.clips(video)[:LONGEST] for video in videos]
        truth = [_within(self.videos.truth[v], len(c)) for v, c in zip(videos, clips, strict=True)]
        there = [torch.ones(len(each), dtype=torch.bool) for each in clips]
        mask = pad_sequence(there, batch_first=True).to(data.vectors.device)
        with autocast(data.vectors.device):
            predictions = network(pad_sequence(clips, batch_first=True), mask)
        loss = detection_loss(predictions, truth)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), CLIPPED)
        optimizer.step()


def _within(segments: Segments, clips: int) -> Segments:
    """What lies in the first `clips` clips."""
    spans = segments.spans.clamp(0, clips)
    seen = spans[:, 1] > spans[:, 0]
    return Segments(spans[seen], segments.labels[seen])


@torch.no_grad()
def find(network: TriDet, data: FeatureSet, videos: Tensor) -> list[Found]:
    """What TriDet finds in those videos (n,), in clips.

    >>> find(network, features, torch.tensor([3]))[0].scores.shape  # doctest: +SKIP
    """
    network.eval()
    found = []
    for video in videos.tolist():
        clips = data.clips(video)[:LONGEST]
        with autocast(data.vectors.device):
            predictions = network(clips[None])
        spans, labels, scores = detect(predictions)[0]
        found.append(Found(spans.float().numpy(), labels.numpy(), scores.float().numpy()))
    return found


def mean_map(found: Sequence[Found], truth: Sequence[Truth], classes: int) -> float:
    """The mean over the overlaps of the mAP of all videos.

    >>> mean_map([Found([[0, 6]], [0], [0.9])], [Truth([[0, 10]], [0])], classes=1)  # tIoU .6
    0.8
    """
    return float(resampled_map(found, truth, classes)(np.arange(len(truth))).mean())


def tally(found: Sequence[Found], truth: Sequence[Truth], classes: int) -> list[Tally]:
    """The mean mAP and that at each overlap, with what the next video's answer would reach."""
    at = resampled_map(found, truth, classes)
    blind = resampled_map([*found[1:], *found[:1]], truth, classes)(np.arange(len(truth)))

    def one(number: int) -> Callable[[Items], float]:
        return lambda items: float(at(items)[number])

    tallies = [Tally("TAD mAP", len(truth), lambda items: float(at(items).mean()), float(blind.mean()))]
    return tallies + [Tally(f"TAD mAP@{t}", len(truth), one(n), float(blind[n])) for n, t in enumerate(TIOU)]


def resampled_map(found: Sequence[Found], truth: Sequence[Truth], classes: int) -> Callable[[Items], Array]:
    """A function from videos, with repeats, to their mAP at each overlap, (5,): `detection_map` of them, but fast.

    Whether a detection is right is its own video's affair, and settled once; a resample only weighs the videos anew.

    >>> resampled_map([Found([[0, 6]], [0], [0.9])], [Truth([[0, 10]], [0])], classes=1)(np.array([0, 0]))
    array([1., 1., 1., 1., 0.])
    """
    tables = [_Ranked(found, truth, label) for label in range(classes)]

    @lru_cache(maxsize=4096)  # several tallies ask about the same resamples
    def at(items: bytes) -> Array:
        weight = np.bincount(np.frombuffer(items, dtype=np.intp), minlength=len(truth)).astype(np.float64)
        precisions = np.stack([table.precision(weight) for table in tables])
        return np.array([mean_defined(column).value for column in precisions.T])

    return lambda items: at(np.asarray(items, dtype=np.intp).tobytes())


class _Ranked:
    """The detections of one class over all videos by falling score, and which are right at each overlap."""

    def __init__(self, found: Sequence[Found], truth: Sequence[Truth], label: int) -> None:
        scores, videos, hits, total = [], [], [], []
        for number, (answer, right) in enumerate(zip(found, truth, strict=True)):
            own = np.asarray(answer.labels).reshape(-1) == label
            spans = np.asarray(right.spans, dtype=np.float64).reshape(-1, 2)[
                np.asarray(right.labels).reshape(-1) == label
            ]
            ranks = np.asarray(answer.scores, dtype=np.float64).reshape(-1)[own]
            order = np.argsort(-ranks, kind="stable")
            overlap = temporal_overlap(np.asarray(answer.spans, dtype=np.float64).reshape(-1, 2)[own][order], spans)
            scores.append(ranks[order])
            videos.append(np.full(len(order), number))
            hits.append(np.stack([_taken(overlap, threshold) for threshold in TIOU], axis=1))
            total.append(len(spans))
        order = np.argsort(-np.concatenate(scores), kind="stable")
        self.videos, self.hits = np.concatenate(videos)[order], np.concatenate(hits)[order].astype(np.float64)
        self.total = np.array(total, dtype=np.float64)

    def precision(self, weight: Array) -> Array:
        """Interpolated AP at each overlap, (5,), where video v counts weight[v] times; NaN where the class never occurs."""
        total = float(self.total @ weight)
        if total == 0:
            return np.full(len(TIOU), np.nan)
        counted = weight[self.videos][:, None]
        right = (counted * self.hits).cumsum(axis=0)
        precision = right / np.maximum(counted.cumsum(axis=0), 1)
        envelope = np.maximum.accumulate(precision[::-1], axis=0)[::-1]
        return np.asarray((counted * self.hits * envelope).sum(axis=0) / total)


def _taken(overlap: Array, threshold: float) -> NDArray[np.bool_]:
    """Which of a video's ranked detections (N, M segments) are right: each segment goes to the first that reaches it best."""
    free = np.ones(overlap.shape[1], dtype=bool)
    hits = np.zeros(len(overlap), dtype=bool)
    for rank in np.flatnonzero((overlap >= threshold).any(axis=1)):  # the others reach nothing
        if not free.any():
            break
        best = int(np.where(free, overlap[rank], -1.0).argmax())
        if overlap[rank, best] >= threshold:
            hits[rank], free[best] = True, False
    return hits
