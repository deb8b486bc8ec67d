"""Do a CPU and a GPU agree? STPrivacy's anonymizer on both: which tubelets are kept, and what is painted once that is held.

    python benchmarks/tubelet_agreement.py --weights runs/stprivacy/anonymizer --device cuda --out tubelet_agreement.json

Full precision on both sides, on clips of the theatre. Without weights the network is the published one, at random.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch
from torch import Tensor

from sfumato.anonymizers import load
from sfumato.anonymizers.tubelets import Decision, Tubelets
from sfumato.datasets.theatre import PRESETS, TheatreDataset
from sfumato.evaluation.provenance import commit, versions
from sfumato.training.device import hardware, pick_device

AT_ONCE = 16  # clips


def kept_otherwise(here: Decision, there: Decision, places: int) -> float:
    """The share of tubelets that one keeps to the end and the other does not."""
    ours, theirs = (decision.masks(places)[-1].cpu() for decision in (here, there))
    return float((ours != theirs).float().mean())


@torch.no_grad()
def compare(anonymizer: Tubelets, clips: Tensor, device: torch.device) -> dict[str, float]:
    """How often decisions differ between the CPU and `device`, and by how much pixels do with the CPU's decision held.

    >>> compare(Tubelets(embedding=48).eval(), torch.rand(2, 16, 3, 112, 112), torch.device("cpu"))
    {'decisions_differ': 0.0, 'pixels_differ': 0.0}
    """
    differ, furthest = [], 0.0
    for some in clips.split(AT_ONCE):
        here = anonymizer.cpu().decide(some)
        ours = anonymizer.forward_with(some, here)
        there = anonymizer.to(device).decide(some.to(device))
        held = Decision(tuple(kept.to(device) for kept in here.kept))
        theirs = anonymizer.forward_with(some.to(device), held)
        differ.append(kept_otherwise(here, there, anonymizer.places))
        furthest = max(furthest, float((ours - theirs.cpu()).abs().max()))
    return {"decisions_differ": sum(differ) / len(differ), "pixels_differ": furthest}


def fitting_theatre(anonymizer: Tubelets) -> TheatreDataset:
    """The theatre whose clips have the anonymizer's size."""
    for preset in PRESETS:
        data = TheatreDataset(preset)
        if (data.shape.frames, data.shape.height) == (anonymizer.frames, anonymizer.size):
            return data
    raise SystemExit(f"no theatre has clips of {anonymizer.frames} frames of {anonymizer.size}×{anonymizer.size}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", help="a trained anonymizer; none: the published network at random")
    parser.add_argument("--clips", type=int, default=64)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    device = pick_device(args.device)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.manual_seed(0)
    anonymizer = load(args.weights) if args.weights else Tubelets()
    if not isinstance(anonymizer, Tubelets):
        raise SystemExit(f"{args.weights} does not cut videos into tubelets")
    data = fitting_theatre(anonymizer)
    clips = data.clips(data.split("test", "person")[: args.clips]).pixels[:, 0].float() / 255
    found = {
        **compare(anonymizer.eval(), clips, device), "weights": args.weights or "random", "data": data.name, "clips": len(clips),
        "hardware": [hardware(torch.device("cpu")), hardware(device)], "commit": commit(), "versions": versions(),
    }  # fmt: skip
    print(json.dumps(found, indent=1))
    if args.out:
        args.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
