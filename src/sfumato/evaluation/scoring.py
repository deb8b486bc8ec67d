"""From answers to scores: the statistics of SPEC section 9, with raw video always beside the anonymised."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.datasets.sample import AttributeSpec
from sfumato.evaluation.exam import Answers, Exam, yes_columns
from sfumato.evaluation.metrics import (
    FLOORS,
    Headline,
    Interval,
    always_yes_f1,
    bootstrap,
    bootstrap_max,
    chance_ap,
    coin_f1,
    f1,
    gain_over_random,
    macro_f1,
    mean_defined,
    one_hot_columns,
    reaches_floor,
    resampled_ap,
    resampler,
    residual_leakage,
)
from sfumato.evaluation.result import AttackResult, AttributeScore, Leakage, Measure, Score, Strongest

Items = np.ndarray
SAMPLES = 1000


@dataclass
class Sitting:
    """One exam as sat by one examinee, once per seed, on anonymised and on raw clips.

    groups: (N,) labels of the validation and of the test items; those of a group, such as the clips of one recording, are
    not independent and are resampled together. None: each item by itself.
    """

    exam: Exam
    recognizer: str
    answers: Sequence[Answers]
    raw: Sequence[Answers]
    groups: tuple[np.ndarray, np.ndarray] | None = None


class Ruler:
    """Measures one sitting in its own metric: rows are items, several seeds are averaged inside every resample.

    `score(items)` and `raw(items)` give (questions,) arrays on those test items, `chance(items)` likewise;
    `validation(items)` on validation items. For top-1, and rank-1 of re-identification, there is one question.
    """

    def __init__(self, sitting: Sitting, heads: tuple[int, ...]) -> None:
        self.sitting, self.heads = sitting, heads
        attributes = sitting.exam.target == "attributes"
        make = self._precision if attributes else self._accuracy
        self.metric = {"attributes": "cMAP", "re-identification": "rank-1"}.get(sitting.exam.target, "top-1")
        self.score, self.raw = make(sitting.answers, "test"), make(sitting.raw, "test")
        self.validation = make(sitting.answers, "validation")
        self.raw_validation = make(sitting.raw, "validation")
        self.labels = sitting.answers[0].test_labels
        self.most_frequent = np.bincount(self.labels[:, 0]).argmax()
        self.blind = sitting.answers[0].blind
        self.n, self.n_validation = len(self.labels), len(sitting.answers[0].validation_labels)
        self.validation_groups = sitting.groups[0] if sitting.groups else None
        self.groups = sitting.groups[1] if sitting.groups else None

    def _accuracy(self, answers: Sequence[Answers], part: str) -> Callable[[Items], np.ndarray]:
        right = [getattr(a, part).argmax(1) == getattr(a, f"{part}_labels")[:, 0] for a in answers]
        correct = np.stack(right).mean(0)
        return lambda items: np.array([correct[items].mean()])

    def _precision(self, answers: Sequence[Answers], part: str) -> Callable[[Items], np.ndarray]:
        columns = one_hot_columns(getattr(answers[0], f"{part}_labels"), self.heads)
        scores = np.stack([yes_columns(getattr(a, part), self.heads) for a in answers])
        per_seed = resampled_ap(scores, columns.labels, columns.owner)
        return lambda items: per_seed(items).mean(0)

    def chance(self, items: Items) -> np.ndarray:
        """What a blind answer scores on those test items, (questions,)."""
        if self.blind.size:
            return np.array([self.blind[items].mean()])
        if self.metric == "top-1":
            # Who answers blindly names the split's most frequent class. That of every resample anew would be luck, which
            # pulls the interval of the leakage down.
            return np.array([(self.labels[items, 0] == self.most_frequent).mean()])
        columns = one_hot_columns(self.labels[items], self.heads)
        return np.asarray(chance_ap(columns.labels, columns.owner))

    def bootstrap(self, statistic: Callable[[Items], float]) -> Interval:
        """A statistic of test items with its interval."""
        return bootstrap(statistic, self.n, groups=self.groups, samples=SAMPLES)

    @property
    def all(self) -> Items:
        """Every test item once."""
        return np.arange(self.n)


def mean(values: np.ndarray) -> float:
    """The mean over the questions that are defined, NaN if none is."""
    return float(mean_defined(values).value)


def utility_score(ruler: Ruler) -> Score:
    """The action's top-1 with its interval over test clips."""
    return _score(ruler.bootstrap(lambda items: float(ruler.score(items)[0])), ruler)


