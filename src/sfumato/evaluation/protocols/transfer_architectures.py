"""The *transfer-architectures* protocol (the penalty paper's sections 8.2 and 8.4, its Tables 5 and 7): was f_A made for one
network only?

It was trained beside one f_T and against one f_B. Here fresh f'_T of five other architectures read the action from its
video, and every attack is done by ResNets of five depths. Each stands beside the same network on raw video. The usual f'_T
reads too, and is the one whose score the table shows. A C3D has batch norm here: begun from nothing it learns nothing without.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sfumato.anonymizers.base import Anonymizer
from sfumato.datasets.base import VideoDataset
from sfumato.errors import SfumatoError
from sfumato.evaluation.admission import missing
from sfumato.evaluation.exam import Exam, Level
from sfumato.evaluation.protocols.known import UTILITY, JudgeConfig, KnownProtocol
from sfumato.evaluation.result import Leakage, Line, Result
from sfumato.recognizers.image import RESNETS

NETWORKS: dict[Level, tuple[str, ...]] = {
    "video": ("r3d-18", "r2plus1d-18", "mvit-v2-s", "i3d-r50", "c3d"),  # f'_T, and attackers that see clips
    "frame": tuple(f"resnet-{layers}" for layers in RESNETS),  # f'_B
}


class TransferArchitecturesProtocol(KnownProtocol):
    """The known protocol with every exam sat by many networks; `Line.readers` are the f'_T."""

    name = "transfer-architectures"
    attacks = ("frame", "identity-frames")

    def __init__(self, dataset: VideoDataset, config: JudgeConfig, **rest: Any) -> None:
        # The attacks are these whatever the effort: who sits them is the question here.
        super().__init__(dataset, replace(config, attacks=config.attacks or self.attacks), **rest)
        usual = self._who(UTILITY)
        wanted = [by for exam in self.exams for by in _by_every_network(exam)]
        lacking = {exam: missing(exam, self.dataset) for exam in wanted}
        self.notes += [f"'{exam.name}' left out: {self.dataset.name} {why}" for exam, why in lacking.items() if why]
        others = [
            exam for exam in wanted if not lacking[exam] and not (exam.target == "action" and self._who(exam) == usual)
        ]
        self.exams = [UTILITY, *others]
        self.trainings = len(self.exams) * config.seeds
        if all(exam.target == "action" for exam in self.exams):
            raise SfumatoError(f"no network here takes the clips of {self.dataset.name}", "give larger or longer clips")

    def judge(self, anonymizers: Sequence[Anonymizer], raw: Anonymizer) -> Result:
        """As the known protocol, with what each network came to among the notes."""
        result = super().judge(anonymizers, raw)
        result.notes += architecture_notes(result.lines[1:])
        return result


def _by_every_network(exam: Exam) -> list[Exam]:
    """The exam by each network of its level, unless it says itself who sits it."""
    if exam.recognizer:
        return [exam]
    return [
        replace(exam, name=f"{exam.name}-{network}", summary=f"{exam.summary}, by a {network}", recognizer=network)
        for network in NETWORKS[exam.level]
    ]


def architecture_notes(lines: Sequence[Line]) -> list[str]:
    """What is kept of the action, and what leaks, by each network: a sentence for each anonymizer and question.

    >>> architecture_notes(result.lines[1:])[0]
    'blur: of the action above chance is kept by r3d-18 0.97, c3d 0.95'
    """
    notes = []
    for line in lines:
        kept = [(reader.recognizer, reader.kept) for reader in line.readers]
        notes.append(f"{line.anonymizer}: of the action above chance is kept by {_told(kept)}")
        for target in dict.fromkeys(attack.target for attack in line.attacks):
            leaks = [(attack.recognizer, attack.leakage) for attack in line.attacks if attack.target == target]
            notes.append(f"{line.anonymizer}: of {target} leaks to {_told(leaks)}")
    return notes


def _told(found: Sequence[tuple[str, Leakage]]) -> str:
    shares = [(network.partition(",")[0], share.value) for network, share in found]
    told = ", ".join(f"{network} {value:.2f}" for network, value in shares if math.isfinite(value)) or "none"
    weak = ", ".join(network for network, value in shares if not math.isfinite(value))
    return f"{told}; too weak on raw video: {weak}" if weak else told
