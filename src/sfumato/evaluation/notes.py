"""What a reader of a result must know besides its numbers, a sentence each."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sfumato.errors import counted
from sfumato.evaluation.result import Line, Score

# A validation score that rose by less in the last quarter of the epochs was as good as flat.
RISING = 0.01
_NAMED = 5  # attackers; of more, how many


def measured_notes(lines: Sequence[Line]) -> list[str]:
    """What attackers measured besides their scores, a line for each anonymizer and measure.

    Whose it is is said where attackers measured differently.

    >>> measured_notes(result.lines)[0]
    'blur: mAP 0.41 [0.38–0.45], without looking 0.14, raw 0.62'
    """

    def told(s: Score) -> str:
        return f"{s.value:.2f} [{s.low:.2f}–{s.high:.2f}], without looking {s.chance:.2f}, raw {s.raw:.2f}"

    notes = []
    for line in lines:
        found: dict[str, dict[str, list[str]]] = {}  # measure → what was measured → by whom
        for attack in line.attacks:
            for m in attack.measures:
                found.setdefault(m.name, {}).setdefault(told(m.score), []).append(attack.attacker)
        for name, numbers in found.items():
            notes += [
                f"{line.anonymizer}: {name}{f' of {_named(who)}' if len(numbers) > 1 else ''} {text}"
                for text, who in numbers.items()
            ]
    return notes


def _named(who: Sequence[str]) -> str:
    more = f" and {len(who) - _NAMED} more" if len(who) > _NAMED else ""
    return f"{', '.join(who[:_NAMED])}{more}"


def effort_notes(lines: Sequence[Line], epochs: int) -> list[str]:
    """Whose validation score still rose in the last quarter of the epochs: more effort might have found more. Where it rose no
    more that is not ruled out: learning rates fall to nothing, so that curves end flat (`attacks/patient.py`).

    >>> effort_notes(result.lines, result.epochs)
    ['blur: more epochs might have helped frame, whose validation score rose by 0.04 in the last quarter of them']
    """
    curves = [(line.anonymizer, attack) for line in lines for attack in line.attacks if any(attack.curve)]
    if curves and all(math.isnan(attack.late_gain) for _, attack in curves):
        few = f"{counted(epochs, 'epoch')} {'is' if epochs == 1 else 'are'} too few"
        return [f"{few} to see whether attackers would have gained from more"]
    notes = []
    for line in lines:
        rising = {a.attacker: a.late_gain for a in line.attacks if a.late_gain > RISING}
        names, most = sorted(rising, key=lambda name: -rising[name]), max(rising.values(), default=0.0)
        if names:
            notes.append(
                f"{line.anonymizer}: more epochs might have helped {_named(names)}, whose validation "
                f"score rose by {'up to ' if len(names) > 1 else ''}{most:.2f} in the last quarter of them"
            )
    return notes


def seeds_note(seeds: int) -> str:
    """What no interval holds, of one anonymizer or of a difference.

    >>> seeds_note(3)
    'seeds are averaged: other 3 may give other numbers and another order, which no interval here holds'
    """
    how, other = (
        ("each network was trained once", "another seed") if seeds == 1 else ("seeds are averaged", f"other {seeds}")
    )
    return f"{how}: {other} may give other numbers and another order, which no interval here holds"


def persons_note(lines: Sequence[Line]) -> str:
    """What follows "intervals are over clips" where some are over persons too; "" if none is.

    >>> persons_note(result.lines)
    ', or over persons where that is wider'
    """
    scores = [score for line in lines for score in (line.utility, *(s.score for s in line.strongest))]
    return ", or over persons where that is wider" if any(score.intervals for score in scores) else ""
