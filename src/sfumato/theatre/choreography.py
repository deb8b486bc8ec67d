"""What people do: named actions, anomalies, and motions composed of body part × movement × direction.

A motion is two tracks that add up: `way`, key poses passed through once (sit down), and `loop`, key poses passed through
again and again (wave). A motion whose `reverse_of` is set plays the other's tracks backwards, so that no single frame
can tell the two apart: only time does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from sfumato.theatre.pose import CHANNELS, INDEX, REST, Pose, channels

WAY_KEYS = 5
LOOP_KEYS = 4


@dataclass(frozen=True)
class Motion:
    """One thing to do. `cycles`: how often an endless loop runs in a clip; `partner_*`: the second person's tracks.

    A counted motion runs its loop `repeats` times in `span` of the clip and rests before and after.
    """

    name: str
    caption: str
    way: Sequence[Pose] = ({},)
    loop: Sequence[Pose] = ()
    cycles: float = 0.0
    partner_way: Sequence[Pose] = ()
    partner_loop: Sequence[Pose] = ()
    reverse_of: str = ""
    distance: float = 0.0  # metres between the two people; 0: nobody else is needed
    uses_object: bool = False
    repeats: int = 0
    span: float = 0.0
    sided: bool = False  # says left or right: must not be mirrored

    @property
    def two_person(self) -> bool:
        """Whether it takes a partner."""
        return self.distance > 0


def _reversed(original: Motion, name: str, caption: str) -> Motion:
    return Motion(
        name, caption, tuple(reversed(original.way)), tuple(reversed(original.loop)), original.cycles,
        tuple(reversed(original.partner_way)), tuple(reversed(original.partner_loop)),
        original.name, original.distance, original.uses_object,
    )  # fmt: skip


_SEATED: Pose = {"L.leg": (86, 8), "R.leg": (86, 8), "L.shin": (-4, 3), "R.shin": (-4, 3), "L.fore": (60, 4), "R.fore": (60, 4)}  # fmt: skip
_HALF_SEATED: Pose = {"pitch": 34, "L.leg": (58, 6), "R.leg": (58, 6), "L.shin": (-22, 3), "R.shin": (-22, 3), "L.arm": (38, 6), "R.arm": (38, 6), "L.fore": (60, 4), "R.fore": (60, 4)}  # fmt: skip
_STOOP: Pose = {"pitch": 78, "L.leg": (38, 6), "R.leg": (38, 6), "L.shin": (-30, 4), "R.shin": (-30, 4), "L.arm": (74, 2), "R.arm": (74, 2), "L.fore": (84, -4), "R.fore": (84, -4), "nod": -20}  # fmt: skip
_CARRY: Pose = {"L.arm": (20, 6), "R.arm": (20, 6), "L.fore": (92, -8), "R.fore": (92, -8)}
_BRACED: Pose = {"pitch": 16, "L.leg": (26, 4), "L.shin": (-8, 3), "R.leg": (-16, 4), "R.shin": (-34, 3)}
_PUSH_NEAR: Pose = {**_BRACED, "L.arm": (10, 14), "R.arm": (10, 14), "L.fore": (82, 2), "R.fore": (82, 2), "oz": 0.42, "z": -0.18}  # fmt: skip
_PUSH_FAR: Pose = {**_BRACED, "pitch": 26, "L.arm": (62, 4), "R.arm": (62, 4), "L.fore": (64, 0), "R.fore": (64, 0), "oz": 0.78, "z": -0.05}  # fmt: skip
_FLAT: Pose = {"lie": 86, "L.arm": (6, 24), "R.arm": (6, 24), "L.fore": (6, 20), "R.fore": (6, 20)}
_SITTING_UP: Pose = {"lie": 34, "pitch": 30, "L.leg": (96, 6), "R.leg": (96, 6), "L.shin": (34, 4), "R.shin": (34, 4), "L.arm": (-30, 14), "R.arm": (-30, 14), "L.fore": (-10, 8), "R.fore": (-10, 8)}  # fmt: skip
_REACH: Pose = {"R.arm": (60, 2), "R.fore": (82, -4)}
_STRIDE: Sequence[Pose] = (
    {"L.leg": (26, 0), "L.shin": (14, 0), "R.leg": (-24, 0), "R.shin": (-38, 0), "L.arm": (-28, 0), "L.fore": (-20, 0), "R.arm": (28, 0), "R.fore": (40, 0)},
    {"L.leg": (2, 0), "L.shin": (-4, 0), "R.leg": (12, 0), "R.shin": (-48, 0)},
    {"L.leg": (-24, 0), "L.shin": (-38, 0), "R.leg": (26, 0), "R.shin": (14, 0), "L.arm": (28, 0), "L.fore": (40, 0), "R.arm": (-28, 0), "R.fore": (-20, 0)},
    {"L.leg": (12, 0), "L.shin": (-48, 0), "R.leg": (2, 0), "R.shin": (-4, 0)},
)  # fmt: skip

_ONE_WAY = [
    Motion("sit down", "sits down", ({}, _HALF_SEATED, _SEATED)),
    Motion("pick up", "picks something up", ({}, {**_STOOP, "hold": 0}, {**_STOOP, "hold": 1}, {**_CARRY, "hold": 1}), uses_object=True),
    Motion("push", "pushes something away", (_PUSH_NEAR, _PUSH_FAR), uses_object=True),
    Motion("raise hand", "raises a hand", ({}, {"R.arm": (90, 20), "R.fore": (120, 10)}, {"R.arm": (172, 8), "R.fore": (178, 4)})),
    Motion("open arms", "opens the arms", ({"L.arm": (70, -10), "R.arm": (70, -10), "L.fore": (84, -50), "R.fore": (84, -50)}, {"L.arm": (40, 84), "R.arm": (40, 84), "L.fore": (30, 88), "R.fore": (30, 88)})),
    Motion("lie down", "lies down", ({}, _HALF_SEATED, _SITTING_UP, _FLAT)),
    Motion("walk forward", "walks forward", ({"z": -0.55}, {"z": 0.55}), _STRIDE, 1.6),
    Motion("lift overhead", "lifts something overhead", ({**_CARRY, "hold": 1}, {"L.arm": (172, 10), "R.arm": (172, 10), "L.fore": (182, -12), "R.fore": (182, -12), "hold": 1}), uses_object=True),
    Motion("give", "gives something to somebody", ({**_REACH, "R.arm": (6, 8), "R.fore": (80, 0), "hold": 1}, {**_REACH, "hold": 1}, {**_REACH, "hold": 1, "pass": 1}, {"hold": 1, "pass": 1}),
           partner_way=({}, _REACH, _REACH, {"R.arm": (6, 8), "R.fore": (80, 0)}), distance=0.78, uses_object=True),
]  # fmt: skip
_BACKWARDS = [
    ("sit down", "stand up", "stands up"),
    ("pick up", "put down", "puts something down"),
    ("push", "pull", "pulls something near"),
    ("raise hand", "lower hand", "lowers a hand"),
    ("open arms", "close arms", "closes the arms"),
    ("lie down", "get up", "gets up from the floor"),
    ("walk forward", "walk backward", "walks backward"),
    ("lift overhead", "lower from overhead", "lowers something from overhead"),
    ("give", "take", "takes something from somebody"),
]
_OTHERS = [
    Motion("wave", "waves", ({"R.arm": (60, 60), "R.fore": (150, 20)},), ({"R.fore": (0, 34)}, {}, {"R.fore": (0, -34)}, {}), 2.6),
    Motion("clap", "claps", ({"L.arm": (48, 6), "R.arm": (48, 6), "L.fore": (84, -16), "R.fore": (84, -16)},), ({"L.fore": (0, 36), "R.fore": (0, 36)}, {}, {"L.fore": (0, -8), "R.fore": (0, -8)}, {}), 2.8),
    Motion("jump", "jumps", ({},), ({"y": 0.0, "L.leg": (30, 0), "R.leg": (30, 0), "L.shin": (-30, 0), "R.shin": (-30, 0), "pitch": 14}, {"y": 0.14}, {"y": 0.26, "L.arm": (60, 0), "R.arm": (60, 0)}, {"y": 0.14}), 2.0),
    Motion("jumping jack", "does jumping jacks", ({"L.arm": (0, 80), "R.arm": (0, 80), "L.fore": (0, 84), "R.fore": (0, 84), "L.leg": (0, 12), "R.leg": (0, 12), "L.shin": (0, 10), "R.shin": (0, 10)},),
           ({"L.arm": (0, 64), "R.arm": (0, 64), "L.fore": (0, 70), "R.fore": (0, 70), "L.leg": (0, 14), "R.leg": (0, 14), "L.shin": (0, 14), "R.shin": (0, 14)}, {"y": 0.09}, {"L.arm": (0, -64), "R.arm": (0, -64), "L.fore": (0, -70), "R.fore": (0, -70), "L.leg": (0, -9), "R.leg": (0, -9), "L.shin": (0, -8), "R.shin": (0, -8)}, {"y": 0.09}), 2.0),
    Motion("squat", "squats", ({"L.arm": (70, 4), "R.arm": (70, 4), "L.fore": (80, 0), "R.fore": (80, 0)},), ({}, {"L.leg": (45, 6), "R.leg": (45, 6), "L.shin": (-25, 0), "R.shin": (-25, 0), "pitch": 14}, {"L.leg": (92, 8), "R.leg": (92, 8), "L.shin": (-40, 0), "R.shin": (-40, 0), "pitch": 26}, {"L.leg": (45, 6), "R.leg": (45, 6), "L.shin": (-25, 0), "R.shin": (-25, 0), "pitch": 14}), 1.6),
    Motion("kick", "kicks", ({},), ({"R.leg": (-22, 0), "R.shin": (-70, 0), "pitch": 4}, {"R.leg": (40, 0), "R.shin": (-20, 0)}, {"R.leg": (78, 0), "R.shin": (78, 0), "pitch": -12, "L.arm": (40, 20)}, {"R.leg": (34, 0), "R.shin": (-10, 0)}), 1.8),
    Motion("punch", "punches the air", ({"L.arm": (20, 10), "R.arm": (20, 10), "L.fore": (130, -6), "R.fore": (130, -6), "L.leg": (18, 6), "R.leg": (-12, 6)},), ({"R.arm": (66, -6), "R.fore": (-40, 4), "twist": 26}, {}, {"L.arm": (66, -6), "L.fore": (-40, 4), "twist": -26}, {}), 2.2),
    Motion("run on the spot", "runs on the spot", ({"pitch": 8, "L.fore": (86, 0), "R.fore": (86, 0)},), ({"L.leg": (74, 0), "L.shin": (-40, 0), "R.leg": (-6, 0), "R.shin": (-20, 0), "R.arm": (44, 0), "L.arm": (-44, 0), "y": 0.03}, {}, {"R.leg": (74, 0), "R.shin": (-40, 0), "L.leg": (-6, 0), "L.shin": (-20, 0), "L.arm": (44, 0), "R.arm": (-44, 0), "y": 0.03}, {}), 2.6),
    Motion("bow", "bows", ({},), ({}, {"pitch": 34, "nod": 10}, {"pitch": 66, "nod": 22}, {"pitch": 34, "nod": 10}), 1.4),
    Motion("bend sideways", "bends from side to side", ({"L.arm": (0, 150), "R.arm": (0, 150), "L.fore": (0, 176), "R.fore": (0, 176)},), ({"roll": 30}, {}, {"roll": -30}, {}), 1.6),
    Motion("twist", "twists the upper body", ({"L.arm": (20, 80), "R.arm": (20, 80), "L.fore": (70, 70), "R.fore": (70, 70)},), ({"twist": 52}, {}, {"twist": -52}, {}), 1.8),
    Motion("shake hands", "shakes hands with somebody", (_REACH,), ({"R.arm": (12, 0), "R.fore": (12, 0)}, {}, {"R.arm": (-12, 0), "R.fore": (-12, 0)}, {}), 2.4, (_REACH,), ({"R.arm": (12, 0), "R.fore": (12, 0)}, {}, {"R.arm": (-12, 0), "R.fore": (-12, 0)}, {}), distance=0.86),
    Motion("high five", "gives somebody a high five", ({},), ({"R.arm": (30, 10), "R.fore": (110, 0)}, {"R.arm": (110, 0), "R.fore": (150, 0)}, {"R.arm": (128, 0), "R.fore": (128, 0)}, {"R.arm": (110, 0), "R.fore": (150, 0)}), 1.5, ({},), ({"R.arm": (30, 10), "R.fore": (110, 0)}, {"R.arm": (110, 0), "R.fore": (150, 0)}, {"R.arm": (128, 0), "R.fore": (128, 0)}, {"R.arm": (110, 0), "R.fore": (150, 0)}), distance=0.8),
    Motion("hug", "hugs somebody", ({"L.arm": (74, 24), "R.arm": (74, 24), "L.fore": (84, -34), "R.fore": (84, -34), "pitch": 6},), ({"roll": 7}, {}, {"roll": -7}, {}), 1.5, ({"L.arm": (64, 24), "R.arm": (64, 24), "L.fore": (74, -34), "R.fore": (74, -34), "pitch": 6},), ({"roll": -7}, {}, {"roll": 7}, {}), distance=0.36),
]  # fmt: skip
_ANOMALIES = [
    Motion("fall", "falls", ({}, {"lie": 10, "L.arm": (40, 50), "R.arm": (70, 40), "pitch": 10}, {"lie": 55, "L.arm": (120, 50), "R.arm": (140, 40)}, {**_FLAT, "lie": 88}, {**_FLAT, "lie": 88})),
    Motion("fight", "fights with somebody", ({"L.arm": (30, 10), "R.arm": (30, 10), "L.fore": (120, -6), "R.fore": (120, -6), "L.leg": (24, 6), "R.leg": (-16, 6), "pitch": 8},), ({"R.arm": (60, -6), "R.fore": (-34, 4), "twist": 28, "z": 0.08}, {}, {"L.arm": (60, -6), "L.fore": (-34, 4), "twist": -28, "z": 0.08}, {"z": -0.05}), 3.2,
           ({"L.arm": (60, 20), "R.arm": (60, 20), "L.fore": (130, -20), "R.fore": (130, -20), "pitch": -8},), ({"pitch": -18, "z": -0.1, "L.arm": (40, 0)}, {}, {"pitch": -14, "twist": 30, "z": -0.1}, {"R.arm": (40, 0)}), distance=0.7),
]  # fmt: skip


@lru_cache
def actions() -> tuple[Motion, ...]:
    """The named actions, time-reversed pairs first.

    >>> [a.name for a in actions()[:2]]
    ['sit down', 'stand up']
    """
    by_name = {m.name: m for m in _ONE_WAY}
    pairs = [
        m for first, name, caption in _BACKWARDS for m in (by_name[first], _reversed(by_name[first], name, caption))
    ]
    return (*pairs, *_OTHERS)


def anomalies() -> tuple[Motion, ...]:
    """What a surveillance screenplay calls abnormal."""
    return tuple(_ANOMALIES)


def reversed_pairs() -> list[tuple[int, int]]:
    """Index pairs into `actions()` that only time tells apart."""
    names = [m.name for m in actions()]
    return [(names.index(m.reverse_of), i) for i, m in enumerate(actions()) if m.reverse_of]


class Tracks:
    """Key poses of a list of motions as tensors, ready to be looked up for any (motion, phase).

    way: (motions, WAY_KEYS, channels), loop likewise with LOOP_KEYS; both as deviations that add up on REST.
    """

    def __init__(self, motions: Sequence[Motion], *, partner: bool = False, device: torch.device | str = "cpu") -> None:
        ways = [(m.partner_way or ({},)) if partner else m.way for m in motions]
        loops = [m.partner_loop if partner else m.loop for m in motions]
        self.rest = channels(REST).float().to(device)
        self.way = torch.stack([_resample(w) for w in ways]).float().to(device)
        self.loop = torch.stack([_loop(keys) for keys in loops]).float().to(device)

    def pose(self, motion: Tensor, way_phase: Tensor, loop_phase: Tensor, amplitude: Tensor) -> Tensor:
        """(N, channels): the pose at a phase in [0, 1] of the way and a phase (turns) of the loop; all inputs (N,)."""
        at = way_phase.clamp(0, 1) * (WAY_KEYS - 1)
        low = at.long().clamp(max=WAY_KEYS - 2)
        share = (at - low)[:, None]
        way = torch.lerp(self.way[motion, low], self.way[motion, low + 1], share)
        turn = (loop_phase % 1.0) * LOOP_KEYS
        key = turn.long() % LOOP_KEYS
        ease = turn - turn.floor()
        ease = (ease * ease * (3 - 2 * ease))[:, None]
        loop = torch.lerp(self.loop[motion, key], self.loop[motion, (key + 1) % LOOP_KEYS], ease)
        deviation = way + loop
        scale = amplitude[:, None].expand_as(deviation).clone()
        scale[:, _UNSCALED] = 1.0  # a generous mover still lies flat and still holds the box
        return self.rest + deviation * scale


_UNSCALED = [INDEX[n] for n in ("lie", "hold", "pass", "ox", "oz")]


def _resample(keys: Sequence[Pose]) -> Tensor:
    """Any number of key poses as WAY_KEYS evenly spaced deviations from REST, linear between: (WAY_KEYS, channels)."""
    rest = channels(REST)
    poses = torch.stack([channels(k, REST) - rest for k in keys])
    at = torch.linspace(0, len(keys) - 1, WAY_KEYS, dtype=torch.float64)
    low = at.long().clamp(max=max(len(keys) - 2, 0))
    high = (low + 1).clamp(max=len(keys) - 1)
    return torch.lerp(poses[low], poses[high], (at - low)[:, None])


def _loop(keys: Sequence[Pose]) -> Tensor:
    """A loop's key poses, deviations already: (LOOP_KEYS, channels); no loop is all zeros."""
    if not keys:
        return torch.zeros(LOOP_KEYS, len(CHANNELS), dtype=torch.float64)
    if len(keys) != LOOP_KEYS:
        raise ValueError(f"a loop has {LOOP_KEYS} key poses, not {len(keys)}")
    return torch.stack([channels(k) for k in keys])
