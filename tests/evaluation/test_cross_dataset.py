from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from sfumato.anonymizers import load
from sfumato.datasets import theatre
from sfumato.datasets.base import VideoDataset
from sfumato.datasets.theatre import TheatreDataset
from sfumato.errors import SfumatoError
from sfumato.evaluation import scoring
from sfumato.evaluation.exam import Answers, Exam, asked, questions, truth
from sfumato.evaluation.protocols import PROTOCOLS, known
from sfumato.evaluation.protocols.cross_dataset import CrossDatasetProtocol, Joined
from sfumato.evaluation.protocols.known import JudgeConfig

CPU = torch.device("cpu")
TINY = JudgeConfig(models="tiny", epochs=1, batch=12, attacks=("frame",))
RAW, COARSE = load("identity"), load("downsample:factor=16")


@pytest.fixture(autouse=True)
def fewer_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "SAMPLES", 60)


@pytest.fixture
def stills(minute: TheatreDataset, monkeypatch: pytest.MonkeyPatch) -> TheatreDataset:
    """Another theatre, of clips of one frame: pictures."""
    monkeypatch.setitem(theatre.PRESETS, "stills", replace(theatre.PRESETS["small"], frames=1, sizes=(36, 24, 24)))
    return TheatreDataset("stills", seed=7)


def cross(action: VideoDataset, privacy: VideoDataset, folder: Path) -> CrossDatasetProtocol:
    return CrossDatasetProtocol(action, TINY, device=CPU, folder=folder, privacy=privacy)


def test_labels_of_two_data_sets_under_one_name(minute: TheatreDataset, stills: TheatreDataset) -> None:
    both = Joined(minute, stills)
    assert len(both) == len(minute) + len(stills)
    assert (both.actions, both.attributes, both.persons) == (minute.actions, stills.attributes, ())
    for part in ("train", "val", "test"):
        mine, theirs = minute.split(part, "person"), stills.split(part, "person")
        together = both.split(part, "person")
        assert together.tolist() == [*mine.tolist(), *(theirs + len(minute)).tolist()]
        labels = both.labels(together)
        assert labels.action[: len(mine)].equal(minute.labels(mine).action)
        assert labels.attributes[len(mine) :].equal(stills.labels(theirs).attributes)
        assert bool((labels.action[len(mine) :] == -1).all() and (labels.attributes[: len(mine)] == -1).all())
        assert bool((labels.person == -1).all())
    mixed = torch.tensor([len(minute) + 1, 2])
    assert both.labels(mixed).action[1] == minute.labels(torch.tensor([2])).action[0]
    assert both.recordings(mixed).tolist() == [len(minute) + 1, 2]
    assert both.sample(len(minute) + 3).clip.equal(stills.sample(3).clip) and both.sample(3).clip.shape[0] == 4
    assert both.fingerprint() not in (minute.fingerprint(), Joined(stills, minute).fingerprint())


def test_each_exam_sees_clips_and_labels_of_its_own_data_set(
    minute: TheatreDataset, stills: TheatreDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sat: list[tuple[str, str, tuple[int, ...], int]] = []

    def sit(exam: Exam, examinee: Any, dataset: VideoDataset, clips: Callable[..., Tensor], **_: Any) -> Answers:
        sat.append((exam.name, dataset.name, tuple(clips("train").shape[2:]), len(clips("train"))))

        def part(name: Any) -> tuple[np.ndarray, np.ndarray]:
            labels = truth(exam, dataset.labels(asked(exam, dataset, name))).numpy()
            heads = questions(exam, dataset)
            tables = [np.eye(size)[column] for column, size in zip(labels.T, heads, strict=True)]
            return np.concatenate(tables, axis=1), labels

        assert clips("test").shape[0] == len(part("test")[1])
        return Answers(*part("val"), *part("test"), np.array([1.0]), 0.0)

    monkeypatch.setattr(known, "sit", sit)
    result = cross(minute, stills, tmp_path).judge([COARSE], RAW)
    assert sat == [
        ("action", "theatre:small", (4, 3, 32, 32), 24),
        ("frame", "theatre:stills", (1, 3, 32, 32), 36),
    ] * 2  # fmt: skip
    assert [line.anonymizer for line in result.lines] == ["identity", "downsample:factor=16"]
    for line in result.lines:
        assert line.utility.value == 1.0  # told apart by nobody who looked at the other set's labels
        assert [a.name for a in line.attacks[0].attributes] == [a.name for a in stills.attributes]
        assert line.attacks[0].score.value == 1.0
    test = stills.labels(stills.split("test", "clip")).attributes
    binary = [n for n, spec in enumerate(stills.attributes) if spec.binary]
    chances = [a.ap.chance for a in result.lines[0].attacks[0].attributes]
    for n in binary:
        assert chances[n] == pytest.approx(float((test[:, n] == 1).float().mean()))
    assert result.protocol == "cross-dataset"
    assert "the action is judged on theatre:small, what is private on theatre:stills" in result.notes


def test_a_judgement_from_end_to_end_and_again_without_training(
    minute: TheatreDataset, stills: TheatreDataset, tmp_path: Path, trained: list[str]
) -> None:
    first = cross(minute, stills, tmp_path).judge([COARSE], RAW)
    assert trained == ["action", "frame"] * 2
    again = cross(minute, stills, tmp_path).judge([COARSE], RAW)
    assert len(trained) == 4  # found on disk
    assert again.lines[1].utility == first.lines[1].utility
    cross(minute, TheatreDataset("stills", seed=8), tmp_path).judge([COARSE], RAW)
    assert trained[4:] == ["frame"] * 2  # other pictures: the action's answers still hold


def test_who_names_no_second_data_set_is_told(minute: TheatreDataset, tmp_path: Path) -> None:
    with pytest.raises(SfumatoError, match="needs a second data set"):
        PROTOCOLS.make("cross-dataset", dataset=minute, config=TINY, device=CPU, folder=tmp_path)
