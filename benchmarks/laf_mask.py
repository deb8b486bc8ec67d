"""What LaF-Privacy's mask has learnt: how far apart the soft mask is, and what the model still reads behind the hard one.

    python benchmarks/laf_mask.py runs/laf/anonymizer --vlm vlm --out benchmarks/results/laf_mask.json

The zero-shot action on test clips of theatre:small-unseen is read from raw video; through f_A as it is used; through f_A with the
soft mask of training, and with none; from raw video under f_A's hard mask; and under a mask that keeps as many patches
at random, the same in every frame of a clip.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sfumato.anonymizers import load
from sfumato.anonymizers.masked_transformer import MaskedTransformer
from sfumato.datasets import open_dataset
from sfumato.evaluation.protocols.zero_shot import TEMPLATES, zero_shot
from sfumato.evaluation.provenance import commit, versions
from sfumato.recognizers.vlm import fill_prompts, load_vlm
from sfumato.recognizers.weights import checksum
from sfumato.training.device import hardware, pick_device

DATA, BATCH = "theatre:small-unseen", 32
SHARES = (0.01, 0.1, 0.5, 0.9, 0.99)  # quantiles of the soft mask


@torch.inference_mode()
def pictures(
    anonymizer: MaskedTransformer, video: Tensor, draw: torch.Generator
) -> tuple[dict[str, Tensor], Tensor, float]:
    """What the model is shown of clips (B, T, 3, H, W) in [0, 1], by name; the soft mask (B, T, N); the share kept."""
    tokens = anonymizer.encode(video)
    scores, painted = anonymizer.score(tokens), anonymizer.decode(tokens)
    soft, hard = anonymizer.soft_mask(scores), anonymizer.hard_mask(scores).float()
    kept = float(hard.mean())
    blind = (torch.rand(len(video), 1, anonymizer.places, generator=draw) < kept).float().expand_as(hard)
    shown = {
        "raw": video, "f_A": painted * anonymizer.spread(hard), "f_A, soft mask": painted * anonymizer.spread(soft),
        "f_A, no mask": painted, "raw, f_A's mask": video * anonymizer.spread(hard),
        "raw, a random mask": video * anonymizer.spread(blind.to(video.device)),
    }  # fmt: skip
    return shown, soft, kept


def measure(anonymizer: MaskedTransformer, vlm: str, device: torch.device) -> dict[str, Any]:
    """Top-1 of each picture, quantiles of the soft mask, the share of patches kept."""
    dataset, model = open_dataset(DATA), load_vlm(vlm)
    clips = dataset.split("test", "person")
    pixels, truth = dataset.clips(clips).pixels[:, 0], dataset.labels(clips).action
    with torch.inference_mode():
        text = model.embed_text(fill_prompts(TEMPLATES[0], dataset.phrases()))[None]
    anonymizer, draw = anonymizer.to(device).eval(), torch.Generator().manual_seed(0)
    right: dict[str, list[Tensor]] = {}
    masks, kept = [], []
    for some, actions in zip(pixels.split(BATCH), truth.split(BATCH), strict=True):
        shown, soft, share = pictures(anonymizer, some.to(device).float() / 255, draw)
        masks.append(soft.flatten().cpu())
        kept.append(share * len(some))
        for name, video in shown.items():
            picture = (video.clamp(0, 1) * 255).round().to(torch.uint8)[:, None]
            right.setdefault(name, []).append(zero_shot(model, picture, text, device).argmax(1) == actions)
    quantiles = torch.cat(masks).quantile(torch.tensor(SHARES)).tolist()
    return {
        "top1": {name: float(torch.cat(found).float().mean()) for name, found in right.items()},
        "soft_mask": dict(zip(map(str, SHARES), quantiles, strict=True)), "kept": sum(kept) / len(pixels),
        "clips": len(pixels), "guessing": 1 / len(dataset.actions),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("anonymizer", type=Path)
    parser.add_argument("--vlm", default="vlm")
    parser.add_argument("--name", default="", help="what to call it in the file")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, help="other names in it stay")
    args = parser.parse_args()
    device, anonymizer = pick_device(args.device), load(args.anonymizer)
    if not isinstance(anonymizer, MaskedTransformer):
        raise SystemExit(f"{args.anonymizer} has no mask: give one that laf has trained")
    found = measure(anonymizer, args.vlm, device)
    found |= {
        "weights_sha256": checksum(anonymizer),
        "hardware": hardware(device),
        "commit": commit(),
        "versions": versions(),
    }
    print(json.dumps(found, indent=1))
    if args.out:
        there = json.loads(args.out.read_text()) if args.out.exists() else {}
        args.out.write_text(json.dumps(there | {args.name or str(args.anonymizer): found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
