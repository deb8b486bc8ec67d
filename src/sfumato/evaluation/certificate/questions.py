"""What a data set of footage can be asked, by which attackers; and the trainings this takes."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path

import torch

from sfumato.anonymizers import label
from sfumato.anonymizers.base import Anonymizer
from sfumato.datasets.base import VideoDataset
from sfumato.datasets.files import FileDataset
from sfumato.errors import SfumatoError
from sfumato.evaluation.admission import check_enough, missing
from sfumato.evaluation.attacks.ensemble import average
from sfumato.evaluation.certificate.document import Finding, Utility
from sfumato.evaluation.certificate.measure import measured, usefulness
from sfumato.evaluation.exam import Answers, Exam, Memory, Target, asked, questions
from sfumato.evaluation.material import Material
from sfumato.evaluation.metrics import MIN_GROUPS
from sfumato.evaluation.protocols.known import RAW, JudgeConfig, KnownProtocol, Watch
from sfumato.evaluation.scoring import Ruler, Sitting

NO_LABELS = "there are no labels of it"
NAMED = {"identity": "who a person is", "re-identification": "whether two recordings show the same person"}
# The person of a clip is the recording that it was cut from.
LINKED = {
    "identity": "whose recording a clip was cut from",
    "re-identification": "whether two clips show the person of one recording",
}


class Interrogation(KnownProtocol):
    """The trainings of the known protocol, for those of the `wanted` exams that this footage has clips and labels for.

    `left_out` says why of each other target. linked: the persons of `dataset` are recordings. together: the attackers
    on a target also answer as one.
    """

    name = "certify"

    def __init__(
        self, dataset: FileDataset, wanted: Sequence[Exam], config: JudgeConfig, *, linked: bool, together: bool,
        device: torch.device, folder: Path, watch: Watch,
    ) -> None:  # fmt: skip
        # Not the known protocol's own: that one stops where one of its exams cannot be sat.
        self.dataset, self.config, self.device, self.folder, self.watch = dataset, config, device, folder, watch
        reasons = {exam: why_not(exam, dataset) for exam in wanted}
        self.exams = [exam for exam in wanted if not reasons[exam]]
        there = {exam.target for exam in self.exams}
        self.left_out: dict[Target, str] = {
            exam.target: reason for exam, reason in reasons.items() if reason and exam.target not in there
        }
        self.footage, self.linked, self.together = dataset, linked, together
        self.notes = []
        self.trainings = len(self.exams) * config.seeds
        self._material: Material | None = None
        self._memory = Memory()
        self._data = dataset.fingerprint()

    def ask(self, anonymizer: Anonymizer, raw: Anonymizer) -> tuple[list[Finding], Utility | None]:
        """Train everybody on raw clips and on anonymised ones, unless that was done before; what they find."""
        self.folder.mkdir(parents=True, exist_ok=True)
        reference = self.examine(raw)
        answers = reference if label(anonymizer) == RAW else self.examine(anonymizer)
        by_target: dict[Target, list[Ruler]] = {}
        for exam in self.exams:
            by_target.setdefault(exam.target, []).append(self._ruler(exam, answers, reference))
        utility = usefulness(by_target["action"][0]) if "action" in by_target else None
        findings: list[Finding] = []
        names: list[str]
        for target, rulers in by_target.items():
            if target == "attributes":
                names = [spec.name for spec in self.dataset.attributes]
                titles = [name.replace("_", " ") for name in names]
            elif target != "action":
                names, titles = [target], [(LINKED if self.linked else NAMED)[target]]
            else:
                continue
            candidates = [*rulers, average(rulers)] if self.together and len(rulers) > 1 else rulers
            findings += measured(candidates, names, titles, self.recordings(), len(self.dataset.persons))
        return findings, utility

    def _ruler(self, exam: Exam, answers: dict[str, list[Answers]], raw: dict[str, list[Answers]]) -> Ruler:
        persons = None if self.linked else self._persons(exam)  # who is a recording is resampled with it
        sitting = Sitting(
            exam, self.recognizer(exam), answers[exam.name], raw[exam.name], self._recordings(exam), persons
        )
        return Ruler(sitting, questions(exam, self.dataset))

    def steps(self, exam: Exam) -> int:
        """How many steps each training of an exam takes."""
        return max(1, len(asked(exam, self.dataset, "train")) // self.config.batch) * self.config.epochs

    def recordings(self) -> int:
        """How many there are in all."""
        every = torch.arange(len(self.dataset))
        return len((self.dataset.labels(every).person if self.linked else self.dataset.recordings(every)).unique())


def why_not(exam: Exam, dataset: VideoDataset) -> str:
    """Why that exam cannot be sat here, in words for whoever gave the footage; "" if it can.

    >>> why_not(FRAME, footage)
    'there are no labels of it'
    """
    labelled = {"action": len(dataset.actions) > 1, "attributes": bool(dataset.attributes)}
    if not labelled.get(exam.target, len(dataset.persons) > 1):
        return NO_LABELS
    if exam.target != "action" and missing(exam, dataset):
        return "there are too few recordings"
    try:
        check_enough(exam, dataset)
    except SfumatoError:
        return "there are too few recordings"
    return ""


def askable(dataset: FileDataset) -> tuple[FileDataset, list[str]]:
    """The same clips with those attributes of which two values are frequent enough in every part; the names of the others.

    >>> askable(ManifestDataset("index.csv"))[1]  # doctest: +SKIP
    ['beard']
    """
    rare = []
    for i, spec in enumerate(dataset.attributes):
        for part in ("train", "val", "test"):
            clips = dataset.split(part, "clip")
            values = dataset.labels(clips).attributes[:, i]
            # Clips of one recording are drawn together, so that those asked about count once.
            told = clips if part == "train" else dataset.recordings(clips)
            pairs = torch.stack([values, told], dim=1)[values >= 0].unique(dim=0)
            counts = torch.bincount(pairs[:, 0], minlength=len(spec.values))
            if int((counts >= MIN_GROUPS).sum()) < 2:
                rare.append(spec.name)
                break
    view = copy.copy(dataset)
    view.attributes = tuple(spec for spec in dataset.attributes if spec.name not in rare)
    return view, rare
