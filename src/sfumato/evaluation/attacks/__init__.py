"""Who tries to break an anonymizer. Each attacker trains on anonymised clips (adaptive); none is ever weakened."""

from sfumato.evaluation.attacks.frame import FRAME
from sfumato.evaluation.attacks.identity import IDENTITY, IDENTITY_FRAMES, IDENTITY_PLACED
from sfumato.evaluation.attacks.video import VIDEO, VIDEO_PLACED
from sfumato.evaluation.exam import Exam
from sfumato.registry import Registry

ATTACKS: Registry[Exam] = Registry("attack")
for _attack in (FRAME, VIDEO, VIDEO_PLACED, IDENTITY, IDENTITY_FRAMES, IDENTITY_PLACED):
    ATTACKS.add(_attack.name, _attack.summary, lambda attack=_attack: attack)

__all__ = ["ATTACKS"]
