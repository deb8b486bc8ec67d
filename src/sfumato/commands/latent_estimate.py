"""How long a judgement of features takes: an estimate, from multiply-adds as in estimate.py."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import torch

from sfumato.commands.estimate import BACKWARD, STEP, WIDTH_OF_VIDEOMAE_B, Network, count, speed
from sfumato.evaluation.latent.anomaly import HALF, STEPS, WIDTHS
from sfumato.evaluation.latent.detection import BATCH as DETECTION_BATCH
from sfumato.evaluation.latent.detection import EPOCHS as DETECTION_EPOCHS
from sfumato.evaluation.latent.inversion import STEPS as WHITE_BOX_STEPS
from sfumato.evaluation.latent.material import LONGEST, VIEWS
from sfumato.evaluation.latent.readers import BATCH, EPOCHS
from sfumato.recognizers.anomaly import MGFN
from sfumato.recognizers.temporal_detection import TriDet

WIDTH = WIDTH_OF_VIDEOMAE_B
PER_CLIP = 3  # vectors: the clip's own, and those of two static clips


class Store(NamedTuple):
    """Features of a data set: videos to train on, videos in all, clips in each, actions."""

    train: int
    videos: int
    clips: int
    actions: int

    def bytes(self) -> float:
        """What they take in memory."""
        return 4.0 * WIDTH * PER_CLIP * self.clips * self.videos


@lru_cache
def detector(clips: int) -> Network:
    """TriDet on a video of so many clips."""
    with torch.device("meta"):
        return count("f'_TAD", "tridet", TriDet(WIDTH, 20, width=512), torch.empty(1, clips, WIDTH))


@lru_cache
def anomaly_detector(clips: int) -> Network:
    """MGFN on a video of so many clips; it looks at numbers, so that it cannot do without any."""
    return count("f'_AD", "mgfn", MGFN(WIDTH, *WIDTHS["standard"]), torch.zeros(1, clips, WIDTH))


def latent_hours(protocol: str, store: Store, adapter: Network, gpu: str) -> float:
    """Of raw features and one f_A before the judge, `adapter` on one clip.

    >>> latent_hours("latent-retrieval", Store(9537, 13320, 12, 101), adapter, "h200") < 0.1  # doctest: +SKIP
    True
    """
    read = min(VIEWS, store.clips) * store.train  # clips that a reader learns from in an epoch
    linear, mlp, adapted = WIDTH * store.actions, WIDTH * WIDTH, PER_CLIP * store.clips * store.videos
    turns = EPOCHS * read / BATCH
    # By protocol: steps, and multiply-adds in all.
    learned = {
        "latent-action": lambda: (turns, BACKWARD * EPOCHS * read * linear),
        "latent-gap": lambda: (turns, BACKWARD * EPOCHS * read * linear),
        "latent-probe": lambda: (4 * turns, BACKWARD * EPOCHS * PER_CLIP * read * mlp),  # two readers of two sights
        "latent-retrieval": lambda: (0, WIDTH * store.train * (store.videos - store.train)),
        "latent-gait": lambda: (0, WIDTH * store.videos**2),
        "latent-detection": lambda: (
            DETECTION_EPOCHS * store.train / DETECTION_BATCH,
            BACKWARD * DETECTION_EPOCHS * store.train * detector(store.clips).work,
        ),
        "latent-anomaly": lambda: (STEPS, BACKWARD * STEPS * 2 * HALF * anomaly_detector(store.clips).work),
        "latent-inversion": lambda: _inversion(store, adapter),
    }
    steps, work = learned[protocol]()
    return (2 * (STEP * steps + work / speed(gpu)) + adapted * adapter.work / speed(gpu)) / 3600


def _inversion(store: Store, adapter: Network) -> tuple[float, float]:
    """What learns to undo f_A, and the white box's way to the features of the videos that are asked about."""
    held, pairs = (store.videos - store.train) * store.clips, store.train * store.clips
    steps = EPOCHS * pairs / BATCH + WHITE_BOX_STEPS * held / LONGEST
    return steps, BACKWARD * (EPOCHS * pairs * 5 * WIDTH**2 + WHITE_BOX_STEPS * held * adapter.work)
