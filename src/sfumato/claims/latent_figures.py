"""From what the latent protocols leave about one anonymizer of features, and about raw features, to the columns of a row.

Of every score there are the value with its interval, what raw features give and what is had without looking; then `change`,
the value less raw's, and `kept`, (value − chance)/(raw − chance), both on the same resamples of the test videos: what makes a
video hard is hard before and after, so that these intervals are narrower than those of the scores themselves. Where it is known
who is in the videos, persons are resampled too, and the wider interval counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import nan

import numpy as np

from sfumato.claims.rows import Row
from sfumato.evaluation import scoring
from sfumato.evaluation.draws import VIDEOS, Draws
from sfumato.evaluation.latent.base import Items, LatentProtocol, Sheet
from sfumato.evaluation.metrics import (
    FLOORS,
    Interval,
    bootstrap_draws,
    count_units,
    reaches_floor,
    residual_leakage,
)
from sfumato.evaluation.scoring import Choice, Ruler, Sitting, choose, headline, mean

# What a protocol calls it, and how the columns begin.
TALLIES = {
    "TAD mAP": "detection", "AD AUC": "anomaly", "retrieval R@1": "retrieval", "retrieval mAP": "retrieval_map",
}  # fmt: skip
EXAMS = {
    "action": "action", "gait": "gait", "gait-clothes": "gait_clothes",
    **{f"inversion-{box}-box-{what}": f"{box}_{what}" for box in ("black", "white") for what in ("action", "attributes")},
}  # fmt: skip
# Attackers on one target, by how their names begin: the strongest on validation counts.
ATTACKS = {"static": "attributes-static-", "whole": "attributes-whole-", "identity": "identity-"}
GAP = "subclass gap"  # one tally of each biased split; the column is their mean


@dataclass(frozen=True)
class Gauge:
    """One number as a function of test items: of anonymized features, of raw ones, and without looking.

    floor: how much of the way from chance to perfect raw features must give, for a ratio to them to say anything. units: what
    is resampled, and the groups (n,) of items that go together in it; None: each by itself.
    """

    n: int
    score: Callable[[Items], float]
    raw: Callable[[Items], float]
    chance: Callable[[Items], float]
    floor: float = FLOORS["action"]  # of whatever is no attack
    units: Mapping[str, np.ndarray | None] = field(default_factory=lambda: {VIDEOS: None})


def columns(name: str, gauge: Gauge) -> Row:
    """The columns of one score.

    >>> half = Gauge(8, lambda items: 0.5, lambda items: 0.75, lambda items: 0.25)
    >>> columns("action", half)["action_change"], columns("action", half)["action_kept"]
    (-0.25, 0.5)
    """
    every, parts = np.arange(gauge.n), (gauge.score, gauge.chance, gauge.raw)
    score, chance, raw = (part(every) for part in parts)
    drawn = {
        by: [bootstrap_draws(part, gauge.n, groups=groups, samples=scoring.SAMPLES) for part in parts]
        for by, groups in gauge.units.items()
    }

    counts = {by: count_units(gauge.n, groups) for by, groups in gauge.units.items()}

    def widest(value: float, of: Callable[..., np.ndarray]) -> Interval:
        return Draws(value, {by: of(*tables) for by, tables in drawn.items()}, counts).widest()

    found = {
        name: widest(score, lambda s, c, r: s),
        f"{name}_change": widest(score - raw, lambda s, c, r: s - r),
    }
    if reaches_floor(raw, chance, gauge.floor):  # else the ratio is noise
        found[f"{name}_kept"] = widest(residual_leakage(score, chance, raw), residual_leakage)
    row: Row = {f"{name}_raw": raw, f"{name}_chance": chance}
    for begin, interval in found.items():
        row |= {begin: interval.value, f"{begin}_low": interval.low, f"{begin}_high": interval.high}
    return row


def figures(protocols: Sequence[LatentProtocol], sheets: Mapping[str, Sheet], raw: Mapping[str, Sheet]) -> Row:
    """All columns that those protocols give, by their sheets about the anonymized and the raw features."""
    row: Row = {}
    for protocol in protocols:
        mine, theirs = sheets[protocol.name], raw[protocol.name]
        rulers = list(_rulers(protocol, mine, theirs))
        for ruler in rulers:
            if ruler.sitting.exam.name in EXAMS:
                row |= columns(EXAMS[ruler.sitting.exam.name], _of_ruler(ruler))
        strongest = {name: found for name, begin in ATTACKS.items() if (found := _strongest(rulers, begin))}
        for name, found in strongest.items():
            row |= _attacked(name, found)
        if strongest:
            row |= _worst(list(strongest.values()))
        row |= _tallied(mine, theirs)
    return row


def _rulers(protocol: LatentProtocol, mine: Sheet, theirs: Sheet) -> Iterator[Ruler]:
    for asked in protocol.asked:
        name = asked.exam.name
        answers = [mine.answers[name]], [theirs.answers[name]]
        yield Ruler(Sitting(asked.exam, asked.reader, *answers, persons=asked.persons), asked.heads)


def _of_ruler(ruler: Ruler) -> Gauge:
    def of(part: Callable[[Items], np.ndarray]) -> Callable[[Items], float]:
        return lambda items: mean(part(items))

    units = {by: groups for by, (_, groups) in ruler.units.items()}
    return Gauge(ruler.n, of(ruler.score), of(ruler.raw), of(ruler.chance), FLOORS[ruler.sitting.exam.target], units)


def _strongest(rulers: Sequence[Ruler], begin: str) -> Choice | None:
    asked = [ruler for ruler in rulers if ruler.sitting.exam.name.startswith(begin)]
    return choose(asked) if asked else None


def _attacked(name: str, choice: Choice) -> Row:
    found = choice.strongest
    score, leak = found.score, found.leakage
    return {
        f"{name}_value": score.value, f"{name}_low": score.low, f"{name}_high": score.high, f"{name}_raw": score.raw,
        f"{name}_chance": score.chance, f"{name}_attackers": "+".join(found.attackers), f"{name}_residual": leak.value,
        f"{name}_residual_low": leak.low, f"{name}_residual_high": leak.high,
    }  # fmt: skip


def _worst(probed: Sequence[Choice]) -> Row:
    """The worst of what the attackers leave; its interval holds the choice of the worst, whichever that is in a resample."""
    known = [each.leakage for each in probed if each.leakage is not None]
    worst = Draws.largest(known).widest() if known else Interval(nan, nan, nan)
    verdict = headline([each.strongest for each in probed]).verdict
    return {"residual": worst.value, "residual_low": worst.low, "residual_high": worst.high, "verdict": verdict}


def _tallied(mine: Sheet, theirs: Sheet) -> Row:
    row: Row = {}
    pairs = list(zip(mine.tallies, theirs.tallies, strict=True))
    for tally, raw in pairs:
        if tally.name in TALLIES:
            row |= columns(TALLIES[tally.name], Gauge(tally.n, tally.value, raw.value, lambda items, t=tally: t.blind))  # type: ignore[misc]
    gaps = [(tally, raw) for tally, raw in pairs if tally.name.endswith(GAP)]
    if gaps:
        row |= columns("gap", Gauge(
            gaps[0][0].n, lambda items: float(np.mean([tally.value(items) for tally, _ in gaps])),
            lambda items: float(np.mean([raw.value(items) for _, raw in gaps])), lambda items: gaps[0][0].blind,
        ))  # fmt: skip
    return row
