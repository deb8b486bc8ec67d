from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from sfumato.datasets.sample import AttributeSpec
from sfumato.evaluation import scoring
from sfumato.evaluation.attacks.frame import FRAME
from sfumato.evaluation.attacks.identity import IDENTITY
from sfumato.evaluation.attacks.video import VIDEO
from sfumato.evaluation.exam import Answers, Exam
from sfumato.evaluation.metrics import average_precision
from sfumato.evaluation.result import Leakage, Score, Strongest
from sfumato.evaluation.scoring import Ruler, Sitting, attack_result, headline, strongest_of, utility_score

PEOPLE = 10
N = 400
ACTION = Exam("action", "", "action", "video", "person")
SPECS = (AttributeSpec("face"), AttributeSpec("tone", ("light", "medium", "dark")))


@pytest.fixture(autouse=True)
def fewer_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "SAMPLES", 200)


def names(share: float, seed: int = 0, count: int = N) -> Answers:
    """Who is it? `share` of the answers are right, the others drawn at random; PEOPLE people, equally often."""
    rng = np.random.default_rng(seed)

    def part() -> tuple[np.ndarray, np.ndarray]:
        truth = np.arange(count) % PEOPLE
        told = np.where(rng.random(count) < share, truth, rng.integers(PEOPLE, size=count))
        return np.eye(PEOPLE)[told] * 0.9 + 0.01, truth[:, None]

    return Answers(*part(), *part(), np.array([0.2, 0.4]), 1.0)


