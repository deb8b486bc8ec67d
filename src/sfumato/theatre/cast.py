"""Who is on stage: reproducible persons, each with their own looks and their own way of moving."""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from torch import Tensor

from sfumato.theatre.dice import Dice
from sfumato.theatre.pose import Body

SKIN_TONES = ((0.98, 0.85, 0.74), (0.93, 0.75, 0.60), (0.80, 0.60, 0.43), (0.63, 0.43, 0.29), (0.45, 0.29, 0.20), (0.29, 0.19, 0.14))  # fmt: skip
TONE_NAMES = ("very light", "light", "medium", "tan", "brown", "dark")
HAIR_COLOURS = ((0.09, 0.08, 0.09), (0.35, 0.21, 0.12), (0.90, 0.76, 0.38), (0.72, 0.28, 0.10), (0.78, 0.78, 0.80))
HAIR_NAMES = ("black", "brown", "blond", "red", "grey")
AGE_NAMES = ("child", "adult", "senior")
BUILD_NAMES = ("slim", "average", "heavy")
GENDER_NAMES = ("woman", "man")
# Colours no skin has: what covers the skin where its tone is not to be seen.
COVER_COLOURS = ((0.25, 0.45, 0.85), (0.30, 0.72, 0.42), (0.62, 0.40, 0.80), (0.92, 0.94, 0.97), (0.16, 0.17, 0.22), (0.20, 0.75, 0.78))  # fmt: skip


@dataclass
class Cast:
    """N people as tensors: looks, then way of moving. Colours (N, 3), the rest (N,)."""

    gender: Tensor  # 0 woman, 1 man, as presented
    tone: Tensor
    hair_kind: Tensor
    age: Tensor
    build: Tensor
    height: Tensor
    hair_length: Tensor  # 0 .. 1
    beard: Tensor
    skin: Tensor
    hair: Tensor
    cover: Tensor
    top: Tensor
    top2: Tensor
    bottom: Tensor
    shoes: Tensor
    coat: Tensor
    pattern: Tensor  # 0 plain, 1 hoops, 2 stripes, 3 checks, 4 dots
    pattern_scale: Tensor
    sleeve: Tensor  # 0 short, 1 long
    skirt: Tensor
    eye_distance: Tensor
    # the way of moving
    tempo: Tensor
    amplitude: Tensor
    stoop: Tensor  # radians of constant forward lean
    elbows_out: Tensor
    sway: Tensor
    sway_tempo: Tensor
    left_handed: Tensor

    def select(self, rows: Tensor) -> Cast:
        """Some of the people, one row each, with repeats."""
        return Cast(**{f.name: getattr(self, f.name)[rows] for f in fields(self)})

    def body(self) -> Body:
        """The proportions in metres."""
        man = self.gender.float()
        heavy = (self.build - 1).float()
        girth = 1.0 + 0.24 * heavy - 0.05 * (1 - man)
        shoulder = self.height * (0.100 + 0.016 * man + 0.006 * heavy)
        hip = self.height * (0.062 - 0.008 * man + 0.006 * heavy)
        return Body(self.height, shoulder, hip, girth)


def people(seed: int, person: Tensor) -> Cast:
    """Person number p of the cast of that seed, for p in `person` (N,) int64. Always the same person.

    >>> people(0, torch.tensor([3, 3])).height.unique().numel()
    1
    """
    d = Dice(seed, person, stream=1)
    device = person.device
    gender, tone, hair_kind, build = d.choice(2), d.choice(6), d.choice(4), d.choice(3)
    age = torch.bucketize(d.uniform(), torch.tensor([0.18, 0.80], device=device))
    hair_kind = torch.where((age == 2) & d.chance(0.75), 4, hair_kind)
    man = gender == 1
    adult = torch.where(man, d.uniform(1.66, 1.90), d.uniform(1.54, 1.76))
    height = torch.where(age == 0, d.uniform(1.15, 1.38), adult)
    tables = {"skin": SKIN_TONES, "hair": HAIR_COLOURS, "cover": COVER_COLOURS}
    table = {name: torch.tensor(rows, device=device) for name, rows in tables.items()}
    stoop = torch.where(age == 2, d.uniform(0.14, 0.32), d.uniform(-0.05, 0.08))
    return Cast(
        gender=gender, tone=tone, hair_kind=hair_kind, age=age, build=build, height=height,
        hair_length=torch.where(man, d.uniform(0.0, 0.25), d.uniform(0.6, 1.0)),
        beard=(man & (age > 0) & d.chance(0.45)).float(),
        skin=(table["skin"][tone] + d.uniform(-0.02, 0.02)[:, None]).clamp(0, 1),
        hair=(table["hair"][hair_kind] + d.uniform(-0.03, 0.03)[:, None]).clamp(0, 1),
        cover=table["cover"][d.choice(6)],
        top=d.colour(), top2=d.colour(), bottom=d.colour(0.05, 0.75), shoes=d.colour(0.05, 0.9), coat=d.colour(0.1, 0.8),
        pattern=d.choice(5), pattern_scale=d.uniform(0.8, 1.4), sleeve=d.chance(0.5).float(),
        skirt=((gender == 0) & d.chance(0.55)).float(), eye_distance=d.uniform(0.30, 0.46),
        tempo=d.uniform(0.82, 1.2), amplitude=d.uniform(0.86, 1.12), stoop=stoop, elbows_out=d.uniform(-0.06, 0.24),
        sway=d.uniform(0.0, 0.05), sway_tempo=d.uniform(0.6, 2.2), left_handed=d.chance(0.3).float(),
    )  # fmt: skip
