"""The rules by which numbers become words, fixed here before any footage is seen.

A leak that was found counts, however little footage there was. That none was found counts only where there was enough to
find one, and people enough to say something about others. No level says that video gives nobody away: no experiment can
show that.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import Enum

from sfumato.evaluation.draws import VIDEOS
from sfumato.evaluation.metrics import MIN_GROUPS
from sfumato.evaluation.result import Leakage

FULL = 0.9  # of what raw video gives away, or more: "fully exposed"
LARGE = 0.5  # or more: "largely exposed"
MOST_UNNOTICED = 0.25  # a leak of more than this must not be able to go unnoticed
ENOUGH = 20  # recordings asked about, or more, before "not found" means anything
ENOUGH_PEOPLE = MIN_GROUPS  # and people: with fewer there is no interval that would hold for others
MOST_NAMED = 4


class Exposure(str, Enum):
    """How exposed something is, the worst first."""

    full = "fully exposed"
    large = "largely exposed"
    unmeasured = "exposed, extent unknown"
    reduced = "reduced, still exposed"
    too_little = "too little footage"
    few_people = "too few people to tell"
    weak = "no conclusion"
    not_shown = "not shown to leak"

    @property
    def leaks(self) -> bool:
        """Whether a leak was shown."""
        return self in (Exposure.full, Exposure.large, Exposure.unmeasured, Exposure.reduced)


def exposure(leakage: Leakage, *, beats_luck: bool, detectable: float, recordings: int, persons: int = 0) -> Exposure:
    """The level of one finding.

    beats_luck: the attacker's score is above what luck gives. detectable: the smallest share of what raw video gives away
    that this much footage can tell from luck. recordings, persons: so many were asked about; of 0 persons it is not known.

    >>> exposure(Leakage(0.97, 0.9, 1.0, "measured"), beats_luck=True, detectable=0.1, recordings=40)
    <Exposure.full: 'fully exposed'>
    """
    if leakage.verdict != "measured":
        return Exposure.unmeasured if beats_luck else Exposure.weak
    # These people's leak is a leak, whoever else may come: it is found on other recordings of them. That there is none must
    # hold for other people too, where that can be told.
    found, _ = leakage.intervals.get(VIDEOS, (leakage.low, leakage.high))
    if beats_luck and found > 0:
        return (
            Exposure.full if leakage.value >= FULL else Exposure.large if leakage.value >= LARGE else Exposure.reduced
        )
    unnoticed = max(detectable, leakage.high)
    if not (recordings >= ENOUGH and unnoticed <= MOST_UNNOTICED):
        return Exposure.too_little
    return Exposure.few_people if few(persons) else Exposure.not_shown


def few(persons: int) -> bool:
    """Whether it is known that these are too few people to rule a leak out, however many recordings there are of them.

    >>> few(2), few(5), few(0)
    (True, False, False)
    """
    return 0 < persons < ENOUGH_PEOPLE


def worst(levels: Sequence[Exposure]) -> Exposure:
    """The level of the whole.

    >>> worst([Exposure.not_shown, Exposure.large])
    <Exposure.large: 'largely exposed'>
    """
    order = list(Exposure)
    return min(levels, key=order.index)


def recordings_needed(asked: int, unnoticed: float, total: int) -> int:
    """How many recordings would make "not found" mean something: intervals shrink with the root of their number.

    asked: so many of `total` recordings were asked about; unnoticed: the leak that might have escaped.

    >>> recordings_needed(asked=10, unnoticed=0.5, total=40)
    160
    """
    wide = unnoticed if math.isfinite(unnoticed) else 0.0
    wanted = max(float(ENOUGH), asked * (wide / MOST_UNNOTICED) ** 2)
    return math.ceil(round(wanted * total / asked, 6) / 10) * 10


def persons_needed(asked: int, total: int) -> int:
    """How many people in all would do, if the same share of them is asked about.

    >>> persons_needed(asked=2, total=10)
    25
    """
    return math.ceil(ENOUGH_PEOPLE * total / asked)


# What a level means for whoever answers for the footage. {what}: what is exposed.
MEANING = {
    Exposure.full: "From the processed video {what} can be read about as well as from raw video. "
    "Handle it exactly like the raw footage: in this respect the processing protects nobody.",
    Exposure.large: "Most of what raw video gives away about {what} can still be read from the processed video. "
    "Handle it like the raw footage.",
    Exposure.unmeasured: "From the processed video {what} can be read better than by guessing; how well compared with raw "
    "video could not be measured. Handle it like the raw footage.",
    Exposure.reduced: "From the processed video {what} can still be read, less well than from raw video. "
    "Some people in it can be recognised: it stays personal data.",
    Exposure.too_little: "No leak was found, but there was too little footage for a conclusion. "
    "Handle the processed video like the raw footage until there is one.",
    Exposure.few_people: "No leak was found, but too few people were tested to say how it is with others. "
    "Handle the processed video like the raw footage until more have been.",
    Exposure.weak: "The attackers could not read enough even from raw video of this footage, so that their failure on the "
    "processed video proves nothing. Handle it like the raw footage.",
    Exposure.not_shown: "With this attack and this much footage no leak was shown. That does not prove that there is none: "
    "stronger attackers, or more footage, may find one.",
}


def listing(names: Sequence[str]) -> str:
    """Names as in a sentence; of many only the first few, since a verdict must be read at a glance.

    >>> listing(["identity", "age", "gender"])
    'identity, age and gender'
    """
    shown = [*names[: MOST_NAMED - 1], f"{len(names) - MOST_NAMED + 1} more"] if len(names) > MOST_NAMED else names
    return f"{', '.join(shown[:-1])} and {shown[-1]}" if len(shown) > 1 else "".join(shown)


def meaning(level: Exposure, what: Sequence[str]) -> str:
    """What the verdict means, in words; `what`: the questions that are as exposed as that.

    >>> meaning(Exposure.not_shown, [])[:44]
    'With this attack and this much footage no le'
    """
    return MEANING[level].format(what=listing(what))
