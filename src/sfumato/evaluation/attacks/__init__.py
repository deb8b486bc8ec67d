"""Who tries to break an anonymizer. Attackers train on anonymised clips (adaptive) unless they say otherwise; none is
ever weakened."""

from sfumato.evaluation.attacks.aggregate import AGGREGATE
from sfumato.evaluation.attacks.architectures import ARCHITECTURES
from sfumato.evaluation.attacks.decode import DECODE
from sfumato.evaluation.attacks.ensemble import ENSEMBLE
from sfumato.evaluation.attacks.face import FACE, FACE_PHOTOS, by_weights
from sfumato.evaluation.attacks.gait import GAIT
from sfumato.evaluation.attacks.patient import PATIENT
from sfumato.evaluation.attacks.pretrained import PRETRAINED
from sfumato.evaluation.attacks.reconstruct import RECONSTRUCT
from sfumato.evaluation.attacks.reid import REID, REID_FRAMES
from sfumato.evaluation.attacks.transfer import TRANSFER
from sfumato.evaluation.attacks.variants import EVERYDAY
from sfumato.evaluation.exam import Exam
from sfumato.registry import Registry, unknown_name

ATTACKS: Registry[Exam] = Registry("attack")
for _attack in (
    *EVERYDAY, *PATIENT, *TRANSFER, *PRETRAINED, *RECONSTRUCT, *DECODE, REID, REID_FRAMES, FACE, FACE_PHOTOS, *AGGREGATE, *GAIT,
    *ARCHITECTURES, ENSEMBLE,
):  # fmt: skip
    ATTACKS.add(_attack.name, _attack.summary, lambda attack=_attack: attack)

# Several attackers under one name.
FAMILIES: Registry[tuple[Exam, ...]] = Registry("attack")
for _name, _family in {
    "patient": PATIENT, "transfer": TRANSFER, "pretrained": PRETRAINED, "reconstruct": RECONSTRUCT, "decode": DECODE,
    "aggregate": AGGREGATE, "gait": GAIT,
}.items():  # fmt: skip
    FAMILIES.add(_name, f"all {len(_family)} attackers {_name}-…", lambda family=_family: family)
FAMILIES.add("architectures", f"{len(ARCHITECTURES)} attackers by other networks", lambda: ARCHITECTURES)


def attacks_named(name: str) -> tuple[Exam, ...]:
    """The attack of that name, or all of the family of that name; `face:FILE` brings a network with it.

    >>> [exam.name for exam in attacks_named("frame")]
    ['frame']
    """
    kind, _, file = name.partition(":")
    if file and kind in (FACE.name, FACE_PHOTOS.name):
        return (by_weights(ATTACKS.make(kind), file),)
    if name in FAMILIES:
        return FAMILIES.make(name)
    if name not in ATTACKS:
        raise unknown_name("attack", name, [*ATTACKS.names(), *FAMILIES.names()])
    return (ATTACKS.make(name),)


__all__ = ["ATTACKS", "FAMILIES", "attacks_named"]
