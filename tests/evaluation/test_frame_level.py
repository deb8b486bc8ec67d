from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from sfumato.anonymizers import load
from sfumato.datasets.theatre import TheatreDataset
from sfumato.errors import SfumatoError
from sfumato.evaluation import scoring
from sfumato.evaluation.protocols import PROTOCOLS, known
from sfumato.evaluation.protocols.frame_level import FrameLevelProtocol
from sfumato.evaluation.protocols.known import JudgeConfig

from .test_known import pretend

CPU = torch.device("cpu")
TINY = JudgeConfig(models="tiny", epochs=1, batch=12)


def judge(data: TheatreDataset, folder: Path, config: JudgeConfig = TINY) -> FrameLevelProtocol:
    return FrameLevelProtocol(data, config, device=CPU, folder=folder)


def test_attackers_see_single_frames_and_the_action_whole_clips(
    minute: TheatreDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scoring, "SAMPLES", 40)
    monkeypatch.setattr(known, "sit", pretend(lambda exam, clips: 1.0))
    result = judge(minute, tmp_path).judge([load("blur")], load("identity"))
    assert result.protocol == "frame-level"
    attackers = ("frame", "identity-frames", "patient-frame", "patient-identity-frames")
    assert result.models == {"action": "tiny-video"} | dict.fromkeys(attackers, "tiny-frame")
    assert {attack.level for line in result.lines for attack in line.attacks} == {"frame"}


def test_a_family_or_an_effort_leaves_those_that_see_clips_at_home(minute: TheatreDataset, tmp_path: Path) -> None:
    for config in (replace(TINY, attacks=("transfer", "frame")), replace(TINY, effort="thorough")):
        found = judge(minute, tmp_path, config)
        levels = {exam.name: exam.level for exam in found.exams}
        assert levels.pop("action") == "video" and set(levels.values()) == {"frame"}
        assert {"frame", "transfer-frame", "transfer-identity-frames"} <= set(levels)
        assert found.trainings == len(found.exams)


def test_nothing_but_whole_clips_is_refused(minute: TheatreDataset, tmp_path: Path) -> None:
    with pytest.raises(SfumatoError, match="video and identity look at whole clips, and frame-level asks"):
        judge(minute, tmp_path, replace(TINY, attacks=("video", "identity")))
    assert "STPrivacy section 4.7" in PROTOCOLS.find("frame-level").summary