def _score(found: Interval, ruler: Ruler) -> Score:
    return Score(found.value, found.low, found.high, mean(ruler.chance(ruler.all)), mean(ruler.raw(ruler.all)))


def _leakage(conclusive: bool, measure: Callable[[], Interval]) -> Leakage:
    """The residual leakage, measured only where the attacker is strong enough for the ratio to mean something."""
    if not conclusive:
        return Leakage(math.nan, math.nan, math.nan, "inconclusive")
    found = measure()
    return Leakage(found.value, found.low, found.high, "measured")


def conclusive(ruler: Ruler) -> bool:
    """Whether this attacker reaches its floor on raw video."""
    floor = FLOORS[ruler.sitting.exam.target]
    return reaches_floor(mean(ruler.raw(ruler.all)), mean(ruler.chance(ruler.all)), floor)


def attack_result(ruler: Ruler, attributes: Sequence[AttributeSpec]) -> AttackResult:
    """One attacker: its score, and its leakage paired with its own score on raw, on the same resamples."""
    s = ruler.sitting
    score = ruler.bootstrap(lambda items: mean(ruler.score(items)))

    def residual(items: Items) -> float:
        return residual_leakage(mean(ruler.score(items)), mean(ruler.chance(items)), mean(ruler.raw(items)))

    leakage = _leakage(conclusive(ruler), lambda: ruler.bootstrap(residual))
    each = [Ruler(Sitting(s.exam, s.recognizer, [a], s.raw), ruler.heads) for a in s.answers]
    return AttackResult(
        s.exam.name, s.exam.target, s.exam.level, s.recognizer, ruler.metric, _score(score, ruler),
        leakage, FLOORS[s.exam.target], mean(ruler.validation(np.arange(ruler.n_validation))),
        [mean(one.score(ruler.all)) for one in each], [a.curve.tolist() for a in s.answers],
        _attribute_scores(ruler, attributes) if s.exam.target == "attributes" else [], _measures(ruler),
    )  # fmt: skip


def _measures(ruler: Ruler) -> list[Measure]:
    """What else the answers hold of every test item, over seeds."""
    found = []
    for name in ruler.sitting.answers[0].measures:
        values, blind = np.mean([answers.measures[name] for answers in ruler.sitting.answers], axis=0)
        raw = float(np.mean([answers.measures[name][0] for answers in ruler.sitting.raw]))
        interval = ruler.bootstrap(lambda items, values=values: float(values[items].mean()))  # type: ignore[misc]
        found.append(Measure(name, Score(*interval, chance=float(blind.mean()), raw=raw)))
    return found


