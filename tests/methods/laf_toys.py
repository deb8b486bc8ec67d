"""A small LaF training to try things on: tiny networks, clips whose labels nobody may read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from sfumato.methods.laf.config import LaFConfig
from sfumato.methods.laf.train import LabelFree
from sfumato.recognizers.vlm import SmallVLM, SmallVLMConfig
from sfumato.training.bank import Bank
from sfumato.training.contest import Stage
from sfumato.training.dealing import Banks
from sfumato.training.minimax import Terms
from sfumato.training.phases import Timing
from sfumato.training.run import RunFolder

from ..training.toys import CPU, make_bank

FRAMES, SIDE = 4, 32
TINY: dict[str, Any] = {
    "embedding": 24, "depth": 1, "patch": 8, "temperature": 0.5, "batch": 4, "reconstruction_steps": 3, "phase1_steps": 3,
    "phase2_steps": 3, "phase3_steps": 3, "schedule": "constant",
}  # fmt: skip
PHASES = {part.name: part for part in LaFConfig(**TINY).parts()}


@dataclass
class Unlabelled(Bank):
    """A bank whose labels nobody may look at."""

    def __getattribute__(self, name: str) -> Any:
        if name in ("actions", "answers", "heads", "asks_who", "questions"):
            raise AssertionError(f"{name} are labels, and were read")
        return super().__getattribute__(name)


def make_clips(count: int, seed: int) -> Bank:
    """The toys' clips at twice the side, their labels under lock."""
    toy = make_bank(count, seed)
    pixels = toy.pixels.repeat_interleave(2, -1).repeat_interleave(2, -2)
    return Unlabelled(**{**vars(toy), "pixels": pixels})


def make_banks() -> Banks:
    action, watched = make_clips(12, 0), make_clips(6, 2)
    return Banks(action, action, watched, watched, action_count=0)


def make_vlm(clip: tuple[int, int, int] = (FRAMES, SIDE, SIDE)) -> SmallVLM:
    torch.manual_seed(5)
    return SmallVLM(
        SmallVLMConfig(clip, ("a",), width=24, depth=1, temporal_depth=1, text_width=8, text_depth=1, embedding=12)
    )


def make_learner(**changes: Any) -> LabelFree:
    """With scores that differ, as after some training: L_mask moves nothing where they are all alike."""
    learner = LabelFree(LaFConfig(**{**TINY, **changes}), make_vlm(), make_banks(), seed=0, device=CPU)
    if learner.anonymizer.scorer is not None:
        with torch.no_grad():
            learner.anonymizer.scorer[-1].weight.mul_(100)
    return learner


def with_terms(learner: LabelFree, *names: str) -> None:
    """Let only these terms count."""
    every = learner.terms

    def some(*given: Any) -> Terms:
        found = every(*given)
        return {name: found[name] for name in names}

    learner.terms = some  # type: ignore[assignment, method-assign]


def plain_descent(learner: LabelFree) -> None:
    learner.optimizer = torch.optim.SGD(learner.anonymizer.parameters(), lr=0.0)


def terms_of(learner: LabelFree, phase: str, step: int = 0) -> dict[str, float]:
    """The terms of a phase before its step moves anything."""
    part = next(part for part in learner.config.parts() if part.name == phase)
    plain_descent(learner)
    return {name: float(value) for name, value in learner.step(replace(part, rate=0.0), step).items()}


def make_stage(folder: Path, vlm: str = "") -> Stage:
    run = RunFolder.open(folder, {"method": "laf", "config": {"vlm": vlm}, "seed": 0}, resume=folder.exists())
    return Stage(make_banks(), run, 0, CPU, timing=Timing(log=1, watch=2, save=2), title="laf")
