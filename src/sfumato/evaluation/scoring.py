"""From answers to scores: the statistics of SPEC section 9, with raw video always beside the anonymised."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sfumato.datasets.sample import AttributeSpec
from sfumato.evaluation.draws import PERSONS, VIDEOS, Draws
from sfumato.evaluation.exam import Answers, Exam, by_precision, yes_columns
from sfumato.evaluation.metrics import (
    FLOORS,
    MIN_GROUPS,
    Interval,
    always_yes_f1,
    bootstrap,
    bootstrap_draws,
    chance_ap,
    coin_f1,
    count_units,
    f1,
    gain_over_random,
    macro_f1,
    max_draws,
    mean_defined,
    one_hot_columns,
    reaches_floor,
    resampled_ap,
    resampler,
    residual_leakage,
    strongest,
)
from sfumato.evaluation.result import AttackResult, AttributeScore, Leakage, Measure, Reader, Score, Strongest

Items = np.ndarray
Scores = Callable[[Items], np.ndarray]
SAMPLES = 1000


@dataclass
class Sitting:
    """One exam as sat by one examinee, once per seed, on anonymised and on raw clips.

    groups: (N,) labels of the validation and of the test items; those of a group, such as the clips of one recording, are
    not independent and are resampled together. None: each item by itself. persons: likewise, who is in the items; −1:
    nobody knows.
    """

    exam: Exam
    recognizer: str
    answers: Sequence[Answers]
    raw: Sequence[Answers]
    groups: tuple[np.ndarray, np.ndarray] | None = None
    persons: tuple[np.ndarray, np.ndarray] | None = None


class Ruler:
    """Measures one sitting in its own metric: rows are items, several seeds are averaged inside every resample.

    `score(items)` and `raw(items)` give (questions,) arrays on those test items, `chance(items)` likewise;
    `validation(items)` on validation items. For top-1, and rank-1 of re-identification, there is one question.
    """

    def __init__(self, sitting: Sitting, heads: tuple[int, ...]) -> None:
        self.sitting, self.heads = sitting, heads
        precision = by_precision(sitting.exam, heads)
        make = self._precision if precision else self._accuracy
        self.metric = "cMAP" if precision else {"re-identification": "rank-1"}.get(sitting.exam.target, "top-1")
        self.score, self.raw = make(sitting.answers, "test"), make(sitting.raw, "test")
        self.validation = make(sitting.answers, "validation")
        self.raw_validation = make(sitting.raw, "validation")
        self.labels = sitting.answers[0].test_labels
        self.most_frequent = np.bincount(self.labels[:, 0]).argmax()
        self.blind = sitting.answers[0].blind
        self.n, self.n_validation = len(self.labels), len(sitting.answers[0].validation_labels)
        self.validation_groups = sitting.groups[0] if sitting.groups else None
        self.groups = sitting.groups[1] if sitting.groups else None
        # What is resampled: the groups of validation items and of test items.
        self.units = {VIDEOS: (self.validation_groups, self.groups)}
        if sitting.persons and _enough(sitting.persons[1]):
            known = sitting.persons[0] if _enough(sitting.persons[0]) else self.validation_groups
            self.units[PERSONS] = known, sitting.persons[1]
        self.counts = {by: count_units(self.n, groups) for by, (_, groups) in self.units.items()}

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

    def chance_over(self, by: str) -> Scores:
        """`chance` where videos, or persons, are resampled.

        Somebody drawn twice is not easier to name blindly: other people would be as many.
        """
        if by == VIDEOS or self.sitting.exam.target != "identity":
            return self.chance
        blind = self.chance(self.all)
        return lambda items: blind

    def bootstrap(self, statistic: Callable[[Items], float]) -> Interval:
        """A statistic of test items with its interval over videos."""
        return bootstrap(statistic, self.n, groups=self.groups, samples=SAMPLES)

    def draws(self, statistic: Callable[[Items], float]) -> Draws:
        """A statistic of test items on resamples of videos and, where there are enough, of persons."""
        over = {
            by: bootstrap_draws(statistic, self.n, groups=groups, samples=SAMPLES)
            for by, (_, groups) in self.units.items()
        }
        return Draws(statistic(self.all), over, self.counts)

    def tables(self, by: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Score, chance and raw of every question on the same resamples, (samples, questions) each."""
        draw, resample = np.random.default_rng(0), resampler(self.n, self.units[by][1])
        resamples = [resample(draw) for _ in range(SAMPLES)]
        score, chance, raw = (
            np.stack([of(r) for r in resamples]) for of in (self.score, self.chance_over(by), self.raw)
        )
        return score, chance, raw

    @property
    def all(self) -> Items:
        """Every test item once."""
        return np.arange(self.n)


