"""From numbers to a verdict. Pure functions: what was measured comes in, holds, refuted or undecided comes out.

Two things make a measured number uncertain: which clips it was tested on, and which seed it was trained with. Clips are the
same for all seeds, so that their part does not shrink with more of them; seeds differ from trial to trial. An interval has
both parts, added as squares. With one seed nobody knows how much a seed changes, so that one seed decides nothing; an
anonymizer that is not trained has none, and leaves it to what it is compared with.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from sfumato.claims.ledger import EXACT, RAW, Claim, Comparison

Verdict = Literal["holds", "refuted", "undecided"]
NORMAL = 1.96
# The 97.5% point of Student's t by degrees of freedom.
STUDENT = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
    2.110, 2.101, 2.093, 2.086,
)  # fmt: skip


@dataclass(frozen=True)
class Evidence:
    """One measure of one trial: its value for every seed, and how far the interval over clips reaches to either side of it.

    >>> Evidence((0.91, 0.93, 0.95), below=0.02).mean
    0.93
    """

    values: tuple[float, ...]
    below: float
    above: float | None = None  # None: as far as below
    trained: bool = True  # whether there is a training that a seed could change
    commits: frozenset[str] = frozenset()  # of the code that measured it

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
        """Whether a verdict may rest on it: one seed decides nothing that a seed could change."""
        return self.counted or self.seeds > 1


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


Found = Mapping[tuple[str, str, str], Evidence]  # (trial, measure, judged on) to what was measured


def raw_beside(trial: str) -> str:
    """What raw video is called that a trial was judged beside.

    >>> raw_beside("spact")
    'raw beside spact'
    """
    return f"{RAW} beside {trial}"


def interval_of(first: Evidence, second: Evidence | None = None) -> Interval:
    """The 95% interval of a mean over seeds, or of the difference of two.

    >>> found = interval_of(Evidence((0.9, 0.9), 0.03), Evidence((0.5, 0.5), 0.04))
    >>> round(found.low, 2), round(found.high, 2)
    (0.35, 0.45)
    """
    both = (first,) if second is None else (first, second)
    value = first.mean - (second.mean if second else 0.0)
    seeds = _student(both) * math.sqrt(sum(each.variance for each in both))
    # A difference is small where the first is small or the second large.
    below = math.hypot(seeds, first.below, second.upwards if second else 0.0)
    above = math.hypot(seeds, first.upwards, second.below if second else 0.0)
    few = min((len(each.values) for each in both if each.trained), default=1)
    return Interval(value, value - below, value + above, few)


def _student(trials: Sequence[Evidence]) -> float:
    """The t of the degrees of freedom by Welch and Satterthwaite, rounded down."""
    total = sum(each.variance for each in trials)
    if not total:
        return 0.0
    spread = sum(each.variance**2 / (len(each.values) - 1) for each in trials if each.variance)
    return STUDENT[min(len(STUDENT), max(1, int(total**2 / spread))) - 1]


def decide(claim: Claim, found: Found) -> Judgement:
    """The verdict: refuted if one comparison is, holding if all do, undecided else, and while a trial is missing."""
    lacking = [(name, each) for each in claim.comparisons for name in _missing(each, found)]
    if lacking:
        run = {(name, judged_on) for name, _, judged_on in found}
        missing = dict.fromkeys(name for name, each in lacking if (name, each.judged_on) not in run)
        unclear = dict.fromkeys(f"{each.measure} of {name}" for name, each in lacking if (name, each.judged_on) in run)
        return Judgement(claim, "undecided", (), tuple(missing), tuple(unclear))
    answers = tuple(answer for each in claim.comparisons for answer in compare(each, found))
    verdicts = {answer.verdict for answer in answers}
    verdict: Verdict = "refuted" if "refuted" in verdicts else "undecided" if "undecided" in verdicts else "holds"
    used = [found[name, each.measure, each.judged_on] for each in claim.comparisons for name in each.trials()]
    return Judgement(
        claim, verdict, answers, commits=tuple(sorted(frozenset().union(*(each.commits for each in used))))
    )


def _missing(asked: Comparison, found: Found) -> list[str]:
    return [name for name in asked.trials() if (name, asked.measure, asked.judged_on) not in found]


def compare(asked: Comparison, found: Found) -> list[Answer]:
    """The answers to one comparison; to a rising one, for the whole way and for every step of it."""

    def interval(first: str, second: str = "") -> Interval:
        both = [found[name, asked.measure, asked.judged_on] for name in (first, second) if name]
        return replace(interval_of(*both), counted=asked.measure in EXACT)

    if asked.rising:
        lowest, highest = asked.rising[0], asked.rising[-1]
        ends = _answer(f"{asked.measure}: {highest} above {lowest}", interval(highest, lowest), low=0.0)
        steps = [
            _no_fall(f"{asked.measure}: {later} not below {earlier}", interval(later, earlier))
            for earlier, later in zip(asked.rising, asked.rising[1:], strict=False)
        ]
        return [ends, *(steps if len(steps) > 1 else [])]
    there = interval(asked.of, raw_beside(asked.of) if asked.against == RAW else asked.against)
    question = f"{asked.measure} of {asked.of}" + (f" − {asked.against}" if asked.against else "")
    if asked.within is not None:
        return [_answer(f"{question} within ±{asked.within:g}", there, -asked.within, asked.within)]
    if asked.at_least is not None:
        return [_answer(f"{question} at least {asked.at_least:g}", there, low=asked.at_least)]
    return [_answer(f"{question} at most {asked.at_most:g}", there, high=asked.at_most)]


def _answer(question: str, found: Interval, low: float | None = None, high: float | None = None) -> Answer:
    """Whether an interval lies in a range, outside of it, or across its border."""
    bottom, top = -math.inf if low is None else low, math.inf if high is None else high
    verdict: Verdict = "undecided"
    if found.decides and bottom <= found.low and found.high <= top:
        verdict = "holds"
    elif found.decides and (found.high < bottom or found.low > top):
        verdict = "refuted"
    return Answer(question, found, verdict)


def _no_fall(question: str, found: Interval) -> Answer:
    """A step that may be level within the noise; it is refuted where it surely falls."""
    fell: Verdict = "undecided" if not found.decides else "refuted" if found.high < 0 else "holds"
    return Answer(question, found, fell)
