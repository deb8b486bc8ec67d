"""All attackers on a target as one: per question the one that is best on validation, or the average of all.

An attacker in earnest does not bet on one network. The average is one candidate more; which candidate answers a question is
decided on validation, and decided again in every resample, so that the interval holds the choice. The raw video beside it is
attacked by an ensemble too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sfumato.datasets.sample import AttributeSpec
from sfumato.evaluation.exam import Answers, Exam
from sfumato.evaluation.metrics import strongest
from sfumato.evaluation.result import AttackResult, Strongest
from sfumato.evaluation.scoring import Ruler, Sitting, attack_result

ENSEMBLE = Exam(
    "ensemble", "all attackers of a target together, chosen or averaged on validation", "attributes", "video", "clip"
)
WHO = "all attackers"


def average(rulers: Sequence[Ruler]) -> Ruler:
    """The attackers on one target, their probabilities averaged: one more attacker, by the name of the ensemble.

    >>> average([frame, video]).sitting.exam.name
    'ensemble'
    """
    sittings = [ruler.sitting for ruler in rulers]
    answers = [_averaged(each) for each in zip(*(s.answers for s in sittings), strict=True)]
    raw = [_averaged(each) for each in zip(*(s.raw for s in sittings), strict=True)]
    return _as_one(rulers[0], answers, raw)


def ensemble_result(rulers: Sequence[Ruler], found: Strongest, attributes: Sequence[AttributeSpec]) -> AttackResult:
    """What the ensemble of these candidates, the average among them, comes to; `found`: the strongest of them.

    The choice for the whole is `found`'s, with its interval; the attributes one by one are as chosen on all validation
    items.

    >>> ensemble_result([frame, video, average([frame, video])], strongest_of(…), dataset.attributes).attacker
    'ensemble'
    """
    everything = np.arange(rulers[0].n_validation)

    def chosen(name: str) -> np.ndarray:
        on_validation = np.stack([getattr(ruler, name)(everything) for ruler in rulers])
        return np.maximum(strongest(on_validation, on_validation)[0], 0)

    heads = rulers[0].heads
    mine, theirs = chosen("validation"), chosen("raw_validation")
    answers = zip(*(ruler.sitting.answers for ruler in rulers), strict=True)
    raw = zip(*(ruler.sitting.raw for ruler in rulers), strict=True)
    whole = _as_one(
        rulers[0], [_composed(each, mine, heads) for each in answers], [_composed(each, theirs, heads) for each in raw]
    )
    return replace(attack_result(whole, attributes), score=found.score, leakage=found.leakage)


def _as_one(first: Ruler, answers: list[Answers], raw: list[Answers]) -> Ruler:
    s = first.sitting
    exam = replace(ENSEMBLE, target=s.exam.target, by=s.exam.by)
    return Ruler(Sitting(exam, WHO, answers, raw, s.groups, s.persons), first.heads)


def _averaged(members: Sequence[Answers]) -> Answers:
    validation, test = (np.mean([getattr(m, part) for m in members], axis=0) for part in ("validation", "test"))
    return _told(members[0], validation, test)


def _composed(members: Sequence[Answers], chosen: np.ndarray, heads: tuple[int, ...]) -> Answers:
    """Each question's columns from the member chosen for it."""
    if len(heads) == 1:  # whatever its columns are: those of a gallery are its own persons
        who = members[int(chosen[0])]
        return _told(who, who.validation, who.test)
    owner = np.repeat(chosen, heads)

    def part(name: str) -> np.ndarray:
        return np.stack([getattr(members[who], name)[:, column] for column, who in enumerate(owner)], axis=1)

    return _told(members[0], part("validation"), part("test"))


def _told(like: Answers, validation: np.ndarray, test: np.ndarray) -> Answers:
    return Answers(
        validation, like.validation_labels, test, like.test_labels, np.empty(0), 0.0, like.blind
    )  # it learns nothing of its own, so there is no curve
