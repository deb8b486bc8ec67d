"""The articulated body: from pose channels to joints in metres.

Local axes of a person: x to their left, y up, z forward. A limb segment has two absolute angles in the torso's frame,
flexion f (0 hanging, 90 forward, 180 up) and abduction a (90 sideways): no inverse kinematics, every pose is readable.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

SEGMENTS = ("L.arm", "L.fore", "R.arm", "R.fore", "L.leg", "L.shin", "R.leg", "R.shin")
BODY = ("x", "y", "z", "turn", "pitch", "roll", "twist", "lie", "nod", "shake")
# The object in play: `hold` 0 lies on the floor at (ox, oz), 1 is in the hands; `pass` 1 is in the partner's hands.
PROP = ("hold", "pass", "ox", "oz")
CHANNELS = (*BODY, *(f"{s}.{axis}" for s in SEGMENTS for axis in "fa"), *PROP)
INDEX = {name: i for i, name in enumerate(CHANNELS)}
_DEGREES = [i for n, i in INDEX.items() if n not in ("x", "y", "z", *PROP)]

Pose = Mapping[str, float | tuple[float, float]]

REST: Pose = {
    "L.arm": (4, 9), "L.fore": (14, 6), "R.arm": (4, 9), "R.fore": (14, 6),
    "L.leg": (2, 4), "L.shin": (-4, 3), "R.leg": (2, 4), "R.shin": (-4, 3), "oz": 0.45,
}  # fmt: skip


def channels(pose: Pose, base: Pose | None = None) -> Tensor:
    """A pose written in degrees and metres as a vector (len(CHANNELS),) in radians and metres.

    >>> channels({"R.arm": (90, 0)})[INDEX["R.arm.f"]].item() == math.radians(90)
    True
    """
    values = channels(base) if base is not None else torch.zeros(len(CHANNELS), dtype=torch.float64)
    for name, value in pose.items():
        if isinstance(value, tuple):
            values[INDEX[f"{name}.f"]], values[INDEX[f"{name}.a"]] = (math.radians(v) for v in value)
        else:
            values[INDEX[name]] = math.radians(value) if INDEX[name] in _DEGREES else value
    return values


@dataclass
class Frame:
    """Three orthogonal directions, each (N, 3): the torso's own left, up and forward."""

    left: Tensor
    up: Tensor
    forward: Tensor

    def direct(self, flexion: Tensor, abduction: Tensor, side: float) -> Tensor:
        """The unit direction (N, 3) of a limb segment from its two angles (N,); side +1 left, -1 right."""
        x = side * torch.sin(abduction)
        y = -torch.cos(abduction) * torch.cos(flexion)
        z = torch.cos(abduction) * torch.sin(flexion)
        return self.left * x[:, None] + self.up * y[:, None] + self.forward * z[:, None]


