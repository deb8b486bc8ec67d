"""One training of a fresh recognizer on (anonymised) clips, and what it answers on validation and test.

Both sides of the judgement are exams: the utility exam asks what is done, an attack asks who is there. An attacker that
does more than train afresh and answer says so by its `Approach`.
"""

from __future__ import annotations

import hashlib
import io
import time
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from sfumato.datasets.base import Labels, Part, SplitBy, VideoDataset
from sfumato.evaluation.metrics import cmap, one_hot_columns, top1
from sfumato.recognizers import Recognizer, make_recognizer
from sfumato.training.fit import ClipSet, Fit, FitConfig, Report, fit, predict
from sfumato.writing import write_whole

Target = Literal["action", "attributes", "identity", "re-identification"]
Level = Literal["frame", "video"]
# The clips of a part that an exam asks about, in the order of `asked`: uint8 (N, views, T, 3, H, W).
Source = Callable[[Part], Tensor]
Choice = Callable[[Tensor, Tensor], float]
# Networks that learn nothing when they begin from nothing as they were published: a C3D reads 10% of ten actions of raw
# video after 20 epochs; with a norm after each convolution it learns.
FROM_NOTHING: dict[str, dict[str, str]] = {"c3d": {"norm": "batch"}}
_CHECKSUM = "checksum"
_MEASURE = "measure "  # before the name of what else was measured, in a file of answers


@dataclass(frozen=True)
class Approach:
    """How an exam is gone about: train afresh on the clips one will be asked about, answer about each video by itself.

    Attackers that do otherwise override a step. Fields are plain settings, since answers are kept under their values.
    """

    def prepare(self, desk: Desk) -> Desk:
        """What is done before the training, with the clips of the training part; what is seen from then on."""
        return desk

    def learn(self, desk: Desk) -> Fit:
        """The training, on train and validation clips alone."""
        return desk.train(desk.fresh(), desk.clips)

    def choice(self, desk: Desk, model: nn.Module) -> Choice:
        """The score of (probabilities, labels) on validation by which the epoch of `model` is chosen."""
        return exam_score(desk.exam, desk.heads)

    def items(self, exam: Exam, dataset: VideoDataset, part: Part) -> Tensor:
        """Indices (N,) of the clips of a part that are answered about, in the order of the answers."""
        return asked(exam, dataset, part)

    def answer(self, desk: Desk, model: nn.Module, part: Part) -> Reply:
        """The answers about validation or test."""
        shares = predict(model, desk.clips(part), desk.heads, desk.examinee.fit, desk.device)
        return Reply(shares.numpy(), desk.labels(part).numpy())

    def lacks(self, exam: Exam, dataset: VideoDataset) -> str:
        """What the data set would need besides the labels of the target, such as "has 1 test person, …"; "" if nothing."""
        return ""

    def note(self, dataset: VideoDataset, views: int) -> str:
        """What a reader of these scores must know; "" if nothing."""
        return ""


@dataclass(frozen=True)
class Exam:
    """What is asked (target), what the examinee sees (level), and which people were in training (by)."""

    name: str
    summary: str
    target: Target
    level: Level
    by: SplitBy
    placed: bool = False  # trained on clips that are never shifted, zoomed or flipped: where things are may tell
    recognizer: str = ""  # who must sit it; empty: whoever usually sits exams of that level
    approach: Approach = Approach()


@dataclass(frozen=True)
class Examinee:
    """The recognizer that sits an exam and how it is trained."""

    recognizer: str
    fit: FitConfig
    width: float = 1.0  # of its layers: below 1, a stand-in that a CPU can train


