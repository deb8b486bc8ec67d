"""The *retrieval* protocol (SPLAVU Appendix C, Table 13): a test video asks the training videos for the same action.

Nothing is trained. Features of a video are the mean of its clips, compared by their cosine. R@k: one of the k nearest shows
the same action; mAP: the ranking of all of them. Chance is a gallery in random order.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.evaluation.latent.base import LatentProtocol, Sheet, per_item
from sfumato.evaluation.latent.material import Subject, video_means
from sfumato.evaluation.latent.probe import inquire_actions
from sfumato.evaluation.metrics import chance_retrieval_ap, retrieval_ap

AT = (1, 5, 10)
CHUNK = 256  # queries at a time
# Similarities closer than this are rounding. What cannot be told apart is ranked at random, not by the order of files.
TIE = 1e-6

Array = NDArray[np.float64]


def recall_at(similarity: ArrayLike, matches: ArrayLike, k: int) -> Array:
    """Whether one of the k nearest matches: (Q, G) and matches (Q, G) in {0, 1} to (Q,) in {0, 1}.

    >>> recall_at([[0.9, 0.8, 0.1]], [[0, 1, 0]], k=1), recall_at([[0.9, 0.8, 0.1]], [[0, 1, 0]], k=2)
    (array([0.]), array([1.]))
    """
    nearest = np.argsort(-np.asarray(similarity, dtype=np.float64), axis=1, kind="stable")[:, :k]
    return np.take_along_axis(np.asarray(matches, dtype=np.float64), nearest, axis=1).max(axis=1)


def chance_recall(matches: ArrayLike, gallery: int, k: int) -> Array:
    """The same in random order, where so many `matches` (Q,) are among `gallery`: 1 − C(n − m, k) / C(n, k).

    >>> chance_recall([1, 2], gallery=4, k=2)  # 1 − 3/6, 1 − 1/6
    array([0.5       , 0.83333333])
    """
    found, drawn = np.asarray(matches, dtype=np.float64), np.arange(min(k, gallery))
    missed = np.clip((gallery - found[:, None] - drawn) / (gallery - drawn), 0, None)
    return np.asarray(1 - missed.prod(axis=1))


def compare(probes: ArrayLike, gallery: ArrayLike, seed: int) -> Array:
    """Cosines (Q, G) of rows of length 1, ties broken at random.

    >>> compare([[1.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]], seed=0).round(2)
    array([[1., 0.]])
    """
    cosine = np.asarray(probes, dtype=np.float64) @ np.asarray(gallery, dtype=np.float64).T
    return np.asarray(cosine + TIE * np.random.default_rng(seed).random(cosine.shape))


class RetrievalProtocol(LatentProtocol):
    """R@1, R@5, R@10 and mAP."""

    name = "retrieval"
    summary = "test videos look for training videos of their action, R@1/5/10 and mAP; Appendix C, Table 13"
    models = "nearest neighbour"

    def prepare(self) -> None:
        """Queries and gallery as the action's test and training part."""
        self.inquiry = inquire_actions(self.data)
        self.lacks, labels, parts = self.inquiry.lacks, self.inquiry.question.labels[:, 0].numpy(), self.inquiry.parts
        self.query, self.gallery = labels[parts.test.numpy()], labels[parts.train.numpy()]

    def examine(self, subject: Subject, seed: int) -> Sheet:
        """Every test video against every training video."""
        parts = self.inquiry.parts
        asking, known = (video_means(subject.features, videos).numpy() for videos in (parts.test, parts.train))
        found: dict[str, list[Array]] = {name: [] for name in (*(f"R@{k}" for k in AT), "mAP")}
        for start in range(0, len(asking), CHUNK):
            some = slice(start, start + CHUNK)
            similarity, matches = (
                compare(asking[some], known, seed + start),
                self.query[some, None] == self.gallery,
            )
            for k in AT:
                found[f"R@{k}"].append(recall_at(similarity, matches, k))
            found["mAP"].append(retrieval_ap(similarity, matches))
        own = np.bincount(self.gallery, minlength=int(self.query.max()) + 1)[self.query]
        blind = {f"R@{k}": chance_recall(own, len(known), k).mean() for k in AT}
        blind["mAP"] = chance_retrieval_ap(own, len(known)).mean()
        return Sheet(tallies=[
            per_item(f"retrieval {name}", np.concatenate(values), float(blind[name])) for name, values in found.items()
        ])  # fmt: skip
