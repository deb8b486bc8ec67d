"""From joints to shapes: how a person of the cast looks in a pose, dressed for this clip, and what they hold."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sfumato.theatre.camera import Camera
from sfumato.theatre.cast import Cast
from sfumato.theatre.painter import Shapes

# Pattern of the cloth: frequency along and across the body, and the threshold of painter.Shapes.
_PATTERNS = ((0.0, 0.0, 9.0), (1.0, 0.0, 1.15), (0.0, 1.0, 1.15), (1.0, 1.0, 0.25), (1.0, 1.0, 1.0))


@dataclass
class Dress:
    """What of a person is to be seen in this clip; every field (N,) as 0 or 1."""

    skin_seen: Tensor
    masked: Tensor
    cloaked: Tensor  # a hooded cloak hides shape and hair, and with them the gender
    bare: Tensor
    tattoo: Tensor


class Outliner:
    """Collects shapes given in metres and projects them."""

    def __init__(self, camera: Camera) -> None:
        self.camera = camera
        self.rows: list[dict[str, Tensor]] = []
        self.patterned: list[bool] = []

    def add(
        self, a: Tensor, b: Tensor, ra: Tensor, rb: Tensor, colour: Tensor, *, boxy: float = 0.0, lift: float = 0.0,
        show: Tensor | None = None, colour2: Tensor | None = None, pattern: Tensor | None = None,
    ) -> None:  # fmt: skip
        """A tapered limb from a to b (N, 3) metres, as thick as ra to rb (N,). `boxy` 0 is round, towards 1 square.

        `lift` brings it that many metres nearer to the camera; pattern: (N, 3) rows of (fu, fv, threshold), per metre.
        """
        ax, ay, az, scale = self.camera.project(a)
        bx, by, bz, _ = self.camera.project(b)
        r = torch.minimum(ra, rb) * (1 - boxy)
        plain = torch.zeros_like(scale)
        waves = pattern if pattern is not None else torch.stack([plain, plain, plain + 9], dim=-1)
        self.patterned.append(pattern is not None)
        self.rows.append({
            "ax": ax, "ay": ay, "bx": bx, "by": by, "w0": (ra - r) * scale, "w1": (rb - r) * scale, "r": r * scale,
            "z0": az + lift, "z1": bz + lift, "opacity": plain + 1 if show is None else show.float(),
            "colour": colour, "colour2": colour if colour2 is None else colour2,
            "fu": waves[:, 0] / scale, "fv": waves[:, 1] / scale, "threshold": waves[:, 2],
        })  # fmt: skip

    def shapes(self) -> Shapes:
        """All that was added, side by side."""
        names = self.rows[0].keys()
        return Shapes(**{n: torch.stack([row[n] for row in self.rows], dim=1) for n in names}, patterned=self.patterned)


def _choose(flag: Tensor, yes: Tensor, no: Tensor) -> Tensor:
    return torch.where(flag[:, None] > 0.5, yes, no)


def dress_up(camera: Camera, joints: dict[str, Tensor], cast: Cast, dress: Dress) -> Shapes:
    """All shapes of N people: joints on stage (N, 3) each, one cast row and one dress row per person."""
    out = Outliner(camera)
    skin = _choose(dress.skin_seen, cast.skin, cast.cover)
    _draw_clothes(out, joints, cast, dress, skin)
    _draw_limbs(out, joints, cast, dress, skin)
    _draw_head(out, joints, cast, dress, skin)
    return out.shapes()


def _cloth(cast: Cast) -> Tensor:
    """The top's pattern as (N, 3): frequencies in radians per metre."""
    table = torch.tensor(_PATTERNS, device=cast.height.device)[cast.pattern]
    frequency = 2 * torch.pi / (0.11 * cast.pattern_scale)
    return torch.stack([table[:, 0] * frequency, table[:, 1] * frequency, table[:, 2]], dim=-1)


