"""Trains and judges the trials of a file, and keeps a row of each in a CSV table.

A trials file lists `[[trial]]` tables: a name, a method, perhaps a recipe, and the settings that differ; `[common]` holds
those that all share. Each trial is trained as `sfumato train` does it and judged as `sfumato judge` does it; one with
`strengths` is judged at each of these too, without being trained again. One that names an anonymizer instead of a method is
only judged. A row is written as soon as it is there, and rows that are there are not done again.
"""

from __future__ import annotations

import hashlib
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from sfumato.anonymizers import Anonymizer, load
from sfumato.anonymizers.settings import default_settings, format_name
from sfumato.anonymizers.shelf import shelved
from sfumato.claims.figures import figures
from sfumato.claims.rows import Row, rounded
from sfumato.commands.train import load_banks
from sfumato.datasets import open_dataset, reads_files
from sfumato.errors import SfumatoError
from sfumato.evaluation.exam import Answers
from sfumato.evaluation.protocols import PROTOCOLS
from sfumato.evaluation.protocols.known import RAW, JudgeConfig, KnownProtocol
from sfumato.evaluation.provenance import JUDGING, commit
from sfumato.methods import find_method
from sfumato.recognizers.published import read_object
from sfumato.recognizers.vlm import find_vlm
from sfumato.training.contest import Stage
from sfumato.training.device import hardware, pick_device
from sfumato.training.options import load_options, read_toml, to_dict
from sfumato.training.run import RunFolder
from sfumato.turns import turn
from sfumato.writing import source_digest

Strength = float | None  # None: as it was trained
TINY, STANDARD = "tiny", "standard"  # what the judge's networks are called that a CPU can train, and those of a GPU


@dataclass(frozen=True)
class Trial:
    """One training and what is set in it; `recipe` is read first. Or an `anonymizer` by name, which needs none."""

    name: str
    method: str = ""
    recipe: str = ""
    config: dict[str, Any] = field(default_factory=dict)
    strengths: tuple[float, ...] = ()
    anonymizer: str = ""
    # On features alone: the protocols that judge it, and the share of the training videos that it is shown.
    judged_by: tuple[str, ...] = ()
    share: float = 1.0
    training: str = ""  # the trial whose run this one shares, where all settings are the same; empty: its own

    def __post_init__(self) -> None:
        if bool(self.method) == bool(self.anonymizer):
            raise SfumatoError(f"trial '{self.name}' is not one thing to judge", "name a method or an anonymizer")

    def settings(self) -> list[str]:
        """As `--set` takes them.

        >>> Trial("mosaic", "spact", config={"grey": True, "cell": 4}).settings()
        ['grey=true', 'cell=4']
        """
        return [f"{k}={str(v).lower() if isinstance(v, bool) else v}" for k, v in self.config.items()]


@dataclass(frozen=True)
class Plan:
    """What trials are trained and judged on, and how."""

    data: str
    runs: Path
    judge_data: str = ""  # where it is not the same
    name: str = ""  # what to call the data in the table
    epochs: int = 20
    attacks: tuple[str, ...] = ()
    device: str = "auto"
    lanes: int = 1
    judge_seeds: int = 0  # of what is not trained, in one row; 0: a row for each seed, as of what is
    vlm: str = ""  # a vision-language model that reads the action, untrained for it; none: a fresh f'_T
    protocol: str = ""  # who judges; empty: known or, with a vision-language model, zero-shot

    def prepare(self) -> None:
        """What is done once, before any bench is set up."""
        if self.vlm:
            find_vlm(self.vlm)  # or it is told now that there is none

    def open(self) -> Desk:
        """A bench for this plan."""
        return Bench(self)

    def more(self) -> Row:
        """What else makes a row this row and no other: a protocol that is named, the weights of a vision-language model."""
        named = {"protocol": self.protocol} if self.protocol else {}
        if not self.vlm:
            return named
        there = Path(self.vlm).is_dir() or self.vlm in shelved(kind="vlm")
        weights = read_object(find_vlm(self.vlm) / "config.json").get("weights_sha256", "") if there else ""
        return {**named, "vlm": f"{self.vlm}@{weights[:8]}"}


class Desk(Protocol):
    """Where jobs are done, one after another."""

    def begin(self) -> None:
        """What one of several desks does for all of them before its first job."""

    def rows(self, trial: Trial, seed: int, strengths: list[Strength]) -> Iterator[Row]:
        """A row for each strength."""

    def assist(self, trial: Trial, seed: int, strengths: list[Strength]) -> None:
        """Take over what can be taken over of a job that another process is at, which then finds it done."""


Job = tuple[Trial, int, list[Strength]]  # a trial, a seed, and the strengths at which it is judged


