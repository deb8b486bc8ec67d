"""What happens in clip number i: everything about it follows from (seed, index, person, motion)."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from sfumato.theatre.cast import Cast, people
from sfumato.theatre.choreography import Motion
from sfumato.theatre.dice import Dice
from sfumato.theatre.stage import LANDMARKS, OBJECTS, SCENES, SPORT_OBJECTS

# How often each of the five attributes can be identified: VP-HMDB51's own prevalences.
VP_PREVALENCE = {"face": 0.620, "skin": 0.903, "gender": 0.916, "nudity": 0.268, "relationship": 0.211}
BALANCED = dict.fromkeys(VP_PREVALENCE, 0.5)
NOBODY, PARTNER, COMPANION, BYSTANDER = range(4)


@dataclass
class Script:
    """A batch of B clips, written but not drawn. Tensors are (B,) unless said otherwise."""

    index: Tensor
    motion: Tensor
    person: Tensor
    cast: Cast
    second_cast: Cast
    second: Tensor  # NOBODY, PARTNER, COMPANION or BYSTANDER
    identifiable: dict[str, Tensor]  # the five attributes, 0 or 1
    masked: Tensor
    facing: Tensor
    mirror: Tensor
    place: Tensor
    distance: Tensor
    scene: Tensor
    landmark: Tensor
    object_kind: Tensor
    object_place: Tensor  # (B, 2): x and z in metres where the object stands when nobody uses it
    uses_object: Tensor
    tattoo: Tensor
    start: Tensor  # share of the clip before the motion begins
    finish: Tensor  # share of the clip after it has ended
    turns: Tensor  # how often the loop runs per clip
    first_phase: Tensor
    counted: Tensor  # bool: the loop runs a whole number of times between start and finish
    dice: Dice = field(repr=False)

    def values(self) -> dict[str, Tensor]:
        """What each attribute is, as (B,) integers: the values behind the five, then the second, disjoint set."""
        sport = torch.tensor(SPORT_OBJECTS, device=self.index.device)[self.object_kind]
        return {
            "skin_tone": self.cast.tone, "gender_value": self.cast.gender,
            "hair_colour": self.cast.hair_kind, "age_group": self.cast.age, "tattoo": self.tattoo.long(),
            "sport_object": sport, "scene": self.scene, "landmark": (self.landmark > 0).long(), "build": self.cast.build,
            "object": self.object_kind,
        }  # fmt: skip


def write(
    seed: int, index: Tensor, person: Tensor, motion: Tensor, motions: tuple[Motion, ...], prevalence: dict[str, float]
) -> Script:
    """The script of clips `index` played by `person` doing `motions[motion]`; index, person, motion: int64 (B,).

    Whatever can be seen is drawn independently of the motion, so that no attribute gives the action away or the reverse.
    """
    device = index.device
    d = Dice(seed, index, stream=2, throws=160)

    def of_motion(values: list[float]) -> Tensor:
        return torch.tensor(values, device=device)[motion]

    two_person = of_motion([float(m.two_person) for m in motions]) > 0
    identifiable = {name: d.chance(p) for name, p in prevalence.items()}
    related = identifiable["relationship"]
    bystander = ~related & ~two_person & d.chance(0.15)
    second = torch.where(
        two_person, PARTNER, torch.where(related, COMPANION, torch.where(bystander, BYSTANDER, NOBODY))
    )
    # Somebody from outside the cast, so that the second person never betrays the first.
    extra = people(seed + 1, 1000 + d.choice(500))
    cast = people(seed, person)
    # A face is hidden by a mask or by turning away; of two people who face each other one would still be seen: mask.
    hidden = ~identifiable["face"]
    masked = hidden & (d.chance(0.5) | two_person)
    towards = d.sign()
    frontal = torch.where(two_person, towards * d.uniform(0.85, 1.25), towards * d.uniform(0.0, 0.9))
    facing = torch.where(hidden & ~masked, torch.pi + towards * d.uniform(0.0, 0.7), frontal)
    sided = of_motion([float(m.sided) for m in motions]) > 0
    handed = torch.where((cast.left_handed > 0.5) ^ d.chance(0.1), -1.0, 1.0)
    return Script(
        index=index, motion=motion, person=person, cast=cast, second_cast=_match(cast, extra, related), second=second,
        identifiable={k: v.long() for k, v in identifiable.items()}, masked=masked.float(), facing=facing,
        mirror=torch.where(sided, 1.0, handed), place=d.uniform(-0.16, 0.16),
        distance=of_motion([m.distance for m in motions]), scene=d.choice(len(SCENES)),
        landmark=torch.where(d.chance(0.3), 1 + d.choice(len(LANDMARKS) - 1), 0), object_kind=d.choice(len(OBJECTS)),
        object_place=torch.stack([d.sign() * d.uniform(0.62, 0.95), d.uniform(-0.5, 0.3)], dim=-1),
        uses_object=of_motion([float(m.uses_object) for m in motions]), tattoo=d.chance(0.3).float(),
        **_timing(d, cast, of_motion, motions), dice=d,
    )  # fmt: skip


def _timing(d: Dice, cast: Cast, of_motion, motions: tuple[Motion, ...]) -> dict[str, Tensor]:  # type: ignore[no-untyped-def]
    """When the motion starts and ends and how fast its loop turns. Symmetric in time: reversed pairs look alike."""
    span = of_motion([m.span for m in motions])
    counted = span > 0
    rest = 1 - span
    begin = d.uniform() * rest
    slack = 0.15 * cast.tempo
    endless = of_motion([m.cycles for m in motions]) * cast.tempo * d.uniform(0.9, 1.1)
    return {
        "start": torch.where(counted, begin, d.uniform() * slack),
        "finish": torch.where(counted, rest - begin, d.uniform() * slack),
        "turns": torch.where(counted, of_motion([float(m.repeats) for m in motions]), endless),
        "first_phase": torch.where(counted, 0.0, d.uniform()),
        "counted": counted,
    }


def _match(cast: Cast, extra: Cast, related: Tensor) -> Cast:
    """People who belong together dress alike: that is how a relationship shows here."""
    for name in ("top", "top2", "bottom", "coat", "cover", "pattern", "pattern_scale"):
        own, other = getattr(cast, name), getattr(extra, name)
        flag = related if own.ndim == 1 else related[:, None]
        setattr(extra, name, torch.where(flag, own, other))
    return extra
