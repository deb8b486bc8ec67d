"""What was tried to make an anonymizer that a fresh attacker cannot read, and what each trial left.

    python benchmarks/family.py benchmarks/trials/search.toml --data manifest:PATH/index.csv --device cuda \
        --out benchmarks/results/family_lsa64.csv
    python benchmarks/family.py benchmarks/trials/claims_small.toml --data theatre:small --device cuda --lanes 12 \
        --out benchmarks/results/claims_small.csv

A trials file lists `[[trial]]` tables: a name, a method, perhaps a recipe, and the settings that differ; `[common]` holds
those that all share. Each trial is trained as `sfumato train` does it and judged as `sfumato judge` does it; one with `strengths`
is judged at each of these too, without being trained again. A row is written as soon as a trial is done, and rows that are there
are not done again.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import multiprocessing as mp
import queue
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from sfumato.anonymizers import load
from sfumato.commands.train import load_banks
from sfumato.datasets import open_dataset
from sfumato.evaluation.exam import Answers
from sfumato.evaluation.protocols.known import RAW, JudgeConfig, KnownProtocol
from sfumato.evaluation.provenance import commit
from sfumato.evaluation.result import Line
from sfumato.methods import find_method
from sfumato.training.contest import Stage
from sfumato.training.device import hardware, pick_device
from sfumato.training.options import load_options, to_dict
from sfumato.training.run import RunFolder

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def settings_of(trial: dict[str, Any]) -> list[str]:
    return [
        f"{key}={str(value).lower() if isinstance(value, bool) else value}" for key, value in trial["config"].items()
    ]


def figures(line: Line) -> dict[str, Any]:
    """The line of one anonymizer as columns: the action, then identity and attributes by their strongest attackers."""
    found: dict[str, Any] = {
        "action": line.utility.value,
        "action_low": line.utility.low,
        "action_high": line.utility.high,
    }
    found |= {"action_raw": line.utility.raw}
    for target in ("identity", "attributes"):
        best = next((s for s in line.strongest if s.target == target), None)
        score, leak = (best.score, best.leakage) if best else (None, None)
        for name in ("value", "low", "high", "raw", "chance"):
            found[f"{target}_{name}"] = getattr(score, name, None)
        found |= {
            f"{target}_attackers": "+".join(best.attackers) if best else "",
            f"{target}_residual": getattr(leak, "value", None),
        }
    headline = line.headline
    return found | {
        "residual": headline.value,
        "residual_low": headline.low,
        "residual_high": headline.high,
        "nhv": line.nhv,
    }


Strength = float | None  # None: as it was trained
Job = tuple[dict[str, Any], int, list[Strength]]  # a trial, a seed, and the strengths at which it is judged


def about(args: argparse.Namespace, trial: dict[str, Any], seed: int, strength: Strength) -> dict[str, Any]:
    """What makes a row this row and no other."""
    settings = [*([trial["recipe"]] if "recipe" in trial else []), *settings_of(trial)]
    return {
        "trial": trial["name"], "method": trial["method"], "data": args.name or args.data,
        "judged_on": args.judge_data or "the same", "seed": seed, "judge_epochs": args.epochs,
        "settings": " ".join(settings), "strength": "" if strength is None else strength,
    }  # fmt: skip


def same(row: dict[str, Any], job: dict[str, Any]) -> bool:
    """Whether a row of the table is what would be done."""
    return all(str(row.get(key, "")) == str(value) for key, value in job.items())


class Bench:
    """One data set, decoded once, before one judge; raw video is judged once."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args, self.device = args, pick_device(args.device)
        judged = args.judge_data or args.data
        views = 1 if judged.startswith("theatre") else 3
        config = JudgeConfig(epochs=args.epochs, views=views, attacks=tuple(args.attack or ()))
        if self.device.type == "cpu":
            config = replace(config, models="tiny")
        self.judge = KnownProtocol(open_dataset(judged), config, device=self.device, folder=args.runs / "judge")
        self.banks = load_banks(args.data, args.data, self.device)

    @cached_property
    def raw(self) -> dict[str, list[Answers]]:
        """Raw video before the judge. Asked for after a training, so that of several processes one finds it for all."""
        return self.judge.examine(load(RAW))

    def train(self, trial: dict[str, Any], seed: int) -> RunFolder:
        method = find_method(trial["method"])
        recipe = Path(trial["recipe"]) if "recipe" in trial else None
        config = load_options(method.config, recipe=recipe, settings=settings_of(trial))
        digest = hashlib.sha256(repr((to_dict(config), self.args.data)).encode()).hexdigest()[:8]
        folder = self.args.runs / f"{trial['name'].replace(' ', '-')}-{seed}-{digest}"
        told = {"method": method.name, "config": to_dict(config), "data": self.args.data, "seed": seed}
        run = RunFolder.open(folder, told | {"commit": commit()}, resume=folder.exists())
        if not run.result.exists():
            method.train(config, Stage(self.banks, run, seed, self.device, title=method.name))
        return run

    def rows(self, trial: dict[str, Any], seed: int, strengths: list[Strength]) -> Iterator[dict[str, Any]]:
        """A row for each strength; all but the first find the training done."""
        return (self.row(trial, seed, strength) for strength in strengths)

    def row(self, trial: dict[str, Any], seed: int, strength: Strength) -> dict[str, Any]:
        started = time.perf_counter()
        run = self.train(trial, seed)
        trained = time.perf_counter()
        anonymizer = load(run.anonymizer, strength=strength)
        line = self.judge.line(anonymizer, self.judge.examine(anonymizer), self.raw)
        own = run.read_result()
        # The f_B it was trained against, where there was one, and the labelled attacker, which comes last.
        audit = {"first": own["audit"][0], "labelled": own["audit"][-1]} if own["audit"] else {}
        row = {
            **about(self.args, trial, seed, strength), **figures(line),
            **{f"audit_{who}_{key.replace(' ', '_')}": found[key] for who, found in audit.items()
               for key in ("chance", "raw", "in training", "fresh")},
            "shown": own["watched"]["shown"], "train_seconds": trained - started,
            "judge_seconds": time.perf_counter() - trained, "hardware": hardware(self.device), "commit": commit(),
        }  # fmt: skip
        return {key: f"{value:.4g}" if isinstance(value, float) else value for key, value in row.items()}


