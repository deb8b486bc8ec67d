from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from sfumato.anonymizers import load
from sfumato.datasets.theatre import TheatreDataset
from sfumato.errors import SfumatoError
from sfumato.evaluation import scoring
from sfumato.evaluation.exam import Exam
from sfumato.evaluation.protocols import PROTOCOLS, known
from sfumato.evaluation.protocols.known import JudgeConfig
from sfumato.evaluation.protocols.transfer_architectures import TransferArchitecturesProtocol
from sfumato.evaluation.result import Result
from sfumato.report import write_report
from sfumato.writing import sealed

from .test_known import pretend, smooth

CPU = torch.device("cpu")
STANDARD = JudgeConfig(epochs=1, batch=12)
READERS = ["r3d-18", "r2plus1d-18", "mvit-v2-s", "i3d-r50", "c3d"]
ATTACKERS = ["resnet-18", "resnet-34", "resnet-50", "resnet-101", "resnet-152"]
RAW, COARSE = load("identity"), load("downsample:factor=16")


@pytest.fixture(autouse=True)
def fewer_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "SAMPLES", 30)


def judge(data: TheatreDataset, folder: Path, config: JudgeConfig = STANDARD) -> TransferArchitecturesProtocol:
    return TransferArchitecturesProtocol(data, config, device=CPU, folder=folder)


def judged(
    data: TheatreDataset, folder: Path, monkeypatch: pytest.MonkeyPatch, strength: Callable[[Exam, Tensor], float]
) -> Result:
    monkeypatch.setattr(known, "sit", pretend(strength))
    return judge(data, folder).judge([COARSE], RAW)


def test_five_networks_read_the_action_and_five_attack(minute: TheatreDataset, tmp_path: Path) -> None:
    models = {exam.name: judge(minute, tmp_path).recognizer(exam) for exam in judge(minute, tmp_path).exams}
    assert (
        models
        == {
            "action": "r3d-18",  # the usual one, once
            **{f"action-{name}": name for name in READERS[1:]},
            **{f"frame-{name}": name for name in ATTACKERS},
            **{f"identity-frames-{name}": name for name in ATTACKERS},
        }
    )
    # Where networks are tiny, so are these; and then the usual one is none of them.
    tiny = judge(minute, tmp_path, replace(STANDARD, models="tiny"))
    models = {exam.name: tiny.recognizer(exam) for exam in tiny.exams}
    assert models["action"] == "tiny-video" and models["action-r3d-18"] == "r3d-18, 0.125 as wide"
    assert len(models) == 16 and tiny.trainings == 16


def test_attacks_may_be_named_and_those_on_clips_are_done_by_the_networks_of_clips(
    minute: TheatreDataset, tmp_path: Path
) -> None:
    found = judge(minute, tmp_path, replace(STANDARD, attacks=("identity", "frame-mobilenet-v1"), effort="thorough"))
    names = [exam.name for exam in found.exams if exam.target != "action"]
    assert names == [*(f"identity-{name}" for name in READERS), "frame-mobilenet-v1"]


def test_each_network_stands_beside_itself_on_raw_video(
    minute: TheatreDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I3D loses all of the action, C3D cannot read it from raw video either; ResNet-34 alone still reads who it is."""

    def strength(exam: Exam, clips: Tensor) -> float:
        if exam.recognizer == "c3d":
            return 0.0
        if not smooth(clips):
            return 1.0
        return {"action": float(exam.recognizer != "i3d-r50")}.get(exam.target, float(exam.recognizer == "resnet-34"))

    result = judged(minute, tmp_path, monkeypatch, strength)
    raw, coarse = result.lines
    assert [reader.recognizer for reader in coarse.readers] == READERS
    kept = {reader.recognizer: reader.kept for reader in coarse.readers}
    for name in ("r3d-18", "r2plus1d-18", "mvit-v2-s"):
        assert (kept[name].value, kept[name].low, kept[name].verdict) == (1, 1, "measured")
    lost = kept["i3d-r50"]
    assert lost.value < 0.5 and lost.low <= lost.value <= lost.high < 1
    assert kept["c3d"].verdict == "inconclusive" and math.isnan(kept["c3d"].value)
    assert coarse.readers[0].score == coarse.utility and coarse.utility.value == 1
    assert all(reader.per_seed == [reader.score.value] and reader.curve == [[0.5]] for reader in coarse.readers)
    assert [reader.kept.value for reader in raw.readers[:4]] == [1, 1, 1, 1]
    leaks = {attack.recognizer: attack.leakage.value for attack in coarse.attacks if attack.target == "identity"}
    assert leaks["resnet-34"] == 1 and max(v for k, v in leaks.items() if k != "resnet-34") < 0.5
    (who,) = [found for found in coarse.strongest if found.target == "identity"]
    assert who.attackers == ["identity-frames-resnet-34"] and coarse.headline.value == 1
    told = "\n".join(result.notes)
    assert "of the action above chance is kept by r3d-18 1.00, r2plus1d-18 1.00, mvit-v2-s 1.00, i3d-r50 " in told
    assert "too weak on raw video: c3d" in told and "of identity leaks to resnet-18 " in told


def test_the_readers_are_in_the_file_and_on_the_page(
    minute: TheatreDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = judged(minute, tmp_path, monkeypatch, lambda exam, clips: 0.9)
    result.save(tmp_path / "r.json")
    again = Result.load(tmp_path / "r.json")
    assert again.lines == result.lines
    write_report(again, tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text()
    assert "Network by network" in page and page.count("kept 100 ") == 10
    # Results from before there were readers are results still, and other protocols have none to show.
    stored = json.loads((tmp_path / "r.json").read_text())
    for line in stored["lines"]:
        del line["readers"]
    del stored["checksum"]
    (tmp_path / "old.json").write_bytes(sealed(stored))
    old = Result.load(tmp_path / "old.json")
    write_report(old, tmp_path / "old.html")
    assert [line.readers for line in old.lines] == [[], []]
    assert "Network by network" not in (tmp_path / "old.html").read_text()


def test_networks_that_do_not_take_the_clips_are_left_out(
    minute: TheatreDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    takes = "sfumato.evaluation.admission._takes"
    monkeypatch.setattr(takes, lambda recognizer, shape: recognizer not in ("c3d", "resnet-152"))
    found = judge(minute, tmp_path)
    names = {exam.name for exam in found.exams}
    assert not names & {"action-c3d", "frame-resnet-152"} and "frame-resnet-101" in names
    said = "'action-c3d' left out: theatre:small has clips of 4×32×32, which c3d does not take"
    assert said in found.notes
    monkeypatch.setattr(takes, lambda recognizer, shape: False)
    with pytest.raises(SfumatoError, match="no network here takes the clips of theatre:small"):
        judge(minute, tmp_path)
    assert "sections 8.2 and 8.4" in PROTOCOLS.find("transfer-architectures").summary
