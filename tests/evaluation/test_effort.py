from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sfumato.anonymizers import load
from sfumato.datasets import theatre
from sfumato.datasets.theatre import TheatreDataset
from sfumato.errors import SfumatoError
from sfumato.evaluation import scoring
from sfumato.evaluation.attacks import ATTACKS
from sfumato.evaluation.attacks.architectures import ARCHITECTURES, STAND_IN
from sfumato.evaluation.effort import EFFORTS, attacks_of
from sfumato.evaluation.exam import Answers, Exam
from sfumato.evaluation.protocols import known
from sfumato.evaluation.protocols.known import (
    ATTRIBUTE_ATTACKS,
    EVERY_ATTACK,
    JudgeConfig,
    KnownProtocol,
    possible_exams,
)
from sfumato.evaluation.result import Line, Result

from .test_known import pretend, smooth

CPU = torch.device("cpu")
RAW, COARSE, BLUR = load("identity"), load("downsample:factor=16"), load("blur")


@pytest.fixture(autouse=True)
def fewer_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "SAMPLES", 30)


@pytest.fixture
def crowd(minute: TheatreDataset, monkeypatch: pytest.MonkeyPatch) -> TheatreDataset:
    """The smallest theatre with people enough: six to test on, and six whom attackers know."""
    monkeypatch.setitem(theatre.PRESETS, "small", replace(minute.preset, cast=(6, 5, 6)))
    return TheatreDataset("small")


class Names(KnownProtocol):
    """Only who it is, which is quick to score."""

    attacks = tuple(name for name in EVERY_ATTACK if name.startswith("identity"))


def judged(data: TheatreDataset, folder: Path, config: JudgeConfig) -> Result:
    return Names(data, replace(config, models="tiny", epochs=1), device=CPU, folder=folder).judge([COARSE], RAW)


def pretend_apart(strength: Callable[[Exam, torch.Tensor], float]) -> Callable[..., Answers]:
    """As `pretend`, but no two exams have the same luck."""
    sit = pretend(strength)
    return lambda exam, *arguments, seed, **more: sit(exam, *arguments, seed=seed + sum(map(ord, exam.name)), **more)


def test_more_effort_attacks_with_more_and_never_with_others() -> None:
    for usual in (EVERY_ATTACK, ATTRIBUTE_ATTACKS):
        quick, standard, thorough = (attacks_of(effort, usual) for effort in ("quick", "standard", "thorough"))
        assert set(quick) < set(standard) < set(thorough)
        # What repaints people may have written them down elsewhere: also a quick judge asks who decodes.
        assert ("decode-identity-frames" in quick) == ("identity" in usual)
        # Frames are looked at longer too; and who is not named may be recognised again, where somebody is to be named at all.
        people = ["patient-identity-frames", "reid-frames"] if "identity" in usual else []
        assert standard == (*usual, "patient-frame", *people)
        ways = ("patient", "transfer", "pretrained", "reconstruct", "decode", "aggregate", "gait")
        plain = [name for name in usual if not name.startswith("decode")]
        assert {f"{way}-{name}" for way in ways for name in plain} < set(thorough)
        assert ("reid" in thorough) == ("identity" in usual) and "ensemble" in thorough
    assert [EFFORTS[name].epochs for name in ("quick", "standard", "thorough")] == [0.5, 1, 2]
    assert attacks_of("quick", ("video",)) == ("video",)  # somebody must attack
    # Every attacker on the list is in.
    assert set(attacks_of("thorough", EVERY_ATTACK)) == set(ATTACKS.names())
    with pytest.raises(SfumatoError, match="no effort 'hard': use quick, standard, thorough"):
        attacks_of("hard", EVERY_ATTACK)


def test_a_thorough_judge_has_at_least_five_architectures(crowd: TheatreDataset) -> None:
    for models, count, width in (("standard", 8, 1.0), ("tiny", 8, STAND_IN)):
        config = JudgeConfig(models=models, effort="thorough")
        exams, notes = possible_exams(crowd, config)
        who = {config.examinee(exam, crowd) for exam in exams}
        assert len({examinee.recognizer for examinee in who}) == count
        others = {e.recognizer: e.width for exam in ARCHITECTURES if (e := config.examinee(exam, crowd))}
        assert len(others) == 6 and set(others.values()) == {width}
        assert not any("left out" in note and "'face" not in note for note in notes)  # these need a detector


