"""Does the code in the last bits of repainted tubelets survive the video file that `sfumato anonymize` writes?

    python benchmarks/decoded_codec.py --out benchmarks/results/decoded_codec.json

The share of the variance of raw pixels, in tubelets that are shown, that one linear map of each tubelet explains on test clips
(R²): from pictures of 8 bits, as the judge sees them, and from the same pictures after they were written and read. 0: the map
says no more than the mean tubelet. Both maps are reckoned from what they are asked about, as an attacker would, and the size of
the tubelets is that which is better on validation clips. Each clip is a file of its own.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from fractions import Fraction
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from sfumato.anonymizers import load
from sfumato.datasets import open_dataset
from sfumato.datasets.base import VideoDataset
from sfumato.evaluation.attacks.decode import SAMPLE, SIZES, Decoder
from sfumato.evaluation.material import anonymize_clips
from sfumato.evaluation.metrics import Interval, bootstrap
from sfumato.evaluation.provenance import commit, versions
from sfumato.evaluation.whitening import Size, cut
from sfumato.training.device import hardware
from sfumato.video import VideoWriter, read_frames

DATA = "theatre:small"
ANONYMIZERS = ("stprivacy-small", "laf-small")
CLIPS = {"train": 1000, "val": 200, "test": 400}  # of each part at most
RATE = Fraction(12)  # of the files, a second
CPU = torch.device("cpu")


def through_a_file(clips: Tensor, folder: Path) -> Tensor:
    """uint8 (N, T, 3, H, W) as they are after having been written by the project's writer and read again."""
    found, path = [], folder / "clip.mp4"
    for clip in clips.permute(0, 1, 3, 4, 2).numpy():
        with VideoWriter(path, RATE, clip.shape[1:3]) as writer:
            for frame in clip:
                writer.write(np.ascontiguousarray(frame))
        found.append(np.stack(list(read_frames(path))))
    return torch.from_numpy(np.stack(found)).permute(0, 1, 4, 2, 3)


def explained(decoder: Decoder, seen: Tensor, shown: Tensor, raw: Tensor, tubelet: Size) -> Interval:
    """R² over tubelets of clips (N, T, 3, H, W) of which `shown` shows anything, with an interval over clips."""
    missed, varied = [], []
    for given, kept, wanted in zip(seen, shown, raw, strict=True):
        tokens, there, truth = (cut(video[None].float() / 255, tubelet)[0] for video in (given, kept, wanted))
        some = there.any(1)
        guessed = decoder.linear((tokens[some] - decoder.mean) @ decoder.axes)
        missed.append(float((guessed - truth[some]).square().sum()))
        varied.append(float((decoder.linear.bias - truth[some]).square().sum()))
    errors, spread = np.array(missed), np.array(varied)
    return bootstrap(lambda rows: float(1 - errors[rows].sum() / spread[rows].sum()), len(errors))


def reckoned(seen: Tensor, shown: Tensor, raw: Tensor, tubelet: Size) -> Decoder:
    """The linear map from tubelets as they are seen to raw ones."""
    tokens, there, truth = (cut(video.float() / 255, tubelet) for video in (seen, shown, raw))
    some = there.any(2)
    chosen = torch.randperm(int(some.sum()), generator=torch.Generator().manual_seed(0))[:SAMPLE]
    clip = seen.shape[1], seen.shape[3], seen.shape[4]
    return Decoder(tubelet, clip, tokens[some][chosen], truth[some][chosen], width=1)


@torch.inference_mode()
def measured(name: str, dataset: VideoDataset) -> dict[str, object]:
    """What is explained of one anonymizer's tubelets, from 8 bits and from a file."""
    raw, shown, filed = {}, {}, {}
    for part, count in CLIPS.items():
        clips = dataset.clips(dataset.split(part, "clip")[:count])
        raw[part] = clips.pixels[:, 0]
        shown[part] = anonymize_clips(load(name), clips, CPU)[:, 0]
        with tempfile.TemporaryDirectory() as folder:
            filed[part] = through_a_file(shown[part], Path(folder))
    found: dict[str, object] = {}
    for way, seen in (("8 bits", shown), ("video file", filed)):
        maps = {size: reckoned(seen["train"], shown["train"], raw["train"], size) for size in SIZES}

        def share(size: Size, part: str) -> Interval:
            return explained(maps[size], seen[part], shown[part], raw[part], size)  # noqa: B023 - called at once

        best = max(SIZES, key=lambda size: share(size, "val").value)
        found[way] = {"r2": share(best, "test")._asdict(), "tubelet": best}
        print(name, way, found[way], flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    dataset = open_dataset(DATA)
    found = {name: measured(name, dataset) for name in ANONYMIZERS}
    about = {"data": DATA, "clips": CLIPS, "hardware": hardware(CPU), "commit": commit(), "versions": versions()}
    if args.out:
        args.out.write_text(json.dumps({**found, **about}, indent=1) + "\n")


if __name__ == "__main__":
    main()