def _vector(x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    return torch.stack(torch.broadcast_tensors(x, y, z), dim=-1)


def torso_frame(pitch: Tensor, roll: Tensor, twist: Tensor) -> Frame:
    """Lean forward by pitch, to the left by roll, turn the shoulders by twist; angles (N,)."""
    up = _vector(torch.sin(roll), torch.cos(roll) * torch.cos(pitch), torch.cos(roll) * torch.sin(pitch))
    left = _vector(torch.cos(twist), torch.zeros_like(twist), -torch.sin(twist))
    left = left - (left * up).sum(-1, keepdim=True) * up
    left = left / left.norm(dim=-1, keepdim=True).clamp(min=1e-6)
    return Frame(left, up, torch.linalg.cross(left, up))


@dataclass
class Body:
    """A person's proportions in metres, each (N,)."""

    height: Tensor
    shoulder: Tensor  # half the distance between the shoulders
    hip: Tensor  # half the distance between the hips
    girth: Tensor  # thickness of everything, 1 for average

    @property
    def leg(self) -> Tensor:
        """Length of a thigh, and of a shin."""
        return 0.245 * self.height

    @property
    def arm(self) -> Tensor:
        """Length of an upper arm, and of a forearm."""
        return 0.165 * self.height

    @property
    def spine(self) -> Tensor:
        """From the pelvis to the neck."""
        return 0.29 * self.height

    @property
    def head(self) -> Tensor:
        """Radius of the head: a little larger than life, as a cartoonist would. Children's heads are larger still."""
        return 0.052 * self.height + 0.038


def joints(pose: Tensor, body: Body, mirror: Tensor) -> dict[str, Tensor]:
    """Joints in the person's own place, feet on the floor: name → (N, 3) metres, before facing and stage position.

    pose: (N, len(CHANNELS)); mirror (N,): -1 swaps left and right (a left-handed person).

    >>> sorted(joints(channels(REST)[None].float(), average_body(1), torch.ones(1)))[:2]
    ['L.ankle', 'L.elbow']
    """
    c = {name: pose[:, i] for name, i in INDEX.items()}
    torso = torso_frame(c["pitch"], c["roll"], c["twist"])
    hips = torso_frame(torch.zeros_like(c["roll"]), c["roll"] * 0.3, c["twist"] * 0.2)
    pelvis = torch.zeros_like(torso.up)
    neck = pelvis + torso.up * body.spine[:, None]
    nod = torso_frame(c["pitch"] * 0.5 + c["nod"], c["roll"] * 0.7, c["twist"] + c["shake"])
    found = {"pelvis": pelvis, "neck": neck, "head": neck + nod.up * (1.35 * body.head)[:, None]}
    found["face"] = found["head"] + nod.forward  # one metre ahead of the head: where the face looks
    for label, side in (("L", 1.0), ("R", -1.0)):
        shoulder = neck + torso.left * (side * body.shoulder)[:, None] - torso.up * (0.03 * body.height)[:, None]
        elbow = shoulder + torso.direct(c[f"{label}.arm.f"], c[f"{label}.arm.a"], side) * body.arm[:, None]
        wrist = elbow + torso.direct(c[f"{label}.fore.f"], c[f"{label}.fore.a"], side) * body.arm[:, None]
        hip = pelvis + hips.left * (side * body.hip)[:, None]
        knee = hip + hips.direct(c[f"{label}.leg.f"], c[f"{label}.leg.a"], side) * body.leg[:, None]
        ankle = knee + hips.direct(c[f"{label}.shin.f"], c[f"{label}.shin.a"], side) * body.leg[:, None]
        toe = ankle + hips.forward * (0.08 * body.height)[:, None]
        found |= {f"{label}.shoulder": shoulder, f"{label}.elbow": elbow, f"{label}.wrist": wrist}
        found |= {f"{label}.hip": hip, f"{label}.knee": knee, f"{label}.ankle": ankle, f"{label}.toe": toe}
    return _stand(found, c, body, mirror)


def _stand(found: dict[str, Tensor], c: dict[str, Tensor], body: Body, mirror: Tensor) -> dict[str, Tensor]:
    """Lie down by `lie`, put the lowest point on the floor, then move by x, y, z and mirror."""
    cos, sin = torch.cos(c["lie"])[:, None], torch.sin(c["lie"])[:, None]
    for name, p in found.items():
        x, y, z = p.split(1, dim=-1)
        found[name] = torch.cat([x, y * cos + z * sin, z * cos - y * sin], dim=-1)
    lowest = torch.stack([p[:, 1] for n, p in found.items() if n != "face"], dim=-1).amin(-1)
    rise = c["y"] + 0.045 * body.height - lowest
    shift = _vector(c["x"], rise, c["z"])
    flip = _vector(mirror, torch.ones_like(mirror), torch.ones_like(mirror))
    return {name: (p + shift) * flip for name, p in found.items()}


def average_body(count: int) -> Body:
    """The proportions of an average adult, `count` times."""
    ones = torch.ones(count)
    return Body(1.7 * ones, 0.19 * ones, 0.1 * ones, ones)
