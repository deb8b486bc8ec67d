"""How fast is the minimax game? Clips per second through SPAct's two steps, as published: U-Net 32, R3D-18, ResNet-50.

    python benchmarks/train_speed.py --device cuda --out benchmarks/results/train_speed_h200.json

A clip in step 1 (f_A moves) and a clip in step 2 (f_T and f_B move) count one each. Clips are 16×112×112, on the device as 8-bit
pixels; drawing, augmenting and the optimizers are part of the time, loading is not.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import torch

from sfumato.evaluation.provenance import commit, versions
from sfumato.methods.spact.config import SPActConfig
from sfumato.training.bank import Bank
from sfumato.training.contest import minimax
from sfumato.training.dealing import Banks
from sfumato.training.device import find_fast_kernels, hardware, pick_device
from sfumato.training.frame_game import FrameGame
from sfumato.training.options import load_options


def made_up(count: int, shape: tuple[int, int, int], device: torch.device) -> Bank:
    """Noise of the right shape: speed does not depend on what is seen."""
    frames, height, width = shape
    pixels = torch.randint(256, (count, frames, 3, height, width), dtype=torch.uint8, device=device)
    labels = torch.arange(count, device=device)
    return Bank("noise", pixels, torch.arange(frames).expand(count, -1), labels % 20, labels[:, None] % 10, (10,), True)


def measure(batch: int, recipe: Path, settings: list[str], device: torch.device, seconds: float) -> float:
    """Clip-steps per second, after ten steps of warming up."""
    settings = [f"batch={batch}", f"privacy_batch={batch}", *settings]
    config = load_options(SPActConfig, recipe=recipe, settings=settings)
    bank = made_up(4 * batch, (16, 112, 112), device)
    game = FrameGame(config, Banks(bank, bank, bank, bank, 20), seed=0, device=device)
    step = minimax(game, game.adversarial_terms, game.action_loss).step
    done, started = 0, 0.0
    while True:
        step(done)
        done += 1
        if done == 10 or (done > 10 and done % 5 == 0):
            if device.type == "cuda":
                torch.cuda.synchronize()
            if done == 10:
                started = time.perf_counter()
            elif time.perf_counter() - started > seconds:
                return 2 * batch * (done - 10) / (time.perf_counter() - started)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipe", type=Path, default=Path("recipes/spact-paper.toml"))
    parser.add_argument("--set", dest="settings", action="append", default=["width=32"])
    parser.add_argument("--batch", type=int, action="append", help="32 and 64 unless given")
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    device = pick_device(args.device)
    find_fast_kernels()
    found = {}
    for batch in args.batch or (32, 64):
        found[str(batch)] = measure(batch, args.recipe, args.settings, device, args.seconds)
        print(f"batch {batch}: {found[str(batch)]:.0f} clip-steps/s", flush=True)
    about = {"settings": args.settings, "hardware": hardware(device), "commit": commit(), "versions": versions()}
    if args.out:
        args.out.write_text(json.dumps({"clip_steps_per_second_by_batch": found, **about}, indent=1) + "\n")


if __name__ == "__main__":
    main()