def mean(values: np.ndarray) -> float:
    """The mean over the questions that are defined, NaN if none is."""
    return float(mean_defined(values).value)


def _enough(persons: np.ndarray) -> bool:
    return bool((persons >= 0).all()) and len(np.unique(persons)) >= MIN_GROUPS


def utility_draws(ruler: Ruler) -> Draws:
    """The action's score, on resamples of the test clips and persons."""
    return ruler.draws(lambda items: mean(ruler.score(items)))


def utility_score(ruler: Ruler) -> Score:
    """The action's top-1, or cMAP where a clip shows several, with its interval."""
    return _score(utility_draws(ruler), ruler)


def per_seed(ruler: Ruler) -> list[float]:
    """The score of each seed by itself."""
    s = ruler.sitting
    each = [Ruler(Sitting(s.exam, s.recognizer, [answers], s.raw), ruler.heads) for answers in s.answers]
    return [mean(one.score(ruler.all)) for one in each]


def reader(ruler: Ruler) -> Reader:
    """What one network makes of the action, and how much of what it makes of raw video that is, on the same resamples."""

    def kept(items: Items) -> float:
        return residual_leakage(mean(ruler.score(items)), mean(ruler.chance(items)), mean(ruler.raw(items)))

    s, share = ruler.sitting, _leakage(ruler.draws(kept) if conclusive(ruler) else None)
    return Reader(s.recognizer, utility_score(ruler), share, per_seed(ruler), [a.curve.tolist() for a in s.answers])


def _score(found: Draws, ruler: Ruler) -> Score:
    return Score(**found.stored(), chance=mean(ruler.chance(ruler.all)), raw=mean(ruler.raw(ruler.all)))


def _leakage(found: Draws | None) -> Leakage:
    """The residual leakage, measured only where the attacker is strong enough for the ratio to mean something."""
    if found is None:
        return Leakage(math.nan, math.nan, math.nan, "inconclusive")
    return Leakage(**found.stored(), verdict="measured")


def conclusive(ruler: Ruler) -> bool:
    """Whether this attacker reaches its floor on raw video."""
    floor = FLOORS[ruler.sitting.exam.target]
    return reaches_floor(mean(ruler.raw(ruler.all)), mean(ruler.chance(ruler.all)), floor)


def attack_result(ruler: Ruler, attributes: Sequence[AttributeSpec]) -> AttackResult:
    """One attacker: its score, and its leakage paired with its own score on raw, on the same resamples."""
    s = ruler.sitting
    drawn = {by: ruler.tables(by) for by in ruler.units}
    means = {by: [np.array([mean(row) for row in table]) for table in tables] for by, tables in drawn.items()}
    told = [mean(values) for values in (ruler.score(ruler.all), ruler.chance(ruler.all), ruler.raw(ruler.all))]
    score = Draws(told[0], {by: tables[0] for by, tables in means.items()}, ruler.counts)
    residual = Draws(
        residual_leakage(*told), {by: residual_leakage(*tables) for by, tables in means.items()}, ruler.counts
    )
    leakage = _leakage(residual if conclusive(ruler) else None)
    return AttackResult(
        s.exam.name, s.exam.target, s.exam.level, s.recognizer, ruler.metric, _score(score, ruler),
        leakage, FLOORS[s.exam.target], mean(ruler.validation(np.arange(ruler.n_validation))),
        per_seed(ruler), [a.curve.tolist() for a in s.answers],
        _attribute_scores(ruler, attributes, drawn) if s.exam.target == "attributes" else [], _measures(ruler),
        late_gain([a.curve.tolist() for a in s.answers]),
    )  # fmt: skip


