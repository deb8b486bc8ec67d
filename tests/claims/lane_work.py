"""What the lanes of test_lanes.py do, in a module of its own so that spawned processes can import it by name."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sfumato.claims.bench import Plan, Strength, Trial
from sfumato.claims.lanes import run_tasks
from sfumato.claims.rows import Row
from sfumato.errors import SfumatoError
from sfumato.turns import turn


@dataclass(frozen=True)
class NotedPlan(Plan):
    """A plan whose desks train nothing and write down what they are asked."""

    def open(self) -> NotedDesk:
        return NotedDesk(self)


class NotedDesk:
    def __init__(self, plan: NotedPlan) -> None:
        self.plan = plan
        if plan.data == "impossible":
            raise SfumatoError("impossible data", "give other data")
        self._note("opened")

    def begin(self) -> None:
        self._note("begun")

    def rows(self, trial: Trial, seed: int, strengths: list[Strength]) -> Iterator[Row]:
        if trial.name == "wrong":
            raise SfumatoError("this cannot be done", "leave it")
        if trial.name == "endless":
            time.sleep(60)
        for strength in strengths:
            if trial.name == "always" or (trial.name == "once" and strength and self._first()):
                os._exit(1)  # as one that is killed: nothing is told, nothing is tidied up
            yield {"plan": self.plan.data, "trial": trial.name, "seed": seed, "strength": strength}

    def assist(self, trial: Trial, seed: int, strengths: list[Strength]) -> None:
        self._note(f"assisted with {trial.name}")

    def _first(self) -> bool:
        """Whether nobody has broken down here yet."""
        try:
            (self.plan.runs / "broken").touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    def _note(self, what: str) -> None:
        self.plan.runs.mkdir(exist_ok=True)
        with (self.plan.runs / f"{self.plan.data} {what}").open("a") as file:
            file.write(f"{os.getpid()}\n")


def wait_for_ever(folder: str) -> None:
    """A command with two lanes, of which one is never done."""
    plan = NotedPlan("first", Path(folder), lanes=2)
    list(run_tasks([(plan, (Trial("endless", anonymizer="blur"), 0, [None]))], lanes=2))


def count_up(path: str, lock: str) -> None:
    """Add one to the number in a file, slowly, as often as it takes to collide with whoever does the same."""
    file = Path(path)
    for _ in range(200):
        with turn(Path(lock)):
            file.write_text(str(int(file.read_text()) + 1))
