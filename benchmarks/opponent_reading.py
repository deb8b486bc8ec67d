"""Which f_B learns to read raw video, and how soon? SPAct's, which looks for the other frame of a video among all others.

    python benchmarks/opponent_reading.py --out benchmarks/results/opponent_reading_cpu.json
    python benchmarks/opponent_reading.py --only tiny-frame --steps 600 --out benchmarks/results/opponent_reading_tiny_cpu.json
    python benchmarks/opponent_reading.py --data theatre:tiny --only tiny-frame --only mobilenet-v1 --only resnet-18 --steps 400 \
        --out benchmarks/results/opponent_reading_thumbnails_cpu.json
    python benchmarks/opponent_reading.py --data "manifest:PATH/index.csv?frames=8&size=32" --name "lsa64-b20, 8×32×32" \
        --only tiny-frame --steps 400 --out benchmarks/results/opponent_reading_lsa64_cpu.json

An f_B that reads nothing is no opponent. Here networks learn NT-Xent on pairs of raw frames, with nobody against them, and are
watched in eval mode on videos they have not seen: on frames cropped, greyed and erased as in training, and on plain ones.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch

from sfumato.commands.train import load_banks
from sfumato.evaluation.provenance import commit, versions
from sfumato.methods.spact.config import SPActConfig
from sfumato.training.batches import mix
from sfumato.training.dealing import Dealer
from sfumato.training.device import hardware, pick_device, settle
from sfumato.training.opponents import Lineup, make_opponent
from sfumato.training.optimisation import adam, descend
from sfumato.writing import to_json, write_whole

TRIED = [
    ("resnet-18", "batch", 1e-3),
    ("resnet-18", "group", 1e-3),
    ("resnet-50", "batch", 1e-3),
    ("resnet-50", "batch", 1e-4),
    ("mobilenet-v1", "batch", 1e-3),
    ("tiny-frame", "batch", 1e-3),
]


def learned(network: str, norm: Any, rate: float, deal: Dealer, args: argparse.Namespace) -> list[dict[str, float]]:
    """What it reads as it learns."""
    frames, _, height, width = deal.banks.privacy.pixels.shape[1:]
    torch.manual_seed(mix(args.seed, "first weights"))
    config = SPActConfig()
    lineup = Lineup("nt-xent", network, norm, (frames, height, width), (), (), config.temperature, "loss", 1.0, 0)
    reader = settle(make_opponent(lineup), deal.device)
    optimizer = adam(reader, rate, 0.0, deal.device)
    curve = []
    for step in range(args.steps):
        reader.train()
        loss, _ = reader.reading(deal.privacy_batch("reading", step, reader.level).picked())
        descend(loss, optimizer)
        if (step + 1) % args.every == 0:
            reader.eval()
            seen = {"step": step + 1, "L_B in training": float(loss.detach())}
            for kind in ("distorted", "plain"):
                with torch.no_grad():
                    views = deal.watched_views(reader.level, plain=kind == "plain").picked()
                    _, seen[f"reads {kind}"] = (float(value) for value in reader.watched(views))
            curve.append(seen)
            print(network, norm, rate, seen, flush=True)
    return curve


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="theatre:small")
    parser.add_argument("--name", default="", help="what to call the data in the table")
    parser.add_argument("--only", action="append", default=[], help="these networks; all that are tried unless given")
    parser.add_argument("--steps", type=int, default=250)
    parser.add_argument("--every", type=int, default=50)
    parser.add_argument("--batch", type=int, default=32, help="pairs in a batch")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    device = pick_device(args.device)
    config = SPActConfig(budget_update="updated", privacy_batch=args.batch)
    deal = Dealer(config, load_banks(args.data, args.data, device), seed=args.seed, device=device)
    about = {
        "data": args.name or args.data, "batch": args.batch, "seed": args.seed,
        "chance": 1 / (2 * len(deal.banks.watch_privacy) - 1),
        "hardware": hardware(device), "commit": commit(), "versions": versions(),
    }  # fmt: skip
    found = []
    for network, norm, rate in (each for each in TRIED if not args.only or each[0] in args.only):
        found.append(
            {"network": network, "norm": norm, "rate": rate, "curve": learned(network, norm, rate, deal, args)}
        )
        args.out.parent.mkdir(parents=True, exist_ok=True)
        write_whole(args.out, to_json({**about, "readers": found}, indent=1))


if __name__ == "__main__":
    main()
