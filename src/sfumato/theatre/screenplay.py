"""Screenplays: long, untrimmed videos of one person (or two), with frame-exact ground truth.

`untrimmed` strings actions together with pauses between them; `surveillance` shows everyday movement into which, in half
of the plays, an anomaly breaks: a fall, or a fight.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import torch
from torch import Tensor

from sfumato.theatre.choreography import Motion, actions, anomalies
from sfumato.theatre.dice import Dice
from sfumato.theatre.script import VP_PREVALENCE, write
from sfumato.theatre.show import Show

Kind = Literal["untrimmed", "surveillance"]
IDLE = Motion("idle", "stands still")
_EVERYDAY = ("walk forward", "walk backward", "wave", "bow", "raise hand", "lower hand", "shake hands")
_SECOND = 16  # frames in which a motion is played at its natural tempo: the length of a clip


@dataclass(frozen=True)
class Span:
    """Frames [start, end) of one motion."""

    start: int
    end: int
    label: str
    anomaly: bool = False


@dataclass
class Screenplay:
    """A drawn play. video: uint8 (T, 3, H, W); people: uint8 (T, 1, H, W); spans: what happens when, pauses left out."""

    video: Tensor
    people: Tensor
    person: int
    spans: tuple[Span, ...]


@lru_cache
def repertoire() -> tuple[Motion, ...]:
    """What a screenplay may string together: what needs no object, the anomalies, and standing still."""
    return (*(m for m in actions() if not m.uses_object), *anomalies(), IDLE)


def plan(seed: int, index: int, frames: int, kind: Kind) -> tuple[tuple[Span, ...], bool]:
    """Who does what when: the spans of screenplay `index`, and whether two people are on stage.

    >>> spans, together = plan(0, 3, 160, "untrimmed")
    >>> all(a.end <= b.start for a, b in zip(spans, spans[1:]))
    True
    """
    # Three throws per span, and no span with its pause is shorter than 22 frames.
    d = Dice(seed, torch.tensor([index]), stream=4, throws=16 + frames // 4)
    together = bool(d.chance(0.4))
    pool = [m for m in repertoire() if m not in (*anomalies(), IDLE) and (together or not m.two_person)]
    if kind == "surveillance":
        pool = [m for m in pool if m.name in _EVERYDAY]
    spans, at = [], int(d.uniform(4, 14))
    while True:
        length = int(d.uniform(_SECOND, 2.5 * _SECOND))
        if at + length > frames:
            break
        spans.append(Span(at, at + length, pool[int(d.choice(len(pool)))].name))
        at += length + int(d.uniform(6, 20))
    if kind == "surveillance" and spans and bool(d.chance(0.5)):
        _break_in(spans, int(d.choice(len(spans))), frames, together)
    return tuple(spans), together


def _break_in(spans: list[Span], which: int, frames: int, together: bool) -> None:
    """Put the anomaly in place of a span. Who has fallen stays down until they get up, or until the play ends."""
    here, then = spans[which], spans[which + 1 : which + 2]
    if together:
        spans[which] = Span(here.start, here.end, "fight", anomaly=True)
        return
    spans[which] = Span(here.start, then[0].start if then else frames, "fall", anomaly=True)
    spans[which + 1 : which + 2] = [Span(next_.start, next_.end, "get up") for next_ in then]


def perform(
    seed: int,
    index: int,
    *,
    frames: int = 256,
    side: int = 112,
    kind: Kind = "untrimmed",
    device: torch.device | str = "cpu",
) -> Screenplay:
    """Draw screenplay number `index`: always the same one.

    >>> perform(0, 1, frames=48, side=64).video.shape
    torch.Size([48, 3, 64, 64])
    """
    spans, together = plan(seed, index, frames, kind)
    motions = repertoire()
    names = [m.name for m in motions]
    idle = names.index(IDLE.name)
    motion = torch.full((1, frames), idle)
    way, loop = torch.zeros(1, frames), torch.zeros(1, frames)
    for span in spans:
        number = names.index(span.label)
        local = (torch.arange(span.end - span.start) + 0.5) / (span.end - span.start)
        motion[0, span.start : span.end] = number
        # A fall does not wait for the end of its span: it happens within a second, and the person stays down.
        speed = (span.end - span.start) / _SECOND if span.label == "fall" else 1.0
        eased = (local * speed).clamp(max=1)
        way[0, span.start : span.end] = eased * eased * (3 - 2 * eased)
        loop[0, span.start : span.end] = motions[number].cycles * local * (span.end - span.start) / _SECOND
    clip, person = torch.tensor([index], device=device), torch.tensor([index % 48], device=device)
    # Written as a motion of two, the script has them face each other across the picture, not one behind the other.
    written = torch.tensor([names.index("shake hands") if together else idle], device=device)
    script = write(seed, clip, person, written, motions, VP_PREVALENCE)
    if together:
        script.distance = torch.full_like(script.distance, 0.78)
    show = Show(motions, side, frames, device, smooth=5)
    times = ((torch.arange(frames, device=device) + 0.5) / frames)[None]
    footage = show.draw_timed(script, times, motion.to(device), way.to(device), loop.to(device))
    return Screenplay(footage.clips[0], footage.people[0], int(person), spans)
