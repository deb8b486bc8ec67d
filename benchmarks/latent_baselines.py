"""Do TriDet and MGFN find more in raw theatre features than simple means do?

    python benchmarks/latent_baselines.py --encoder r3d-18:r3d_18.pth --out benchmarks/results/latent_baselines.json
    python benchmarks/latent_baselines.py --encoder FOLDER_OR_HUB_ID --videos 20 --frames 128 --epochs 2     # a small one

Long plays are drawn and encoded once, into --features where that is given. TriDet stands against a linear classifier of single
clips whose answers are strung together, as they are and smoothed, with the smoothing that suits it best on the very videos it is
judged on, which TriDet is not granted. MGFN stands against the length of the features, turned round where that is better.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

import torch

from sfumato.datasets.feature_store import FeatureStore, FeatureWriter
from sfumato.evaluation.latent import LatentConfig
from sfumato.evaluation.latent.anomaly import AnomalyProtocol, scores_of
from sfumato.evaluation.latent.baselines import clip_classifier, magnitude_scores
from sfumato.evaluation.latent.detection import DetectionProtocol, find, mean_map
from sfumato.evaluation.metrics import CHANCE_AUC, frame_auc
from sfumato.evaluation.provenance import commit, versions
from sfumato.recognizers.encoders import load_encoder
from sfumato.training.device import hardware, pick_device
from sfumato.training.extraction import describe
from sfumato.training.feature_data import FeatureSet, Screenplays, read_features

SMOOTH = (1, 3, 5, 7)


def encode(encoder: str, folder: Path, videos: int, frames: int, device: torch.device) -> dict[str, FeatureSet]:
    """Plays of both kinds; what is in the folder already is not drawn again."""
    network, found = load_encoder(encoder).to(device), {}
    for kind in ("untrimmed", "surveillance"):
        plays = Screenplays(f"screenplay:{kind}?videos={videos}&frames={frames}")
        writer = FeatureWriter(folder / kind, describe(network, encoder))
        plays.extract(
            network, writer, device, lambda done, total, kind=kind: print(f"{kind}: {done}/{total}", end="\r")
        )
        store = FeatureStore(folder / kind)
        found[kind] = read_features(plays.name, store, plays.annotations, device, lambda done, total: None)
        print(f"{kind}: {len(store)} videos, {int(found[kind].count.sum())} clips")
    return found


def detection(data: FeatureSet, config: LatentConfig, seed: int, device: torch.device) -> dict[str, float]:
    """mAP, the mean over tIoU .3 to .7."""
    protocol = DetectionProtocol(data, config, device)
    if protocol.lacks:
        raise SystemExit(f"{data.name} {protocol.lacks}: draw more videos")
    test, classes = protocol.videos.parts.test, len(protocol.videos.labels)
    rights = protocol.videos.rights(test)
    found = find(protocol.train(data, seed), data, test)
    runs = {n: mean_map(clip_classifier(data, protocol.videos, seed, n), rights, classes) for n in SMOOTH}
    return {
        "tridet": mean_map(found, rights, classes), "clips": runs[1], "clips_smoothed": max(runs.values()),
        "next_video": mean_map([*found[1:], *found[:1]], rights, classes),
    }  # fmt: skip


def anomaly(data: FeatureSet, config: LatentConfig, seed: int, device: torch.device) -> dict[str, float]:
    """Frame AUC."""
    protocol = AnomalyProtocol(data, config, device)
    if protocol.lacks:
        raise SystemExit(f"{data.name} {protocol.lacks}: draw more videos")
    test = protocol.parts.test
    truth = [frames for video in test.tolist() if (frames := protocol.frames[video]) is not None]
    length = frame_auc(magnitude_scores(data, test), truth)
    return {
        "mgfn": frame_auc(scores_of(protocol.train(data, seed), data, test), truth),
        "magnitude": max(length, 1 - length), "chance": CHANCE_AUC,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoder", required=True, help="a folder or Hub id, or NAME:WEIGHTS of a video recognizer")
    parser.add_argument("--features", type=Path, help="where features are kept; else they are thrown away")
    parser.add_argument("--videos", type=int, default=300, help="of each kind; every fifth is tested on")
    parser.add_argument("--frames", type=int, default=512)
    parser.add_argument("--epochs", type=int, default=0, help="of TriDet and of MGFN; 0: as many as the judge takes")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--models", default="tiny", help="tiny or standard")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    device, config = pick_device(args.device), LatentConfig(args.models, args.epochs)
    with tempfile.TemporaryDirectory() as scratch:
        data = encode(args.encoder, args.features or Path(scratch), args.videos, args.frames, device)
        found: dict[str, Any] = {}
        for name, measure, kind in (("mAP", detection, "untrimmed"), ("AUC", anomaly, "surveillance")):
            each = [measure(data[kind], config, seed, device) for seed in range(args.seeds)]
            found[name] = {key: [one[key] for one in each] for key in each[0]}
            for key, values in found[name].items():
                print(f"{name} {key}: {statistics.mean(values):.3f}  ({', '.join(f'{v:.3f}' for v in values)})")
    about = {key: str(value) if isinstance(value, Path) else value for key, value in vars(args).items() if key != "out"}
    made_with = {"hardware": hardware(device), "commit": commit(), "versions": versions()}
    if args.out:
        args.out.write_text(json.dumps({**found, **about, **made_with}, indent=1) + "\n")


if __name__ == "__main__":
    main()