def read_trials(path: Path, only: Sequence[str] = ()) -> list[Trial]:
    """The trials of a file, or those of these names."""
    asked = read_toml(path, "trials file")
    common = asked.get("common", {})
    lists = ("strengths", "judged_by")
    trials = [
        Trial(**{**each, "config": common | each.get("config", {}), **{key: tuple(each.get(key, ())) for key in lists}})
        for each in asked["trial"]
    ]
    return [trial for trial in trials if not only or trial.name in only]


def about(plan: Plan, trial: Trial, seed: int, strength: Strength) -> Row:
    """What makes a row this row and no other."""
    return {
        "trial": trial.name, "method": trial.method, "data": plan.name or plan.data,
        "judged_on": plan.judge_data or "the same", "seed": seed, "judge_epochs": plan.epochs,
        "settings": " ".join([*filter(None, (trial.recipe, trial.anonymizer)), *trial.settings()]),
        "strength": "" if strength is None else f"{strength:g}",
        **({"judge_seeds": plan.judge_seeds} if trial.anonymizer and plan.judge_seeds else {}),
        **({"judged_by": " ".join(trial.judged_by)} if trial.judged_by else {}),
        **({"share": f"{trial.share:g}"} if trial.share != 1 else {}),
        **plan.more(),
    }  # fmt: skip


def same(row: Row, wanted: Row) -> bool:
    """Whether a row of the table is what would be done."""
    there = {key: "" if value is None else str(value) for key, value in row.items()}
    return all(there.get(key, "") == str(value) for key, value in wanted.items())


def missing(plan: Plan, trials: Sequence[Trial], seeds: int, rows: Sequence[Row]) -> list[Job]:
    """What is still to be done for every trial and seed; where several judges share a row, what is not trained has but one."""
    todo: list[Job] = []
    together = [trial for trial in trials if trial.anonymizer and plan.judge_seeds]
    for trial, seed in ((trial, seed) for seed in range(seeds) for trial in trials if not (seed and trial in together)):
        strengths: list[Strength] = [None, *trial.strengths]
        left = [at for at in strengths if not any(same(row, about(plan, trial, seed, at)) for row in rows)]
        todo += [(trial, seed, left)] if left else []
    return todo


def network_of(anonymizer: Anonymizer) -> str:
    """What it is without its weights, as `untrained` makes it again anywhere: settings that are not the default.

    >>> network_of(load("downsample", strength=16))
    'downsample:factor=16'
    """
    defaults = default_settings(type(anonymizer))
    changed = {key: value for key, value in anonymizer.settings().items() if value != defaults[key]}
    return format_name(anonymizer.name, changed)


def open_run(plan: Plan, trial: Trial, seed: int, config: Any, data: str, clips: str = "") -> RunFolder:
    """The folder of a trial's training, whether that is finished, was stopped or is to begin; clips: their fingerprint.

    Other settings, clips or code make another training, in a folder of its own.
    """
    told = {"method": trial.method, "config": to_dict(config), "data": data, "seed": seed}
    folder = run_path(plan, trial, seed, config, data, clips)
    return RunFolder.open(folder, told | {"commit": commit()}, resume=folder.exists())


def config_of(trial: Trial) -> Any:
    """The settings of a trial's method, as `sfumato train` would read them.

    >>> config_of(Trial("mosaic", "spact", config={"cell": 2})).cell
    2
    """
    recipe = Path(trial.recipe) if trial.recipe else None
    return load_options(find_method(trial.method).config, recipe=recipe, settings=trial.settings())


@cache  # it may be edited while this runs
def code_of(method: str) -> str:
    """The code that a row of this method comes from, as a digest: its training, the judge, and what makes figures of both.

    >>> code_of("spact") == code_of("laf")
    False
    """
    training = (f"methods/{method}/**/*.py",) if method else ()
    return source_digest(*JUDGING, "claims/*figures.py", *training)[:12]


def run_path(plan: Plan, trial: Trial, seed: int, config: Any, data: str, clips: str = "") -> Path:
    digest = hashlib.sha256(repr((to_dict(config), data, clips, code_of(trial.method))).encode()).hexdigest()[:8]
    return plan.runs / f"{(trial.training or trial.name).replace(' ', '-')}-{seed}-{digest}"


@contextmanager
def timed(run: RunFolder) -> Iterator[None]:
    """While it lasts a run is trained; how long that took is written down, unless the run was only taken up.

    >>> with timed(run): ...
    """
    begun, started = run.checkpoint.exists(), time.perf_counter()
    yield
    if not begun:  # of one that was taken up nobody knows how long the first part took
        run.pin("train_seconds", f"{time.perf_counter() - started:.3f}")


def train_seconds(run: RunFolder) -> float:
    """How long its training took, whoever did it; NaN where it was stopped in between.

    >>> train_seconds(run)
    61.5
    """
    return float(run.about().get("train_seconds", "nan"))


