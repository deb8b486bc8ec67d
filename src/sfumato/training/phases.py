"""A training as a row of phases: logged, watched, stopped when enough or when it breaks, taken up again at any step."""

from __future__ import annotations

import math
import signal
import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Protocol

import torch
from torch import Tensor

from sfumato.errors import SfumatoError
from sfumato.training.batches import mix
from sfumato.training.processes import any_of_crew, current, mean_over_crew
from sfumato.training.run import RunFolder

LOG_EVERY, WATCH_EVERY, SAVE_EVERY = 10, 50, 200  # steps
PICTURES = 4  # before/after strips per phase


class Trainable(Protocol):
    """What is trained: its whole state, and a picture of where it stands."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...

    def strip(self) -> list[Tensor]:
        """Rows of uint8 (T, 3, H, W) frames, before and after."""


@dataclass
class Phase:
    """At most `steps` steps; over when `enough(watched)` says so. `step(i)` gives losses, still on the device."""

    name: str
    steps: int
    step: Callable[[int], dict[str, Tensor]]
    watch: Callable[[], dict[str, float]]
    enough: Callable[[dict[str, float]], bool] = lambda watched: False
    begin: Callable[[], None] = lambda: None  # what is done before the first step
    batches: int = 1  # of clips that a step takes
    limits: dict[str, float] = field(default_factory=dict)  # a step's loss above its limit: the training diverges


@dataclass
class Progress:
    """Callbacks that show where a training stands."""

    phase: Callable[[str, int, int, int], None] = lambda name, steps, done, batches: None
    step: Callable[[int, dict[str, float]], None] = lambda done, latest: None
    note: Callable[[str], None] = lambda text: None


@dataclass
class Timing:
    """When to log, to watch and to save, in steps."""

    log: int = LOG_EVERY
    watch: int = WATCH_EVERY
    save: int = SAVE_EVERY


@dataclass
class Player:
    """Plays phases one after another, from wherever the run folder's checkpoint stands."""

    phases: Sequence[Phase]
    trained: Trainable
    run: RunFolder
    device: torch.device
    seed: int = 0
    limits: dict[str, float] = field(default_factory=dict)  # a watched loss above its limit: the training diverges
    timing: Timing = field(default_factory=Timing)
    progress: Progress = field(default_factory=Progress)

    def play(self) -> None:
        """Train to the end of the last phase."""
        with self.run.alone() if current().main else nullcontext(), Interruption() as interruption:
            at, step = self._take_up()
            for number in range(at, len(self.phases)):
                self._play_phase(number, step if number == at else 0, interruption)

    def _take_up(self) -> tuple[int, int]:
        """Where to go on: the phase and the step, (0, 0) for a new run. What was logged after it is done again."""
        state = self.run.load_checkpoint(self.device)
        if state is None:
            if current().main:
                self.run.rewind(0)
            return 0, 0
        try:
            self.trained.load_state_dict(state["trained"])
        except torch.cuda.OutOfMemoryError:
            raise  # the checkpoint is good, the device is full
        except (KeyError, ValueError, RuntimeError) as error:  # parts that are new, gone or of another shape
            raise SfumatoError(
                f"the checkpoint in '{self.run.path}' is of another version of the code ({error})",
                "begin again with another --out, or go on with the commit that its run.json names",
            ) from error
        if current().main:
            self.run.rewind(state["lines"])
        return state["phase"], state["step"]

    def _play_phase(self, number: int, start: int, interruption: Interruption) -> None:
        phase, done = self.phases[number], start
        if not phase.steps:
            return
        self.progress.phase(phase.name, phase.steps, start, phase.batches)
        if not start:
            phase.begin()
        for step in range(start, phase.steps):
            # Whatever draws from torch's own generator (dropout) draws the same in a resumed run.
            torch.manual_seed(mix(self.seed, phase.name, step, current().rank))
            terms = phase.step(step)
            done = step + 1
            last = done == phase.steps
            if last or done % self.timing.log == 0:
                self._log(phase, done, terms)
            watched = self._watch(phase, done) if last or done % self.timing.watch == 0 else {}
            if watched and phase.enough(watched):
                self.progress.note(f"{phase.name}: enough after {done} steps")
                break
            if any_of_crew(interruption.asked):
                self._save(phase, done, (number, done))
                raise KeyboardInterrupt
            if done % self.timing.save == 0 and not last:
                self._save(phase, done, (number, done))
            if done % max(1, phase.steps // PICTURES) == 0:
                self._picture(phase, done)
        self._picture(phase, done)
        self._save(phase, done, (number + 1, 0))

    def _log(self, phase: Phase, step: int, terms: dict[str, Tensor]) -> None:
        latest = {name: float(value) for name, value in mean_over_crew(terms).items()}
        self._guard(phase, step, latest, phase.limits)
        self.progress.step(step, latest)
        if current().main:
            self.run.log({"kind": "step", "phase": phase.name, "step": step, **latest})

    def _watch(self, phase: Phase, step: int) -> dict[str, float]:
        # The mean over processes, so that all decide alike whether it is enough.
        watched = {k: float(v) for k, v in mean_over_crew(_tensors(phase.watch(), self.device)).items()}
        self._guard(phase, step, watched, self.limits)
        if current().main:
            self.run.log({"kind": "watch", "phase": phase.name, "step": step, **watched})
        return watched

    def _guard(self, phase: Phase, step: int, values: dict[str, float], limits: dict[str, float]) -> None:
        """Stop at once where something watched is broken."""
        for name, value in values.items():
            limit = limits.get(name, math.inf)
            if not math.isfinite(value):
                raise self._breakdown(phase, step, f"{name} is not a number any more")
            if value > limit:
                raise self._breakdown(phase, step, f"{name} is {value:.3g}, far above {limit:.3g}")

    def _breakdown(self, phase: Phase, step: int, what: str) -> SfumatoError:
        kept = f"; the last good checkpoint is kept in '{self.run.path}'" if self.run.checkpoint.exists() else ""
        return SfumatoError(
            f"training broke down in phase '{phase.name}' at step {step}: {what}{kept}",
            "begin again elsewhere with smaller rates (--set anonymizer_rate=…, utility_rate=…, budget_rate=…, …) "
            "or a smaller budget_weight",
        )

    def _save(self, phase: Phase, step: int, go_on: tuple[int, int]) -> None:
        """Keep where the training stands after `step` steps of `phase`; `go_on`: the phase and the step that come next."""
        if not current().main:
            return
        trained = self.trained.state_dict()
        # A step can break the weights with a loss that is still a number, and not every step's loss is looked at.
        if not _all_finite(trained):
            raise self._breakdown(phase, step, "the weights are not numbers any more")
        self.run.save_checkpoint({"phase": go_on[0], "step": go_on[1], "lines": self.run.lines, "trained": trained})

    def _picture(self, phase: Phase, step: int) -> None:
        if current().main:
            self.run.save_strip(f"{phase.name}-{step:06d}", self.trained.strip())


def _all_finite(state: Any) -> bool:
    """Whether no tensor in nested dicts and lists holds NaN or infinity."""
    if isinstance(state, Tensor):
        return bool(state.isfinite().all())
    inner = state.values() if isinstance(state, dict) else state if isinstance(state, (list, tuple)) else ()
    return all(_all_finite(value) for value in inner)


def _tensors(values: dict[str, float], device: torch.device) -> dict[str, Tensor]:
    return {name: torch.tensor(value, device=device) for name, value in values.items()}


class Interruption:
    """While it lasts, the first Ctrl-C only asks to stop after the step that is under way; the second stops at once.

    One of several processes hears of it twice, from the terminal and from its parent, and does not stop before the others;
    whoever presses it twice makes the parent end them all.
    """

    def __init__(self) -> None:
        self.asked = False
        self._before: Any = None

    def __enter__(self) -> Interruption:
        if threading.current_thread() is threading.main_thread():  # signals reach no other
            self._before = signal.signal(signal.SIGINT, self._ask)
        return self

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.asked and current().size == 1:
            raise KeyboardInterrupt
        self.asked = True
