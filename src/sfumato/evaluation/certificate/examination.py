"""A certificate from an anonymizer and footage: who is asked, in which order, and how it is put into words."""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import get_args

import torch

from sfumato.anonymizers import fingerprint, label, load
from sfumato.anonymizers.base import Anonymizer
from sfumato.datasets.files import FileDataset, Sampling
from sfumato.datasets.footage import (
    LabelledFootage,
    Recordings,
    content_digest,
    file_digest,
    footage_files,
    sampled,
)
from sfumato.errors import SfumatoError
from sfumato.evaluation.attacks import attacks_named
from sfumato.evaluation.attacks.ensemble import ENSEMBLE
from sfumato.evaluation.certificate.document import Certificate, Utility
from sfumato.evaluation.certificate.questions import NO_LABELS, Interrogation, askable
from sfumato.evaluation.certificate.verdict import ENOUGH, Exposure, meaning, worst
from sfumato.evaluation.certificate.wording import ABOUT_PEOPLE, doubts, headline, not_tested
from sfumato.evaluation.effort import STANDARD, attacks_of, find_effort
from sfumato.evaluation.exam import Exam, Target
from sfumato.evaluation.protocols.known import RAW, UTILITY, JudgeConfig, Watch
from sfumato.evaluation.provenance import code_digest, commit, versions
from sfumato.training.device import hardware

BATCH = 32
THOROUGH = "thorough"


@dataclass(frozen=True)
class Scale:
    """What a device can afford. Clips are of `frames` unless the anonymizer takes another number of them."""

    models: str
    frames: int
    steps: int  # of every training, about, by the usual effort
    recordings: int  # labelled ones, at most
    linked: int  # and recordings whose pieces are linked, at most
    views: int  # of every labelled recording
    attacks: tuple[str, ...]  # by the usual effort
    size: int = 112


# A CPU takes minutes, since a training has so many steps however many recordings there are. Of the attackers on one question
# each is the stronger one somewhere: single frames give a blurred person away, where things are a coarse picture, and what is
# faint one that was repainted.
SCALES = {
    "cpu": Scale(
        "tiny", 8, 160, 1000, 60, 2,
        (
            "frame", "video-placed", "decode-frame", "identity-frames", "identity-placed", "decode-identity-frames",
            "reid-frames",
        ),
    ),
    "cuda": Scale(
        "standard", 16, 800, 1500, 300, 3,
        (
            "frame", "video", "video-placed", "decode-frame", "identity", "identity-frames", "identity-placed",
            "decode-identity-frames", "reid", "reid-frames",
        ),
    ),
}  # fmt: skip


