"""What a stopped judgement leaves is used again; what was changed, or lies under another's name, is not."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from sfumato.anonymizers import load
from sfumato.datasets.theatre import TheatreDataset
from sfumato.evaluation import scoring
from sfumato.evaluation.exam import Answers
from sfumato.evaluation.protocols import known
from sfumato.evaluation.protocols.known import JudgeConfig, KnownProtocol
from sfumato.evaluation.result import Result

from .test_known import plain, pretend

TINY = JudgeConfig(models="tiny", epochs=1, batch=12, attacks=("frame", "identity"))


def judged(data: TheatreDataset, folder: Path) -> Result:
    judge = KnownProtocol(data, TINY, device=torch.device("cpu"), folder=folder)
    return judge.judge([load("downsample:factor=16")], load("identity"))


@pytest.fixture
def sat(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The name of every exam that is sat, by somebody who learns nothing."""
    monkeypatch.setattr(scoring, "SAMPLES", 30)
    names: list[str] = []
    answers = pretend(lambda exam, clips: 0.9)

    def sit(exam, *arguments, **options):  # type: ignore[no-untyped-def]
        names.append(exam.name)
        return answers(exam, *arguments, **options)

    monkeypatch.setattr(known, "sit", sit)
    return names


def rewritten(file: Path) -> None:
    """All wrong answers right, by whoever knows how such a file is made."""
    with np.load(file) as stored:
        fields = {name: stored[name] for name in stored.files}
    fields["test"] = np.eye(fields["test"].shape[1])[fields["test_labels"][:, 0]]
    np.savez_compressed(file, **fields)


def test_edited_answers_are_noticed_and_sat_again(minute: TheatreDataset, tmp_path: Path, sat: list[str]) -> None:
    first = judged(minute, tmp_path)
    (file,) = tmp_path.glob("downsample-factor16-identity-*.npz")
    before = file.read_bytes()
    rewritten(file)
    assert Answers.load(file) is None
    sat.clear()
    again = judged(minute, tmp_path)
    assert sat == ["identity"] and file.read_bytes() == before
    assert plain(again).replace(repr(again.notes), "") == plain(first).replace(repr(first.notes), "")
    assert f"{file.name} was not as it was written: that training was done again" in again.notes
    assert not any("was not as it was written" in note for note in judged(minute, tmp_path).notes)


def test_answers_under_the_name_of_others_are_noticed(minute: TheatreDataset, tmp_path: Path, sat: list[str]) -> None:
    """Raw video's answers in the place of an anonymizer's would make it leak everything."""
    first = judged(minute, tmp_path)
    (raw,), (hidden,) = tmp_path.glob("identity-identity-*.npz"), tmp_path.glob("downsample-factor16-identity-*.npz")
    shutil.copy(raw, hidden)
    sat.clear()
    again = judged(minute, tmp_path)
    assert sat == ["identity"] and again.lines[1].attacks == first.lines[1].attacks


def test_two_judgements_at_once_do_not_disturb_each_other(
    minute: TheatreDataset, tmp_path: Path, sat: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """While one sits an exam another one, in the same folder, has done all of them."""
    alone = judged(minute, tmp_path / "alone")
    really, other = known.sit, []

    def sit(exam, *arguments, **options):  # type: ignore[no-untyped-def]
        if not other:
            other.append(None)
            other[0] = judged(minute, tmp_path / "both")
        return really(exam, *arguments, **options)

    monkeypatch.setattr(known, "sit", sit)
    mine = judged(minute, tmp_path / "both")
    assert plain(mine) == plain(other[0]) == plain(alone)
    assert len(list((tmp_path / "both").iterdir())) == 6  # and nothing half-written