class Workshop(ABC):
    """Where trials are trained, on one data set, decoded once, and told as rows."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.device = plan, pick_device(plan.device)
        self.banks = load_banks(plan.data, plan.data, self.device)

    def train(self, trial: Trial, seed: int) -> RunFolder:
        """The finished run of a trial; one that was stopped is taken up."""
        method, config = find_method(trial.method), config_of(trial)
        with self._turn(trial, seed):  # another lane may be at the same training
            run = open_run(self.plan, trial, seed, config, self.plan.data, self.banks.fingerprint)
            if not run.result.exists():
                with timed(run):
                    method.train(config, Stage(self.banks, run, seed, self.device, title=method.name))
        return run

    def trained(self, trial: Trial, seed: int) -> RunFolder | None:
        """The run of a trial that another process is at, once it is through with it; None where nothing came of it."""
        with self._turn(trial, seed):
            run = RunFolder(self._path(trial, seed))
            return run if run.result.exists() else None

    def _turn(self, trial: Trial, seed: int) -> AbstractContextManager[bool]:
        return turn(self._path(trial, seed))

    def _path(self, trial: Trial, seed: int) -> Path:
        return run_path(self.plan, trial, seed, config_of(trial), self.plan.data, self.banks.fingerprint)

    def rows(self, trial: Trial, seed: int, strengths: list[Strength]) -> Iterator[Row]:
        """A row for each strength; all but the first find the training done."""
        return (self.row(trial, seed, strength) for strength in strengths)

    @abstractmethod
    def row(self, trial: Trial, seed: int, strength: Strength) -> Row:
        """What a trial came to, numbers to four digits."""


class Bench(Workshop):
    """A workshop with one judge; raw video is judged once."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        judged = plan.judge_data or plan.data
        views = 3 if reads_files(judged) else 1
        config = JudgeConfig(epochs=plan.epochs, views=views, attacks=plan.attacks, vlm=plan.vlm)
        if self.device.type == "cpu":
            config = replace(config, models=TINY)
        protocol = PROTOCOLS.find(plan.protocol or ("zero-shot" if plan.vlm else "known"))
        self.judge: KnownProtocol = protocol.make(
            open_dataset(judged), config, device=self.device, folder=plan.runs / "judge"
        )

    def examine(self, anonymizer: Anonymizer, seeds: range, *, wait: bool = True) -> dict[str, list[Answers]]:
        """An anonymizer before judges of these seeds; not to wait leaves out the exams that other processes sit just now."""
        self.judge.config = replace(self.judge.config, seeds=len(seeds), first_seed=seeds.start)
        return self.judge.examine(anonymizer, wait=wait)

    def judges(self, trial: Trial, seed: int) -> range:
        """The seeds of the judges: that of the training, so that raw video beside several trainings is not one and the same."""
        several = self.plan.judge_seeds if trial.anonymizer else 0
        return range(several) if several else range(seed, seed + 1)

    def begin(self) -> None:
        """Raw video, for all lanes, while the others train."""
        self.examine(load(RAW), range(max(1, self.plan.judge_seeds)))

    def assist(self, trial: Trial, seed: int, strengths: list[Strength]) -> None:
        """Exams that nobody sits yet, of raw video first: the other process may still be training."""
        seeds = self.judges(trial, seed)
        self.examine(load(RAW), seeds, wait=False)
        run = None if trial.anonymizer else self.trained(trial, seed)
        if run or trial.anonymizer:
            for strength in strengths:
                self.examine(load(run.anonymizer if run else trial.anonymizer, strength=strength), seeds, wait=False)

    def row(self, trial: Trial, seed: int, strength: Strength) -> Row:
        """What a trial came to, numbers to four digits."""
        run = None if trial.anonymizer else self.train(trial, seed)
        started = time.perf_counter()
        anonymizer = load(run.anonymizer if run else trial.anonymizer, strength=strength)
        seeds = self.judges(trial, seed)
        # Raw video comes last, so that of several processes that train one finds it for all.
        answers, raw = self.examine(anonymizer, seeds), self.examine(load(RAW), seeds)
        told = figures(self.judge.line(anonymizer, answers, raw), self.judge.on_frames(answers, raw))
        row = {
            **about(self.plan, trial, seed, strength), **told, **(_own(run.read_result()) if run else {}),
            "network": network_of(anonymizer), "parameters": sum(p.numel() for p in anonymizer.parameters()),
            "run": run.path.name if run else "", "judge_models": self.judge.config.models,
            "train_seconds": train_seconds(run) if run else None, "judge_seconds": time.perf_counter() - started,
            "hardware": hardware(self.device), "commit": commit(),
        }  # fmt: skip
        return rounded(row)


def _own(result: dict[str, Any]) -> Row:
    """What a training says about itself: the f_B it was trained against, where there was one, and the labelled attacker."""
    audit = {"first": result["audit"][0], "labelled": result["audit"][-1]} if result["audit"] else {}
    found: Row = {
        f"audit_{who}_{key.replace(' ', '_')}": each[key]
        for who, each in audit.items()
        for key in ("chance", "raw", "in training", "fresh")
    }
    return found | {"shown": result["watched"].get("shown"), "trained_parameters": result.get("trained_parameters")}
