"""V9's trials: STPrivacy is trained as ever, and an attacker reads what its tubelets say of those that were dropped."""

from __future__ import annotations

import time
from dataclasses import dataclass

from torch import Tensor

from sfumato.anonymizers import load
from sfumato.claims.bench import Plan, Strength, Trial, Workshop, about, train_seconds
from sfumato.claims.rows import Row, rounded
from sfumato.datasets import open_dataset
from sfumato.datasets.base import Part
from sfumato.evaluation.dropped import read_dropped
from sfumato.evaluation.provenance import commit
from sfumato.training.device import hardware

DROPPED = "dropped-tubelets"  # what the ledger calls this way of judging
PARTS: tuple[Part, ...] = ("train", "val", "test")


@dataclass(frozen=True)
class DroppedPlan(Plan):
    """A plan whose trials are judged by what is read of dropped tubelets alone."""

    protocol: str = DROPPED

    def open(self) -> DroppedBench:
        """A bench with that attacker."""
        return DroppedBench(self)


class DroppedBench(Workshop):
    """A workshop whose judge is an attacker of dropped tubelets; nothing of raw video is needed beforehand."""

    def begin(self) -> None:
        """Nothing is done for all."""

    def assist(self, trial: Trial, seed: int, strengths: list[Strength]) -> None:
        """Nothing can be taken over here: one attacker does it all."""

    def row(self, trial: Trial, seed: int, strength: Strength) -> Row:
        """The share of the dropped colours' variance that is read, numbers to four digits."""
        run = self.train(trial, seed)
        started = time.perf_counter()
        read = read_dropped(
            load(run.anonymizer, strength=strength), *map(self.pixels, PARTS), epochs=self.plan.epochs, seed=seed,
            device=self.device,
        )  # fmt: skip
        return rounded({
            **about(self.plan, trial, seed, strength), "dropped": read.value, "dropped_low": read.low,
            "dropped_high": read.high, "run": run.path.name, "train_seconds": train_seconds(run),
            "judge_seconds": time.perf_counter() - started, "hardware": hardware(self.device), "commit": commit(),
        })  # fmt: skip

    def pixels(self, part: Part) -> Tensor:
        """Raw clips of a part, uint8 (N, views, T, 3, H, W)."""
        dataset = open_dataset(self.plan.data)
        return dataset.clips(dataset.split(part, "clip"), device=self.device).pixels
