"""What a latent protocol is, and what it leaves behind: answers to exams, and tallies of its own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from sfumato.datasets.sample import AttributeSpec
from sfumato.errors import SfumatoError
from sfumato.evaluation import scoring
from sfumato.evaluation.exam import Answers, Exam
from sfumato.evaluation.latent.material import Subject
from sfumato.evaluation.metrics import MIN_GROUPS, Interval, bootstrap
from sfumato.evaluation.result import Measure, Score
from sfumato.training.feature_data import FeatureSet

Items = NDArray[np.intp]
Statistic = Callable[[Items], float]
Role = Literal["utility", "attack", "score"]
MODELS = ("tiny", "standard")


@dataclass(frozen=True)
class LatentConfig:
    """How thorough a judgement is. models: how wide TriDet, MGFN and the decoder are; `tiny` ones do on a laptop."""

    models: str = "standard"
    epochs: int = 0  # of every training; 0: what each protocol holds for enough
    seeds: int = 1

    def __post_init__(self) -> None:
        if self.models not in MODELS:
            raise SfumatoError(f"there are no '{self.models}' models", f"use {' or '.join(MODELS)}")

    def pick(self, tiny: int, standard: int) -> int:
        """One of two, by `models`."""
        return tiny if self.models == "tiny" else standard


@dataclass(frozen=True)
class Asked:
    """An exam that a protocol has answered: by whom, how many answers each question has, and what it counts as."""

    exam: Exam
    reader: str
    heads: tuple[int, ...]
    role: Role
    specs: tuple[AttributeSpec, ...] = ()
    persons: tuple[np.ndarray, np.ndarray] | None = None  # who is in the validation and test items; −1: nobody knows


@dataclass(frozen=True)
class Tally:
    """A number that is a function of n test items, and what it is without looking at them."""

    name: str
    n: int
    value: Statistic
    blind: float


@dataclass
class Sheet:
    """What a protocol left about one subject and seed: answers by the name of the exam, and tallies."""

    answers: dict[str, Answers] = field(default_factory=dict)
    tallies: list[Tally] = field(default_factory=list)


class LatentProtocol(ABC):
    """Asks one thing about features. `lacks` says, in words that follow the data's name, why it cannot; "" if it can."""

    name: ClassVar[str]
    summary: ClassVar[str]
    models: str = ""  # who answers
    lacks: str = ""

    def __init__(self, data: FeatureSet, config: LatentConfig, device: torch.device) -> None:
        self.data, self.config, self.device = data, config, device
        self.asked: list[Asked] = []
        self.notes: list[str] = []
        self.prepare()

    @abstractmethod
    def prepare(self) -> None:
        """Settle who is asked about what, or say what is lacking."""

    @abstractmethod
    def examine(self, subject: Subject, seed: int) -> Sheet:
        """Everything about one subject, with fresh models of that seed."""


def per_item(name: str, values: Sequence[float] | np.ndarray, blind: float) -> Tally:
    """The mean of a number that each test item has, (n,).

    >>> per_item("R@1", [1.0, 0.0], blind=0.1).value(np.array([0, 0, 1]))
    0.666...
    """
    table = np.asarray(values, dtype=np.float64)
    return Tally(name, len(table), lambda items: float(table[items].mean()), blind)


def measure(tallies: Sequence[Tally], raw: Sequence[Tally]) -> Measure:
    """One tally over seeds, with its interval over test items and what raw features give.

    >>> measure([per_item("R@1", [1.0, 0.0] * 5, 0.1)], [per_item("R@1", [1.0] * 10, 0.1)]).score.value
    0.5
    """
    first = tallies[0]

    def over_seeds(items: Items) -> float:
        return float(np.mean([tally.value(items) for tally in tallies]))

    every = np.arange(first.n)
    on_raw = float(np.mean([tally.value(every) for tally in raw]))
    blind = float(np.mean([tally.blind for tally in tallies]))
    return Measure(first.name, Score(*_interval(over_seeds, first.n), chance=blind, raw=on_raw))


def _interval(statistic: Statistic, n: int) -> Interval:
    """NaN ends where there are too few items for any."""
    if n < MIN_GROUPS:
        return Interval(statistic(np.arange(n)), float("nan"), float("nan"))
    return bootstrap(statistic, n, samples=scoring.SAMPLES)