def lane(
    number: int, args: argparse.Namespace, jobs: mp.Queue[Job | None], rows: mp.Queue[dict[str, Any] | None]
) -> None:
    """One process that does jobs until there are none. The first one judges raw video for all while the others train."""
    bench = Bench(args)
    if number == 0:
        bench.raw  # noqa: B018
    while (job := jobs.get()) is not None:
        for row in bench.rows(*job):
            rows.put(row)
    rows.put(None)


def done(args: argparse.Namespace, todo: list[Job]) -> Iterator[dict[str, Any]]:
    """The rows of those jobs, as they get ready."""
    if not todo:
        return
    if args.lanes == 1:
        bench = Bench(args)
        yield from (row for job in todo for row in bench.rows(*job))
        return
    context = mp.get_context("spawn")
    jobs, rows = context.Queue(), context.Queue()
    for job in [*todo, *[None] * args.lanes]:
        jobs.put(job)
    crew = [context.Process(target=lane, args=(n, args, jobs, rows), daemon=True) for n in range(args.lanes)]
    for process in crew:
        process.start()
    waiting = args.lanes
    while waiting:
        try:
            row = rows.get(timeout=5)
        except queue.Empty:
            if any(process.exitcode for process in crew):
                sys.exit("a lane broke down: see above; what is done is kept, run again to go on")
            continue
        if row is None:
            waiting -= 1
        else:
            yield row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trials", type=Path)
    parser.add_argument("--data", required=True, help="what the anonymizers are trained on")
    parser.add_argument("--judge-data", help="what they are judged on, where it is not the same")
    parser.add_argument("--name", help="what to call the data in the table")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--runs", type=Path, default=Path("runs/family"))
    parser.add_argument("--only", action="append", help="only trials of this name; repeat to name several")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=20, help="of every training of the judge")
    parser.add_argument("--attack", action="append", help="only these attackers")
    parser.add_argument("--lanes", type=int, default=1, help="processes side by side, for trials too small for a GPU")
    parser.add_argument("--device", default="auto")
    args = parser.parse_args()
    asked = tomllib.loads(args.trials.read_text())
    trials = [
        trial | {"config": asked.get("common", {}) | trial.get("config", {})}
        for trial in asked["trial"]
        if not args.only or trial["name"] in args.only
    ]
    rows: list[dict[str, Any]] = list(csv.DictReader(args.out.open())) if args.out.exists() else []
    todo: list[Job] = []
    for trial, seed in ((trial, seed) for seed in range(args.seeds) for trial in trials):
        strengths = [None, *trial.get("strengths", ())]
        missing = [at for at in strengths if not any(same(row, about(args, trial, seed, at)) for row in rows)]
        todo += [(trial, seed, missing)] if missing else []
    total = len(rows) + sum(len(missing) for _, _, missing in todo)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    for row in done(args, todo):
        rows.append(row)
        with args.out.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(dict.fromkeys(key for row in rows for key in row)), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
        print(f"{len(rows)} of {total}: {row}", flush=True)


if __name__ == "__main__":
    main()