def test_what_only_the_effort_asks_for_stops_nobody(minute: TheatreDataset, monkeypatch: pytest.MonkeyPatch) -> None:
    """One person in validation cannot be told from others, and frames of 40 pixels are no whole number of patches."""
    monkeypatch.setitem(theatre.PRESETS, "small", replace(minute.preset, side=40))
    data = TheatreDataset("small")
    exams, notes = possible_exams(data, JudgeConfig(models="tiny", effort="thorough"))
    names = {exam.name for exam in exams}
    assert not names & {"reid", "video-vit-s"} and "identity-i3d-r50" in names
    left = [note for note in notes if "left out" in note]
    assert any("'reid' left out: theatre:small has 1 val persons" in note for note in left)
    assert any(
        "'video-vit-s' left out: theatre:small has clips of 4×40×40, which vit-s does not" in note for note in left
    )
    with pytest.raises(SfumatoError, match="'video-vit-s' left out"):
        possible_exams(data, JudgeConfig(models="tiny", attacks=("video-vit-s",)))
    # Of eight clips of two people, four are in the gallery.
    monkeypatch.setitem(theatre.PRESETS, "small", replace(minute.preset, cast=(2, 2, 2), sizes=(24, 8, 24)))
    few = TheatreDataset("small")
    notes = possible_exams(few, JudgeConfig(models="tiny", effort="thorough"), Names.attacks)[1]
    assert any("'reid' left out: theatre:small has 4 val clips for 'reid', 5 are needed" in note for note in notes)
    with pytest.raises(SfumatoError, match="has 4 val clips for 'reid'"):
        possible_exams(few, JudgeConfig(models="tiny", attacks=("reid",)))


def test_who_usually_attacks_and_was_not_asked_is_named(minute: TheatreDataset) -> None:
    """What repaints pictures hides little from those who decode, of whom a quick judge asks one."""

    def told(**config: Any) -> list[str]:
        notes = possible_exams(minute, JudgeConfig(models="tiny", **config))[1]
        return [note for note in notes if "not asked" in note]

    (quick,) = told(effort="quick")
    assert "not asked: video, decode-frame, identity; to them more may leak" in quick
    assert told() == told(effort="thorough") == told(attacks=EVERY_ATTACK) == told(attacks=("ensemble",)) == []
    assert "decode-frame" in told(attacks=("frame",))[0]
    minute.persons = ()  # who cannot attack anybody is not missed
    assert told(effort="quick")[0].count("identity") == 0


def planted(exam: Exam, clips: torch.Tensor) -> float:
    """Raw video is an open book. Of coarse video each way of attacking reads a little more than the one before."""
    if exam.target in ("action", "re-identification") or not smooth(clips):
        return 1.0
    quick = exam.name in attacks_of("quick", EVERY_ATTACK)
    return 0.2 if quick else 0.5 if exam.name in EVERY_ATTACK else 0.8 if exam.name.startswith("gait") else 0.1


def test_thorough_leaks_more_than_standard_than_quick(
    crowd: TheatreDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known, "sit", pretend_apart(planted))
    found = {}
    for effort in EFFORTS:
        result = judged(crowd, tmp_path / effort, JudgeConfig(effort=effort))
        found[effort] = next(s.leakage.value for s in result.lines[1].strongest if s.target == "identity")
        assert result.effort == effort and result.lines[0].headline.value == 1
    assert found["quick"] + 0.1 < found["standard"] < found["thorough"] - 0.1


