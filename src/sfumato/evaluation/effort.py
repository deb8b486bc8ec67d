"""How hard the attackers try: which of them, and for how long. More effort attacks with more, never with others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sfumato.errors import SfumatoError
from sfumato.evaluation.attacks import FAMILIES
from sfumato.evaluation.attacks.ensemble import ENSEMBLE
from sfumato.evaluation.attacks.face import FACE, FACE_PHOTOS
from sfumato.evaluation.attacks.reid import REID, REID_FRAMES

# What a laptop can afford. Of those that name people each is the strongest one somewhere: single frames give a blurred
# person away, where things are a sparse picture, and who decodes first a repainted one.
QUICK_ATTACKS = ("frame", "video-placed", "identity-frames", "identity-placed", "decode-identity-frames")
# Who looks at single frames, but four times as long: a curve ends flat however much a longer training would find.
PATIENT_ATTACKS = ("patient-frame", "patient-identity-frames")
STANDARD = "standard"


@dataclass(frozen=True)
class Effort:
    """`epochs`: how many times as many as usual."""

    summary: str
    epochs: float


EFFORTS = {
    "quick": Effort("the attackers that are the strongest most often, half as long", 0.5),
    STANDARD: Effort(
        "the attackers of the protocol, two of them four times as long too, and where they name people one who recognises "
        "strangers again",
        1.0,
    ),
    "thorough": Effort("every attacker there is, six architectures more, twice as long, and all of them together", 2.0),
}


def find_effort(name: str) -> Effort:
    """The effort of that name.

    >>> find_effort("thorough").epochs
    2.0
    """
    if name not in EFFORTS:
        raise SfumatoError(f"there is no effort '{name}'", f"use {', '.join(EFFORTS)}")
    return EFFORTS[name]


def attacks_of(effort: str, usual: Sequence[str]) -> tuple[str, ...]:
    """The names of the attacks by that effort under a protocol whose `usual` ones these are.

    A thorough attacker goes about each of the usual attacks in every way there is.

    >>> attacks_of("quick", ("frame", "video"))
    ('frame',)
    """
    find_effort(effort)
    names_people = any(name.startswith("identity") for name in usual)
    if effort == STANDARD:
        patient = [name for name in PATIENT_ATTACKS if name.removeprefix("patient-") in usual]
        strangers = [REID_FRAMES.name] if names_people else []  # who is not named may be recognised again
        return (*usual, *patient, *strangers)
    if effort == "quick":
        return tuple(name for name in usual if name in QUICK_ATTACKS) or tuple(usual)
    every = ((family.name, exam) for family in FAMILIES for exam in family.make())
    more = [
        exam.name
        for family, exam in every
        if exam.name.removeprefix(f"{family}-").removesuffix(f"-{exam.recognizer}") in usual
    ]
    again = (REID, REID_FRAMES, FACE, FACE_PHOTOS) if names_people else ()
    return (*usual, *more, *(exam.name for exam in again), ENSEMBLE.name)
