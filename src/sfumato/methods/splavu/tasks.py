"""The utility tasks f_A is co-trained with: which videos they see, their heads and losses (section 3.2, appendix B.5)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from sfumato.datasets.annotations import Annotation
from sfumato.errors import SfumatoError
from sfumato.methods.splavu.config import SPLAVUConfig
from sfumato.recognizers.anomaly import MGFN, mgfn_loss
from sfumato.recognizers.layers import scaled
from sfumato.recognizers.temporal_detection import Segments, TriDet, detection_loss
from sfumato.training.batches import Rounds, mix
from sfumato.training.device import seeded
from sfumato.training.feature_data import FeatureSet, Source

LONGEST = 2304  # clips of a video at a time, as TriDet has it; features of an hour are more than a step can hold
WATCHED = {"action": 128, "detection": 16, "anomaly": 32}  # validation videos

# What a video must say to be of use to a task, and how that is called.
NEEDED: dict[str, tuple[str, Callable[[Annotation], bool]]] = {
    "action": ("actions", lambda a: bool(a.action)),
    "detection": ("segments", lambda a: a.segments is not None),
    "anomaly": ("anomalies", lambda a: a.anomalous is not None),
}


class Batch(NamedTuple):
    """features (B, S, D) with their mask (B, S), False where there is no clip; answers: what the task's loss is told."""

    features: Tensor
    mask: Tensor
    answers: Any


def require_labels(task: str, source: Source) -> None:
    """Refuse data that does not say what a task learns from, before anything is encoded.

    >>> require_labels("action", open_source("theatre:small"))
    """
    what, known = NEEDED[task]
    learned = [a for a in source.annotations.values() if known(a) and a.part("person") == a.part("clip") == "train"]
    place = "--data" if task == "action" else f"{task}_data"
    kinds = {
        "action": len({a.action for a in learned}),
        "detection": len({segment.label for a in learned for segment in a.segments or ()}),
        "anomaly": len({a.anomalous for a in learned}),
    }
    least = 1 if task == "detection" else 2
    if kinds[task] < least:
        few = "no" if not kinds[task] else "only one kind of"
        raise SfumatoError(
            f"the training videos of {source.name} tell {few} {what}",
            f"give other data by {place}, or leave {task} out of tasks",
        )


class Task(nn.Module, ABC):
    """A head on anonymized features, and the videos it learns from; `deal(step)` is a pure function of the seed and the step."""

    symbol: ClassVar[str]
    name: ClassVar[str]
    batch: int  # videos a step

    def __init__(self, data: FeatureSet, config: SPLAVUConfig, seed: int) -> None:
        super().__init__()
        self.data, self.config, self.seed = data, config, mix(seed, self.name)
        known = NEEDED[self.name][1]
        useful = torch.tensor([known(annotation) for annotation in data.annotations])
        learned, watched = data.videos("train"), data.videos("val", "person")
        self.videos, watched = learned[useful[learned]], watched[useful[watched]]
        spread = torch.linspace(0, len(watched) - 1, min(WATCHED[self.name], len(watched))).round().long()
        self.watched = watched[spread]
        self.prepare(data.manifest.width)

    @abstractmethod
    def prepare(self, width: int) -> None:
        """Make the head, for D = `width`, and settle what is drawn when."""

    @abstractmethod
    def deal(self, step: int) -> Batch:
        """The task's videos of that step."""

    @abstractmethod
    def watched_batch(self) -> Batch:
        """The watched videos, always the same."""

    @abstractmethod
    def loss(self, anonymized: Tensor, batch: Batch) -> Tensor:
        """L of what f_A made (B, S, D) of a batch."""

    def figures(self, anonymized: Tensor, batch: Batch) -> dict[str, float]:
        """What is watched: the loss, and where there is one a share that is right."""
        return {f"L_{self.symbol}": float(self.loss(anonymized, batch))}

    def whole(self, videos: list[Tensor], answers: Any) -> Batch:
        """Videos of different lengths, (S, D) each, filled up to the longest."""
        there = [torch.ones(len(video), dtype=torch.bool) for video in videos]
        mask = pad_sequence(there, batch_first=True).to(self.data.vectors.device)
        return Batch(pad_sequence(videos, batch_first=True), mask, answers)


class ActionTask(Task):
    """L_AR: a clip of each video, a linear head, cross-entropy."""

    symbol, name = "AR", "action"

    def prepare(self, width: int) -> None:
        """A linear layer."""
        said = [annotation.action for annotation in self.data.annotations]
        names = {name: n for n, name in enumerate(sorted({said[v] for v in self.videos.tolist()}))}
        self.labels = torch.tensor([names.get(name, -1) for name in said])
        self.watched = self.watched[self.labels[self.watched] >= 0]  # an action nobody taught tells nothing
        self.batch = min(self.config.batch, len(self.videos))
        self.rounds = Rounds(len(self.videos), self.batch, seed=self.seed)
        self.head = nn.Linear(width, len(names))

    def deal(self, step: int) -> Batch:
        """A random clip of each video."""
        videos = self.videos[self.rounds.rows(step)]
        return self._clips(videos, torch.rand(len(videos), generator=seeded(mix(self.seed, step))))

    def watched_batch(self) -> Batch:
        """The clips in the middle."""
        return self._clips(self.watched, torch.full((len(self.watched),), 0.5))

    def _clips(self, videos: Tensor, share: Tensor) -> Batch:
        """The clip at that share of each video's length."""
        device = self.data.vectors.device
        rows = self.data.first[videos] + (share * self.data.count[videos]).long()
        features = self.data.vectors[rows.to(device), 0][:, None]
        return Batch(features, torch.ones_like(features[..., 0], dtype=torch.bool), self.labels[videos].to(device))

    def loss(self, anonymized: Tensor, batch: Batch) -> Tensor:
        """Cross-entropy."""
        return F.cross_entropy(self.head(anonymized[:, 0]).float(), batch.answers)

    def figures(self, anonymized: Tensor, batch: Batch) -> dict[str, float]:
        """Also the share of clips whose action is named."""
        right = self.head(anonymized[:, 0]).argmax(1) == batch.answers
        return {**super().figures(anonymized, batch), "action": float(right.float().mean())}