def test_the_ensemble_is_a_line_of_its_own_and_the_headline(
    crowd: TheatreDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known, "sit", pretend_apart(lambda exam, clips: 0.5 if smooth(clips) else 1.0))
    alone, together = (
        judged(crowd, tmp_path, JudgeConfig(attacks=("video", *Names.attacks, *more))) for more in ((), ("ensemble",))
    )
    assert [a.attacker for a in alone.lines[1].attacks] == ["video", *Names.attacks]
    # One attacker alone, as on the attributes, is no ensemble.
    assert [(a.attacker, a.target) for a in together.lines[1].attacks[4:]] == [("ensemble", "identity")]
    ensemble, strongest = together.lines[1].attacks[-1], together.lines[1].strongest[-1]
    assert (ensemble.score, ensemble.leakage) == (strongest.score, strongest.leakage)
    assert ensemble.recognizer == "all attackers" and ensemble.curve == [[]]
    # Three that are right every other time for themselves agree mostly on the truth.
    assert strongest.attackers == ["ensemble"]
    assert strongest.score.value > alone.lines[1].strongest[-1].score.value
    whole = judged(crowd, tmp_path, JudgeConfig(attacks=("ensemble",)))
    assert [a.attacker for a in whole.lines[0].attacks] == [*Names.attacks, "ensemble"]


def test_a_target_that_the_effort_added_does_not_make_the_others_inconclusive(
    crowd: TheatreDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known, "sit", pretend(lambda exam, clips: float(exam.target != "re-identification")))
    said = "is not in the headline"

    def weak(line: Line) -> str:
        return next(s.leakage.verdict for s in line.strongest if s.target == "re-identification")

    asked = judged(crowd, tmp_path, JudgeConfig(attacks=("identity", "reid")))
    assert [line.headline.verdict for line in asked.lines] == ["inconclusive"] * 2
    assert not any(said in note for note in asked.notes)
    monkeypatch.setattr(known, "attacks_of", lambda effort, usual: (*usual, "reid"))
    added = judged(crowd, tmp_path, JudgeConfig(effort="thorough"))
    assert [(weak(line), line.headline.verdict) for line in added.lines] == [("inconclusive", "measured")] * 2
    assert sum(said in note for note in added.notes) == 1


def test_the_ensemble_alone_is_asked_about_what_its_members_are(
    crowd: TheatreDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who it is was asked: that nobody can tell on raw video leaves the headline open."""
    monkeypatch.setattr(known, "sit", pretend(lambda exam, clips: float(exam.target != "identity")))
    config = JudgeConfig(models="tiny", epochs=1, attacks=("ensemble",))
    result = KnownProtocol(crowd, config, device=CPU, folder=tmp_path).judge([COARSE], RAW)
    assert [line.headline.verdict for line in result.lines] == ["inconclusive"] * 2
    assert judged(crowd, tmp_path, config).lines[1].headline.verdict == "inconclusive"


def test_people_are_resampled_where_there_are_enough(
    crowd: TheatreDataset, minute: TheatreDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known, "sit", pretend(lambda exam, clips: 0.7))
    config = JudgeConfig(models="tiny", epochs=1, attacks=("identity", "frame"))
    result = KnownProtocol(crowd, config, device=CPU, folder=tmp_path).judge([COARSE, BLUR], RAW)
    score = result.lines[1].utility
    assert set(score.intervals) == {"videos", "persons"} and [score.low, score.high] in score.intervals.values()
    widths = {by: high - low for by, (low, high) in score.intervals.items()}
    assert score.high - score.low == max(widths.values())
    assert all(s.score.intervals for s in result.lines[1].strongest)
    assert any("intervals are over clips, or over persons where that is wider" in note for note in result.notes)
    assert not any("no interval over persons" in note for note in result.notes)
    # Both anonymizers leave these attackers the same: nothing tells them apart.
    assert {(d.first, d.second) for d in result.differences} == {("downsample:factor=16", "blur")}
    assert [d.what for d in result.differences] == [
        "action",
        *(s.target for s in result.lines[1].strongest if s.leakage.verdict == "measured"),
    ]
    assert not any(d.distinct for d in result.differences)
    assert sum("not distinguishable" in note for note in result.notes) == 1
    np.testing.assert_allclose([d.value for d in result.differences], 0, atol=1e-12)
