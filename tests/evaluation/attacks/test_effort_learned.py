"""More effort finds as much or more, within noise: attackers of every effort really trained, on anonymizers whose leak is
known."""

from __future__ import annotations

import pytest
import torch

from sfumato.evaluation.attacks import ATTACKS
from sfumato.evaluation.attacks.ensemble import ENSEMBLE, average
from sfumato.evaluation.attacks.reconstruct import Undoing
from sfumato.evaluation.effort import EFFORTS, attacks_of
from sfumato.evaluation.exam import questions
from sfumato.evaluation.result import Leakage
from sfumato.evaluation.scoring import Ruler, Sitting, choose

from .conftest import ALL_HIDDEN, NOTHING_HIDDEN, Lab, Parade, Told, grey

USUAL = ("identity-frames",)
EPOCHS = 6  # of the usual effort
THIRD = Told(lambda video, person, coin: torch.where((coin < 1 / 3).view(-1, 1, 1, 1, 1), video, grey(video)))


@pytest.fixture(scope="module")
def labs() -> dict[str, Lab]:
    """Each effort has epochs of its own."""
    data = Parade((64, 16, 80))
    return {name: Lab(data, epochs=round(EPOCHS * effort.epochs)) for name, effort in EFFORTS.items()}


def leakage(effort: str, labs: dict[str, Lab], anonymizer: Told) -> Leakage:
    """What the attackers of an effort find together; but those that are slow, which have tests of their own."""
    lab = labs[effort]
    exams = [ATTACKS.make(name) for name in attacks_of(effort, USUAL)]
    rulers = []
    for exam in exams:
        if exam.target == "identity" and not exam.recognizer and not isinstance(exam.approach, Undoing):
            lab.attack(exam.name, anonymizer)
            kept = [[lab.kept[exam.name, hidden]] for hidden in (anonymizer, NOTHING_HIDDEN)]
            rulers.append(Ruler(Sitting(exam, "net", *kept), questions(exam, lab.dataset)))
    return choose([*rulers, average(rulers)] if ENSEMBLE in exams else rulers).strongest.leakage


# That each attacker finds what is known to be there, its own test asks; that more effort adds attackers and never takes any
# away, and that the strongest counts, tests/evaluation/test_effort.py.
@pytest.mark.nightly
@pytest.mark.parametrize(
    ("anonymizer", "truth"), [pytest.param(THIRD, 1 / 3, id="third"), pytest.param(ALL_HIDDEN, 0.0, id="all")]
)
def test_thorough_finds_as_much_as_standard_and_standard_as_quick(
    anonymizer: Told, truth: float, labs: dict[str, Lab]
) -> None:
    quick, standard, thorough = (leakage(effort, labs, anonymizer) for effort in ("quick", "standard", "thorough"))
    assert standard.high >= quick.value - 0.02 and thorough.high >= standard.value - 0.02
    assert standard.value >= quick.value - 0.06 and thorough.value >= standard.value - 0.06
    assert thorough.low <= truth + 0.06 and thorough.high >= truth - 0.06
