"""Findings from answers whose strength is known."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from sfumato.evaluation import scoring
from sfumato.evaluation.attacks.frame import FRAME
from sfumato.evaluation.attacks.identity import IDENTITY, IDENTITY_FRAMES
from sfumato.evaluation.attacks.reid import REID
from sfumato.evaluation.attacks.video import VIDEO
from sfumato.evaluation.certificate.measure import luck, measured, persons, units, usefulness, wilson_low
from sfumato.evaluation.certificate.verdict import Exposure
from sfumato.evaluation.certificate.wording import doubts
from sfumato.evaluation.exam import Answers, Exam
from sfumato.evaluation.scoring import Ruler, Sitting

PEOPLE = 10


@pytest.fixture(autouse=True)
def fewer_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "SAMPLES", 200)


def named(share: float, count: int, seed: int = 0) -> Answers:
    """That share of `count` answers is right, the others name one person blindly."""
    draw = np.random.default_rng(seed)

    def part() -> tuple[np.ndarray, np.ndarray]:
        truth = np.arange(count) % PEOPLE
        told = np.where(draw.permutation(count) < share * count, truth, 3)
        return np.eye(PEOPLE)[told], truth[:, None]

    return Answers(*part(), *part(), np.zeros(1), 1.0)


def people(share: float, raw: float, count: int = 200, exam: Exam = IDENTITY, clips: int = 1) -> Ruler:
    groups = np.arange(count) // clips
    return Ruler(Sitting(exam, "net", [named(share, count)], [named(raw, count, 1)], (groups, groups)), (PEOPLE,))


def told(ruler: Ruler, total: int = 400) -> tuple[str, int]:
    (found,) = measured([ruler], ["identity"], ["who a person is"], total)
    return found.exposure, found.needed


def test_identity_by_how_often_it_is_named() -> None:
    assert told(people(1.0, 1.0)) == ("fully exposed", 0)
    assert told(people(0.7, 1.0)) == ("largely exposed", 0)
    assert told(people(0.3, 1.0)) == ("reduced, still exposed", 0)
    assert told(people(0.0, 1.0)) == ("not shown to leak", 0)
    assert told(people(0.3, 0.3)) == ("exposed, extent unknown", 0)
    assert told(people(0.0, 0.3)) == ("no conclusion", 0)


def test_few_recordings_show_a_leak_and_rule_none_out() -> None:
    assert told(people(1.0, 1.0, count=10))[0] == "fully exposed"
    exposure, needed = told(people(0.0, 1.0, count=10), total=12)
    assert exposure == "too little footage" and needed >= 30  # ten of twelve were asked about, twenty are needed
    # Two hundred clips of ten recordings are ten witnesses, not two hundred.
    assert told(people(0.0, 1.0, count=200, clips=20))[0] == "too little footage"
    assert units(people(0.0, 1.0, count=200, clips=20)) == 10


def test_the_numbers_of_a_finding() -> None:
    (found,) = measured([people(0.3, 1.0)], ["identity"], ["who"], 400)
    # 60 of 200 by knowing, and a tenth of the others by naming person 3
    assert found.score.value == pytest.approx(0.37, abs=0.02) and found.score.chance == pytest.approx(0.1)
    assert found.score.raw == 1.0 and found.leakage.value == pytest.approx((found.score.value - 0.1) / 0.9)
    assert found.leakage.low < found.leakage.value < found.leakage.high
    assert (found.recordings, found.clips, found.attacker, found.metric) == (200, 200, "identity", "top-1")


def test_the_attacker_is_the_one_that_was_best_before_the_test() -> None:
    weak, strong = people(0.2, 1.0), people(0.8, 1.0, exam=IDENTITY_FRAMES)
    (found,) = measured([weak, strong], ["identity"], ["who"], 400)
    assert found.attacker == "identity-frames" and found.exposure == "largely exposed"


def test_raw_video_has_the_attacker_that_is_best_on_it() -> None:
    first, second = people(0.5, 0.6), people(0.4, 1.0, exam=IDENTITY_FRAMES)
    (found,) = measured([first, second], ["identity"], ["who"], 400)
    assert found.attacker == "identity" and found.score.raw == 1.0


def test_wilson_by_hand() -> None:
    # (1 + 1.92/5 − 1.96·√(3.84/100)) / (1 + 3.84/5) = 1/1.768
    assert wilson_low(1.0, 5) == pytest.approx(0.5655, abs=1e-3)
    assert wilson_low(0.0, 50) == pytest.approx(0.0, abs=1e-12)


def test_all_of_few_is_not_surely_all() -> None:
    """Every resample of ten right answers is right; that does not make it sure of the next hundred."""
    (found,) = measured([people(1.0, 1.0, count=10)], ["identity"], ["who"], 40)
    assert (found.score.value, found.score.high) == (1, 1)
    assert found.score.low == pytest.approx(wilson_low(1.0, 10)) and 0.7 < found.score.low < 0.75
    # Clip by clip it is as much as from raw video; of the next hundred that is no surer than the score.
    assert found.leakage.value == found.leakage.high == 1
    assert found.leakage.low == pytest.approx((found.score.low - found.score.chance) / (1 - found.score.chance))


def test_what_luck_gives_of_an_accuracy() -> None:
    # Of 20 at chance .05: 2 right has a lower end of .028, 3 right of .052.
    assert luck(people(0.0, 1.0, count=20), np.array([0.05])) == pytest.approx([0.1])
    assert luck(people(0.0, 1.0, count=200), np.array([0.05])) < 0.09


def answered(strengths: Sequence[float], count: int, seed: int) -> Answers:
    """Yes/no questions, every other truth a yes; a strength of 1 is always right, 0 always the same answer."""
    draw = np.random.default_rng(seed)

    def part() -> tuple[np.ndarray, np.ndarray]:
        labels = np.tile(np.arange(count)[:, None] % 2, (1, len(strengths)))
        knows = draw.random(labels.shape) < np.asarray(strengths)
        yes = np.where(knows, 0.98 * labels + 0.01, 0.5)
        return np.stack([1 - yes, yes], axis=-1).reshape(count, -1), labels

    return Answers(*part(), *part(), np.zeros(1), 1.0)


def looks(strengths: Sequence[float], raw: Sequence[float], exam: Exam = FRAME, count: int = 400) -> Ruler:
    sitting = Sitting(exam, "net", [answered(strengths, count, 0)], [answered(raw, count, 1)])
    return Ruler(sitting, (2,) * len(strengths))


def test_every_attribute_has_its_own_attacker_and_verdict() -> None:
    frame, video = looks([1, 0, 0.2, 0], [1, 1, 1, 0.1]), looks([0, 0, 0.8, 0], [1, 1, 1, 0.1], VIDEO)
    found = measured([frame, video], ["hat", "age", "hair", "mood"], ["hat", "age", "hair", "mood"], 800)
    assert [f.exposure for f in found[:2]] == ["fully exposed", "not shown to leak"]
    assert found[2].attacker == "video" and found[2].exposure in ("fully exposed", "largely exposed")
    assert found[3].exposure == "no conclusion" and math.isnan(found[3].leakage.value)
    assert found[0].attacker == "frame" and found[0].score.chance == pytest.approx(0.5)


def test_an_attribute_that_is_always_read_of_few_is_not_surely_always_read() -> None:
    """Every resample of a perfect ranking is a perfect ranking."""
    (found, *_) = measured([looks((1.0, 1.0), (1.0, 1.0), count=20)], ["face", "hair"], ["face", "hair"], 40)
    assert found.metric == "cMAP" and (found.score.value, found.score.high) == (1, 1)
    assert found.score.low == pytest.approx(wilson_low(1.0, 20))
    assert found.leakage.low == pytest.approx((found.score.low - found.score.chance) / (1 - found.score.chance))


def test_few_videos_cannot_tell_an_attribute_from_luck() -> None:
    (found,) = measured([looks([0], [1], count=20)], ["hat"], ["hat"], 80)
    assert found.exposure == "too little footage" and found.detectable > 0.25 and found.needed > 80


def test_what_luck_gives_of_average_precision() -> None:
    one, four = (looks([0] * n, [1] * n, count=100) for n in (1, 4))
    drawn = np.random.default_rng(5).random((2000, 100))
    truth = np.arange(100) % 2
    aps = [float((np.cumsum(t := truth[np.argsort(-s)]) / np.arange(1, 101))[t == 1].mean()) for s in drawn]
    assert luck(one, np.array([0.5]))[0] == pytest.approx(np.quantile(aps, 0.975), abs=0.01)
    assert (luck(four, np.full(4, 0.5)) > luck(one, np.array([0.5]))).all()  # four tries


def test_what_is_kept() -> None:
    action = Exam("action", "", "action", "video", "person")
    found = usefulness(people(0.55, 1.0, exam=action))
    assert found.kept.verdict == "measured" and found.recordings == 200
    assert found.kept.value == pytest.approx((found.score.value - 0.1) / 0.9)
    assert found.kept.low < found.kept.value < found.kept.high
    assert usefulness(people(0.0, 0.05, exam=action)).kept.verdict == "inconclusive"


@pytest.mark.parametrize(
    ("count", "level"), [(2, "too few people to tell"), (4, "too few people to tell"), (5, "not shown to leak")]
)
def test_fewer_than_five_people_never_rule_a_leak_out(count: int, level: str) -> None:
    """Who answers blindly about 400 recordings of two people is as sure as of many, if only recordings are resampled."""
    each, draw = np.arange(400), np.random.default_rng(0)
    who = each % count

    def answers(right: np.ndarray) -> Answers:
        named = np.eye(count)[np.where(right, who, (who + 1) % count)]
        return Answers(named, who[:, None], named, who[:, None], np.zeros(1), 1.0, np.full(400, 1 / count))

    def asked(right: np.ndarray, who: np.ndarray | None = who) -> Ruler:
        people = None if who is None else (who, who)
        return Ruler(Sitting(REID, "net", [answers(right)], [answers(each >= 0)], (each, each), people), (count,))

    blind = asked(draw.permutation(400) < 400 // count)
    assert persons(blind) == count
    (found,) = measured([blind], ["re-identification"], ["whether it is the same person"], 800, 2 * count)
    assert (found.exposure, found.persons, found.recordings) == (level, count, 400)
    assert found.leakage.high < 0.25 and found.persons_needed == (10 if count < 5 else 0)
    (leak,) = measured([asked(each >= 0)], ["re-identification"], ["whether it is the same person"], 800, 2 * count)
    assert (leak.exposure, leak.persons) == ("fully exposed", count)
    assert persons(asked(each >= 0, who=None)) == 0
    assert persons(asked(each >= 0, who=np.where(who == 0, -1, who))) == count - 1  # those that are named


def test_few_people_rule_nothing_out_however_many_recordings_there_are() -> None:
    """The attacker takes each of ten people for somebody with or without a hat, all of their recordings alike."""
    draw, who = np.random.default_rng(0), np.repeat(np.arange(10), 20)
    labels, taken_for = (who % 2)[:, None], draw.normal(size=10)[who]

    def answers(strength: float) -> Answers:
        yes = 1 / (1 + np.exp(-strength * (2 * labels[:, 0] - 1) - taken_for - draw.normal(size=200) / 2))
        shares = np.stack([1 - yes, yes], axis=1)
        return Answers(shares, labels, shares, labels, np.zeros(1), 1.0)

    each, blind, raw = np.arange(200), answers(0.0), answers(9.0)
    alone = Ruler(Sitting(FRAME, "net", [blind], [raw], (each, each)), (2,))
    people = Ruler(Sitting(FRAME, "net", [blind], [raw], (each, each), (who, who)), (2,))
    (by_recording,), (by_person,) = (measured([ruler], ["hat"], ["hat"], 400) for ruler in (alone, people))
    assert by_recording.leakage.value == by_person.leakage.value
    assert by_recording.leakage.high < 0.25 < 0.5 < by_person.leakage.high
    assert (by_recording.exposure, by_person.exposure) == ("not shown to leak", "too little footage")
    assert set(by_person.leakage.intervals) == set(by_person.score.intervals) == {"videos", "persons"}
    assert ", of more people too." in doubts(Exposure.too_little, [by_person], 400, 400)[0]
    assert (
        "people" not in doubts(Exposure.too_little, [replace(by_recording, exposure="too little footage")], 400, 400)[0]
    )
