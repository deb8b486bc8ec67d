"""The *anomaly* protocol (SPLAVU section 4.2, weakly supervised anomaly detection): a fresh MGFN, told which videos hold one.

The score is the ROC AUC over all frames of the test videos. The epoch is chosen by the same on validation; where nobody told
where its anomalies are, as in UCF-Crime, by how well the highest score of a video tells which videos hold one.

Which frames are anomalous: in the theatre's own plays a fall or a fight. Else, in a video with an anomaly, the segments whose
label no ordinary video has; with nothing but anomalies told, as UCF-Crime has it, these are all.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from sfumato.evaluation.latent.base import Items, LatentProtocol, Sheet, Tally
from sfumato.evaluation.latent.material import LONGEST, Parts, Subject, parts_of
from sfumato.evaluation.metrics import CHANCE_AUC, frame_auc
from sfumato.recognizers.anomaly import MGFN, mgfn_loss, spread_over_frames
from sfumato.theatre.choreography import anomalies
from sfumato.training.batches import Rounds, mix
from sfumato.training.device import autocast
from sfumato.training.feature_data import FeatureSet
from sfumato.training.optimisation import adam

STEPS, HALF = 400, 16  # steps, and videos of either kind in each
RATE, WEIGHT_DECAY = 1e-3, 5e-4
CLIPPED = 1.0  # the gradient's norm: long features make losses that throw a network off its way
CHECKS = 10
WIDTHS = {"tiny": ((16, 32, 64), (1, 1, 1)), "standard": ((64, 128, 1024), (3, 3, 2))}


def anomalous_labels(data: FeatureSet) -> set[str]:
    """The labels of segments that are anomalies.

    >>> anomalous_labels(screenplays)
    {'fall', 'fight'}
    """
    strange, ordinary = (
        {s.label for a in data.annotations if a.anomalous is kind for s in a.segments or ()} for kind in (True, False)
    )
    drawn = {motion.name for motion in anomalies()} & strange
    return drawn or strange - ordinary


def frame_labels(data: FeatureSet) -> list[NDArray[np.float64] | None]:
    """1 for each frame of an anomaly, 0 for the others, of every video (its clips' frames); None where it is not known."""
    strange, clip = anomalous_labels(data), data.manifest.clip[0] * data.manifest.frame_step
    found: list[NDArray[np.float64] | None] = []
    for annotation, clips in zip(data.annotations, data.count.tolist(), strict=True):
        frames = np.zeros(clips * clip)
        spans = [s for s in annotation.segments or () if s.label in strange] if annotation.anomalous else []
        for span in spans:
            frames[span.start : span.end] = 1
        known = annotation.anomalous is not None and bool(frames.any()) == annotation.anomalous
        found.append(frames if known else None)
    return found


class AnomalyProtocol(LatentProtocol):
    """WSAD."""

    name = "anomaly"
    summary = "a fresh MGFN, told which videos hold an anomaly, finds its frames, frame AUC; section 4.2"
    models = "mgfn"

    def prepare(self) -> None:
        """To learn from, and to choose by if need be, it is enough whether there is an anomaly; to test by, where is needed."""
        told = [a.anomalous for a in self.data.annotations]
        parts = parts_of(self.data, [kind is not None for kind in told], "person")
        self.frames = frame_labels(self.data)
        where = torch.tensor([frames is not None for frames in self.frames])
        located = parts.val[where[parts.val]]
        self.by_frames = len({told[video] for video in located.tolist()}) == 2
        self.parts = Parts(
            parts.train, located if self.by_frames else parts.val, parts.test[where[parts.test]], parts.note
        )
        self.labels = torch.tensor([float(kind or 0) for kind in told])
        kinds = [{told[video] for video in self.parts.of(part).tolist()} for part in ("train", "val", "test")]
        self.lacks = self.parts.lacks()
        if not self.lacks and min(map(len, kinds)) < 2:
            self.lacks = "does not hold anomalous and ordinary videos in each part"
        self.notes += filter(None, [parts.note and f"anomaly: {parts.note}"])
        if not self.by_frames:
            self.notes.append("anomaly: the epoch is chosen by which validation videos hold one: where is not told")

    def examine(self, subject: Subject, seed: int) -> Sheet:
        """One MGFN."""
        network = self.train(subject.features, seed)
        test = self.parts.test
        auc = resampled_auc(scores_of(network, subject.features, test), self._truth(test))
        return Sheet(tallies=[Tally("AD AUC", len(test), auc, CHANCE_AUC)])

    def _truth(self, videos: Tensor) -> list[NDArray[np.float64]]:
        return [frames for video in videos.tolist() if (frames := self.frames[video]) is not None]

    def _validation(self, network: MGFN, data: FeatureSet) -> float:
        """The AUC over the frames of the validation videos, or over the videos by their highest frame."""
        videos = self.parts.val
        scores = scores_of(network, data, videos)
        if self.by_frames:
            return frame_auc(scores, self._truth(videos))
        return frame_auc([each.max(keepdims=True) for each in scores], [*self.labels[videos, None].numpy()])

    def train(self, data: FeatureSet, seed: int) -> MGFN:
        """An MGFN of its best moment on validation."""
        torch.manual_seed(seed)
        widths, depths = WIDTHS[self.config.models]
        network = MGFN(data.manifest.width, widths, depths).to(data.vectors.device)
        optimizer = adam(network, RATE, WEIGHT_DECAY, data.vectors.device)
        train = self.parts.train
        kinds = [train[self.labels[train] == kind] for kind in (0, 1)]
        rounds = [Rounds(len(kind), HALF, seed=mix(seed, n)) for n, kind in enumerate(kinds)]
        steps = math.ceil(self.config.epochs * len(train) / (2 * HALF)) or STEPS
        every = max(1, steps // CHECKS)
        best, state = -math.inf, network.state_dict()
        for step in range(steps):
            network.train()
            videos = torch.cat([kind[turn.rows(step)] for kind, turn in zip(kinds, rounds, strict=True)])
            clips = [thinned(data, video) for video in videos.tolist()]
            mask = pad_sequence([torch.ones(len(c), dtype=torch.bool) for c in clips], batch_first=True)
            with autocast(data.vectors.device):
                segments = network(pad_sequence(clips, batch_first=True), mask.to(data.vectors.device))
            loss = mgfn_loss(segments, self.labels[videos].to(data.vectors.device))
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), CLIPPED)
            optimizer.step()
            if (step + 1) % every == 0 or step + 1 == steps:
                score = self._validation(network, data)
                if score >= best:
                    best, state = score, copy.deepcopy(network.state_dict())
        network.load_state_dict(state)
        return network


