from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from sfumato.anonymizers import load
from sfumato.datasets.theatre import NOVEL_ATTRIBUTES, TheatreDataset
from sfumato.evaluation import scoring
from sfumato.evaluation.exam import Answers, Exam, asked, questions, truth
from sfumato.evaluation.protocols import PROTOCOLS, known
from sfumato.evaluation.protocols.known import UTILITY, JudgeConfig, KnownProtocol
from sfumato.evaluation.protocols.ospar import OsparProtocol

CPU = torch.device("cpu")
TINY = JudgeConfig(models="tiny", epochs=1, batch=12)
RAW, COARSE = load("identity"), load("downsample:factor=16")


@pytest.fixture(autouse=True)
def fewer_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "SAMPLES", 60)


def ospar(data: TheatreDataset, folder: Path, config: JudgeConfig = TINY) -> KnownProtocol:
    return PROTOCOLS.make("ospar", dataset=data, config=config, device=CPU, folder=folder)


def all_or_nothing(
    exam: Exam, examinee: Any, dataset: TheatreDataset, clips: Callable[..., Tensor], **_: Any
) -> Answers:
    """A `sit` without training: right on raw video; on coarse video the action is known and all else is the same to it."""
    blind = exam.target != "action" and bool(clips("test").float().diff(dim=-1).abs().mean() < 4)

    def part(name: Any) -> tuple[np.ndarray, np.ndarray]:
        labels = truth(exam, dataset.labels(asked(exam, dataset, name))).numpy()
        heads = questions(exam, dataset)
        tables = [
            np.full((len(column), size), 1 / size) if blind else np.eye(size)[column]
            for column, size in zip(labels.T, heads, strict=True)
        ]
        return np.concatenate(tables, axis=1), labels

    return Answers(*part("val"), *part("test"), np.array([0.5]), 0.0)


def test_it_asks_exactly_about_scene_and_object(
    minute: TheatreDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sat: list[tuple[str, tuple[int, ...]]] = []
    really = known.sit

    def sit(exam: Exam, examinee: Any, dataset: TheatreDataset, *arguments: Any, **options: Any) -> Answers:
        sat.append((exam.name, questions(exam, dataset)))
        return really(exam, examinee, dataset, *arguments, **options)

    monkeypatch.setattr(known, "sit", sit)
    own = minute.attributes
    result = ospar(minute, tmp_path).judge([], RAW)
    # Two actions; eight scenes and six objects. Nobody asks who it is.
    attackers = ("frame", "video", "video-placed", "decode-frame", "patient-frame")
    assert sat == [("action", (2,)), *((name, (8, 6)) for name in attackers)]
    assert (result.protocol, result.data) == ("ospar", "theatre:small")
    (line,) = result.lines
    for attack in line.attacks:
        assert [a.name for a in attack.attributes] == ["scene", "object"]
    assert [s.target for s in line.strongest] == ["attributes"]
    assert "private here: scene, object" in result.notes
    assert minute.attributes == own  # somebody else may judge the same data set


def test_chance_leaks_nothing_and_raw_everything(
    minute: TheatreDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who gives every value the same score has, for each value, the share of its clips as average precision.

    Over the values that occur these shares sum to 1, so that chance is one over their number.
    """
    monkeypatch.setattr(known, "sit", all_or_nothing)
    raw, coarse = ospar(minute, tmp_path).judge([COARSE], RAW).lines
    labels = minute.about(["scene", "object"]).labels(minute.split("test", "clip")).attributes
    chances = [1 / column.unique().numel() for column in labels.T]
    for attack in coarse.attacks:
        assert [a.ap.chance for a in attack.attributes] == pytest.approx(chances)
        assert [a.ap.value for a in attack.attributes] == pytest.approx(chances)
        assert [a.ap.raw for a in attack.attributes] == [1, 1]
    assert coarse.strongest[0].score.chance == pytest.approx(sum(chances) / 2)
    assert (coarse.headline.verdict, coarse.headline.value) == ("measured", pytest.approx(0))
    assert (raw.headline.value, coarse.utility.value, coarse.nhv) == (1, 1, pytest.approx(1))


def test_a_named_attack_is_honoured(minute: TheatreDataset, tmp_path: Path) -> None:
    config = JudgeConfig(models="tiny", attacks=("identity", "frame"))
    assert [exam.name for exam in ospar(minute, tmp_path, config).exams] == ["action", "identity", "frame"]


def test_what_is_kept_belongs_to_the_attributes_asked_about(minute: TheatreDataset, tmp_path: Path) -> None:
    class SceneOnly(OsparProtocol):
        private = ("scene",)

    def key(kind: type[KnownProtocol], data: TheatreDataset = minute) -> Path:
        judging = kind(data, TINY, device=CPU, folder=tmp_path)
        return judging._key(judging.exams[1], RAW, 0)

    assert len({key(KnownProtocol), key(OsparProtocol), key(SceneOnly)}) == 3
    assert key(OsparProtocol) == key(OsparProtocol, TheatreDataset("small"))


def test_a_label_that_is_not_there_is_left_out_and_said_so(
    minute: TheatreDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TheatreDataset, "labelled", lambda self: NOVEL_ATTRIBUTES)
    judging = ospar(minute, tmp_path)
    assert [a.name for a in judging.dataset.attributes] == ["scene"]
    assert judging.notes[-2:] == ["private here: scene", "'object' left out: theatre:small has no such labels"]
    assert UTILITY in judging.exams