def _measures(ruler: Ruler) -> list[Measure]:
    """What else the answers hold of every test item, over seeds."""
    found = []
    for name in ruler.sitting.answers[0].measures:
        values, blind = np.mean([answers.measures[name] for answers in ruler.sitting.answers], axis=0)
        raw = float(np.mean([answers.measures[name][0] for answers in ruler.sitting.raw]))
        drawn = ruler.draws(lambda items, values=values: float(values[items].mean()))  # type: ignore[misc]
        found.append(Measure(name, Score(**drawn.stored(), chance=float(blind.mean()), raw=raw)))
    return found


def _attribute_scores(
    ruler: Ruler, attributes: Sequence[AttributeSpec], drawn: Mapping[str, tuple[np.ndarray, ...]]
) -> list[AttributeScore]:
    """One by one, from the tables of score, chance and raw on the resamples."""
    columns = one_hot_columns(ruler.labels, ruler.heads)
    told = ruler.score(ruler.all), ruler.chance(ruler.all), ruler.raw(ruler.all)
    found = []
    for i, spec in enumerate(attributes):
        mine = np.asarray(columns.owner) == i
        truth = columns.labels[:, mine]
        value, blind, reference = (float(values[i]) for values in told)
        aps = Draws(value, {by: t[0][:, i] for by, t in drawn.items()}, ruler.counts)
        ap = Score(**aps.stored(), chance=blind, raw=reference)
        residuals = {by: residual_leakage(*(table[:, i] for table in tables)) for by, tables in drawn.items()}

        def over_seeds(measure: Callable, answers: Sequence[Answers], mine=mine, truth=truth) -> float:  # type: ignore
            return float(np.mean([mean(measure(yes_columns(a.test, ruler.heads)[:, mine], truth)) for a in answers]))

        s, prevalence = ruler.sitting, truth.mean(0)
        strong = reaches_floor(ap.raw, ap.chance, FLOORS["attributes"])
        leakage = Draws(residual_leakage(ap.value, ap.chance, ap.raw), residuals, ruler.counts) if strong else None
        reached = over_seeds(f1, s.answers)
        gain = gain_over_random(reached, ap.value, prevalence)
        occurs = prevalence[prevalence > 0]  # a value that nobody has is in no F1, so it is in none of its lines either
        found.append(AttributeScore(
            spec.name, ap, f1=reached, macro_f1=over_seeds(macro_f1, s.answers),
            always_yes_f1=mean(always_yes_f1(occurs)), coin_f1=mean(coin_f1(occurs)),
            raw_f1=over_seeds(f1, s.raw), leakage=_leakage(leakage),
            f1_gain=gain.f1, ap_gain=gain.ap,
        ))  # fmt: skip
    return found


@dataclass(frozen=True)
class Choice:
    """The strongest of several attackers, and its leakage on every resample; None where it is inconclusive."""

    strongest: Strongest
    leakage: Draws | None


def by_target(rulers: Iterable[Ruler]) -> dict[str, list[Ruler]]:
    """The attackers on each target.

    >>> by_target([])
    {}
    """
    found: dict[str, list[Ruler]] = {}
    for ruler in rulers:
        found.setdefault(ruler.sitting.exam.target, []).append(ruler)
    return found


def strongest_of(rulers: Sequence[Ruler]) -> Strongest:
    """The strongest of several attackers on one target: chosen on validation, per attribute, reported on test."""
    return choose(rulers).strongest


def choose(rulers: Sequence[Ruler]) -> Choice:
    """The strongest of several attackers on one target, as `strongest_of`, with what it is on the resamples.

    Each attribute's leakage is relative to the attacker strongest on *raw*; the interval holds the choice itself, which
    makes it honest and, for a perfect anonymizer, a little above zero (the maximum of several noises).
    """
    field, first = _Field(rulers), rulers[0]
    chosen, values = strongest(
        field.on_validation(np.arange(first.n_validation)), field.on_test(first.all, first.chance)
    )
    drawn = {by: field.drawn(by) for by in first.units}

    def over_questions(columns: slice) -> Draws:
        kept = ~np.isnan(values[columns])
        means = {by: d[:, columns][:, kept].sum(axis=1) / max(int(kept.sum()), 1) for by, d in drawn.items()}
        return Draws(mean(values[columns]), means, first.counts)

    count = len(field.on_raw)
    score, leakage = over_questions(slice(count)), over_questions(slice(count, None)) if field.reached else None
    names = sorted({rulers[i].sitting.exam.name for i in chosen[:count] if i >= 0})
    total = Score(**score.stored(), chance=mean(first.chance(first.all)), raw=mean(field.raw(first.all)))
    return Choice(Strongest(first.sitting.exam.target, names, total, _leakage(leakage)), leakage)


