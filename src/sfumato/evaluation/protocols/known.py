"""The *known* protocol (SPAct section 4.2, "same-dataset"): the judge knows the actions and the attributes.

Fresh f'_T and fresh attackers f'_B are trained on anonymised training clips, their epoch is chosen on validation, and the
test clips are used once. The action is judged on people nobody has seen in training; the attackers may know the people,
which makes them stronger.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sfumato.anonymizers import fingerprint, label
from sfumato.anonymizers.base import Anonymizer
from sfumato.datasets.base import Part, SplitBy, VideoDataset
from sfumato.errors import SfumatoError
from sfumato.evaluation.attacks import attacks_named
from sfumato.evaluation.exam import Answers, Exam, Examinee, Memory, Source, asked, questions, sit, truth
from sfumato.evaluation.material import Material, anonymize_clips
from sfumato.evaluation.metrics import MIN_GROUPS, leakage_removed, nhv, utility_kept
from sfumato.evaluation.provenance import code_digest, commit, versions
from sfumato.evaluation.result import Line, Result, Score
from sfumato.evaluation.scoring import Ruler, Sitting, attack_result, headline, strongest_of, utility_score
from sfumato.recognizers import level_of
from sfumato.training.device import hardware
from sfumato.training.fit import FitConfig

UTILITY = Exam("action", "what is done, by people never seen in training", "action", "video", "person")
RAW = "identity"
ATTRIBUTE_ATTACKS = ("frame", "video", "video-placed")
EVERY_ATTACK = (*ATTRIBUTE_ATTACKS, "identity", "identity-frames", "identity-placed")


@dataclass(frozen=True)
class JudgeConfig:
    """How thorough a judgement is. `standard` networks want a GPU; `tiny` ones do on a laptop."""

    models: str = "standard"
    video_model: str = ""  # another recognizer than the usual one, for exams over clips
    frame_model: str = ""  # and for exams over frames
    epochs: int = 20
    batch: int = 32
    seeds: int = 1
    views: int = 1
    attacks: tuple[str, ...] = ()  # only these; empty: those of the protocol
    vlm: str = ""  # who reads the action in the protocol zero-shot
    prompts: tuple[str, ...] = ()  # and what it is asked there; empty: the protocol's own

    def examinee(self, exam: Exam, dataset: VideoDataset) -> Examinee:
        """Who sits that exam. Frame-level examinees train on two frames of a clip at a time and are tested on eight."""
        names = {
            "standard": {"video": "r3d-18", "frame": "resnet-18"},
            "tiny": {"video": "tiny-video", "frame": "tiny-frame"},
        }
        if self.models not in names:
            raise SfumatoError(f"there are no '{self.models}' models", f"use {' or '.join(names)}")
        chosen = {"video": self.video_model, "frame": self.frame_model}[exam.level] or names[self.models][exam.level]
        level = level_of(chosen)
        if level != exam.level:
            raise SfumatoError(
                f"'{chosen}' looks at {level}s, and '{exam.name}' at {exam.level}s", "choose another one"
            )
        rate = 1e-3 if self.models == "standard" else 3e-3
        fit = FitConfig(epochs=self.epochs, batch=self.batch, learning_rate=rate, flip=dataset.mirror_safe)
        if exam.placed:
            fit = replace(fit, moved=False, flip=False)
        if exam.level == "frame":
            fit = replace(fit, frames=2, test_frames=min(8, dataset.shape.frames))
        return Examinee(chosen, fit)


@dataclass(frozen=True)
class Watch:
    """Callbacks that show where a long judgement stands: how many trainings, one more done, what is going on."""

    total: Callable[[int], None] = lambda trainings: None
    done: Callable[[str], None] = lambda what: None
    status: Callable[[str], None] = lambda text: None


def possible_exams(
    dataset: VideoDataset, config: JudgeConfig, usual: Sequence[str] = EVERY_ATTACK
) -> tuple[list[Exam], list[str]]:
    """The exams this data set has labels for, and a note for each that is left out; `usual` where none is named."""
    exams, notes = [], []
    for attack in dict.fromkeys(exam for name in config.attacks or usual for exam in attacks_named(name)):
        missing = _missing(attack, dataset)
        if missing:
            notes.append(f"attack '{attack.name}' left out: {dataset.name} {missing}")
        else:
            exams.append(attack)
    if not exams:
        raise SfumatoError(
            f"{notes[0]}, so there is nothing to attack",
            "name another attack, or list the videos in a CSV with a column 'person' or attributes: manifest:index.csv",
        )
    if len(dataset.actions) < 2:
        raise SfumatoError(f"{dataset.name} has fewer than two actions", "there is no utility to keep")
    for exam in (UTILITY, *exams):
        _check_enough(exam, dataset)
    notes += filter(None, dict.fromkeys(exam.approach.note(dataset, config.views) for exam in exams))
    return [UTILITY, *exams], notes + _split_notes(dataset, exams)


def _missing(exam: Exam, dataset: VideoDataset) -> str:
    """What the data set would need for that exam, in words that follow its name; "" if nothing."""
    if exam.target == "attributes":
        return "" if dataset.attributes else "has no attributes labels"
    return exam.approach.lacks(exam, dataset) if len(dataset.persons) > 1 else "has no identity labels"


def _split_notes(dataset: VideoDataset, exams: Sequence[Exam]) -> list[str]:
    """What the splits do not keep apart, or not together, although the exams' meaning depends on it."""

    def people(part: Part, by: SplitBy) -> set[int]:
        return set(dataset.labels(dataset.split(part, by)).person.tolist()) - {-1}

    notes = []
    if shared := people("train", "person") & people("test", "person"):
        notes.append(
            f"{len(shared)} test persons were seen in training: give a column split_person to judge new people"
        )
    train, test = (dataset.recordings(dataset.split(part, "clip")).unique() for part in ("train", "test"))
    if both := int(torch.isin(test, train).sum()):
        notes.append(
            f"{both} recordings are in training and in test: attackers may know the place instead of the person"
        )
    strangers = people("test", "clip") - people("train", "clip")
    if strangers and any(exam.target == "identity" for exam in exams):
        notes.append(f"{len(strangers)} test persons are never seen in training: no attacker can name them")
    return notes


