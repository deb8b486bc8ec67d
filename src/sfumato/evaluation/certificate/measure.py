"""From answers to findings: the attacker strongest on validation, per question, and what luck alone could have given."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from sfumato.evaluation import scoring
from sfumato.evaluation.certificate.document import Finding, Utility
from sfumato.evaluation.certificate.verdict import Exposure, exposure, few, persons_needed, recordings_needed
from sfumato.evaluation.draws import VIDEOS, Draws
from sfumato.evaluation.metrics import (
    FLOORS,
    Interval,
    by_attribute,
    max_draws,
    one_hot_columns,
    reaches_floor,
    residual_leakage,
    strongest,
)
from sfumato.evaluation.metrics.attributes import RankedScores
from sfumato.evaluation.result import Leakage, Score
from sfumato.evaluation.scoring import Items, Ruler, mean

SURE = 0.975  # one-sided: luck gives a score this high once in forty tries
Z = 1.96
LUCKY_DRAWS = 4000


def measured(
    rulers: Sequence[Ruler], names: Sequence[str], titles: Sequence[str], total: int, everybody: int = 0
) -> list[Finding]:
    """One finding per question of one target, from all attackers on it.

    total: the recordings there are in all; everybody: and the people that are named.

    >>> measured([ruler], ["identity"], ["who a person is"], total=300)[0].exposure
    'fully exposed'
    """
    first, target = rulers[0], rulers[0].sitting.exam.target

    def table(name: str, items: Items) -> np.ndarray:
        return np.stack([getattr(ruler, name)(items) for ruler in rulers])  # (attackers, questions)

    on_raw, raw = strongest(table("raw_validation", np.arange(first.n_validation)), table("raw", first.all))
    chance = first.chance(first.all)
    strong = np.array([reaches_floor(r, c, FLOORS[target]) for r, c in zip(raw, chance, strict=True)])

    def residuals(by: str, items: Items) -> np.ndarray:
        reference = table("raw", items)[on_raw, np.arange(len(on_raw))]
        blind = first.chance_over(by)(items)
        shares = residual_leakage(table("score", items), *np.broadcast_arrays(blind, reference))
        return np.asarray(np.where(strong, shares, np.nan))

    def over(test: Callable[[str, Items], np.ndarray]) -> tuple[np.ndarray, list[Draws]]:
        """Who is the strongest at each question, and what that comes to, on recordings and on persons drawn anew."""
        chosen, values = strongest(table("validation", np.arange(first.n_validation)), test(VIDEOS, first.all))
        drawn = {
            by: max_draws(
                lambda items: table("validation", items), partial(test, by), first.n_validation, first.n,
                validation_groups=validation_groups, test_groups=test_groups, samples=scoring.SAMPLES,
            )
            for by, (validation_groups, test_groups) in first.units.items()
        }  # fmt: skip
        each = [{by: d[:, i] for by, d in drawn.items()} for i in range(len(values))]
        return chosen, [Draws(float(v), d, first.counts) for v, d in zip(values, each, strict=True)]

    (chosen, scores), (_, leaks) = over(lambda by, items: table("score", items)), over(residuals)
    lucky = luck(first, chance)
    findings = []
    for i, (name, title) in enumerate(zip(names, titles, strict=True)):
        shown = scores[i].widest()
        value, low, high = _widened(shown, first)
        both = scores[i].stored()["intervals"]
        score = Score(value, low, high, chance=float(chance[i]), raw=float(raw[i]), intervals=both)
        leak = Leakage(**leaks[i].stored(), verdict="measured" if strong[i] else "inconclusive")
        # What few recordings leave open of the score they leave open of this too.
        if strong[i] and (first.metric != "cMAP" or (low, high) != shown[1:]):
            ends = [float(residual_leakage(end, score.chance, score.raw)) for end in (low, high)]
            leak = replace(leak, low=min(leak.low, ends[0]), high=max(leak.high, ends[1]))
        attacker = rulers[chosen[i]].sitting.exam.name
        findings.append(_finding(first, total, everybody, name, title, attacker, score, leak, float(lucky[i])))
    return findings


def _finding(
    ruler: Ruler, total: int, everybody: int, name: str, title: str, attacker: str, score: Score, leak: Leakage,
    lucky: float,
) -> Finding:  # fmt: skip
    asked, who = units(ruler), persons(ruler)
    detectable = residual_leakage(lucky, score.chance, score.raw)
    level = exposure(leak, beats_luck=score.value > lucky, detectable=detectable, recordings=asked, persons=who)
    escaped = max(detectable, leak.high)
    needed = recordings_needed(asked, escaped, total) if level is Exposure.too_little else 0
    return Finding(
        name, title, ruler.sitting.exam.target, attacker, ruler.metric, score, leak, asked, ruler.n, detectable,
        level.value, needed, who, persons_needed(who, everybody) if few(who) else 0,
    )  # fmt: skip


def units(ruler: Ruler) -> int:
    """How many recordings the test items come from: clips of one are no independent witnesses.

    >>> units(ruler)
    40
    """
    return ruler.n if ruler.groups is None else len(np.unique(ruler.groups))


def persons(ruler: Ruler) -> int:
    """How many people the test items show, of those that are named; 0 where nobody is.

    >>> persons(ruler)
    10
    """
    who = ruler.sitting.persons
    return 0 if who is None else len(np.unique(who[1][who[1] >= 0]))


def luck(ruler: Ruler, chance: np.ndarray) -> np.ndarray:
    """The score of each question that luck seldom exceeds, (questions,): of who answers without looking.

    Of an accuracy it is the largest whose Wilson interval still holds chance; of average precision, a quantile over random
    rankings. Several attributes are several tries at luck, and each is given so much less of it.

    >>> luck(ruler, np.array([0.05]))
    array([0.1])
    """
    if ruler.metric != "cMAP":
        n = units(ruler)
        return np.array([max(k / n for k in range(n + 1) if k == 0 or wilson_low(k / n, n) <= c) for c in chance])
    columns = one_hot_columns(ruler.labels, ruler.heads)
    groups = np.arange(ruler.n) if ruler.groups is None else np.unique(ruler.groups, return_inverse=True)[1]
    draw = np.random.default_rng(0)
    one = np.ones(ruler.n)
    # All clips of a recording get the same random score, as those of an attacker would be alike.
    each = [
        RankedScores(draw.random((LUCKY_DRAWS, groups.max() + 1))[:, groups], labels).average_precision(one)
        for labels in columns.labels.T
    ]
    aps = by_attribute(np.stack(each, axis=-1), columns.owner)
    return np.asarray(np.quantile(aps, 1 - (1 - SURE) / aps.shape[1], axis=0))


def wilson_low(share: float, n: int) -> float:
    """The lower end of Wilson's 95% interval of a share of n: honest for few, where a bootstrap is not.

    >>> round(wilson_low(1.0, 5), 3)
    0.566
    """
    middle = share + Z**2 / (2 * n)
    half = Z * math.sqrt(share * (1 - share) / n + Z**2 / (4 * n**2))
    return (middle - half) / (1 + Z**2 / n)


def _widened(found: Interval, ruler: Ruler) -> Interval:
    """An accuracy's interval, at least as wide as Wilson's: where all are right every resample is, and few prove little.

    So it is with average precision, where every ranking drawn is as good as the next.
    """
    if ruler.metric == "cMAP" and found.low < found.high:
        return found
    n = units(ruler)
    low, high = wilson_low(found.value, n), 1 - wilson_low(1 - found.value, n)
    return Interval(found.value, min(found.low, low), max(found.high, high))


def usefulness(ruler: Ruler) -> Utility:
    """What is kept of the action, above chance, relative to raw video.

    >>> usefulness(ruler).kept.value
    0.93
    """

    def kept(items: Items) -> float:
        return residual_leakage(mean(ruler.score(items)), mean(ruler.chance(items)), mean(ruler.raw(items)))

    found = scoring.utility_score(ruler)
    if not reaches_floor(found.raw, found.chance, FLOORS["action"]):
        return Utility(found, Leakage(math.nan, math.nan, math.nan, "inconclusive"), units(ruler))
    return Utility(found, Leakage(**ruler.draws(kept).stored(), verdict="measured"), units(ruler))