class DetectionTask(Task):
    """L_TAD: whole untrimmed videos, TriDet, its loss (eq. 8)."""

    symbol, name = "TAD", "detection"

    def prepare(self, width: int) -> None:
        """TriDet, and the segments counted in clips."""
        segments = [annotation.segments or () for annotation in self.data.annotations]
        labels = sorted({segment.label for v in self.videos.tolist() for segment in segments[v]})
        names, clip = (
            {name: n for n, name in enumerate(labels)},
            self.data.manifest.clip[0] * self.data.manifest.frame_step,
        )
        self.truth = []
        for each in segments:
            taught = [s for s in each if s.label in names]
            spans = torch.tensor([[s.start / clip, s.end / clip] for s in taught]).view(-1, 2)
            self.truth.append(Segments(spans, torch.tensor([names[s.label] for s in taught], dtype=torch.long)))
        self.batch = min(self.config.detection_batch, len(self.videos))
        self.rounds = Rounds(len(self.videos), self.batch, seed=self.seed)
        self.head = TriDet(width, len(names), width=scaled(512, self.config.head_width))

    def deal(self, step: int) -> Batch:
        """Whole videos, of one that is too long a random stretch."""
        videos = self.videos[self.rounds.rows(step)].tolist()
        chance = torch.rand(len(videos), generator=seeded(mix(self.seed, step)))
        return self._stretches(videos, chance.tolist())

    def watched_batch(self) -> Batch:
        """Whole videos; of one that is too long the middle."""
        return self._stretches(self.watched.tolist(), [0.5] * len(self.watched))

    def _stretches(self, videos: list[int], shares: list[float]) -> Batch:
        found, truth = [], []
        for video, share in zip(videos, shares, strict=True):
            clips, segments = self.data.clips(video), self.truth[video]
            start = int(share * max(0, len(clips) - LONGEST + 1))
            clips = clips[start : start + LONGEST]
            spans = (segments.spans - start).clamp(0, len(clips))
            seen = spans[:, 1] > spans[:, 0]
            found.append(clips)
            truth.append(Segments(spans[seen], segments.labels[seen]))
        return self.whole(found, truth)

    def loss(self, anonymized: Tensor, batch: Batch) -> Tensor:
        """TriDet's."""
        return detection_loss(self.head(anonymized, batch.mask), batch.answers)


class AnomalyTask(Task):
    """L_AD: whole videos of which only is known whether they hold an anomaly, MGFN, its loss (eq. 9)."""

    symbol, name = "AD", "anomaly"

    def prepare(self, width: int) -> None:
        """MGFN, and rounds over either kind."""
        self.labels = torch.tensor([float(annotation.anomalous or 0) for annotation in self.data.annotations])
        self.kinds = [self.videos[self.labels[self.videos] == kind] for kind in (0, 1)]
        half = self.config.anomaly_batch // 2
        self.batch = 2 * half
        self.rounds = [Rounds(len(kind), half, seed=mix(self.seed, n)) for n, kind in enumerate(self.kinds)]
        channels = [scaled(own, self.config.head_width) for own in (64, 128, 1024)]
        self.head = MGFN(width, (channels[0], channels[1], channels[2]))

    def deal(self, step: int) -> Batch:
        """As many ordinary videos as such with an anomaly; of one that is too long, clips spread over all of it."""
        drawn = [kind[rounds.rows(step)] for kind, rounds in zip(self.kinds, self.rounds, strict=True)]
        videos = torch.cat(drawn)
        chance = torch.rand(len(videos), generator=seeded(mix(self.seed, step)))
        return self._thinned(videos, chance.tolist())

    def watched_batch(self) -> Batch:
        """The same, always the same."""
        return self._thinned(self.watched, [0.5] * len(self.watched))

    def _thinned(self, videos: Tensor, shares: list[float]) -> Batch:
        found = []
        for video, share in zip(videos.tolist(), shares, strict=True):
            clips = self.data.clips(video)
            if len(clips) > LONGEST:
                clips = clips[((torch.arange(LONGEST) + share) * (len(clips) / LONGEST)).long()]
            found.append(clips)
        return self.whole(found, self.labels[videos].to(self.data.vectors.device))

    def loss(self, anonymized: Tensor, batch: Batch) -> Tensor:
        """MGFN's."""
        return mgfn_loss(self.head(anonymized, batch.mask), batch.answers)


KINDS: dict[str, type[Task]] = {kind.name: kind for kind in (ActionTask, DetectionTask, AnomalyTask)}