def _attribute_scores(ruler: Ruler, attributes: Sequence[AttributeSpec]) -> list[AttributeScore]:
    columns = one_hot_columns(ruler.labels, ruler.heads)
    draw = np.random.default_rng(0)
    resample = resampler(ruler.n, ruler.groups)
    resamples = [resample(draw) for _ in range(SAMPLES)]
    score, raw, chance = (np.stack([of(r) for r in resamples]) for of in (ruler.score, ruler.raw, ruler.chance))
    low, high = np.nanquantile(score, [0.025, 0.975], axis=0)
    told = ruler.score(ruler.all), low, high, ruler.chance(ruler.all), ruler.raw(ruler.all)
    found = []
    for i, spec in enumerate(attributes):
        mine = np.asarray(columns.owner) == i
        truth = columns.labels[:, mine]
        ap = Score(*(float(values[i]) for values in told))

        def over_seeds(measure: Callable, answers: Sequence[Answers], mine=mine, truth=truth) -> float:  # type: ignore
            return float(np.mean([mean(measure(yes_columns(a.test, ruler.heads)[:, mine], truth)) for a in answers]))

        def measure(i: int = i, ap: Score = ap) -> Interval:
            ends = np.nanquantile(residual_leakage(score[:, i], chance[:, i], raw[:, i]), [0.025, 0.975])
            return Interval(residual_leakage(ap.value, ap.chance, ap.raw), *ends.tolist())

        s, prevalence = ruler.sitting, truth.mean(0)
        strong = reaches_floor(ap.raw, ap.chance, FLOORS["attributes"])
        reached = over_seeds(f1, s.answers)
        gain = gain_over_random(reached, ap.value, prevalence)
        found.append(AttributeScore(
            spec.name, ap, f1=reached, macro_f1=over_seeds(macro_f1, s.answers),
            always_yes_f1=mean(np.array([always_yes_f1(p) for p in prevalence])),
            coin_f1=mean(np.array([coin_f1(p) for p in prevalence])),
            raw_f1=over_seeds(f1, s.raw), leakage=_leakage(strong, measure),
            f1_gain=gain.f1, ap_gain=gain.ap,
        ))  # fmt: skip
    return found


def strongest_of(rulers: Sequence[Ruler]) -> Strongest:
    """The strongest of several attackers on one target: chosen on validation, per attribute, reported on test.

    Each attribute's leakage is relative to the attacker strongest on *raw*; the interval holds the choice itself, which
    makes it honest and, for a perfect anonymizer, a little above zero (the maximum of several noises).
    """
    first = rulers[0]

    def table(name: str) -> Callable[[Items], np.ndarray]:
        return lambda items: np.stack([getattr(r, name)(items) for r in rulers])

    on_raw = table("raw_validation")(np.arange(first.n_validation)).argmax(0)
    reference = np.arange(len(on_raw))

    def raw(items: Items) -> np.ndarray:
        return np.asarray(table("raw")(items)[on_raw, reference])

    def residuals(items: Items) -> np.ndarray:
        # Every attribute over the mean room between chance and raw: their mean is the residual of the cMAP itself.
        chance = first.chance(items)
        return np.asarray((table("score")(items) - chance) / np.nanmean(raw(items) - chance))

    def over(test: Callable[[Items], np.ndarray]) -> Headline:
        return bootstrap_max(
            table("validation"), test, first.n_validation, first.n, validation_groups=first.validation_groups,
            test_groups=first.groups, samples=SAMPLES,
        )  # fmt: skip

    score = over(table("score"))
    names = sorted({rulers[i].sitting.exam.name for i in score.chosen if i >= 0})
    chance = mean(first.chance(first.all))
    floor = FLOORS[first.sitting.exam.target]
    reached = reaches_floor(mean(raw(first.all)), chance, floor)
    leakage = _leakage(reached, lambda: over(residuals).mean)
    total = Score(score.mean.value, score.mean.low, score.mean.high, chance, mean(raw(first.all)))
    return Strongest(first.sitting.exam.target, names, total, leakage)


def headline(strongest: Sequence[Strongest]) -> Leakage:
    """The worst leakage over the targets; if any target could not be measured, the line is inconclusive.

    A conclusive leak still counts as a leak: an inconclusive one beside it only adds doubt about the rest.
    """
    worst = max(strongest, key=lambda s: -math.inf if math.isnan(s.leakage.value) else s.leakage.value)
    unsure = any(s.leakage.verdict == "inconclusive" for s in strongest)
    return Leakage(worst.leakage.value, worst.leakage.low, worst.leakage.high, "inconclusive" if unsure else "measured")
