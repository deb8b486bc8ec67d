"""What a reader of a result must know besides its numbers, a sentence each."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sfumato.evaluation.result import Line, Score

# A validation score that rose by less in the last quarter of the epochs was as good as flat.
RISING = 0.01
_NAMED = 5  # attackers; of more, how many


def measured_notes(lines: Sequence[Line]) -> list[str]:
    """What attackers measured besides their scores, a line for each anonymizer and measure.

    >>> measured_notes(result.lines)[0]
    'blur: mAP 0.41 [0.38–0.45], without looking 0.14, raw 0.62'
    """

    def told(s: Score) -> str:
        return f"{s.value:.2f} [{s.low:.2f}–{s.high:.2f}], without looking {s.chance:.2f}, raw {s.raw:.2f}"

    every = ((line.anonymizer, m) for line in lines for attack in line.attacks for m in attack.measures)
    return list(dict.fromkeys(f"{name}: {m.name} {told(m.score)}" for name, m in every))


def effort_notes(lines: Sequence[Line], epochs: int) -> list[str]:
    """Whose validation score still rose in the last quarter of the epochs: more effort might have found more.

    >>> effort_notes(result.lines, result.epochs)
    ['blur: more epochs might have helped frame, whose validation score rose by 0.04 in the last quarter of them']
    """
    curves = [(line.anonymizer, attack) for line in lines for attack in line.attacks if any(attack.curve)]
    if curves and all(math.isnan(attack.late_gain) for _, attack in curves):
        return [f"{epochs} epochs are too few to see whether attackers would have gained from more"]
    notes = []
    for line in lines:
        rising = {a.attacker: a.late_gain for a in line.attacks if a.late_gain > RISING}
        names, most = sorted(rising, key=lambda name: -rising[name]), max(rising.values(), default=0.0)
        if names:
            more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
            notes.append(
                f"{line.anonymizer}: more epochs might have helped {', '.join(names[:_NAMED])}{more}, whose validation "
                f"score rose by {'up to ' if len(names) > 1 else ''}{most:.2f} in the last quarter of them"
            )
    return notes


def persons_note(lines: Sequence[Line]) -> str:
    """What follows "intervals are over clips" where some are over persons too; "" if none is.

    >>> persons_note(result.lines)
    ', or over persons where that is wider'
    """
    scores = [score for line in lines for score in (line.utility, *(s.score for s in line.strongest))]
    return ", or over persons where that is wider" if any(score.intervals for score in scores) else ""