def attributes(
    on_validation: Sequence[float], on_test: Sequence[float], seed: int = 0, truth_seed: int = 99
) -> Answers:
    """Yes/no questions answered with that strength: 0 is a coin, 1 is always right. The truth is the same for all."""
    rng, truths = np.random.default_rng(seed), np.random.default_rng(truth_seed)

    def part(strength: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
        labels = truths.integers(2, size=(N, len(strength)))
        right = rng.random(labels.shape) < np.asarray(strength)
        chances = np.where(right, 0.98 * labels + 0.01, rng.random(labels.shape))
        return np.stack([1 - chances, chances], axis=-1).reshape(N, -1), labels

    return Answers(*part(on_validation), *part(on_test), np.array([0.5]), 1.0)


def people(share: float, raw: float, seed: int = 0, exam: Exam = IDENTITY) -> Ruler:
    return Ruler(Sitting(exam, "net", [names(share, seed)], [names(raw, seed + 50)]), (PEOPLE,))


def questions(answers: Answers, raw: Answers, exam: Exam = FRAME) -> Ruler:
    return Ruler(Sitting(exam, "net", [answers], [raw]), (2,) * answers.test_labels.shape[1])


def test_the_action_score_worked_by_hand() -> None:
    labels = np.array([0, 0, 0, 1, 1, 2, 0, 1, 2, 0])[:, None]  # the most frequent class: 5 of 10
    told = np.eye(3)[[0, 0, 1, 1, 1, 2, 0, 0, 2, 0]]  # 8 of 10
    better = np.eye(3)[labels[:, 0]]
    answers, raw = (Answers(t, labels, t, labels, np.zeros(1), 0.0) for t in (told, better))
    score = utility_score(Ruler(Sitting(ACTION, "net", [answers], [raw]), (3,)))
    assert (score.value, score.chance, score.raw) == pytest.approx((0.8, 0.5, 1.0))
    assert score.low < 0.8 < score.high


def test_seeds_are_averaged() -> None:
    runs = [names(0.9, 1), names(0.3, 2)]
    ruler = Ruler(Sitting(IDENTITY, "net", runs, [names(1.0)]), (PEOPLE,))
    found = attack_result(ruler, ())
    each = [float((a.test.argmax(1) == a.test_labels[:, 0]).mean()) for a in runs]
    assert found.per_seed == pytest.approx(each)
    assert found.score.value == pytest.approx(sum(each) / 2)
    assert found.curve == [[0.2, 0.4], [0.2, 0.4]]


def test_clips_of_one_recording_count_as_one() -> None:
    """Every clip four times over is no more evidence than once, if it is known that they belong together."""
    once = names(0.5, 1, 100)

    def often(answers: Answers) -> Answers:
        fields = ("validation", "validation_labels", "test", "test_labels")
        return Answers(*(np.repeat(getattr(answers, f), 4, axis=0) for f in fields), answers.curve, 0.0)

    groups = np.repeat(np.arange(100), 4)

    def intervals(answers: Answers, groups: tuple[np.ndarray, np.ndarray] | None) -> list[float]:
        ruler = Ruler(Sitting(IDENTITY, "net", [answers], [answers], groups), (PEOPLE,))
        found = attack_result(ruler, ()).score, strongest_of([ruler]).score, utility_score(ruler)
        return [score.high - score.low for score in found]

    alone, believed, grouped = (
        intervals(once, None), intervals(often(once), None), intervals(often(once), (groups, groups)),
    )  # fmt: skip
    assert np.array(grouped) == pytest.approx(np.array(alone), rel=0.25)
    assert (np.array(believed) < 0.7 * np.array(alone)).all()
    each = intervals(once, (np.arange(100), np.arange(100)))
    assert each == alone  # nothing changes where every clip is a recording of its own


def test_attributes_of_one_recording_count_as_one() -> None:
    both = attributes((0.6,), (0.6,))
    width = []
    for groups in (None, (np.arange(N) // 10, np.arange(N) // 10)):
        ruler = Ruler(Sitting(FRAME, "net", [both], [both], groups), (2,))
        (found,) = attack_result(ruler, SPECS[:1]).attributes
        width.append((found.ap.low, found.ap.high))
    assert width[0] != width[1]


def test_persons_are_resampled_whole_and_both_intervals_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the people are always named, the others never: of new people nobody knows how many would be."""
    monkeypatch.setattr(scoring, "SAMPLES", 1000)  # of ten people the ends are where one draw in a hundred lies
    who = np.arange(N) % PEOPLE
    told = np.where(who < PEOPLE // 2, who, (who + 1) % PEOPLE)
    half, raw = (Answers(t, who[:, None], t, who[:, None], np.zeros(1), 0.0) for t in np.eye(PEOPLE)[[told, who]])

    def ruler(persons: np.ndarray, exam: Exam = IDENTITY) -> Ruler:
        return Ruler(Sitting(exam, "net", [half], [raw], None, (persons, persons)), (PEOPLE,))

    alone = Ruler(Sitting(IDENTITY, "net", [half], [raw]), (PEOPLE,))
    for found, narrow in (
        (attack_result(ruler(who), ()).score, attack_result(alone, ()).score),
        (strongest_of([ruler(who)]).score, strongest_of([alone]).score),
        (utility_score(ruler(who, ACTION)), utility_score(alone)),
    ):
        assert found.value == narrow.value == 0.5 and narrow.intervals == {}
        assert found.intervals["videos"] == [narrow.low, narrow.high]
        assert [found.low, found.high] == found.intervals["persons"]
        # A coin tossed ten times, against one tossed four hundred times.
        assert 0.05 < found.low < 0.2 and 0.8 < found.high < 0.95 and narrow.low > 0.44
    leak = attack_result(ruler(who), ()).leakage
    assert leak.value == pytest.approx(0.4 / 0.9)
    # Chance stays what it is, so that the ends of the leakage are those of the score.
    ends = (np.array(attack_result(ruler(who), ()).score.intervals["persons"]) - 0.1) / 0.9
    assert leak.intervals["persons"] == pytest.approx(ends.tolist())
    assert ruler(who).counts == {"videos": N, "persons": len(np.unique(who))}
    for unknown in (np.where(who == 3, -1, who), who % 4):  # somebody unknown, or four persons: too few
        assert attack_result(ruler(unknown), ()).score.intervals == {}


def test_attributes_have_intervals_over_persons_too() -> None:
    both = attributes((0.6, 0.9), (0.6, 0.9))
    persons = np.arange(N) // 40
    found = attack_result(Ruler(Sitting(FRAME, "net", [both], [both], None, (persons, persons)), (2, 2)), SPECS[:1] * 2)
    for attribute in found.attributes:
        assert set(attribute.ap.intervals) == set(attribute.leakage.intervals) == {"videos", "persons"}
        assert (attribute.leakage.value, attribute.leakage.low) == pytest.approx((1, 1))


REID = Exam("reid", "", "re-identification", "video", "person")


def test_chance_is_what_the_answers_say_where_they_do() -> None:
    told, raw = names(0.5, 1), names(1.0, 2)
    blind = np.where(np.arange(N) < 100, 0.4, 0.2)
    told.blind = blind
    found = attack_result(Ruler(Sitting(REID, "net", [told], [raw]), (PEOPLE,)), ())
    assert found.metric == "rank-1" and found.target == "re-identification"
    assert found.score.chance == pytest.approx(0.25)
    assert found.leakage.value == pytest.approx((found.score.value - 0.25) / 0.75)


def test_what_else_was_measured_is_averaged_over_seeds_and_has_its_interval() -> None:
    one, other, raw = names(0.5, 1), names(0.5, 2), names(1.0, 3)
    for answers, value in ((one, 20.0), (other, 22.0), (raw, 90.0)):
        answers.measures = {"PSNR": np.stack([value + np.arange(N) % 2, np.full(N, 12.0)])}
    (found,) = attack_result(Ruler(Sitting(IDENTITY, "net", [one, other], [raw]), (PEOPLE,)), ()).measures
    assert found.name == "PSNR"
    assert (found.score.value, found.score.chance, found.score.raw) == pytest.approx((21.5, 12, 90.5))
    assert 21.4 < found.score.low < 21.5 < found.score.high < 21.6


@pytest.mark.parametrize("target", ["identity", "attributes"])
def test_an_anonymizer_that_does_nothing_leaks_everything(target: str) -> None:
    if target == "identity":
        raw = names(0.9)
        ruler = Ruler(Sitting(IDENTITY, "net", [raw], [raw]), (PEOPLE,))
    else:
        both = attributes((0.9, 0.8), (0.9, 0.8))
        ruler = questions(both, both)
    for leakage in (attack_result(ruler, SPECS[:1] * 2).leakage, strongest_of([ruler]).leakage):
        assert (leakage.value, leakage.low, leakage.high) == pytest.approx((1, 1, 1))
        assert leakage.verdict == "measured"


def test_random_answers_leak_nothing() -> None:
    held = []
    for seed in range(6):
        blind = attributes((0, 0, 0), (0, 0, 0), seed)
        rulers = [people(0.0, 1.0, seed), questions(blind, attributes((1, 1, 1), (1, 1, 1), seed + 50))]
        for leakage in (attack_result(ruler, SPECS[:1] * 3).leakage for ruler in rulers):
            assert leakage.verdict == "measured"
            assert abs(leakage.value) < 0.12
            held.append(leakage.low <= 0 <= leakage.high)
    assert sum(held) >= 10  # of 12; a 95% interval may miss now and then


def test_the_interval_of_a_leakage_stands_around_its_value() -> None:
    """Were chance the most frequent class of each resample, the interval would hang below."""
    off = [(lo + hi) / 2 - v for v, lo, hi in ((x.value, x.low, x.high) for x in (
        attack_result(people(0.4, 1.0, seed), ()).leakage for seed in range(6)))]  # fmt: skip
    assert abs(float(np.mean(off))) < 0.012


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_a_weak_raw_attacker_proves_nothing(share: float) -> None:
    weak = attributes((0.2, 0.2), (0.2, 0.2), 7)
    rulers = [people(share, raw=0.3), questions(attributes((share,) * 2, (share,) * 2), weak)]
    for ruler in rulers:
        found, best = attack_result(ruler, SPECS[:1] * 2), strongest_of([ruler])
        for leakage in (found.leakage, best.leakage, headline([best])):
            assert leakage.verdict == "inconclusive"
            assert math.isnan(leakage.value) and math.isnan(leakage.low)
        assert found.score.low <= found.score.value <= found.score.high


def test_the_floor_is_half_of_the_way_from_chance_to_perfect() -> None:
    # Chance 0.1: the floor lies at 0.55.
    verdicts = [attack_result(people(0.5, raw), ()).leakage.verdict for raw in (0.42, 0.58)]
    assert verdicts == ["inconclusive", "measured"]
    assert attack_result(people(0.5, 0.9), ()).floor == 0.5


def test_the_strongest_attacker_is_chosen_on_validation_not_on_test() -> None:
    """One attacker is the better on validation, the other on test: the first one's test score counts."""
    raw = attributes((1, 1), (1, 1), 3)
    first = questions(attributes((0.9, 0.9), (0.4, 0.4), 1), raw, FRAME)
    second = questions(attributes((0.5, 0.5), (0.95, 0.95), 2), raw, VIDEO)
    for order in ([first, second], [second, first]):
        found = strongest_of(order)
        assert found.attackers == ["frame"]
        assert found.score.value == pytest.approx(scoring.mean(first.score(first.all)))
        assert found.leakage.value == pytest.approx(attack_result(first, SPECS[:1] * 2).leakage.value)
        assert found.leakage.value < 0.75


def test_the_strongest_attacker_is_chosen_per_attribute() -> None:
    raw = attributes((1, 1), (1, 1), 3)
    first = questions(attributes((0.9, 0.1), (0.9, 0.1), 1), raw, FRAME)
    second = questions(attributes((0.1, 0.8), (0.1, 0.8), 2), raw, VIDEO)
    found = strongest_of([first, second])
    assert found.attackers == ["frame", "video"]
    best = (first.score(first.all)[0] + second.score(second.all)[1]) / 2
    assert found.score.value == pytest.approx(best)
    assert found.score.raw == pytest.approx(1)
    assert found.score.chance == pytest.approx(first.labels.mean())
    assert found.leakage.value == pytest.approx((best - found.score.chance) / (1 - found.score.chance))


def test_leakage_is_measured_against_the_attacker_strongest_on_raw() -> None:
    weak, strong = names(0.2, 5), names(1.0, 6)
    one = Ruler(Sitting(IDENTITY, "net", [names(0.5, 1)], [weak]), (PEOPLE,))
    other = Ruler(Sitting(IDENTITY, "net", [names(0.3, 2)], [strong]), (PEOPLE,))
    assert attack_result(one, ()).leakage.verdict == "inconclusive"
    found = strongest_of([one, other])
    assert (found.score.raw, found.leakage.verdict) == (1.0, "measured")
    assert found.leakage.value == pytest.approx((found.score.value - 0.1) / 0.9)


def test_the_best_of_two_blind_attackers_stays_near_zero() -> None:
    raw = attributes((1, 1), (1, 1), 3)
    rulers = [questions(attributes((0, 0), (0, 0), seed), raw, exam) for seed, exam in ((1, FRAME), (2, VIDEO))]
    found = strongest_of(rulers).leakage
    assert found.verdict == "measured" and abs(found.value) < 0.12
    assert found.low < 0.05 and found.high < 0.3


def strongest(target: str, value: float, verdict: str = "measured") -> Strongest:
    score = Score(0.5, 0.4, 0.6, 0.1, 0.9)
    return Strongest(target, [target], score, Leakage(value, value - 0.1, value + 0.1, verdict))


def test_the_headline_is_the_worst_target() -> None:
    found = headline([strongest("attributes", 0.2), strongest("identity", 0.7)])
    assert (found.value, found.low, found.high, found.verdict) == pytest.approx((0.7, 0.6, 0.8, "measured"))


def test_a_target_that_cannot_be_measured_makes_the_line_inconclusive_but_hides_no_leak() -> None:
    for order in (1, -1):
        found = headline([strongest("attributes", 0.2), strongest("identity", math.nan, "inconclusive")][::order])
        assert (found.value, found.verdict) == (0.2, "inconclusive")
    assert math.isnan(headline([strongest("identity", math.nan, "inconclusive")]).value)


def test_attribute_scores_stand_beside_their_chance_lines() -> None:
    rng = np.random.default_rng(4)
    labels = np.stack([rng.integers(2, size=60), rng.integers(3, size=60)], axis=1)
    told = np.concatenate([rng.dirichlet((1, 1), 60), rng.dirichlet((1, 1, 1), 60)], axis=1)
    certain = np.concatenate([np.eye(2)[labels[:, 0]], np.eye(3)[labels[:, 1]]], axis=1)
    blind, sure = (Answers(p, labels, p, labels, np.zeros(1), 0.0) for p in (told, certain))
    face, tone = attack_result(Ruler(Sitting(FRAME, "net", [blind], [sure]), (2, 3)), SPECS).attributes
    assert (face.name, tone.name) == ("face", "tone")
    yes = labels[:, 0].mean()
    assert face.ap.value == pytest.approx(average_precision(told[:, 1], labels[:, 0]))
    assert (face.ap.chance, face.ap.raw) == pytest.approx((yes, 1.0))
    assert face.always_yes_f1 == pytest.approx(2 * yes / (1 + yes)) and face.coin_f1 == pytest.approx(yes / (yes + 0.5))
    hits = ((told[:, 1] >= 0.5) & (labels[:, 0] == 1)).sum()
    assert face.f1 == pytest.approx(2 * hits / ((told[:, 1] >= 0.5).sum() + labels[:, 0].sum()))
    # One value against the rest, averaged: the chance lines of three values average to a third.
    each = [average_precision(told[:, 2 + v], (labels[:, 1] == v).astype(float)) for v in range(3)]
    assert tone.ap.value == pytest.approx(np.mean(each))
    assert (tone.ap.chance, tone.ap.raw) == pytest.approx((1 / 3, 1.0))
    assert face.ap.low < face.ap.value < face.ap.high
    perfect = attack_result(Ruler(Sitting(FRAME, "net", [sure], [sure]), (2, 3)), SPECS).attributes
    assert [a.f1 for a in perfect] == [a.macro_f1 for a in perfect] == pytest.approx([1, 1])


def test_a_value_that_nobody_has_is_in_no_line_of_f1() -> None:
    """Of a hat that is never a helmet, who always says yes is right half of the time: their F1 is that of the two others."""
    labels = np.arange(N)[:, None] % 2
    yes = np.tile([0.5, 0.5, 0.0], (N, 1))
    answers = Answers(yes, labels, yes, labels, np.zeros(1), 0.0)
    ruler = Ruler(Sitting(FRAME, "net", [answers], [answers]), (3,))
    (found,) = attack_result(ruler, [AttributeSpec("hat", ("none", "cap", "helmet"))]).attributes
    assert found.f1 == pytest.approx(2 / 3) and found.always_yes_f1 == pytest.approx(2 / 3)
    assert found.coin_f1 == pytest.approx(0.5)
