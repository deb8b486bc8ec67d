"""The six everyday attackers, gone about in another way: attributes and identity, from frames and from clips."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sfumato.evaluation.attacks.frame import FRAME
from sfumato.evaluation.attacks.identity import IDENTITY, IDENTITY_FRAMES, IDENTITY_PLACED
from sfumato.evaluation.attacks.video import VIDEO, VIDEO_PLACED
from sfumato.evaluation.exam import Approach, Exam

EVERYDAY = (FRAME, VIDEO, VIDEO_PLACED, IDENTITY, IDENTITY_FRAMES, IDENTITY_PLACED)


def variants(family: str, how: str, approach: Approach, exams: Sequence[Exam] = EVERYDAY) -> tuple[Exam, ...]:
    """The attackers of a family that goes about these exams by `approach`; `how` says it in their summaries.

    >>> [exam.name for exam in variants("transfer", "trained on raw", Approach())][0]
    'transfer-frame'
    """
    return tuple(
        replace(exam, name=f"{family}-{exam.name}", summary=f"like {exam.name}, but {how}", approach=approach)
        for exam in exams
    )