@dataclass(frozen=True)
class _Setting:
    """What all interrogations share."""

    scale: Scale
    effort: str
    seeds: int
    device: torch.device
    folder: Path
    watch: Watch

    def interrogate(self, dataset: FileDataset, wanted: Sequence[Exam], linked: bool) -> Interrogation:
        lessons = max(1, len(dataset.split("train", "clip")) // BATCH)
        epochs = math.ceil(find_effort(self.effort).epochs * self.scale.steps / lessons)
        config = JudgeConfig(
            models=self.scale.models, epochs=max(4, epochs), batch=BATCH, seeds=self.seeds,
            views=1 if linked else self.scale.views,
        )  # fmt: skip
        return Interrogation(
            dataset, wanted, config, linked=linked, together=ENSEMBLE.name in self.names, device=self.device,
            folder=self.folder, watch=self.watch,
        )  # fmt: skip

    @property
    def names(self) -> tuple[str, ...]:
        """Of the attacks."""
        return attacks_of(self.effort, self.scale.attacks)

    def attacks(self) -> list[Exam]:
        """Each once."""
        every = (exam for name in self.names for exam in attacks_named(name) if exam != ENSEMBLE)
        return list(dict.fromkeys(every))


def certify(
    anonymizer: Anonymizer, footage: Path, labels: Path | None, *, seeds: int, device: torch.device, folder: Path,
    watch: Watch, effort: str = STANDARD, recordings: int | None = None, scale: Scale | None = None,
) -> Certificate:  # fmt: skip
    """Attack the anonymizer on the footage; finished trainings are kept in `folder` and reused.

    recordings: so many are used at most; None: as many as the device can afford.

    >>> certify(load("blur"), Path("camera-3"), None, seeds=1, device=cpu, folder=runs, watch=Watch()).verdict
    'largely exposed'
    """
    if anonymizer.needs_people:
        raise SfumatoError(
            f"'{label(anonymizer)}' needs to know where people are, and files come without person masks",
            "choose another anonymizer",
        )
    how = scale or SCALES["cuda" if device.type == "cuda" else "cpu"]
    if recordings:
        how = replace(how, recordings=recordings, linked=recordings)
    spec = anonymizer.spec
    sampling = Sampling(spec.length or how.frames, how.size, spec.frame_step if spec.length else None)
    files = footage_files(footage)
    setting = _Setting(how, effort, seeds, device, folder, watch)
    asking, rare = _interrogations(footage, files, labels, sampling, setting)
    used = sorted({row.path.resolve() for one in asking for row in one.footage.rows})
    watch.total(sum(one.trainings for one in asking) * (1 if label(anonymizer) == RAW else 2))
    digest = content_digest(
        used, footage.resolve(), lambda done, total: watch.status(f"reading recordings {done}/{total}")
    )
    raw, findings, utility = load(RAW), [], Utility()
    for one in asking:
        found, useful = one.ask(anonymizer, raw)
        findings += found
        utility = useful or utility
    findings.sort(key=lambda finding: finding.target == "attributes")  # who somebody is comes first
    level = worst([Exposure(finding.exposure) for finding in findings])
    about = [finding for finding in findings if finding.exposure == level.value]
    exposed = [finding.title for finding in about] if level.leaks else []
    exams = [(one, exam) for one in asking for exam in one.exams]
    hashes = {"anonymizer": fingerprint(anonymizer), "footage": digest, "code": code_digest()}
    return Certificate(
        label(anonymizer), level.value, headline(level, about), exposed, meaning(level, exposed),
        doubts(level, findings, len(used), len(files)), findings, utility,
        _untested(asking, rare, setting, len(used), len(files)),
        str(footage), str(labels or ""), len(used), len(files), [sampling.frames, how.size, how.size],
        {exam.name: one.recognizer(exam) for one, exam in exams}, {exam.name: one.steps(exam) for one, exam in exams},
        effort, seeds, {**hashes, "labels": file_digest(labels)} if labels else hashes, hardware(device), versions(), commit(),
        datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
    )  # fmt: skip


def _interrogations(
    footage: Path, files: Sequence[Path], labels: Path | None, sampling: Sampling, setting: _Setting
) -> tuple[list[Interrogation], list[str]]:
    """Who is asked what: labelled recordings about their labels, and unless persons are among them, pieces of recordings.

    Also the names of the attributes that are too rare to be asked about.
    """
    attacks = setting.attacks()
    people = [exam for exam in attacks if exam.target in ABOUT_PEOPLE]
    asking: list[Interrogation] = []
    rare: list[str] = []
    groups: dict[Path, str] = {}
    if labels:
        table = LabelledFootage(footage, labels, sampling, most=setting.scale.recordings)
        groups = table.groups()
        dataset, rare = askable(table)
        asking.append(setting.interrogate(dataset, [UTILITY, *attacks], linked=False))
    if not asking or not any(exam.target == "identity" for exam in asking[0].exams):
        if asking:  # a stranger that is no named person is a recording
            asking[0].exams = [exam for exam in asking[0].exams if exam.target not in ABOUT_PEOPLE]
            asking[0].trainings = len(asking[0].exams) * setting.seeds
        recordings = Recordings(footage, sampled(files, footage, setting.scale.linked), sampling, groups)
        asking.append(setting.interrogate(recordings, people, linked=True))
    if not any(exam != UTILITY for one in asking for exam in one.exams):
        there = asking[-1].recordings()
        raise SfumatoError(
            f"{there} recording{'s' * (there != 1)} of '{footage}' can be used, too few to attack",
            f"give at least {ENOUGH}",
            left_out=[problem for one in asking for problem in one.footage.problems],
        )
    return asking, rare


def _untested(
    asking: Sequence[Interrogation], rare: Sequence[str], setting: _Setting, used: int, found: int
) -> list[str]:
    there = {exam.target for one in asking for exam in one.exams}
    why = {target: reason for one in asking for target, reason in one.left_out.items()}
    usual = {target: f"not tried by the effort {setting.effort}" for target in ABOUT_PEOPLE}
    missing: dict[str, str] = {
        target: why.get(target) or usual.get(target, NO_LABELS) for target in get_args(Target) if target not in there
    }
    problems = [problem for one in asking for problem in one.footage.problems]
    return not_tested(
        missing, rare, linked=any(one.linked for one in asking), used=used, found=found, problems=problems,
        size=asking[0].footage.sampling.size, thorough=setting.effort == THOROUGH,
        unasked=[
            name
            for name in setting.scale.attacks
            if name not in setting.names and {exam.target for exam in attacks_named(name)} <= there
        ],
    )  # fmt: skip
