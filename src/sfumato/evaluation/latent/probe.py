"""The *probe* protocol (SPLAVU section 4.1): fresh readers of private attributes and of who it is.

The paper reads attributes from static clips (VISPR) by a two-layer MLP, and from whole clips on the VP sets. Here both are
read by both readers, linear and MLP, and the person too. The epoch is chosen on validation, people may be known from training.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from sfumato.datasets.base import SplitBy
from sfumato.evaluation.exam import Answers, Exam, Level, Target, exam_score
from sfumato.evaluation.latent.base import Asked, LatentProtocol, Sheet
from sfumato.evaluation.latent.material import (
    Parts,
    Question,
    Rows,
    Subject,
    ask,
    ask_attributes,
    parts_of,
    person_numbers,
    static_rows,
    whole_rows,
)
from sfumato.evaluation.latent.readers import EPOCHS, KINDS, Lesson, learn, read
from sfumato.evaluation.metrics import MIN_GROUPS
from sfumato.training.feature_data import FeatureSet

SEEN = {"static": static_rows, "whole": whole_rows}
LEVELS: dict[str, Level] = {"static": "frame", "whole": "video"}


class Inquiry(NamedTuple):
    """A question with the videos that are learned from, chosen by and asked about; `lacks` as of a protocol."""

    question: Question
    parts: Parts
    notes: tuple[str, ...] = ()
    lacks: str = ""

    def persons(self, data: FeatureSet) -> tuple[np.ndarray, np.ndarray]:
        """Who is in the videos that are chosen by, and in those that are asked about."""
        who = person_numbers(data)
        return who[self.parts.val.numpy()], who[self.parts.test.numpy()]


def inquire_attributes(data: FeatureSet) -> Inquiry:
    """About the private attributes that are told often enough to be scored, of people who may be known.

    >>> inquire_attributes(features).question.heads
    (2,)
    """
    parts = parts_of(data, [bool(a.attributes) for a in data.annotations], "clip")
    question, notes = ask_attributes(data, parts.train), []
    kept = []
    for number, spec in enumerate(question.specs):
        few = _too_few(question, number, parts)
        if few:
            notes.append(f"'{spec.name}' left out: {few}")
        else:
            kept.append(number)
    if not kept:
        return Inquiry(question, parts, tuple(notes), "tells no private attribute that differs, often enough")
    question = Question(
        question.labels[:, kept],
        tuple(question.heads[n] for n in kept),
        tuple(question.specs[n] for n in kept),
    )
    return _known(question, parts, tuple(notes))


def inquire_persons(data: FeatureSet) -> Inquiry:
    """About who it is, of people in the training part.

    >>> inquire_persons(features).question.heads
    (10,)
    """
    told = [a.person for a in data.annotations]
    return _inquire(data, told, "person", "clip", "tells of fewer than two training videos who it is")


def inquire_actions(data: FeatureSet) -> Inquiry:
    """About what is done, by people nobody has seen in training.

    >>> inquire_actions(features).question.heads
    (3,)
    """
    told = [a.action for a in data.annotations]
    return _inquire(data, told, "action", "person", "tells fewer than two actions")


def _inquire(data: FeatureSet, told: Sequence[str], what: str, by: SplitBy, lacking: str) -> Inquiry:
    parts = parts_of(data, [bool(answer) for answer in told], by)
    question = ask(told, parts.train, what)
    return Inquiry(question, parts, (), lacking) if question.heads[0] < 2 else _known(question, parts)


def _too_few(question: Question, number: int, parts: Parts) -> str:
    values = question.specs[number].values
    for part, videos in (("val", parts.val), ("test", parts.test)):
        counts = torch.bincount(question.labels[videos, number] + 1, minlength=len(values) + 1)[1:]
        if int(counts.sum()) < MIN_GROUPS or (len(values) == 2 and int(counts[1]) < MIN_GROUPS):
            return f"'{values[1]}' of {int(counts[1])} {part} videos, {MIN_GROUPS} are needed"
    return ""


def _known(question: Question, parts: Parts, notes: tuple[str, ...] = ()) -> Inquiry:
    """Asked about are those whose answers are all known; learned from those with some."""
    known = question.labels >= 0
    some, every = known.any(1), known.all(1)
    fitting = Parts(
        parts.train[some[parts.train]], parts.val[every[parts.val]], parts.test[every[parts.test]], parts.note
    )
    return Inquiry(question, fitting, (*notes, *filter(None, [parts.note])), fitting.lacks())


def answer(
    exam: Exam, inquiry: Inquiry, rows: dict[str, Rows], kind: str, *, seed: int, epochs: int = EPOCHS
) -> Answers:
    """A fresh reader of that kind sits an exam: trained on rows["train"], chosen on "val", asked once about "test".

    >>> answer(exam, inquire_persons(features), rows, "linear", seed=0).test.shape  # doctest: +SKIP
    """
    started = time.perf_counter()
    (labels, heads, _), parts = inquiry.question, inquiry.parts
    lessons = {part: Lesson(rows[part], labels[videos]) for part, videos in videos_of(parts).items()}
    model, curve = learn(
        kind, lessons["train"], heads, seed=seed, epochs=epochs, watched=lessons["val"], choice=exam_score(exam, heads)
    )
    val, test = (read(model, rows[part], heads).numpy() for part in ("val", "test"))
    seconds = time.perf_counter() - started
    return Answers(val, labels[parts.val].numpy(), test, labels[parts.test].numpy(), np.array(curve), seconds)


def videos_of(parts: Parts) -> dict[str, torch.Tensor]:
    """The videos of each part by its name.

    >>> list(videos_of(parts))
    ['train', 'val', 'test']
    """
    return {"train": parts.train, "val": parts.val, "test": parts.test}


class ProbeProtocol(LatentProtocol):
    """Attributes and persons, from static and from whole clips, by two readers each."""

    name = "probe"
    summary = "fresh linear and MLP probes read attributes and persons from static and whole clips; section 4.1"
    models = "linear, mlp"

    def prepare(self) -> None:
        """An exam for every target, sight and reader."""
        found: dict[Target, Inquiry] = {
            "attributes": inquire_attributes(self.data), "identity": inquire_persons(self.data),
        }  # fmt: skip
        self.inquiries = {target: inquiry for target, inquiry in found.items() if not inquiry.lacks}
        reasons = [inquiry.lacks for inquiry in found.values() if inquiry.lacks]
        self.lacks = "" if self.inquiries else reasons[0]
        for target, inquiry in found.items():
            self.notes += inquiry.notes
            if inquiry.lacks and self.inquiries:
                self.notes.append(f"no probe of {target}: {self.data.name} {inquiry.lacks}")
        if self.data.manifest.per_clip == 1:
            self.notes.append(f"no static clips: {self.data.name} holds none")
        sights = [sight for sight in SEEN if sight == "whole" or self.data.manifest.per_clip > 1]
        for target, inquiry in self.inquiries.items():
            for sight in sights:
                for kind in KINDS:
                    exam = Exam(
                        f"{target}-{sight}-{kind}", f"{target} from {sight} clips", target, LEVELS[sight], "clip"
                    )
                    question, persons = inquiry.question, inquiry.persons(self.data)
                    self.asked.append(Asked(exam, kind, question.heads, "attack", question.specs, persons))

    def examine(self, subject: Subject, seed: int) -> Sheet:
        """A training for each exam."""
        sheet = Sheet()
        for target, inquiry in self.inquiries.items():
            parts = videos_of(inquiry.parts)
            for sight, look in SEEN.items():
                mine = [a for a in self.asked if a.exam.target == target and a.exam.level == LEVELS[sight]]
                rows = {part: look(subject.features, videos) for part, videos in parts.items()} if mine else {}
                for asked in mine:
                    sheet.answers[asked.exam.name] = answer(
                        asked.exam, inquiry, rows, asked.reader, seed=seed, epochs=self.config.epochs or EPOCHS
                    )
        return sheet
