"""What a stopped judgement leaves is used again; what was changed, or lies under another's name, is not."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from threading import Event, Thread

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
from sfumato.turns import turn

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


def test_an_exam_that_another_sits_is_waited_for_and_not_sat_again(
    minute: TheatreDataset, tmp_path: Path, sat: list[str]
) -> None:
    """Whoever else judges in the same folder sits `frame`, and is done only when all other exams have been sat."""
    judge, alone = (
        KnownProtocol(minute, TINY, device=torch.device("cpu"), folder=tmp_path / name) for name in ("both", "alone")
    )
    blurred = load("blur")
    expected = alone.examine(blurred)
    sat.clear()
    frame = judge._key(next(exam for exam in judge.exams if exam.name == "frame"), blurred, 0)
    begun = Event()

    def sit_frame() -> None:
        with turn(frame):
            begun.set()
            patience = time.monotonic() + 60
            while sat != ["action", "identity"] and time.monotonic() < patience:
                time.sleep(0.01)
            expected["frame"][0].save(frame)

    other = Thread(target=sit_frame, daemon=True)
    other.start()
    assert begun.wait(60)
    found = judge.examine(blurred)
    other.join(60)
    assert sat == ["action", "identity"] and found.keys() == expected.keys()
    for name, (answers,) in found.items():
        assert (answers.test == expected[name][0].test).all() and (
            answers.validation == expected[name][0].validation
        ).all()
    assert len([*(tmp_path / "both").iterdir()]) == 3  # and nothing half-written


def test_an_exam_that_another_process_sits_comes_last_or_is_left_out(
    minute: TheatreDataset, tmp_path: Path, sat: list[str]
) -> None:
    judge = KnownProtocol(minute, TINY, device=torch.device("cpu"), folder=tmp_path)
    blurred = load("blur")
    frame = next(exam for exam in judge.exams if exam.name == "frame")
    with turn(judge._key(frame, blurred, 0)):
        found = judge.examine(blurred, wait=False)
        assert sat == ["action", "identity"]
        assert {name: len(answers) for name, answers in found.items()} == {"action": 1, "frame": 0, "identity": 1}
    assert all(len(answers) == 1 for answers in judge.examine(blurred).values())
    assert sat == ["action", "identity", "frame"]
