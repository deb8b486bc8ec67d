"""How fast the theatre draws 16×112×112 clips.

python benchmarks/theatre_speed.py --device cpu --out benchmarks/results/theatre_speed_cpu.json
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import torch

from sfumato.datasets.theatre import TheatreDataset
from sfumato.evaluation.provenance import commit, versions
from sfumato.training.device import hardware, pick_device


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="auto")
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    device = pick_device(args.device)
    batch = 2048 if device.type == "cuda" else 128
    stage = TheatreDataset()

    def draw(start: int) -> None:
        stage.clips(torch.arange(start, start + batch) % len(stage), device=device)
        if device.type == "cuda":
            torch.cuda.synchronize()

    draw(0)  # warm up
    clips, started = 0, time.perf_counter()
    while time.perf_counter() - started < args.seconds:
        draw(clips)
        clips += batch
    rate = clips / (time.perf_counter() - started)
    about = {"clips_per_second": round(rate, 1), "clip": "16x112x112", "batch": batch, "hardware": hardware(device)}
    found = {**about, "versions": versions(), "commit": commit()}
    print(json.dumps(found, indent=1))
    if args.out:
        args.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