def _draw_clothes(out: Outliner, j: dict[str, Tensor], cast: Cast, dress: Dress, skin: Tensor) -> None:
    body = cast.body()
    middle = (j["L.hip"] + j["R.hip"]) / 2
    neck = (j["L.shoulder"] + j["R.shoulder"]) / 2
    waist = torch.lerp(middle, neck, 0.22)
    bare = dress.bare
    cloth = torch.where(bare[:, None] > 0.5, torch.tensor([0.0, 0.0, 9.0], device=skin.device), _cloth(cast))
    # Seen from the side a torso is narrower than from the front: measure the shoulders as they project.
    spread = (j["L.shoulder"] - j["R.shoulder"])[:, 0].abs() / 2
    shoulder = (spread + 0.045 * body.girth).clamp(min=0.085) + 0.02
    hips = ((j["L.hip"] - j["R.hip"])[:, 0].abs() / 2 + 0.05 * body.girth).clamp(min=0.08) + 0.025
    belly = torch.maximum(hips, 0.075 + 0.055 * body.girth) * (0.92 + 0.08 * cast.gender)
    out.add(neck, waist, shoulder, belly, _choose(bare, skin, cast.top), boxy=0.35, colour2=cast.top2, pattern=cloth)
    out.add(waist, middle, belly, hips, cast.bottom, boxy=0.3, lift=0.002)
    knee = (j["L.knee"] + j["R.knee"]) / 2
    hem = torch.lerp(middle, knee, 0.8)
    skirt = cast.skirt * (1 - bare)
    out.add(middle, hem, hips * 0.9, hips * 1.55, cast.bottom, boxy=0.6, lift=0.08, show=skirt * (1 - dress.cloaked))
    cloak_end = torch.lerp(middle, knee, 0.35)
    out.add(neck, cloak_end, shoulder * 0.9, shoulder * 1.6, cast.coat, boxy=0.4, lift=0.10, show=dress.cloaked)


def _draw_limbs(out: Outliner, j: dict[str, Tensor], cast: Cast, dress: Dress, skin: Tensor) -> None:
    girth = cast.body().girth * cast.height / 1.7
    bare_arm = torch.maximum(dress.bare, torch.maximum(1 - cast.sleeve, dress.tattoo))
    upper = _choose(dress.bare, skin, cast.top)
    lower = _choose(bare_arm, skin, cast.top)
    thigh = _choose(dress.bare, skin, cast.bottom)
    # Under a cloak nothing that tells a gender shows: no skirt's bare shins here, no beard below.
    shin = _choose(torch.maximum(dress.bare, cast.skirt * (1 - dress.cloaked)), skin, cast.bottom)
    ink = torch.where(dress.tattoo > 0.5, 0.55, 9.0)
    inked = torch.stack([torch.full_like(ink, 70.0), torch.full_like(ink, 55.0), ink], dim=-1)
    for side in "LR":
        arm, fore, hand = j[f"{side}.shoulder"], j[f"{side}.elbow"], j[f"{side}.wrist"]
        out.add(arm, fore, 0.052 * girth, 0.044 * girth, upper, lift=0.03)
        out.add(fore, hand, 0.043 * girth, 0.033 * girth, lower, lift=0.03, colour2=lower * 0.25, pattern=inked)
        out.add(hand, hand + (hand - fore) * 0.22, 0.042 * girth, 0.036 * girth, skin, lift=0.035)
        hip, knee, ankle = j[f"{side}.hip"], j[f"{side}.knee"], j[f"{side}.ankle"]
        out.add(hip, knee, 0.078 * girth, 0.060 * girth, thigh)
        out.add(knee, ankle, 0.058 * girth, 0.040 * girth, shin)
        out.add(ankle, j[f"{side}.toe"], 0.042 * girth, 0.036 * girth, cast.shoes, lift=0.01)