@dataclass(frozen=True)
class Memory:
    """What several exams need and one has made: from raw clips alone, and from those of the anonymizer at hand."""

    raw: dict[Any, Any] = field(default_factory=dict)
    anonymised: dict[Any, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Desk:
    """What lies before an examinee. `clips` it is asked about; `raw` are the same ones, before they were anonymised.

    native: the height and width at which they were, if the anonymizer brings clips to a size of its own and back.
    """

    exam: Exam
    examinee: Examinee
    dataset: VideoDataset
    clips: Source
    raw: Source
    seed: int
    device: torch.device
    report: Report | None
    memory: Memory
    native: tuple[int, int] | None = None

    @property
    def heads(self) -> tuple[int, ...]:
        """How many answers each question has."""
        return questions(self.exam, self.dataset)

    def labels(self, part: Part) -> Tensor:
        """The true answers about the clips of that part, (N, questions)."""
        return truth(self.exam, self.dataset.labels(asked(self.exam, self.dataset, part)))

    def fresh(self) -> Recognizer:
        """A recognizer with random weights, the same ones for the same seed."""
        shape, who = self.dataset.shape, self.examinee
        torch.manual_seed(self.seed)
        clip = shape.frames, shape.height, shape.width
        more = FROM_NOTHING.get(who.recognizer, {})
        return make_recognizer(who.recognizer, sum(self.heads), clip=clip, width=who.width, **more)

    def train(self, model: nn.Module, lessons: Source) -> Fit:
        """`model` trained on the training clips of `lessons`, its epoch chosen on their validation clips."""
        train, val = (ClipSet(lessons(part), self.labels(part)) for part in ("train", "val"))
        return fit(
            model, train, val, self.heads, self.examinee.fit, score=self.exam.approach.choice(self, model),
            seed=self.seed, device=self.device, report=self.report,
        )  # fmt: skip


@dataclass
class Reply:
    """Probabilities (N, columns), true values (N, questions); the other two are explained at `Answers`."""

    probabilities: np.ndarray
    labels: np.ndarray
    blind: np.ndarray = field(default_factory=lambda: np.empty(0))
    measures: dict[str, np.ndarray] = field(default_factory=dict)


@dataclass
class Answers:
    """Probabilities (N, columns) and true values (N, questions) on validation and test, and the learning curve.

    blind: (N,) how probably each test item is answered rightly without looking; empty: who does not look names the most
    frequent class. measures: what else was measured on every test item, by name, (2, N): the value, and what it would be
    without looking.
    """

    validation: np.ndarray
    validation_labels: np.ndarray
    test: np.ndarray
    test_labels: np.ndarray
    curve: np.ndarray
    seconds: float
    blind: np.ndarray = field(default_factory=lambda: np.empty(0))
    measures: dict[str, np.ndarray] = field(default_factory=dict)

    def save(self, path: Path) -> None:
        """Write as NumPy arrays with a checksum of them and of the file's name, whole or not at all."""
        fields: dict[str, Any] = {name: np.asarray(value) for name, value in vars(self).items() if name != "measures"}
        fields |= {_MEASURE + name: value for name, value in self.measures.items()}
        packed = io.BytesIO()
        fields[_CHECKSUM] = np.array(_checksum(path.name, fields))
        np.savez_compressed(packed, **fields)
        write_whole(path, packed.getvalue())

    @staticmethod
    def load(path: Path) -> Answers | None:
        """The answers kept there; None where there are none, or not those that were written, so that the exam is sat again.

        Answers of another exam under this one's name are not those either.
        """
        try:
            with np.load(path, allow_pickle=False) as stored:
                fields = {name: stored[name] for name in stored.files}
            if str(fields.pop(_CHECKSUM)) != _checksum(path.name, fields):
                return None
            measures = {
                name.removeprefix(_MEASURE): fields.pop(name) for name in [*fields] if name.startswith(_MEASURE)
            }
            return Answers(**{**fields, "seconds": float(fields["seconds"]), "measures": measures})
        except (OSError, ValueError, TypeError, KeyError, EOFError, zipfile.BadZipFile):
            return None


def _checksum(name: str, fields: dict[str, np.ndarray]) -> str:
    found = hashlib.sha256(name.encode())
    for key, value in sorted(fields.items()):
        found.update(f"{key} {value.dtype} {value.shape}".encode() + np.ascontiguousarray(value).tobytes())
    return found.hexdigest()


def questions(exam: Exam, dataset: VideoDataset) -> tuple[int, ...]:
    """How many answers each question of the exam has: one question for action and identity, one per attribute else.

    Where a clip may show several actions, each of them is a question: is it shown?
    """
    if exam.target == "action":
        return (2,) * len(dataset.actions) if dataset.several_actions else (len(dataset.actions),)
    if exam.target in ("identity", "re-identification"):
        return (len(dataset.persons),)
    return tuple(len(a.values) for a in dataset.attributes)


def truth(exam: Exam, labels: Labels) -> Tensor:
    """The true answers, (N, questions) int64."""
    if exam.target == "attributes":
        return labels.attributes
    if exam.target == "action":
        return labels.action[:, None] if labels.actions is None else labels.actions
    return labels.person[:, None]


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


def by_precision(exam: Exam, heads: tuple[int, ...]) -> bool:
    """Whether an exam is scored by cMAP, as attributes are and several actions of a clip; else by who is right.

    >>> by_precision(UTILITY, (101,)), by_precision(UTILITY, (2, 2, 2))
    (False, True)
    """
    return exam.target == "attributes" or len(heads) > 1


def exam_score(exam: Exam, heads: tuple[int, ...]) -> Choice:
    """The score a checkpoint is chosen by, on validation: top-1, or cMAP where there are several questions."""
    if not by_precision(exam, heads):
        return lambda probabilities, labels: top1(probabilities.numpy(), labels[:, 0].numpy())

    def score(probabilities: Tensor, labels: Tensor) -> float:
        columns = one_hot_columns(labels.numpy(), heads)
        return cmap(yes_columns(probabilities.numpy(), heads), columns.labels, columns.owner).value

    return score


def sit(
    exam: Exam, examinee: Examinee, dataset: VideoDataset, clips: Source, *, seed: int, device: torch.device,
    report: Report | None = None, raw: Source | None = None, memory: Memory | None = None,
    native: tuple[int, int] | None = None,
) -> Answers:  # fmt: skip
    """Train on the training part, choose the epoch on validation, answer the test part once.

    clips(part): uint8 (N, views, T, 3, H, W) in the order of `asked(exam, dataset, part)`; raw(part): the same before they
    were anonymised, which they were not unless it is given; native: the size at which they were, where that is not theirs.
    """
    started = time.perf_counter()
    approach = exam.approach
    desk = Desk(exam, examinee, dataset, clips, raw or clips, seed, device, report, memory or Memory(), native)
    desk = approach.prepare(desk)
    found = approach.learn(desk)
    validation, test = (approach.answer(desk, found.model, part) for part in ("val", "test"))
    return Answers(
        validation.probabilities, validation.labels, test.probabilities, test.labels, np.array(found.curve),
        time.perf_counter() - started, test.blind, test.measures,
    )  # fmt: skip