def _check_enough(exam: Exam, dataset: VideoDataset) -> None:
    """Stop before the first training where a score or its interval could not be computed after the last."""
    for part in ("train", "val", "test"):
        clips = exam.approach.items(exam, dataset, part)
        # One may learn from a single recording; but what is asked about is resampled by them.
        units = len(clips) if part == "train" else len(dataset.recordings(clips).unique())
        if units < MIN_GROUPS:
            what = "clips" if units == len(clips) else "recordings"
            raise SfumatoError(
                f"{dataset.name} has {units} {part} {what} for '{exam.name}', {MIN_GROUPS} are needed",
                "give more videos, or move some there",
            )
        if exam.target == "attributes":
            for spec, values in zip(dataset.attributes, truth(exam, dataset.labels(clips)).T, strict=True):
                found = int((values == 1).sum())
                if spec.binary and found < MIN_GROUPS:
                    raise SfumatoError(
                        f"{dataset.name}: '{spec.name}' is '{spec.values[1]}' in {found} {part} clips, {MIN_GROUPS} are needed",
                        "give more such videos, or judge other attributes",
                    )


def measured_notes(lines: Sequence[Line]) -> list[str]:
    """What attackers measured besides their scores, a line for each anonymizer and measure.

    >>> measured_notes(result.lines)[0]
    'blur: mAP 0.41 [0.38–0.45], without looking 0.14, raw 0.62'
    """

    def told(s: Score) -> str:
        return f"{s.value:.2f} [{s.low:.2f}–{s.high:.2f}], without looking {s.chance:.2f}, raw {s.raw:.2f}"

    every = ((line.anonymizer, m) for line in lines for attack in line.attacks for m in attack.measures)
    return list(dict.fromkeys(f"{name}: {m.name} {told(m.score)}" for name, m in every))


