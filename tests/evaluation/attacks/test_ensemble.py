from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from sfumato.datasets.sample import AttributeSpec
from sfumato.evaluation.attacks.ensemble import average, ensemble_result
from sfumato.evaluation.attacks.frame import FRAME
from sfumato.evaluation.attacks.identity import IDENTITY
from sfumato.evaluation.exam import Answers, Exam
from sfumato.evaluation.result import AttackResult
from sfumato.evaluation.scoring import Ruler, Sitting, strongest_of

PEOPLE, N = 4, 200
SPECS = (AttributeSpec("face"), AttributeSpec("skin"))
WHO = np.arange(N) % PEOPLE


def names(seen: np.ndarray) -> Answers:
    """Sure and right about the items it has `seen`; of the others it says that anybody may be in them."""
    told = np.where(seen[:, None], np.eye(PEOPLE)[WHO], 1 / PEOPLE)
    return Answers(told, WHO[:, None], told, WHO[:, None], np.zeros(1), 0.0)


def looks(*seen: float) -> Answers:
    """Two yes-or-no questions; of each it sees such a share, and guesses at the rest."""
    labels = np.random.default_rng(1).integers(2, size=(N, 2))
    rng = np.random.default_rng(int(100 * sum(seen)))
    yes = np.where(rng.random((N, 2)) < np.array(seen), labels, rng.random((N, 2)))
    told = np.stack([1 - yes, yes], -1).reshape(N, -1)
    return Answers(told, labels, told, labels, np.zeros(1), 0.0)


def rulers(answers: Sequence[Answers], raw: Answers, exam: Exam = IDENTITY) -> list[Ruler]:
    heads = (PEOPLE,) if exam is IDENTITY else (2, 2)
    return [Ruler(Sitting(exam, "net", [a], [raw]), heads) for a in answers]


def together(members: list[Ruler]) -> AttackResult:
    candidates = [*members, average(members)]
    return ensemble_result(candidates, strongest_of(candidates), SPECS)


ALL, NOBODY = names(np.ones(N, bool)), names(np.zeros(N, bool))


def test_who_hides_nothing_leaks_everything_and_who_hides_all_nothing() -> None:
    assert together(rulers([ALL, ALL], ALL)).leakage.value == 1
    hidden = together(rulers([NOBODY, NOBODY], ALL)).leakage
    assert hidden.verdict == "measured" and (hidden.value, hidden.low <= 0 <= hidden.high) == (0, True)
    blind = together(rulers([looks(0, 0), looks(0, 0), looks(0, 0)], looks(1, 1), FRAME)).leakage
    assert abs(blind.value) < 0.15


def test_what_one_member_finds_the_ensemble_finds() -> None:
    """A planted bit, half of the people: right about these, and once in four about the others."""
    bit = names(WHO < 2)
    found = together(rulers([NOBODY, NOBODY, bit, NOBODY], ALL))
    # Who says "anybody" names the first person: right about 2 of 4, so a third of the way from ¼ to 1.
    assert found.score.value == 0.5 and found.leakage.value == pytest.approx(1 / 3)
    assert found.leakage.low > 0


def test_members_that_see_different_halves_see_the_whole_together() -> None:
    halves = rulers([names(np.arange(N) < N // 2), names(np.arange(N) >= N // 2)], ALL)
    best = strongest_of(halves)
    assert best.score.value < 0.7
    found = together(halves)
    assert found.score.value == 1 and found.attacker == "ensemble" and found.validation == 1


def test_every_attribute_is_answered_by_whoever_is_best_at_it() -> None:
    one, other = looks(0.9, 0.0), looks(0.0, 0.8)
    members = rulers([one, other, *[looks(0, 0)] * 6], looks(1, 1), FRAME)  # six who guess alike spoil the average
    found, best = together(members), strongest_of(members)
    assert best.attackers == ["frame"] and found.score == best.score and found.leakage == best.leakage
    face, skin = found.attributes
    assert face.ap.value == members[0].score(members[0].all)[0] and skin.ap.value == members[1].score(members[0].all)[1]
    assert (face.ap.raw, skin.ap.raw) == (1, 1)


def test_the_choice_is_made_on_validation_and_is_in_the_interval() -> None:
    """One is better on validation and worse on test: it is taken, and the interval knows that it might not have been."""
    lucky, right = names(np.arange(N) % 8 < 4), names(np.arange(N) % 8 < 4)
    lucky.validation = names(np.arange(N) % 40 < 23).validation
    lucky.test = NOBODY.test
    members = rulers([right, lucky], ALL)
    found = ensemble_result(members, strongest_of(members), SPECS)
    assert found.score.value == 0.25 and found.per_seed == [0.25]
    assert found.score.high > 0.5
