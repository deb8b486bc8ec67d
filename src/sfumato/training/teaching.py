"""What the trainings share that make no anonymizer but a model that others use: one network, one optimizer, one phase."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

from sfumato.training.phases import Phase, Player, Progress, Timing
from sfumato.training.processes import current
from sfumato.training.run import RunFolder

Network = TypeVar("Network", bound=nn.Module)


class Teaching(ABC, Generic[Network]):
    """A network that learns by steps, is watched meanwhile, and examined when it is done."""

    model: Network
    optimizer: torch.optim.Optimizer

    @abstractmethod
    def step(self, number: int) -> dict[str, Tensor]:
        """One batch; what it came to."""

    @abstractmethod
    def watch(self) -> dict[str, float]:
        """Where it stands."""

    @abstractmethod
    def examine(self) -> dict[str, Any]:
        """What it can do in the end, on what nothing was chosen by."""

    @abstractmethod
    def strip(self) -> list[Tensor]:
        """Clips to look at, uint8 (T, 3, H, W) each."""

    def state_dict(self) -> dict[str, Any]:
        """All that a resumed training needs."""
        return {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up a training where `state_dict` left it."""
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])


def teach(
    teaching: Teaching[Network], what: str, steps: int, run: RunFolder, save: Callable[[Network], object], *, seed: int,
    device: torch.device, progress: Progress | None = None, timing: Timing | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Play all steps, save the network, and leave in the run folder what it can do; what: the name of the phase."""
    phase = Phase(what, steps, teaching.step, teaching.watch)
    Player(
        [phase], teaching, run, device, seed, timing=timing or Timing(), progress=progress or Progress()
    ).play()  # fmt: skip
    result = {"watched": teaching.watch(), "examined": teaching.examine()}
    if current().main:
        save(teaching.model)
        run.save_result(result)
        run.drop_checkpoint()
    return result
