"""How much work does dropping tubelets save? STPrivacy's anonymizer as published, at several α against α = 1, in one run.

    python benchmarks/tubelet_speed.py --device cpu --out benchmarks/results/tubelet_speed_cpu.json

Multiply-adds are counted while the network runs, and reckoned from its settings: the two must agree. Times are the shortest
of forwards in eval mode that take turns: whatever else the machine does falls on all of them, and only ever adds.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from sfumato.anonymizers.tubelets import Tubelets
from sfumato.evaluation.provenance import commit, versions
from sfumato.training.device import hardware, pick_device


def counted(anonymizer: Tubelets, clip: Tensor) -> int:
    """The multiply-adds of one forward of one clip. The plain backend of attention is the one the counter knows everywhere."""
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        anonymizer(clip)
    return counter.get_total_flops() // 2


def seconds(anonymizer: Tubelets, clips: Tensor) -> float:
    """How long one forward takes."""
    started = time.perf_counter()
    anonymizer(clips)
    if clips.device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - started


@torch.no_grad()
def measure(anonymizer: Tubelets, clips: Tensor, alphas: Sequence[float], rounds: int) -> list[dict[str, float]]:
    """One row per α; the last must be 1, against which the shares are taken."""
    times: dict[float, list[float]] = {alpha: [] for alpha in alphas}
    for turn in range(rounds + 1):
        for alpha in alphas:
            anonymizer.alpha = alpha
            taken = seconds(anonymizer, clips)
            if turn:  # the first is warming up
                times[alpha].append(taken)
    rows = []
    for alpha in alphas:
        anonymizer.alpha = alpha
        per_clip = min(times[alpha]) / len(clips)
        work = {"multiply_adds": anonymizer.multiply_adds(), "multiply_adds_counted": counted(anonymizer, clips[:1])}
        rows.append({"alpha": alpha, **work, "seconds_per_clip": per_clip})
    whole = rows[-1]
    for row in rows:
        row["share_of_work"] = row["multiply_adds"] / whole["multiply_adds"]
        row["share_of_time"] = row["seconds_per_clip"] / whole["seconds_per_clip"]
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--alpha", type=float, action="append", help="0.5 and 0.7 unless given; 1 is always there")
    parser.add_argument("--embedding", type=int, default=384)
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--two-pass", action="store_true")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    device = pick_device(args.device)
    torch.manual_seed(0)
    anonymizer = Tubelets(embedding=args.embedding, two_pass=args.two_pass).eval().to(device)
    clips = torch.rand(args.batch, 16, 3, 112, 112, device=device)
    rows = measure(anonymizer, clips, [*(args.alpha or (0.5, 0.7)), 1.0], args.rounds)
    for row in rows:
        print(
            f"α = {row['alpha']:g}: {row['multiply_adds'] / 1e9:.2f} G multiply-adds "
            f"({row['multiply_adds_counted'] / 1e9:.2f} G counted), {row['share_of_work']:.1%} of the work, "
            f"{1000 * row['seconds_per_clip']:.0f} ms a clip, {row['share_of_time']:.1%} of the time"
        )
    settings = {key: value for key, value in anonymizer.settings().items() if key != "alpha"}
    about = {"settings": settings, "batch": args.batch, "rounds": args.rounds}
    made_with = {"hardware": hardware(device), "commit": commit(), "versions": versions()}
    if args.out:
        args.out.write_text(json.dumps({"by_alpha": rows, **about, **made_with}, indent=1) + "\n")


if __name__ == "__main__":
    main()
