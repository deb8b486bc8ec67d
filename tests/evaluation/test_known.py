from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from sfumato.anonymizers import load
from sfumato.anonymizers.base import Anonymizer, ClipSpec
from sfumato.datasets import theatre
from sfumato.datasets.base import Labels
from sfumato.datasets.theatre import TheatreDataset
from sfumato.errors import SfumatoError
from sfumato.evaluation import scoring
from sfumato.evaluation.admission import check_enough
from sfumato.evaluation.attacks import ATTACKS
from sfumato.evaluation.attacks.variants import EVERYDAY
from sfumato.evaluation.exam import Answers, Exam, Memory, questions, truth
from sfumato.evaluation.metrics import MIN_GROUPS
from sfumato.evaluation.protocols import known
from sfumato.evaluation.protocols.known import UTILITY, JudgeConfig, KnownProtocol, possible_exams
from sfumato.evaluation.result import Result

CPU = torch.device("cpu")
TINY = JudgeConfig(models="tiny", epochs=1, batch=12, attacks=("frame", "identity"))
RAW, COARSE = load("identity"), load("downsample:factor=16")


@pytest.fixture(autouse=True)
def fewer_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "SAMPLES", 60)


def protocol(data: TheatreDataset, folder: Path, config: JudgeConfig = TINY) -> KnownProtocol:
    return KnownProtocol(data, config, device=CPU, folder=folder)


def plain(result: Result) -> str:
    return repr(asdict(result))  # NaN is not equal to NaN, its name is


