"""Does more effort find as much or more? Every shipped anonymizer of pictures before quick, standard and thorough attackers.

    python benchmarks/efforts.py --models tiny --device cuda --lanes 14 --out benchmarks/results/efforts_tiny.json
    python benchmarks/efforts.py --only spact-small --only blur --out efforts.json

On two CPU cores a thorough judgement takes about an hour, also with tiny networks; with half as many epochs half of that:

    python benchmarks/efforts.py --models tiny --epochs 3 --lanes 2 --out benchmarks/results/efforts_tiny_cpu.json

Of each anonymizer it is told what the headline's attackers find at each effort. `in_order`: no effort finds less than a smaller
one by more than both intervals together allow; null: one of them is inconclusive. Trainings are kept in --runs, so that the same
command goes on. `--lanes` processes share them: each begins with another judgement, and none sits what another one sits.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing as mp
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

from sfumato.anonymizers.shelf import shelved
from sfumato.commands.judge import judge_anonymizers
from sfumato.errors import SfumatoError
from sfumato.evaluation.effort import EFFORTS, find_effort
from sfumato.evaluation.provenance import commit, versions
from sfumato.evaluation.result import Result
from sfumato.training.device import hardware, pick_device
from sfumato.writing import to_json, write_whole


def told(result: Result) -> dict[str, Any]:
    """The headline of what was judged, and the strongest attacker on each target."""
    line = result.lines[-1]
    strongest = {
        best.target: {"attackers": best.attackers, "score": best.score.value, "residual": best.leakage.value}
        for best in line.strongest
    }
    head = line.headline
    return {
        "verdict": head.verdict, "residual": head.value, "low": head.low, "high": head.high, "action": line.utility.value,
        "action_raw": line.utility.raw, "attackers": len(line.attacks), "epochs": result.epochs, "strongest": strongest,
    }  # fmt: skip


def in_order(found: list[dict[str, Any]]) -> bool | None:
    """Whether residual leakage never falls from one effort to the next by more than both intervals allow; None: not told."""
    if any(each["verdict"] != "measured" for each in found):
        return None
    return all(
        more["residual"] - less["residual"] >= -math.hypot(less["residual"] - less["low"], more["high"] - more["residual"])
        for less, more in pairwise(found)
    )  # fmt: skip


def judged(name: str, effort: str, args: argparse.Namespace) -> Result:
    """One anonymizer before the attackers of that effort; what is kept in the folder is not done again."""
    epochs = args.epochs and round(args.epochs * find_effort(effort).epochs)
    return judge_anonymizers(
        [name], args.data, effort=effort, models=args.models, epochs=epochs, runs=args.runs, device=args.device
    ).result  # fmt: skip


def judge_all(args: argparse.Namespace, first: int) -> None:
    """Every judgement, from that one on round to the one before it, for others to find."""
    torch.set_num_threads(1)
    tasks = [(name, effort) for effort in reversed(EFFORTS) for name in args.only]  # the longest first
    for name, effort in tasks[first:] + tasks[:first]:
        judged(name, effort, args)


def judge_side_by_side(args: argparse.Namespace) -> None:
    """All of them by processes that share the folder."""
    count, context = len(args.only) * len(EFFORTS), mp.get_context("spawn")
    lanes = [context.Process(target=judge_all, args=(args, lane % count)) for lane in range(args.lanes)]
    for lane in lanes:
        lane.start()
    for lane in lanes:
        lane.join()
    if any(lane.exitcode for lane in lanes):
        raise SfumatoError("a lane broke down, see above", "what is done is kept: run again to go on")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--only", action="append", default=[], help="these anonymizers, of pictures; all that ship unless given"
    )
    parser.add_argument("--data", default="theatre:small")
    parser.add_argument("--models", default="auto", help="tiny or standard networks; auto: by the device")
    parser.add_argument(
        "--epochs", type=int, help="of a standard attacker; quick ones have half, thorough twice as many"
    )
    parser.add_argument("--runs", type=Path, default=Path("runs/efforts"))
    parser.add_argument("--device", default="auto")
    parser.add_argument("--lanes", type=int, default=1, help="processes side by side")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    args.only = args.only or list(shelved())
    if args.lanes > 1:
        judge_side_by_side(args)
    about = {
        "data": args.data,
        "models": args.models,
        "seed": 0,
        "hardware": hardware(pick_device(args.device)),
        "commit": commit(),
    }
    found = json.loads(args.out.read_text())["anonymizers"] if args.out.exists() else {}
    for name in args.only:
        lines = {}
        for effort in EFFORTS:
            lines[effort] = told(judged(name, effort, args))
            print(name, effort, json.dumps(lines[effort]), flush=True)
        found[name] = {"in_order": in_order(list(lines.values())), **about, "efforts": lines}
        args.out.parent.mkdir(parents=True, exist_ok=True)
        write_whole(args.out, to_json({"versions": versions(), "anonymizers": found}, indent=1))


if __name__ == "__main__":
    main()
