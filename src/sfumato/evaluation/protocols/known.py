"""The *known* protocol (SPAct section 4.1, "same-dataset"): the judge knows the actions and the attributes.

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
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sfumato.anonymizers import fingerprint, label
from sfumato.anonymizers.base import Anonymizer
from sfumato.datasets.base import Part, VideoDataset
from sfumato.errors import SfumatoError, counted
from sfumato.evaluation.admission import check_enough as _check_enough
from sfumato.evaluation.admission import missing as _missing
from sfumato.evaluation.admission import require_actions, split_notes, without_rare
from sfumato.evaluation.attacks import attacks_named
from sfumato.evaluation.attacks.architectures import STAND_IN
from sfumato.evaluation.attacks.ensemble import ENSEMBLE, average, ensemble_result
from sfumato.evaluation.comparison import Evidence, difference_notes, differences, front, tradeoff_notes
from sfumato.evaluation.effort import attacks_of
from sfumato.evaluation.exam import Answers, Exam, Examinee, Memory, Source, asked, questions, sit
from sfumato.evaluation.material import Material, anonymize_clips
from sfumato.evaluation.metrics import leakage_removed, nhv, utility_kept
from sfumato.evaluation.notes import effort_notes, measured_notes, persons_note, seeds_note
from sfumato.evaluation.provenance import commit, judging_digest, versions
from sfumato.evaluation.result import Leakage, Line, Result, Strongest
from sfumato.evaluation.scoring import (
    Ruler,
    Sitting,
    attack_result,
    by_target,
    choose,
    headline,
    per_seed,
    reader,
    utility_draws,
    utility_score,
)
from sfumato.recognizers import level_of
from sfumato.training.device import hardware
from sfumato.training.fit import FitConfig
from sfumato.turns import turn
from sfumato.video.sampling import crop_boxes

UTILITY = Exam("action", "what is done, by people never seen in training", "action", "video", "person")
RAW = "identity"
# The decoding ones read what all others look past because it is faint.
ATTRIBUTE_ATTACKS = ("frame", "video", "video-placed", "decode-frame")
EVERY_ATTACK = (*ATTRIBUTE_ATTACKS, "identity", "identity-frames", "identity-placed", "decode-identity-frames")


@dataclass(frozen=True)
class JudgeConfig:
    """How thorough a judgement is. `standard` networks want a GPU; `tiny` ones do on a laptop."""

    models: str = "standard"
    video_model: str = ""  # another recognizer than the usual one, for exams over clips
    frame_model: str = ""  # and for exams over frames
    epochs: int = 20
    batch: int = 32
    seeds: int = 1
    first_seed: int = 0
    views: int = 1
    crop: float = 1.0  # of a picture's sides, what networks see of it when they are tested
    crops: int = 1  # such crops, from end to end, whose answers are averaged
    attacks: tuple[str, ...] = ()  # only these; empty: those of the protocol, by the effort
    effort: str = "standard"  # see evaluation/effort.py; its epochs are for whoever sets `epochs`
    vlm: str = ""  # who reads the action in the protocol zero-shot
    prompts: tuple[str, ...] = ()  # and what it is asked there; empty: the protocol's own

    def __post_init__(self) -> None:
        crop_boxes(100, 100, self.crop, self.crops)  # refuses what is no crop

    def examinee(self, exam: Exam, dataset: VideoDataset) -> Examinee:
        """Who sits that exam. Frame-level examinees train on two frames of a clip at a time and are tested on eight."""
        names = {
            "standard": {"video": "r3d-18", "frame": "resnet-18"},
            "tiny": {"video": "tiny-video", "frame": "tiny-frame"},
        }
        if self.models not in names:
            raise SfumatoError(f"there are no '{self.models}' models", f"use {' or '.join(names)}")
        usual = {"video": self.video_model, "frame": self.frame_model}[exam.level] or names[self.models][exam.level]
        chosen = exam.recognizer or usual
        level = level_of(chosen)
        if level != exam.level:
            raise SfumatoError(
                f"'{chosen}' looks at {level}s, and '{exam.name}' at {exam.level}s", "choose another one"
            )
        rate = 1e-3 if self.models == "standard" or exam.recognizer else 3e-3
        fit = FitConfig(
            epochs=self.epochs, batch=self.batch, learning_rate=rate, flip=dataset.mirror_safe, test_crop=self.crop,
            test_crops=self.crops,
        )  # fmt: skip
        if exam.placed:
            fit = replace(fit, moved=False, flip=False)
        if exam.level == "frame":
            fit = replace(fit, frames=2, test_frames=min(8, dataset.shape.frames))
        return Examinee(chosen, fit, STAND_IN if exam.recognizer and self.models == "tiny" else 1.0)

    def every_seed(self) -> range:
        """The seeds of the networks that are trained."""
        return range(self.first_seed, self.first_seed + self.seeds)

    @property
    def ensemble(self) -> bool:
        """Whether the attackers on a target also answer together."""
        return ENSEMBLE.name in (self.attacks or attacks_of(self.effort, ()))


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
    named = config.attacks or attacks_of(config.effort, usual)
    if set(named) == {ENSEMBLE.name}:
        named = (*usual, ENSEMBLE.name)
    exams, notes = [], []
    for attack in dict.fromkeys(exam for name in named for exam in attacks_named(name) if exam != ENSEMBLE):
        lacking = _missing(attack, dataset)
        if not config.attacks and attack.name not in usual:
            lacking = lacking or _too_few(attack, dataset)
        if lacking:
            notes.append(f"attack '{attack.name}' left out: {dataset.name} {lacking}")
        else:
            exams.append(attack)
    if not exams:
        raise SfumatoError(
            f"{notes[0]}, so there is nothing to attack",
            "name another attack, or list the videos in a CSV with a column 'person' or attributes: manifest:index.csv",
        )
    require_actions(dataset)
    for exam in (UTILITY, *exams):
        _check_enough(exam, dataset)
    notes += filter(None, dict.fromkeys(exam.approach.note(dataset, config.views) for exam in exams))
    meant = {exam.name for name in named for exam in attacks_named(name)}
    if unasked := [name for name in usual if name not in meant and not _missing(attacks_named(name)[0], dataset)]:
        notes.append(
            f"attackers that usually attack here and were not asked: {', '.join(unasked)}; to them more may leak"
        )
    return [UTILITY, *exams], notes + split_notes(dataset, exams)


def _too_few(exam: Exam, dataset: VideoDataset) -> str:
    """As `_missing`, for exams that nobody asked for by name: what they lack must not stop the others."""
    try:
        _check_enough(exam, dataset)
    except SfumatoError as error:
        return str(error).removeprefix(f"{dataset.name} ").removeprefix(f"{dataset.name}: ")
    return ""


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
        self.dataset, rare = without_rare(dataset.about(self.private) if self.private else dataset)
        self.config, self.device, self.folder = config, device, folder
        self.watch = watch or Watch()
        self.exams, self.notes = possible_exams(self.dataset, config, self.attacks)
        self.notes += [*rare, *self._private_notes()]
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
                self.dataset, views=self.config.views, device=self.device, folder=self.folder,
                progress=lambda done, total: self.watch.status(f"loading clips {done}/{total}"),
            )  # fmt: skip
        return self._material

    def recognizer(self, exam: Exam) -> str:
        """The name of who sits that exam."""
        who = self.config.examinee(exam, self.dataset)
        return who.recognizer if who.width == 1 else f"{who.recognizer}, {who.width:g} as wide"

    def _who(self, exam: Exam) -> dict[str, Any]:
        """Everything about who sits that exam that its answers depend on, as plain JSON."""
        return asdict(self.config.examinee(exam, self.dataset))

    def _key(self, exam: Exam, anonymizer: Anonymizer, seed: int) -> Path:
        about = [
            judging_digest(),
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

    def examine(self, anonymizer: Anonymizer, *, wait: bool = True) -> dict[str, list[Answers]]:
        """All exams on clips of this anonymizer, every seed: exam name → answers per seed.

        Processes that judge the same share the exams: what another one sits just now comes last, or, where nobody is to
        wait, is left out.
        """
        self._memory = Memory(raw=self._memory.raw)
        clips = cache(lambda: self._anonymized(anonymizer))
        sittings = [(exam, seed) for seed in self.config.every_seed() for exam in self.exams]
        found: dict[tuple[str, int], Answers] = {}
        for patient in (False, True) if wait else (False,):
            for exam, seed in sittings:
                if (exam.name, seed) in found:
                    continue
                answers = self._answers(exam, anonymizer, seed, clips, wait=patient)
                if answers is not None:
                    found[exam.name, seed] = answers
                    self.watch.done(f"{label(anonymizer)}: {exam.name}")
        seeds = self.config.every_seed()
        return {e.name: [found[e.name, seed] for seed in seeds if (e.name, seed) in found] for e in self.exams}

    def _answers(
        self, exam: Exam, anonymizer: Anonymizer, seed: int, clips: Callable[[], Tensor], *, wait: bool
    ) -> Answers | None:
        """Those that are kept, or new ones; None where another process sits the exam and is not to be waited for."""
        path = self._key(exam, anonymizer, seed)
        if (kept := Answers.load(path)) is not None:
            return kept
        with turn(path, wait=wait) as mine:
            if not mine:
                return None
            if (kept := Answers.load(path)) is not None:  # left by who had the turn before
                return kept
            if path.exists():
                self.notes.append(f"{path.name} was not as it was written: that training was done again")
            answers = self._sit(exam, anonymizer, clips(), seed)
            answers.save(path)
        return answers

    def _anonymized(self, anonymizer: Anonymizer) -> Tensor:
        name = label(anonymizer)
        return anonymize_clips(
            anonymizer, self.material.clips, self.device, into=self.material.reserve(len(self.material.clips.pixels)),
            progress=lambda done, total: self.watch.status(f"{name}: anonymizing {done}/{total}"),
        )  # fmt: skip

    def _sit(self, exam: Exam, anonymizer: Anonymizer, pixels: Tensor, seed: int) -> Answers:
        name = label(anonymizer)

        def report(epoch: int, epochs: int, score: float) -> None:
            self.watch.status(f"{name}: {exam.name}, epoch {epoch}/{epochs}, validation {score:.2f}")

        def source(of: Tensor) -> Source:
            return lambda part: self.material.part(of, asked(exam, self.dataset, part))

        return sit(
            exam, self.config.examinee(exam, self.dataset), self.dataset, source(pixels), seed=seed, device=self.device,
            report=report, raw=source(self.material.clips.pixels), memory=self._memory, native=anonymizer.spec.size,
        )  # fmt: skip

    def line(self, anonymizer: Anonymizer, answers: dict[str, list[Answers]], raw: dict[str, list[Answers]]) -> Line:
        """The scores of one anonymizer, paired with raw."""
        return self.assess(anonymizer, answers, raw)[0]

    def assess(
        self, anonymizer: Anonymizer, answers: dict[str, list[Answers]], raw: dict[str, list[Answers]]
    ) -> tuple[Line, Evidence]:
        """The scores of one anonymizer, paired with raw, and what they are on every resample."""
        rulers = {exam.name: self._ruler_of(exam, answers[exam.name], raw[exam.name]) for exam in self.exams}
        action = rulers.pop(UTILITY.name)
        readers = [rulers.pop(exam.name) for exam in self.exams if exam.target == "action" and exam != UTILITY]
        attacks = [attack_result(ruler, self.dataset.attributes) for ruler in rulers.values()]
        choices = []
        for members in by_target(rulers.values()).values():
            together = self.config.ensemble and len(members) > 1
            candidates = [*members, average(members)] if together else members
            choices.append(choose(candidates))
            if together:
                attacks.append(ensemble_result(candidates, choices[-1].strongest, self.dataset.attributes))
        strongest = [choice.strongest for choice in choices]
        evidence = {c.strongest.target: c.leakage for c in choices if c.leakage is not None}
        utility, worst = utility_score(action), headline(self._counted(strongest), evidence)
        kept = utility_kept(utility.value, utility.chance, utility.raw)
        decided = worst.verdict == "measured" and not math.isnan(kept)
        found = Line(
            label(anonymizer), utility, per_seed(action), attacks, strongest, worst,
            nhv([(kept, leakage_removed(worst.value))]) if decided else math.nan,
            readers=[reader(ruler) for ruler in (action, *readers)] if readers else [],
        )  # fmt: skip
        return found, {UTILITY.name: utility_draws(action), **evidence}

    def on_frames(self, answers: dict[str, list[Answers]], raw: dict[str, list[Answers]]) -> Leakage | None:
        """What leaks to the attackers who see single frames alone; None where there are none."""
        exams = [exam for exam in self.exams if exam.level == "frame" and exam.target != "action"]
        rulers = by_target(self._ruler_of(exam, answers[exam.name], raw[exam.name]) for exam in exams)
        choices = [choose(members) for members in rulers.values()]
        drawn = {c.strongest.target: c.leakage for c in choices if c.leakage is not None}
        return headline([choice.strongest for choice in choices], drawn) if choices else None

    def _ruler_of(self, exam: Exam, answers: list[Answers], raw: list[Answers]) -> Ruler:
        groups, persons = self._recordings(exam), self._persons(exam)
        return Ruler(Sitting(exam, self.recognizer(exam), answers, raw, groups, persons), questions(exam, self.dataset))

    def _counted(self, strongest: list[Strongest]) -> list[Strongest]:
        """Those the headline is about: a target that only the effort added must not make the others inconclusive."""
        named = set(self.config.attacks or self.attacks) - {ENSEMBLE.name} or self.attacks  # which is made of others
        asked = {exam.target for name in named for exam in attacks_named(name)}
        return [s for s in strongest if s.target in asked or s.leakage.verdict == "measured"]

    def _recordings(self, exam: Exam) -> tuple[np.ndarray, np.ndarray]:
        """Which of the exam's validation items, and of its test items, come from one recording."""

        def part(name: Part) -> np.ndarray:
            return self.dataset.recordings(exam.approach.items(exam, self.dataset, name)).numpy()

        return part("val"), part("test")

    def _persons(self, exam: Exam) -> tuple[np.ndarray, np.ndarray]:
        """Who is in the exam's validation items, and in its test items; −1: nobody knows."""

        def part(name: Part) -> np.ndarray:
            return self.dataset.labels(exam.approach.items(exam, self.dataset, name)).person.numpy()

        return part("val"), part("test")

    def judge(self, anonymizers: Sequence[Anonymizer], raw: Anonymizer) -> Result:
        """Raw video first, then every anonymizer; one result."""
        self.watch.total(self.trainings * (1 + len(anonymizers)))
        reference = self.examine(raw)
        lines = [self.line(raw, reference, reference)]
        evidence = {}
        for anonymizer in anonymizers:
            found, evidence[label(anonymizer)] = self.assess(anonymizer, self.examine(anonymizer), reference)
            lines.append(found)
        pairs = differences(evidence)
        result = self._result(lines, told_where=any(a.needs_people for a in anonymizers))
        order = difference_notes(pairs, lines[1:])
        result.notes += [*order, seeds_note(self.config.seeds), *tradeoff_notes(lines[1:])]
        result.differences, result.pareto = pairs, front(lines[1:])
        return result

    def _result(self, lines: list[Line], told_where: bool) -> Result:
        test = self.dataset.split("test", "person")
        persons = self.dataset.labels(test).person
        people = persons[persons >= 0].unique().numel()
        shape = self.dataset.shape
        shared = len(self.dataset.recordings(test).unique()) < len(test)
        notes = [
            *self.notes,
            f"judged on clips of {shape.frames}×{shape.height}×{shape.width}; intervals are over "
            f"{'recordings' if shared else 'clips'}{persons_note(lines)}",
            *measured_notes(lines),
            *effort_notes(lines, self.config.epochs),
        ]
        if any(len(self._counted(line.strongest)) < len(line.strongest) for line in lines):
            notes.append("a target that only the effort adds, and nobody can read on raw video, is not in the headline")
        if not people:
            notes.append("who is in the clips is not known: the action may be judged on people seen in training")
        elif people < 5:
            notes.append(f"only {counted(people, 'test person')} for the action: no interval over persons")
        if told_where:
            notes.append("*-people are told exactly where people are: a detector that misses somebody leaks more")
        models = {exam.name: self.recognizer(exam) for exam in self.exams}
        return Result(
            self.name, self.dataset.name, len(self.dataset.actions), len(self.dataset.persons), len(test), people,
            list(self.config.every_seed()), models, self.config.epochs, hardware(self.device), versions(), commit(),
            lines, notes, effort=self.config.effort,
        )  # fmt: skip