class _Field:
    """Several attackers on one target, side by side: (attackers, questions) of scores and, where the attackers strongest
    on raw reach their floor, as many columns of residuals beside them, so that both are on the same resamples."""

    def __init__(self, rulers: Sequence[Ruler]) -> None:
        self.rulers, self.first = rulers, rulers[0]
        first = self.first
        self.on_raw: list[int] = self.table("raw_validation", np.arange(first.n_validation)).argmax(0).tolist()
        floor = FLOORS[first.sitting.exam.target]
        self.reached = reaches_floor(mean(self.raw(first.all)), mean(first.chance(first.all)), floor)

    def table(self, name: str, items: Items) -> np.ndarray:
        return np.stack([getattr(ruler, name)(items) for ruler in self.rulers])

    def raw(self, items: Items) -> np.ndarray:
        """What the attacker strongest on raw validation gets of each question, (questions,)."""
        found = {who: self.rulers[who].raw(items) for who in set(self.on_raw)}
        return np.array([found[who][question] for question, who in enumerate(self.on_raw)])

    def on_test(self, items: Items, chance: Scores) -> np.ndarray:
        score = self.table("score", items)
        if not self.reached:
            return score
        blind = chance(items)
        # Every attribute over the mean room between chance and raw: their mean is the residual of the cMAP itself.
        return np.concatenate([score, (score - blind) / np.nanmean(self.raw(items) - blind)], axis=-1)

    def on_validation(self, items: Items) -> np.ndarray:
        score = self.table("validation", items)
        return np.concatenate([score, score], axis=-1) if self.reached else score

    def drawn(self, by: str) -> np.ndarray:
        """The columns of whoever is strongest on validation, in every resample: (samples, columns)."""
        chance, (validation_groups, test_groups) = self.first.chance_over(by), self.first.units[by]
        return max_draws(
            self.on_validation, lambda items: self.on_test(items, chance), self.first.n_validation, self.first.n,
            validation_groups=validation_groups, test_groups=test_groups, samples=SAMPLES,
        )  # fmt: skip


def late_gain(curves: Sequence[Sequence[float]]) -> float:
    """What the last quarter of the epochs added to the best validation score, averaged over seeds; NaN for under four.

    curves: the validation score after every epoch, per seed.

    >>> late_gain([[0.2, 0.5, 0.5, 0.75]])
    0.25
    """
    gains = []
    for curve in curves:
        late = len(curve) // 4
        if late:
            before, best = (np.fmax.reduce(np.asarray(part, dtype=float)) for part in (curve[:-late], curve))
            gains.append(best - before)
    return float(np.mean(gains)) if gains else math.nan


def headline(strongest: Sequence[Strongest], drawn: Mapping[str, Draws] | None = None) -> Leakage:
    """The worst leakage over the targets; if any target could not be measured, the line is inconclusive.

    A conclusive leak still counts as a leak: an inconclusive one beside it only adds doubt about the rest. drawn: the
    leakage of the targets on the resamples; with it the interval is that of the worst of them, whichever that is in each.
    """
    worst = max(strongest, key=lambda s: -math.inf if math.isnan(s.leakage.value) else s.leakage.value)
    unsure = any(s.leakage.verdict == "inconclusive" for s in strongest)
    several = [drawn[s.target] for s in strongest if s.target in drawn] if drawn else []
    found = Leakage(**Draws.largest(several).stored(), verdict="") if several else worst.leakage
    return replace(found, verdict="inconclusive" if unsure else "measured")
