"""One training of a fresh recognizer on (anonymised) clips, and what it answers on validation and test.

Both sides of the judgement are exams: the utility exam asks what is done, an attack asks who is there.
"""

from __future__ import annotations

import io
import time
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from sfumato.datasets.base import Labels, Part, SplitBy, VideoDataset
from sfumato.evaluation.metrics import cmap, one_hot_columns, top1
from sfumato.recognizers import make_recognizer
from sfumato.training.fit import ClipSet, FitConfig, Report, fit, predict
from sfumato.writing import write_whole

Target = Literal["action", "attributes", "identity"]
Level = Literal["frame", "video"]


@dataclass(frozen=True)
class Exam:
    """What is asked (target), what the examinee sees (level), and which people were in training (by)."""

    name: str
    summary: str
    target: Target
    level: Level
    by: SplitBy
    placed: bool = False  # trained on clips that are never shifted, zoomed or flipped: where things are may tell


@dataclass(frozen=True)
class Examinee:
    """The recognizer that sits an exam and how it is trained."""

    recognizer: str
    fit: FitConfig


@dataclass
class Answers:
    """Probabilities (N, columns) and true values (N, questions) on validation and test, and the learning curve."""

    validation: np.ndarray
    validation_labels: np.ndarray
    test: np.ndarray
    test_labels: np.ndarray
    curve: np.ndarray
    seconds: float

    def save(self, path: Path) -> None:
        """Write as NumPy arrays, whole or not at all."""
        packed = io.BytesIO()
        np.savez_compressed(packed, **{**vars(self), "seconds": np.array(self.seconds)})
        write_whole(path, packed.getvalue())

    @staticmethod
    def load(path: Path) -> Answers | None:
        """The answers kept there; None where there are none, or none that can be read, so that the exam is sat again."""
        try:
            with np.load(path, allow_pickle=False) as stored:
                fields = {name: stored[name] for name in stored.files}
            return Answers(**{**fields, "seconds": float(fields["seconds"])})
        except (OSError, ValueError, TypeError, KeyError, EOFError, zipfile.BadZipFile):
            return None


def questions(exam: Exam, dataset: VideoDataset) -> tuple[int, ...]:
    """How many answers each question of the exam has: one question for action and identity, one per attribute else."""
    if exam.target == "action":
        return (len(dataset.actions),)
    if exam.target == "identity":
        return (len(dataset.persons),)
    return tuple(len(a.values) for a in dataset.attributes)


def truth(exam: Exam, labels: Labels) -> Tensor:
    """The true answers, (N, questions) int64."""
    columns = {"action": labels.action[:, None], "identity": labels.person[:, None], "attributes": labels.attributes}
    return columns[exam.target]


def asked(exam: Exam, dataset: VideoDataset, part: Part) -> Tensor:
    """Indices (N,) of the clips of a part that the exam asks about: those whose true answers are known.

    An attacker may learn from clips of which only some answers are known.
    """
    indices = dataset.split(part, exam.by)
    known = truth(exam, dataset.labels(indices)) >= 0
    return indices[known.any(1) if part == "train" else known.all(1)]


def yes_columns(probabilities: np.ndarray, heads: tuple[int, ...]) -> np.ndarray:
    """Of softmaxed questions side by side, the columns that `one_hot_columns` has: P(yes), or P(value) if many."""
    keep: list[int] = []
    start = 0
    for size in heads:
        keep += [start + 1] if size == 2 else range(start, start + size)
        start += size
    return np.take(probabilities, keep, axis=1)


def exam_score(exam: Exam, heads: tuple[int, ...]) -> Callable[[Tensor, Tensor], float]:
    """The score a checkpoint is chosen by, on validation: top-1, or cMAP for attributes."""
    if exam.target != "attributes":
        return lambda probabilities, labels: top1(probabilities.numpy(), labels[:, 0].numpy())

    def score(probabilities: Tensor, labels: Tensor) -> float:
        columns = one_hot_columns(labels.numpy(), heads)
        return cmap(yes_columns(probabilities.numpy(), heads), columns.labels, columns.owner).value

    return score


def sit(
    exam: Exam, examinee: Examinee, dataset: VideoDataset, clips: Callable[[Part], Tensor], *, seed: int,
    device: torch.device, report: Report | None = None,
) -> Answers:  # fmt: skip
    """Train on the training part, choose the epoch on validation, answer the test part once.

    clips(part): uint8 (N, views, T, 3, H, W) in the order of `asked(exam, dataset, part)`.
    """
    started = time.perf_counter()
    heads = questions(exam, dataset)
    labels = {p: truth(exam, dataset.labels(asked(exam, dataset, p))) for p in ("train", "val", "test")}
    shape = dataset.shape
    torch.manual_seed(seed)  # the recognizer's first weights
    model = make_recognizer(examinee.recognizer, sum(heads), clip=(shape.frames, shape.height, shape.width))
    found = fit(
        model, ClipSet(clips("train"), labels["train"]), ClipSet(clips("val"), labels["val"]), heads, examinee.fit,
        score=exam_score(exam, heads), seed=seed, device=device, report=report,
    )  # fmt: skip

    def answer(part: Part) -> np.ndarray:
        return predict(found.model, clips(part), heads, examinee.fit, device).numpy()

    return Answers(
        answer("val"), labels["val"].numpy(), answer("test"), labels["test"].numpy(), np.array(found.curve),
        time.perf_counter() - started,
    )  # fmt: skip
