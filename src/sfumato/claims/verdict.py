"""From numbers to a verdict. Pure functions: what was measured comes in, holds, refuted or undecided comes out.

Two things make a measured number uncertain: which clips it was tested on, and which seed it was trained with. Clips are the
same for all seeds, so that their part does not shrink with more of them; seeds differ from trial to trial. An interval has
both parts, added as squares. With one seed nobody knows how much a seed changes, and with two hardly: three are the fewest
that decide. An anonymizer that is not trained has seeds too, those of its judges.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Literal

from sfumato.claims.ledger import ATTACKED, EXACT, RAW, Claim, Comparison
from sfumato.evaluation.metrics import student

Verdict = Literal["holds", "refuted", "undecided"]
LEVEL = 0.95  # of the intervals that are shown
SEEDS = 3  # fewer decide nothing
SLACK = 0.05  # by which what need not rise may fall, as elsewhere in the ledger what is "almost constant" may differ


@dataclass(frozen=True)
class Evidence:
    """One measure of one trial: its value for every seed, and how far the interval over clips reaches to either side of it.

    >>> Evidence((0.91, 0.93, 0.95), below=0.02).mean
    0.93
    """

    values: tuple[float, ...]
    below: float
    above: float | None = None  # None: as far as below
    commits: frozenset[str] = frozenset()  # of the code that measured it
    runs: frozenset[str] = frozenset()  # the folders of its trainings
    unmet: frozenset[str] = frozenset()  # attackers of its table that it has not met yet
    idle: int = 0  # in how many of its trainings f_B read nothing, nor a fresh one of raw video

    @property
    def mean(self) -> float:
        """Over seeds."""
        return statistics.fmean(self.values)

    @property
    def upwards(self) -> float:
        """How far the interval over clips reaches above the value."""
        return self.below if self.above is None else self.above

    @property
    def variance(self) -> float:
        """Of the mean, over seeds; 0 where there is one."""
        return statistics.variance(self.values) / len(self.values) if len(self.values) > 1 else 0.0


@dataclass(frozen=True)
class Interval:
    """A value, its 95% interval, and how few seeds a number in it had."""

    value: float
    low: float
    high: float
    seeds: int
    counted: bool = False  # not measured: a number of parameters is the same for every seed

    @property
    def decides(self) -> bool:
        """Whether a verdict may rest on it: one or two seeds decide nothing that a seed could change."""
        return self.counted or self.seeds >= SEEDS


@dataclass(frozen=True)
class Answer:
    """What one comparison came to, in words and numbers."""

    question: str
    interval: Interval
    verdict: Verdict


@dataclass(frozen=True)
class Judgement:
    """The verdict on a claim, and why."""

    claim: Claim
    verdict: Verdict
    answers: tuple[Answer, ...]
    missing: tuple[str, ...] = ()  # trials
    inconclusive: tuple[str, ...] = ()  # what was run, and could not be measured
    commits: tuple[str, ...] = ()  # of the code that measured it: several may have had other judges
    runs: tuple[str, ...] = ()  # the folders of the trainings it rests on, of rows that tell them
    unmet: tuple[str, ...] = ()  # attackers without whom a measure of leakage decides nothing
    idle: tuple[str, ...] = ()  # trials in most of whose trainings f_B read nothing


Found = Mapping[tuple[str, str, str], Evidence]  # (trial, measure, judged on) to what was measured


def raw_beside(trial: str) -> str:
    """What raw video is called that a trial was judged beside.

    >>> raw_beside("spact")
    'raw beside spact'
    """
    return f"{RAW} beside {trial}"


def interval_of(first: Evidence, second: Evidence | None = None, level: float = LEVEL) -> Interval:
    """The interval of a mean over seeds, or of the difference of two, at that level.

    >>> found = interval_of(Evidence((0.9, 0.9), 0.03), Evidence((0.5, 0.5), 0.04))
    >>> round(found.low, 2), round(found.high, 2)
    (0.35, 0.45)
    """
    both = (first,) if second is None else (first, second)
    value = first.mean - (second.mean if second else 0.0)
    total = sum(each.variance for each in both)
    seeds = student(level, _freedom(both)) * math.sqrt(total) if total else 0.0
    # Clips come with an interval of 95%, which is widened as that of a normal distribution would be.
    clips = _normal(level) / _normal(LEVEL)
    # A difference is small where the first is small or the second large.
    below = math.hypot(seeds, clips * first.below, clips * second.upwards if second else 0.0)
    above = math.hypot(seeds, clips * first.upwards, clips * second.below if second else 0.0)
    return Interval(value, value - below, value + above, min(len(each.values) for each in both))


def _normal(level: float) -> float:
    return NormalDist().inv_cdf((1 + level) / 2)


def _freedom(trials: Sequence[Evidence]) -> int:
    """The degrees of freedom by Welch and Satterthwaite, rounded down."""
    total = sum(each.variance for each in trials)
    spread = sum(each.variance**2 / (len(each.values) - 1) for each in trials if each.variance)
    return max(1, int(total**2 / spread))


def decide(claim: Claim, found: Found) -> Judgement:
    """The verdict: refuted if one comparison is, holding if all do, undecided else, and where f_B was none that counts.

    While a trial is missing, or could not be measured, those comparisons are made that can be: nothing holds, but one of them
    may refute.
    """
    lacking = [(name, each) for each in claim.comparisons for name in _missing(each, found)]
    run = {(name, judged_on) for name, _, judged_on in found}
    missing = dict.fromkeys(name for name, each in lacking if (name, each.judged_on) not in run)
    unclear = dict.fromkeys(f"{each.measure} of {name}" for name, each in lacking if (name, each.judged_on) in run)
    made = [each for each in claim.comparisons if not _missing(each, found)]
    count = sum(each.answers() for each in claim.comparisons)
    answers = tuple(answer for each in made for answer in compare(each, found, count))
    used = [(name, found[name, each.measure, each.judged_on]) for each in made for name in each.trials()]
    idle = tuple(dict.fromkeys(name for name, each in used if 2 * each.idle > len(each.values)))
    verdicts = {answer.verdict for answer in answers} | ({"undecided"} if lacking else set())
    verdict: Verdict = "refuted" if "refuted" in verdicts else "undecided" if "undecided" in verdicts else "holds"
    told = ([e.commits for _, e in used], [e.runs for _, e in used], [_unmet(each, found) for each in made])
    commits, runs, unmet = (tuple(sorted(frozenset().union(*each))) for each in told)
    return Judgement(
        claim, "undecided" if claim.opponent and idle else verdict, answers, tuple(missing), tuple(unclear), commits, runs,
        unmet, idle,
    )  # fmt: skip


def _unmet(asked: Comparison, found: Found) -> frozenset[str]:
    """Attackers that one of its trials has not met yet, where they could change the measure."""
    if asked.measure not in ATTACKED:
        return frozenset()
    return frozenset().union(*(found[name, asked.measure, asked.judged_on].unmet for name in asked.trials()))


def _missing(asked: Comparison, found: Found) -> list[str]:
    return [name for name in asked.trials() if (name, asked.measure, asked.judged_on) not in found]


def compare(asked: Comparison, found: Found, count: int = 1) -> list[Answer]:
    """The answers to one comparison; to a rising one, for the whole way and for every step of it.

    All of a claim must hold, so that 95% are enough for each. But one alone refutes it, and of many one fails by chance:
    where there are `count`, each refutes by an interval of 1 − .05/count (Bonferroni). Nothing is decided by a measure of
    leakage whose trials have not met all attackers, and nothing refuted by a one-sided comparison.
    """
    unmet = _unmet(asked, found)

    def evidence(name: str) -> Evidence:
        return found[name, asked.measure, asked.judged_on]

    def answer(question: str, first: str, second: str, low: float, high: float, *, level: bool = False) -> Answer:
        other, counted = evidence(second) if second else None, asked.measure in EXACT
        shown, wide = (
            replace(interval_of(evidence(first), other, at), counted=counted) for at in (LEVEL, 1 - (1 - LEVEL) / count)
        )
        verdict = _verdict(shown, wide, low, high, level=level)
        undecided = unmet or (asked.one_sided and verdict == "refuted")
        return Answer(question, shown, "undecided" if undecided else verdict)

    if asked.rising:
        bottom, top = asked.rising[0], asked.rising[-1]
        ends = answer(f"{asked.measure}: {top} above {bottom}", top, bottom, 0.0, math.inf)
        steps = [
            answer(f"{asked.measure}: {later} not below {earlier}", later, earlier, 0.0, math.inf, level=True)
            for earlier, later in zip(asked.rising, asked.rising[1:], strict=False)
        ]
        return [ends, *(steps if len(steps) > 1 else [])]
    other = raw_beside(asked.of) if asked.against == RAW else asked.against
    question = f"{asked.measure} of {asked.of}" + (f" − {asked.against}" if asked.against else "")
    if asked.within is not None:
        return [answer(f"{question} within ±{asked.within:g}", asked.of, other, -asked.within, asked.within)]
    if asked.at_least is not None:
        return [answer(f"{question} at least {asked.at_least:g}", asked.of, other, asked.at_least, math.inf)]
    assert asked.at_most is not None
    return [answer(f"{question} at most {asked.at_most:g}", asked.of, other, -math.inf, asked.at_most)]


def _verdict(shown: Interval, wide: Interval, low: float, high: float, *, level: bool) -> Verdict:
    """Whether an interval lies in a range, a wider one outside of it, or neither; a step that may be `level` need not rise."""
    if not shown.decides:
        return "undecided"
    low -= SLACK if level else 0.0
    if wide.high < low or wide.low > high:
        return "refuted"
    return "holds" if low <= shown.low and shown.high <= high else "undecided"