def thinned(data: FeatureSet, video: int) -> Tensor:
    """The clips (S, D) of a video, of one that is too long some that are spread over all of it.

    >>> thinned(features, 3).shape
    torch.Size([16, 192])
    """
    clips = data.clips(video)
    if len(clips) <= LONGEST:
        return clips
    return clips[((torch.arange(LONGEST) + 0.5) * (len(clips) / LONGEST)).long()]


@torch.no_grad()
def scores_of(network: MGFN, data: FeatureSet, videos: Tensor) -> list[NDArray[np.float64]]:
    """The score of every frame of those videos (n,).

    >>> scores_of(network, features, torch.tensor([3]))[0].shape  # doctest: +SKIP
    """
    network.eval()
    clip = data.manifest.clip[0] * data.manifest.frame_step
    found = []
    for video in videos.tolist():
        with autocast(data.vectors.device):
            scores = network(thinned(data, video)[None]).scores[0]
        found.append(spread_over_frames(scores.float().cpu(), int(data.count[video]) * clip).double().numpy())
    return found


def resampled_auc(scores: Sequence[ArrayLike], labels: Sequence[ArrayLike]) -> Callable[[Items], float]:
    """A function from videos, with repeats, to their `frame_auc`; frames are sorted once.

    >>> resampled_auc([[0.9, 0.3], [0.3, 0.1]], [[1, 1], [0, 0]])(np.array([0, 1]))
    0.875
    """
    table = np.concatenate([np.asarray(video, dtype=np.float64) for video in scores])
    truth = np.concatenate([np.asarray(video, dtype=np.float64) for video in labels])
    owner = np.repeat(np.arange(len(labels)), [len(np.asarray(video)) for video in labels])
    distinct, place = np.unique(table, return_inverse=True)

    def auc(items: Items) -> float:
        weight = np.bincount(items, minlength=len(labels))[owner].astype(np.float64)
        strange = np.bincount(place, weights=weight * truth, minlength=len(distinct))
        normal = np.bincount(place, weights=weight * (1 - truth), minlength=len(distinct))
        pairs = strange.sum() * normal.sum()
        below = normal.cumsum() - normal
        return float((strange * (below + normal / 2)).sum() / pairs) if pairs else math.nan

    return auc
