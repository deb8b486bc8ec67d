"""Motions composed from words: body part × movement × direction × tempo × repetitions, with a caption for each.

Whole combinations can be held out of training and only described at test time: that is what makes zero-shot honest here.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from sfumato.theatre.choreography import Motion, actions
from sfumato.theatre.pose import Pose

TEMPOS = {"slowly": 0.9, "steadily": 0.45, "quickly": 0.3}  # the share of a clip's time that one repetition takes
REPETITIONS = {1: "once", 2: "twice", 3: "three times"}
_ARMS = {"left arm": ("L",), "right arm": ("R",), "both arms": ("L", "R")}
_LEGS = {"left leg": ("L",), "right leg": ("R",)}
# Where an arm or leg goes: flexion and abduction of (upper, lower) in degrees, as deviations from rest.
_ARM_GOALS: dict[str, dict[str, tuple[tuple[float, float], tuple[float, float]]]] = {
    "raises": {"forward": ((84, -6), (76, -4)), "sideways": ((0, 78), (-8, 82)), "up": ((166, 0), (162, 0))},
    "bends": {"forward": ((8, 0), (104, -4)), "sideways": ((8, 64), (116, 10)), "up": ((96, 10), (168, -12))},
    "stretches": {"forward": ((60, -4), (72, -4)), "sideways": ((0, 60), (0, 84)), "back": ((-48, 4), (-62, 4))},
}
_LEG_GOALS: dict[str, dict[str, tuple[tuple[float, float], tuple[float, float]]]] = {
    "raises": {"forward": ((72, 0), (70, 0)), "sideways": ((0, 46), (0, 48)), "back": ((-40, 0), (-46, 0))},
    "bends": {"forward": ((84, 0), (-12, 0)), "sideways": ((34, 44), (-34, 6)), "back": ((-6, 0), (-96, 0))},
}
_WHOLE: dict[tuple[str, str, str], Pose] = {
    ("upper body", "leans", "forward"): {"pitch": 48},
    ("upper body", "leans", "back"): {"pitch": -26},
    ("upper body", "leans", "to the left"): {"roll": 30},
    ("upper body", "leans", "to the right"): {"roll": -30},
    ("upper body", "turns", "to the left"): {"twist": 52},
    ("upper body", "turns", "to the right"): {"twist": -52},
    ("head", "nods", "down"): {"nod": 38},
    ("head", "turns", "to the left"): {"shake": 52},
    ("head", "turns", "to the right"): {"shake": -52},
    ("whole body", "steps", "forward"): {"z": 0.4, "L.leg": (20, 0), "R.leg": (-18, 0)},
    ("whole body", "steps", "back"): {"z": -0.4, "L.leg": (-18, 0), "R.leg": (20, 0)},
    ("whole body", "steps", "to the left"): {"x": 0.38, "L.leg": (0, 14)},
    ("whole body", "steps", "to the right"): {"x": -0.38, "R.leg": (0, 14)},
    ("whole body", "crouches", "down"): {"L.leg": (80, 6), "R.leg": (80, 6), "L.shin": (-36, 0), "R.shin": (-36, 0), "pitch": 20},
    ("whole body", "jumps", "up"): {"y": 0.26, "L.arm": (30, 0), "R.arm": (30, 0)},
}  # fmt: skip

# What no vision-language model of ours is ever shown, at no tempo and however often. Each word is known from elsewhere.
HELD_OUT = (
    ("left arm", "raises", "sideways"), ("right arm", "bends", "up"), ("both arms", "raises", "forward"),
    ("left arm", "stretches", "back"), ("left leg", "bends", "back"), ("right leg", "raises", "sideways"),
    ("upper body", "leans", "back"), ("head", "turns", "to the left"),
)  # fmt: skip


@dataclass(frozen=True)
class Composition:
    """One combination of words and the motion they mean."""

    part: str
    movement: str
    direction: str
    tempo: str
    repetitions: int
    motion: Motion

    @property
    def words(self) -> tuple[str, str, str, str, str]:
        """Part, movement, direction, tempo, repetitions: what can be held out and described."""
        return self.part, self.movement, self.direction, self.tempo, REPETITIONS[self.repetitions]


def _limb(sides: tuple[str, ...], segments: tuple[str, str], goal: tuple[tuple[float, float], ...]) -> Pose:
    return {f"{side}.{segment}": angles for side in sides for segment, angles in zip(segments, goal, strict=True)}


def _goals() -> dict[tuple[str, str, str], Pose]:
    """Every (part, movement, direction) with the deviation it reaches for."""
    found: dict[tuple[str, str, str], Pose] = {}
    for parts, goals, segments in ((_ARMS, _ARM_GOALS, ("arm", "fore")), (_LEGS, _LEG_GOALS, ("leg", "shin"))):
        for part, sides in parts.items():
            for movement, directions in goals.items():
                for direction, goal in directions.items():
                    found[part, movement, direction] = _limb(sides, segments, goal)
    return {**found, **_WHOLE}


def _half(goal: Pose) -> Pose:
    return {k: (v[0] / 2, v[1] / 2) if isinstance(v, tuple) else v / 2 for k, v in goal.items()}


@lru_cache
def compositions() -> tuple[Composition, ...]:
    """All of them; a caption reads "a person raises the left arm forward, slowly, twice".

    >>> len(compositions()) >= 200
    True
    """
    found = []
    for (part, movement, direction), goal in _goals().items():
        loop: tuple[Pose, ...] = ({}, _half(goal), goal, _half(goal))
        for tempo, share in TEMPOS.items():
            for repetitions in REPETITIONS:
                if repetitions * share > 0.91:
                    continue  # does not fit into the clip
                what = {"whole body": "", "both arms": "both arms "}.get(part, f"the {part} ")
                text = f"{movement} {what}{direction}, {tempo}, {REPETITIONS[repetitions]}"
                motion = Motion(text, text, loop=loop, repeats=repetitions, span=repetitions * share, sided=True)
                found.append(Composition(part, movement, direction, tempo, repetitions, motion))
    return tuple(found)


def held_out() -> tuple[Composition, ...]:
    """The actions of `HELD_OUT`, each at one tempo: what zero-shot is measured on.

    >>> held_out()[0].motion.caption
    'raises the left arm sideways, steadily, twice'
    """
    found = {c.words[:3]: c for c in compositions() if (c.tempo, c.repetitions) == ("steadily", 2)}
    return tuple(found[words] for words in HELD_OUT)


def moves_alike(first: Motion, second: Motion) -> bool:
    """Whether the same poses are gone through, whatever they are called, how fast and how often.

    >>> moves_alike(compositions()[0].motion, compositions()[1].motion)  # once, and twice
    True
    """
    return tuple(first.way) == tuple(second.way) and tuple(first.loop) == tuple(second.loop)


@lru_cache
def rehearsed() -> tuple[Motion, ...]:
    """What a vision-language model may be shown: named actions and compositions, but for all that moves as a held-out one.

    >>> len(rehearsed()) > 250
    True
    """
    secret = [c.motion for c in held_out()]
    known = (*actions(), *(c.motion for c in compositions()))
    return tuple(motion for motion in known if not any(moves_alike(motion, one) for one in secret))
