"""What the kept tubelets of untrained weights say of those that were dropped, in the paper's mode and with two passes.

    python benchmarks/dropped_tubelets.py --out benchmarks/results/dropped_tubelets.json

Untrained, nothing was ever asked to hide or to keep anything: what comes through is the architecture's. Trained weights are
judged by claim V9.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path

import torch

from sfumato.anonymizers.tubelets import Tubelets
from sfumato.datasets import open_dataset
from sfumato.evaluation.dropped import read_dropped
from sfumato.evaluation.provenance import commit, versions
from sfumato.training.device import hardware, pick_device

DATA = "theatre:small"
NETWORK = {"embedding": 192, "patch": 8, "frames": 8, "size": 64, "stem": True}  # of V9's trials


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    device, dataset = pick_device(args.device), open_dataset(DATA)
    parts = [dataset.clips(dataset.split(part, "clip")).pixels for part in ("train", "val", "test")]
    found = {}
    for mode, two_pass in (("the paper's", False), ("two passes", True)):
        torch.manual_seed(args.seed)
        read = read_dropped(
            Tubelets(**NETWORK, two_pass=two_pass), *parts, epochs=args.epochs, seed=args.seed, device=device
        )
        found[mode] = asdict(read)
        print(f"{mode}: R² {read.value:.3f} [{read.low:.3f}, {read.high:.3f}]", flush=True)
    about = {"data": DATA, "network": NETWORK, "epochs": args.epochs, "seed": args.seed}
    made_with = {"hardware": hardware(device), "commit": commit(), "versions": versions()}
    if args.out:
        args.out.write_text(json.dumps({**found, **about, **made_with}, indent=1) + "\n")


if __name__ == "__main__":
    main()
