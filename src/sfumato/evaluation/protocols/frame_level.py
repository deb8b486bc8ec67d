"""The *frame-level* protocol (STPrivacy section 4.7, its Table 3): privacy as single frames give it away.

A fresh f'_T sees whole clips, as always; every attacker sees one frame at a time, and its answers are averaged over the
clip. Whoever is safe from these may still be known by how they move: the known protocol asks that too.
"""

from __future__ import annotations

from typing import Any

from sfumato.datasets.base import VideoDataset
from sfumato.errors import SfumatoError
from sfumato.evaluation.protocols.known import UTILITY, JudgeConfig, KnownProtocol


class FrameLevelProtocol(KnownProtocol):
    """The known protocol with those attackers alone that look at single frames."""

    name = "frame-level"
    attacks = ("frame", "identity-frames")

    def __init__(self, dataset: VideoDataset, config: JudgeConfig, **rest: Any) -> None:
        super().__init__(dataset, config, **rest)
        # A family, or an effort, names attackers of both levels.
        self.exams = [exam for exam in self.exams if exam == UTILITY or exam.level == "frame"]
        self.trainings = len(self.exams) * config.seeds
        if len(self.exams) == 1:
            raise SfumatoError(
                f"{' and '.join(config.attacks)} look at whole clips, and {self.name} asks what single frames say",
                "name attacks that look at frames, or use --protocol known",
            )