@pytest.mark.parametrize("home", [None, torch.device("cpu", 0)])
def test_what_does_not_fit_on_the_device_is_judged_alike(
    home: torch.device | None, minute: TheatreDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fits = protocol(minute, tmp_path / "device").judge([COARSE], RAW)
    monkeypatch.setattr("sfumato.evaluation.material.home_of", lambda size, device: home)
    elsewhere = protocol(minute, tmp_path / "elsewhere").judge([COARSE], RAW)
    assert plain(fits) == plain(elsewhere)
    assert {path.suffix for path in (tmp_path / "elsewhere").iterdir()} == {".npz"}  # no clip stays there


def test_a_judgement_from_end_to_end_and_again_without_training(
    minute: TheatreDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trained: list[str]
) -> None:
    first = protocol(minute, tmp_path).judge([COARSE], RAW)
    assert trained == ["action", "frame", "identity"] * 2
    assert [line.anonymizer for line in first.lines] == ["identity", "downsample:factor=16"]
    assert (first.protocol, first.data, first.actions, first.persons) == ("known", "theatre:small", 2, 4)
    assert (first.test_clips, first.test_persons, first.seeds, first.epochs) == (24, 1, [0], 1)
    assert first.models == {"action": "tiny-video", "frame": "tiny-frame", "identity": "tiny-video"}
    assert any("only 1 test person " in note for note in first.notes)
    for line in first.lines:
        assert [a.attacker for a in line.attacks] == ["frame", "identity"]
        assert [s.target for s in line.strongest] == ["attributes", "identity"]
        assert (line.utility.raw, line.utility.chance) == (first.lines[0].utility.value, 0.5)
        assert line.headline.verdict in ("measured", "inconclusive")
        assert [a.name for a in line.attacks[0].attributes] == [a.name for a in minute.attributes]
    assert len(list(tmp_path.glob("*.npz"))) == 6

    monkeypatch.setattr(TheatreDataset, "clips", lambda *_, **__: pytest.fail("no clip is needed any more"))
    second = protocol(minute, tmp_path).judge([COARSE], RAW)
    assert len(trained) == 6
    assert plain(second) == plain(first)
    second.save(tmp_path / "result.json")
    assert plain(Result.load(tmp_path / "result.json")) == plain(first)


def test_what_is_kept_belongs_to_one_setting(minute: TheatreDataset, tmp_path: Path) -> None:
    def key(config: JudgeConfig = TINY, anonymizer: Anonymizer = COARSE, seed: int = 0) -> Path:
        return protocol(minute, tmp_path, config)._key(UTILITY, anonymizer, seed)

    other_theatre = protocol(TheatreDataset("small", seed=1), tmp_path)._key(UTILITY, COARSE, 0)
    other_exam = protocol(minute, tmp_path)._key(replace(UTILITY, by="clip"), COARSE, 0)
    keys = {
        key(), key(replace(TINY, epochs=2)), key(replace(TINY, batch=6)), key(replace(TINY, views=2)),
        key(anonymizer=RAW), key(anonymizer=load("downsample:factor=8")), key(seed=1), key(replace(TINY, models="standard")),
        other_theatre, other_exam, key(replace(TINY, crop=0.8)), key(replace(TINY, crop=0.8, crops=3)),
    }  # fmt: skip
    assert len(keys) == 12
    assert key() == key(replace(TINY, attacks=("video",)))  # who else attacks does not matter


def test_what_is_no_crop_is_refused() -> None:
    with pytest.raises(SfumatoError, match=r"crop factor 1\.5 is out of range"):
        replace(TINY, crop=1.5)
    with pytest.raises(SfumatoError, match="crops = 0 is out of range"):
        replace(TINY, crops=0)


def pretend(strength: Callable[[Exam, Tensor], float]) -> Callable[..., Answers]:
    """A `sit` without training: `strength` of (exam, test clips) is the share of right answers, the rest is luck."""

    def sit(
        exam: Exam, examinee: Any, dataset: TheatreDataset, clips: Callable[..., Tensor], *, seed: int, **_: Any
    ) -> Answers:
        rng = np.random.default_rng(seed)
        share = strength(exam, clips("test"))

        def part(name: Any) -> tuple[np.ndarray, np.ndarray]:
            labels = truth(exam, dataset.labels(exam.approach.items(exam, dataset, name))).numpy()
            tables = []
            for column, size in zip(labels.T, questions(exam, dataset), strict=True):
                told = np.where(rng.random(len(column)) < share, column, rng.integers(size, size=len(column)))
                tables.append(np.eye(size)[told] * 0.9 + 0.1 / size)
            return np.concatenate(tables, axis=1), labels

        return Answers(*part("val"), *part("test"), np.array([0.5]), 0.0)

    return sit


def smooth(clips: Tensor) -> bool:
    return bool(clips.float().diff(dim=-1).abs().mean() < 4)


def test_a_perfect_anonymizer_and_a_useless_one(
    minute: TheatreDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everybody is right on raw video; on coarse video only the action is still known."""
    monkeypatch.setattr(known, "sit", pretend(lambda exam, clips: float(exam.target == "action" or not smooth(clips))))
    raw, coarse = protocol(minute, tmp_path, replace(TINY, seeds=2)).judge([COARSE], RAW).lines
    assert (raw.headline.value, raw.headline.verdict, raw.nhv) == (1.0, "measured", 0.0)
    assert coarse.headline.verdict == "measured" and coarse.headline.value < 0.4
    assert coarse.utility.value == 1.0 and coarse.utility_per_seed == [1.0, 1.0]
    assert coarse.nhv == pytest.approx(1 - max(coarse.headline.value, 0))


def test_an_attacker_that_fails_on_raw_video_is_inconclusive_and_never_private(
    minute: TheatreDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known, "sit", pretend(lambda exam, clips: 0.0 if exam.target == "identity" else 1.0))
    for line in protocol(minute, tmp_path).judge([COARSE], RAW).lines:
        assert line.headline.verdict == "inconclusive"
        assert math.isnan(line.nhv)
        verdicts = {s.target: s.leakage.verdict for s in line.strongest}
        assert verdicts == {"attributes": "measured", "identity": "inconclusive"}


def test_utility_that_never_was_gives_no_trade_off(
    minute: TheatreDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def strength(exam: Exam, clips: Tensor) -> float:
        return float(exam.target != "action")

    sit = pretend(strength)

    def wrong_action(exam: Exam, *arguments: Any, **options: Any) -> Answers:
        found = sit(exam, *arguments, **options)
        if exam.target == "action":
            found.test = np.eye(2)[1 - found.test_labels[:, 0]]
        return found

    monkeypatch.setattr(known, "sit", wrong_action)
    (line,) = protocol(minute, tmp_path).judge([], RAW).lines
    assert line.utility.value == 0 and line.headline.verdict == "measured"
    assert math.isnan(line.nhv)


def test_examinees_are_told_the_size_at_which_an_anonymizer_works(
    minute: TheatreDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sit, told = pretend(lambda exam, clips: 1.0), []

    def noted(*arguments: Any, **options: Any) -> Answers:
        told.append(options["native"])
        return sit(*arguments, **options)

    monkeypatch.setattr(known, "sit", noted)
    small = load("downsample:factor=8")
    small.spec = ClipSpec(size=(16, 16))
    protocol(minute, tmp_path).judge([small], RAW)
    assert set(told[: len(told) // 2]) == {None} and set(told[len(told) // 2 :]) == {(16, 16)}


@pytest.mark.parametrize("value", [float("nan"), 1.5, -0.5])
def test_an_anonymizer_whose_output_is_no_picture_is_refused(
    minute: TheatreDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: float
) -> None:
    class Broken(Anonymizer):
        name, summary = "broken", "for tests"

        def forward(self, video: Tensor) -> Tensor:
            return video * 0 + value

    monkeypatch.setattr(known, "sit", pretend(lambda exam, clips: 1.0))
    with pytest.raises(SfumatoError, match="'broken' gave an output"):
        protocol(minute, tmp_path).judge([Broken()], RAW)
    assert not list(tmp_path.glob("broken*"))


def test_masks_reach_the_anonymizers_that_need_them(
    minute: TheatreDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = protocol(minute, tmp_path)
    hidden = judge._anonymized(load("blacken-people", margin=0.0))
    assert judge.material.clips.people is not None
    where = judge.material.clips.people.bool().expand_as(hidden)
    assert not hidden[where].any() and hidden[~where].float().mean() > 50


def test_attacks_without_labels_are_left_out_and_said_so(minute: TheatreDataset) -> None:
    config = JudgeConfig(models="tiny")
    exams, notes = possible_exams(minute, config)
    assert [e.name for e in exams] == [
        "action", "frame", "video", "video-placed", "decode-frame", "identity", "identity-frames", "identity-placed",
        "decode-identity-frames", "patient-frame", "patient-identity-frames",
    ]  # fmt: skip
    (note,) = notes
    assert note.startswith("attack 'reid-frames' left out: theatre:small has 1 val persons")
    minute.persons = ()
    exams, notes = possible_exams(minute, config)
    assert [e.name for e in exams] == ["action", "frame", "video", "video-placed", "decode-frame", "patient-frame"]
    assert [note.split(":")[0] for note in notes] == [
        "attack 'identity' left out", "attack 'identity-frames' left out", "attack 'identity-placed' left out",
        "attack 'decode-identity-frames' left out", "attack 'patient-identity-frames' left out",
        "attack 'reid-frames' left out",
    ]  # fmt: skip


def recorded(monkeypatch: pytest.MonkeyPatch, clips: int) -> None:
    """From now on so many clips of the theatre, one after the other, are of one recording."""
    monkeypatch.setattr(TheatreDataset, "recordings", lambda self, indices: indices // clips)


def test_other_attackers_from_end_to_end_and_again_without_training(
    minute: TheatreDataset, tmp_path: Path, trained: list[str]
) -> None:
    names = ["transfer-frame", "pretrained-frame", "reconstruct-identity", "aggregate-frame"]
    config = replace(TINY, attacks=tuple(names))
    first = protocol(minute, tmp_path, config).judge([COARSE], RAW)
    assert trained == ["action", *names] * 2
    for line in first.lines:
        assert [attack.attacker for attack in line.attacks] == names
        assert [len(attack.curve[0]) for attack in line.attacks] == [1, 1, 1, 1]
        assert [[m.name for m in attack.measures] for attack in line.attacks] == [[], [], ["PSNR", "SSIM"], []]
    for said, times in (("transfer attackers learn", 1), ("nothing to average", 1), ("PSNR", 2), ("SSIM", 2)):
        assert sum(said in note for note in first.notes) == times
    raw, coarse = (line.attacks[2].measures[0].score for line in first.lines)
    assert raw.value > coarse.value > 10 and raw.chance == coarse.chance and raw.raw == coarse.raw == raw.value
    assert plain(protocol(minute, tmp_path, config).judge([COARSE], RAW)) == plain(first)
    assert len(trained) == 10


def test_what_exams_share_is_shared_by_those_of_one_anonymizer(
    minute: TheatreDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All but what comes from raw clips alone: that is the same for everybody."""
    given: list[Memory] = []
    answers = pretend(lambda exam, clips: 1.0)

    def sit(*arguments: Any, memory: Memory, **options: Any) -> Answers:
        given.append(memory)
        return answers(*arguments, **options)

    monkeypatch.setattr(known, "sit", sit)
    protocol(minute, tmp_path).judge([COARSE], RAW)
    assert len({id(memory.raw) for memory in given}) == 1
    made = [id(memory.anonymised) for memory in given]
    assert made[:3] == made[:1] * 3 and made[3:] == made[3:4] * 3 and made[0] != made[3]


def test_people_are_found_again_from_end_to_end(
    minute: TheatreDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(theatre.PRESETS, "small", replace(minute.preset, cast=(2, 2, 3)))
    result = protocol(TheatreDataset("small"), tmp_path, replace(TINY, attacks=("reid-frames",))).judge([COARSE], RAW)
    for line in result.lines:
        (attack,) = line.attacks
        assert (attack.target, attack.metric) == ("re-identification", "rank-1")
        assert attack.score.chance == pytest.approx(1 / 3)
        assert [m.name for m in attack.measures] == ["mAP"]
        assert [s.target for s in line.strongest] == ["re-identification"]
    mentioned = [note for note in result.notes if "mAP" in note]
    assert [note.split(":")[0] for note in mentioned] == ["identity", "downsample"]


def test_a_name_may_stand_for_a_family(minute: TheatreDataset) -> None:
    config = replace(TINY, attacks=("frame", "transfer", "transfer-frame"))
    names = [exam.name for exam in possible_exams(minute, config)[0]]
    assert names == ["action", "frame", *(f"transfer-{exam.name}" for exam in EVERYDAY)]


def test_how_an_attack_is_gone_about_is_part_of_what_is_kept(minute: TheatreDataset, tmp_path: Path) -> None:
    judge, exam = protocol(minute, tmp_path), ATTACKS.make("reconstruct-video")
    other = replace(exam, approach=replace(exam.approach, width=8))
    fresh = replace(exam, approach=ATTACKS.make("video").approach)
    also = replace(exam, approach=ATTACKS.make("transfer-video").approach)  # as bare of settings as the one before
    assert len({judge._key(e, COARSE, 0) for e in (exam, other, fresh, also)}) == 4


def test_recordings_are_the_units_of_intervals_and_are_not_both_learned_and_tested(
    minute: TheatreDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded(monkeypatch, 4)
    judge = protocol(minute, tmp_path)
    exam = ATTACKS.make("identity")
    assert [len(np.unique(part)) for part in judge._recordings(exam)] == [6, 6]
    monkeypatch.setattr(known, "sit", pretend(lambda exam, clips: 1.0))
    assert any("intervals are over recordings" in note for note in judge.judge([], RAW).notes)
    recorded(monkeypatch, 6)
    assert "has 4 val recordings for 'action', 5 are needed" in fails(minute)
    # Clips 0 to 23 are the training part, 48 to 71 the test part: of 30 recordings in turn, 0–11 and 18–23 are in both.
    monkeypatch.setattr(TheatreDataset, "recordings", lambda self, indices: indices % 30)
    said = "18 recordings are in training and in test: attackers may know the place instead of the person"
    assert said in possible_exams(minute, TINY)[1]


def test_what_few_recordings_show_is_no_attribute_to_judge_by(
    minute: TheatreDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Recordings are resampled whole: with all of an attribute in two of them, most resamples would have none of it."""
    exam = ATTACKS.make("frame")
    test = minute.split("test", "clip")
    yes = test[minute.labels(test).attributes[:, 0] == 1]
    assert len(yes) >= MIN_GROUPS

    def two(self: TheatreDataset, indices: Tensor) -> Tensor:
        return torch.where(torch.isin(indices, yes), yes[indices % 2], indices)

    check_enough(exam, minute)
    monkeypatch.setattr(TheatreDataset, "recordings", two)
    with pytest.raises(SfumatoError, match="in 2 test recordings, 5 are needed"):
        check_enough(exam, minute)


def fails(data: TheatreDataset, config: JudgeConfig = TINY) -> str:
    with pytest.raises(SfumatoError) as error:
        possible_exams(data, config)
    assert error.value.next_step
    return str(error.value)


def test_a_judgement_that_could_not_end_does_not_begin(minute: TheatreDataset, monkeypatch: pytest.MonkeyPatch) -> None:
    nobody = TheatreDataset("small")
    nobody.persons = ()
    error = fails(nobody, replace(TINY, attacks=("identity",)))
    assert "'identity' left out: theatre:small has no identity labels, so there is nothing to attack" in error
    assert "has no identity labels" in fails(nobody, replace(TINY, attacks=("reid",)))
    bare = TheatreDataset("small")
    bare.attributes = ()
    assert "has no attributes labels" in fails(bare, replace(TINY, attacks=("transfer-video",)))
    # One person in validation: whoever is found again there, it is them.
    assert "has 1 val persons with two recordings or more" in fails(minute, replace(TINY, attacks=("reid",)))
    idle = TheatreDataset("small")
    idle.actions = idle.actions[:1]
    assert "fewer than two actions" in fails(idle)
    assert "there is no attack 'frames'" in fails(minute, replace(TINY, attacks=("frames",)))
    monkeypatch.setitem(theatre.PRESETS, "small", replace(minute.preset, sizes=(24, 4, 24)))
    assert "has 4 val clips for 'action', 5 are needed" in fails(TheatreDataset("small"))
    rare = {**minute.preset.prevalence, "nudity": 0.05}
    monkeypatch.setitem(theatre.PRESETS, "small", replace(minute.preset, prevalence=rare))
    assert "'nudity' is 'yes' in" in fails(TheatreDataset("small"))


def test_clips_of_unknown_people_are_not_asked_about(
    minute: TheatreDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = TheatreDataset.labels

    def labels(self: TheatreDataset, indices: Tensor) -> Labels:
        found = whole(self, indices)
        return replace(found, person=torch.where((indices % 3 == 0) | (indices >= 72), -1, found.person))

    monkeypatch.setattr(TheatreDataset, "labels", labels)
    result = protocol(minute, tmp_path, replace(TINY, attacks=("identity",))).judge([], RAW)
    assert result.test_persons == 0
    assert any("who is in the clips is not known" in note for note in result.notes)


def test_who_sits_an_exam(minute: TheatreDataset) -> None:
    frame = possible_exams(minute, JudgeConfig())[0][1]
    standard, tiny = JudgeConfig(epochs=7, batch=5), JudgeConfig(models="tiny")
    assert standard.examinee(UTILITY, minute).recognizer == "r3d-18"
    assert standard.examinee(frame, minute).recognizer == "resnet-18"
    assert (standard.examinee(frame, minute).fit.frames, standard.examinee(UTILITY, minute).fit.frames) == (2, None)
    assert (standard.examinee(UTILITY, minute).fit.epochs, standard.examinee(UTILITY, minute).fit.batch) == (7, 5)
    assert tiny.examinee(UTILITY, minute).fit.flip
    signs = TheatreDataset("small")
    signs.mirror_safe = False
    assert not tiny.examinee(UTILITY, signs).fit.flip
    with pytest.raises(SfumatoError, match="no 'huge' models: use standard or tiny"):
        JudgeConfig(models="huge").examinee(UTILITY, minute)


@pytest.mark.parametrize("attack", ["identity", "video"])
def test_the_placed_attacker_is_shown_everything_where_it_is(attack: str) -> None:
    data = TheatreDataset("small")
    placed, moved = (JudgeConfig().examinee(ATTACKS.make(name), data).fit for name in (f"{attack}-placed", attack))
    assert (placed.moved, placed.flip, moved.moved, moved.flip) == (False, False, True, True)
    assert replace(placed, moved=True, flip=True) == moved  # in all else it is trained as hard


def test_other_recognizers_can_sit_the_exams() -> None:
    data, config = TheatreDataset("small"), JudgeConfig(video_model="i3d-r50", frame_model="resnet-50")
    names = [config.examinee(ATTACKS.make(name), data).recognizer for name in ("video", "identity", "frame")]
    assert names == ["i3d-r50", "i3d-r50", "resnet-50"]
    with pytest.raises(SfumatoError, match="'resnet-50' looks at frames, and 'video' at videos"):
        JudgeConfig(video_model="resnet-50").examinee(ATTACKS.make("video"), data)
    with pytest.raises(SfumatoError, match="did you mean 'r3d-18'"):
        JudgeConfig(video_model="r3d18").examinee(ATTACKS.make("video"), data)


def test_what_leaks_to_single_frames_is_what_a_judge_of_frames_alone_would_say(
    minute: TheatreDataset, tmp_path: Path, trained: list[str]
) -> None:
    names = ("frame", "video", "identity", "identity-frames")
    every = protocol(minute, tmp_path, replace(TINY, attacks=names))
    frames = protocol(minute, tmp_path, replace(TINY, attacks=("frame", "identity-frames")))
    found = every.on_frames(every.examine(COARSE), every.examine(RAW))
    alone = frames.line(COARSE, frames.examine(COARSE), frames.examine(RAW)).headline
    assert repr(found) == repr(alone)  # NaN is not equal to NaN
    assert len(trained) == 10  # and nobody was trained for it
    clips = protocol(minute, tmp_path, replace(TINY, attacks=("identity",)))
    assert clips.on_frames(clips.examine(COARSE), clips.examine(RAW)) is None