class KnownProtocol:
    """Judges anonymizers one after another on the same clips; finished trainings are kept in `folder` and reused."""

    name = "known"
    private: tuple[str, ...] = ()  # the labels that must not be read; empty: the data set's own private attributes
    attacks: tuple[str, ...] = EVERY_ATTACK  # unless others are named

    def __init__(
        self,
        dataset: VideoDataset,
        config: JudgeConfig,
        *,
        device: torch.device,
        folder: Path,
        watch: Watch | None = None,
    ) -> None:
        self.dataset = dataset.about(self.private) if self.private else dataset
        self.config, self.device, self.folder = config, device, folder
        self.watch = watch or Watch()
        self.exams, self.notes = possible_exams(self.dataset, config, self.attacks)
        self.notes += self._private_notes()
        self.trainings = len(self.exams) * config.seeds
        self._material: Material | None = None
        self._memory = Memory()
        self._data = self.dataset.fingerprint()
        folder.mkdir(parents=True, exist_ok=True)

    def _private_notes(self) -> list[str]:
        """What "attributes" means where the protocol, not the data set, says it."""
        there = [spec.name for spec in self.dataset.attributes]
        missing = [name for name in self.private if name not in there]
        notes = [f"private here: {', '.join(there)}"] if self.private else []
        return notes + [f"'{name}' left out: {self.dataset.name} has no such labels" for name in missing]

    @property
    def material(self) -> Material:
        """Loaded when first needed: a judgement whose trainings are all on disk needs no clips at all."""
        if self._material is None:
            self._material = Material(
                self.dataset, views=self.config.views, device=self.device,
                progress=lambda done, total: self.watch.status(f"loading clips {done}/{total}"),
            )  # fmt: skip
        return self._material

    def recognizer(self, exam: Exam) -> str:
        """The name of who sits that exam."""
        return self.config.examinee(exam, self.dataset).recognizer

    def _who(self, exam: Exam) -> dict[str, Any]:
        """Everything about who sits that exam that its answers depend on, as plain JSON."""
        return asdict(self.config.examinee(exam, self.dataset))

    def _key(self, exam: Exam, anonymizer: Anonymizer, seed: int) -> Path:
        about = [
            code_digest(),
            torch.__version__,
            self.device.type,
            self._data,
            fingerprint(anonymizer),
            asdict(exam),
            type(exam.approach).__name__,
            self._who(exam),
            self.config.views,
            seed,
        ]
        digest = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:16]
        name = label(anonymizer).replace(":", "-").replace("=", "")
        return self.folder / f"{name}-{exam.name}-{seed}-{digest}.npz"

    def examine(self, anonymizer: Anonymizer) -> dict[str, list[Answers]]:
        """All exams on clips of this anonymizer, every seed: exam name → answers per seed."""
        self._memory = Memory(raw=self._memory.raw)
        pixels: Tensor | None = None
        found: dict[str, list[Answers]] = {exam.name: [] for exam in self.exams}
        for seed in range(self.config.seeds):
            for exam in self.exams:
                path = self._key(exam, anonymizer, seed)
                answers = Answers.load(path)
                if answers is None:
                    if pixels is None:
                        pixels = self._anonymized(anonymizer)
                    answers = self._sit(exam, anonymizer, pixels, seed)
                    answers.save(path)
                found[exam.name].append(answers)
                self.watch.done(f"{label(anonymizer)}: {exam.name}")
        return found

    def _anonymized(self, anonymizer: Anonymizer) -> Tensor:
        name = label(anonymizer)
        return anonymize_clips(
            anonymizer, self.material.clips, self.device,
            progress=lambda done, total: self.watch.status(f"{name}: anonymizing {done}/{total}"),
        )  # fmt: skip

    def _sit(self, exam: Exam, anonymizer: Anonymizer, pixels: Tensor, seed: int) -> Answers:
        name = label(anonymizer)

        def report(epoch: int, epochs: int, score: float) -> None:
            self.watch.status(f"{name}: {exam.name}, epoch {epoch}/{epochs}, validation {score:.2f}")

        def source(of: Tensor) -> Source:
            return lambda part: of[self.material.rows(asked(exam, self.dataset, part))]

        return sit(
            exam, self.config.examinee(exam, self.dataset), self.dataset, source(pixels), seed=seed, device=self.device,
            report=report, raw=source(self.material.clips.pixels), memory=self._memory,
        )  # fmt: skip

    def line(self, anonymizer: Anonymizer, answers: dict[str, list[Answers]], raw: dict[str, list[Answers]]) -> Line:
        """The scores of one anonymizer, paired with raw."""
        rulers = {}
        for exam in self.exams:
            sitting = Sitting(exam, self.recognizer(exam), answers[exam.name], raw[exam.name], self._recordings(exam))
            rulers[exam.name] = Ruler(sitting, questions(exam, self.dataset))
        attacks = [ruler for name, ruler in rulers.items() if name != UTILITY.name]
        targets = list(dict.fromkeys(r.sitting.exam.target for r in attacks))
        strongest = [strongest_of([r for r in attacks if r.sitting.exam.target == t]) for t in targets]
        utility, worst = utility_score(rulers[UTILITY.name]), headline(strongest)
        kept = utility_kept(utility.value, utility.chance, utility.raw)
        decided = worst.verdict == "measured" and not math.isnan(kept)
        return Line(
            label(anonymizer), utility,
            [float((a.test.argmax(1) == a.test_labels[:, 0]).mean()) for a in answers[UTILITY.name]],
            [attack_result(r, self.dataset.attributes) for r in attacks], strongest, worst,
            nhv([(kept, leakage_removed(worst.value))]) if decided else math.nan,
        )  # fmt: skip

    def _recordings(self, exam: Exam) -> tuple[np.ndarray, np.ndarray]:
        """Which of the exam's validation items, and of its test items, come from one recording."""

        def part(name: Part) -> np.ndarray:
            return self.dataset.recordings(exam.approach.items(exam, self.dataset, name)).numpy()

        return part("val"), part("test")

    def judge(self, anonymizers: Sequence[Anonymizer], raw: Anonymizer) -> Result:
        """Raw video first, then every anonymizer; one result."""
        self.watch.total(self.trainings * (1 + len(anonymizers)))
        reference = self.examine(raw)
        lines = [self.line(raw, reference, reference)]
        lines += [self.line(a, self.examine(a), reference) for a in anonymizers]
        return self._result(lines, told_where=any(a.needs_people for a in anonymizers))

    def _result(self, lines: list[Line], told_where: bool) -> Result:
        test = self.dataset.split("test", "person")
        persons = self.dataset.labels(test).person
        people = persons[persons >= 0].unique().numel()
        shape = self.dataset.shape
        shared = len(self.dataset.recordings(test).unique()) < len(test)
        notes = [
            *self.notes,
            f"judged on clips of {shape.frames}×{shape.height}×{shape.width}; intervals are over "
            f"{'recordings' if shared else 'clips'}",
            *measured_notes(lines),
        ]
        if not people:
            notes.append("who is in the clips is not known: the action may be judged on people seen in training")
        elif people < 5:
            notes.append(f"only {people} test persons for the action: no interval over persons")
        if told_where:
            notes.append("*-people are told exactly where people are: a detector that misses somebody leaks more")
        models = {exam.name: self.recognizer(exam) for exam in self.exams}
        return Result(
            self.name, self.dataset.name, len(self.dataset.actions), len(self.dataset.persons), len(test), people,
            list(range(self.config.seeds)), models, self.config.epochs, hardware(self.device), versions(), commit(),
            lines, notes,
        )  # fmt: skip