def _draw_head(out: Outliner, j: dict[str, Tensor], cast: Cast, dress: Dress, skin: Tensor) -> None:
    head, forward = j["head"], j["face"] - j["head"]
    up = head - j["neck"]
    up = up / up.norm(dim=-1, keepdim=True).clamp(min=1e-6)
    side = torch.linalg.cross(up, forward)
    radius = cast.body().head
    r = radius[:, None]
    seen = 1 - dress.masked
    mask = cast.coat * 0.4 + 0.1
    face = _choose(dress.masked, mask, skin)
    crown = _choose(torch.maximum(dress.cloaked, dress.masked * 0), cast.coat, cast.hair)
    crown = _choose(dress.masked * (1 - dress.cloaked), mask * 0.8, crown)
    out.add(j["neck"], head, 0.05 * cast.body().girth, 0.05 * cast.body().girth, _choose(dress.masked, mask, skin))
    out.add(head - up * 0.18 * r, head + up * 0.16 * r, radius * 0.84, radius * 0.92, face, lift=0.02)
    # Hair: a shell behind the face, long hair falling to the shoulders; a hood takes its place under a cloak.
    length = torch.where(dress.cloaked > 0.5, 0.8, cast.hair_length)[:, None]
    back = head - forward * 0.28 * r
    out.add(back + up * 0.22 * r, back - up * (0.1 + 1.25 * length) * r, radius * 0.98, radius * (0.86 + 0.12 * length[:, 0]), crown, boxy=0.1, lift=-0.01)  # fmt: skip
    top = head + up * 0.55 * r - forward * 0.12 * r
    out.add(top - side * 0.34 * r, top + side * 0.34 * r, radius * 0.56, radius * 0.56, crown, lift=0.05)
    gap = cast.eye_distance[:, None]
    dark = torch.full_like(skin, 0.06)
    for sign in (1.0, -1.0):
        eye = head + forward * 0.86 * r + side * sign * gap * r + up * 0.04 * r
        # Seen only while it is on the near side of the head, and never through a mask.
        near = (eye[:, 2] > head[:, 2]).float() * seen
        out.add(eye, eye, radius * 0.2, radius * 0.2, torch.ones_like(skin), lift=0.06, show=near)
        out.add(eye, eye + forward * 0.02, radius * 0.12, radius * 0.12, dark, lift=0.07, show=near)
    mouth = head + forward * 0.84 * r - up * 0.46 * r
    near = (mouth[:, 2] > head[:, 2]).float() * seen
    out.add(mouth - side * 0.24 * r, mouth + side * 0.24 * r, radius * 0.09, radius * 0.09, skin * 0.35 + 0.12 * (1 - dark), lift=0.065, show=near)  # fmt: skip
    chin = head + forward * 0.42 * r - up * 0.62 * r
    out.add(chin - side * 0.3 * r, chin + side * 0.3 * r, radius * 0.34, radius * 0.34, cast.hair, lift=0.055, show=cast.beard * near * (1 - dress.cloaked))  # fmt: skip
    nose = head + forward * 0.98 * r - up * 0.16 * r
    out.add(nose, nose + up * 0.16 * r, radius * 0.1, radius * 0.08, skin * 0.82, lift=0.06, show=near)


# Per object: two shapes as (dy of a, dy of b, radius a, radius b, colour), metres from its centre, upright.
_OBJECTS = (
    ((0.0, 0.0, 0.12, 0.12, 0.0, 0.95, 0.52, 0.12), (0.0, 0.0, 0.05, 0.05, 0.0, 0.98, 0.96, 0.92)),
    ((0.05, 0.16, 0.085, 0.105, 0.2, 0.20, 0.68, 0.30), (-0.2, -0.02, 0.022, 0.022, 0.0, 0.22, 0.16, 0.12)),
    ((-0.09, 0.09, 0.14, 0.14, 0.8, 0.74, 0.56, 0.34), (-0.09, 0.09, 0.025, 0.025, 0.8, 0.90, 0.80, 0.56)),
    ((-0.10, 0.06, 0.15, 0.11, 0.5, 0.50, 0.18, 0.40), (0.10, 0.16, 0.06, 0.05, 0.3, 0.30, 0.10, 0.24)),
    ((-0.13, 0.05, 0.06, 0.055, 0.2, 0.25, 0.62, 0.90), (0.08, 0.16, 0.028, 0.026, 0.2, 0.95, 0.95, 0.98)),
    ((-0.10, 0.10, 0.10, 0.10, 0.9, 0.80, 0.16, 0.22), (-0.08, 0.08, 0.02, 0.02, 0.9, 0.96, 0.93, 0.84)),
)  # fmt: skip


def draw_object(camera: Camera, kind: Tensor, where: Tensor) -> Shapes:
    """The object of each frame: kind (N,) indexes stage.OBJECTS, where (N, 3) its centre on stage in metres."""
    out = Outliner(camera)
    table = torch.tensor(_OBJECTS, device=where.device)[kind]
    up = torch.tensor([0.0, 1.0, 0.0], device=where.device)
    for part, lift in ((0, 0.12), (1, 0.13)):
        a, b, ra, rb, _boxy = table[:, part, :5].unbind(-1)
        out.add(where + a[:, None] * up, where + b[:, None] * up, ra, rb, table[:, part, 5:8], boxy=0.4, lift=lift)
    return out.shapes()
