"""How long does SPLAVU train on precomputed features, and how many times longer would it on videos?

    python benchmarks/splavu_speed.py --device cpu --out benchmarks/results/splavu_speed_cpu.json
    python benchmarks/splavu_speed.py --clips 500 --epochs 10 --encoder tiny-video        # a small one

`sfumato train splavu` on a store of lone clips of noise, from opening the store to the saved adapter: speed does not depend on
what features say. On videos with augmentation, every clip and its two static clips would go through the encoder anew in every
epoch: that is measured on a few batches and multiplied. Encoding once and training on what is stored lies between.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

import torch

from sfumato.datasets.annotations import Annotation, add_annotations
from sfumato.datasets.feature_store import FeatureWriter, Manifest
from sfumato.evaluation.provenance import commit, versions
from sfumato.methods.splavu.config import SPLAVUConfig
from sfumato.methods.splavu.train import train
from sfumato.recognizers import make_recognizer
from sfumato.recognizers.encoders import RecognizerEncoder
from sfumato.training.device import hardware, pick_device
from sfumato.training.extraction import describe, encode
from sfumato.training.feature_data import FeatureStage
from sfumato.training.options import load_options, to_dict
from sfumato.training.run import RunFolder

STATIC = 2
CLASSES, WATCHED = 51, 128


def make_store(folder: Path, clips: int, width: int) -> str:
    """A store of that many training clips of noise, and some to watch by."""
    manifest = Manifest("noise", "0" * 64, (16, 112, 112), 1, width, 1 + STATIC)
    writer, draw, told = FeatureWriter(folder, manifest), torch.Generator().manual_seed(0), {}
    for number in range(clips + WATCHED):
        name, part = f"clip {number}", "train" if number < clips else "val"
        with writer.video(name) as rows:
            rows.add(0, torch.randn(1 + STATIC, width, generator=draw))
        told[name] = Annotation(name, f"action {number % CLASSES}", split={"person": part, "clip": part})
    add_annotations(folder, told)
    return f"features:{folder}"


def training_seconds(config: SPLAVUConfig, data: str, folder: Path, device: torch.device) -> float:
    """A whole training."""
    run = RunFolder.open(folder, {"method": "splavu", "config": to_dict(config), "seed": 0}, resume=False)
    started = time.perf_counter()
    train(config, FeatureStage(data, data, run, 0, device))
    return time.perf_counter() - started


def encoding_seconds(name: str, folder: Path, device: torch.device, batch: int, seconds: float) -> float:
    """Of one clip and its static clips, decoding and augmenting left out; the encoder's weights are at random."""
    weights = folder / "weights.pt"
    torch.save(make_recognizer(name, 1, clip=(16, 112, 112)).state_dict(), weights)
    encoder = RecognizerEncoder(name, weights).to(device)
    manifest, clips = (
        describe(encoder, name, static=STATIC),
        torch.randint(256, (batch, 16, 3, 112, 112), dtype=torch.uint8),
    )
    encode(encoder, clips, manifest, device)  # warming up
    started, done = time.perf_counter(), 0
    while time.perf_counter() - started < seconds:
        encode(encoder, clips, manifest, device)
        done += batch
    return (time.perf_counter() - started) / done


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clips", type=int, default=5000)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--set", dest="settings", action="append", default=[])
    parser.add_argument("--encoder", default="r3d-18", help="a video recognizer whose features would be trained on")
    parser.add_argument("--batch", type=int, default=8, help="clips that are encoded at a time")
    parser.add_argument("--seconds", type=float, default=20, help="how long the encoder is measured")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    device = pick_device(args.device)
    config = load_options(SPLAVUConfig, settings=[f"epochs={args.epochs}", *args.settings])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = make_store(folder / "features", args.clips, args.width)
        trained = training_seconds(config, data, folder / "run", device)
        each = encoding_seconds(args.encoder, folder, device, args.batch, args.seconds)
    once, anew = args.clips * each, args.clips * args.epochs * each
    found = {
        "seconds_on_features": trained, "seconds_to_encode_once": once, "seconds_on_videos": trained + anew,
        "factor": (trained + anew) / trained, "factor_with_encoding": (trained + anew) / (trained + once),
    }  # fmt: skip
    print(f"{args.clips} clips, D = {args.width}, {args.epochs} epochs on features: {trained:.1f} s")
    print(f"on videos, by {args.encoder}: {trained + anew:.0f} s, {found['factor']:.0f} times as long")
    print(f"encoding once: {once:.0f} s, with it {found['factor_with_encoding']:.1f} times")
    about = {"clips": args.clips, "width": args.width, "encoder": args.encoder, "config": to_dict(config)}
    made_with = {"hardware": hardware(device), "commit": commit(), "versions": versions()}
    if args.out:
        args.out.write_text(json.dumps({**found, **about, **made_with}, indent=1) + "\n")


if __name__ == "__main__":
    main()
