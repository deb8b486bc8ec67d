"""Makes the pictures of the README from the program itself: `python docs/make_pictures.py`."""

from __future__ import annotations

from pathlib import Path

import torch
from PIL import Image
from torch import Tensor

from sfumato.anonymizers import load
from sfumato.anonymizers.masked_transformer import MaskedTransformer
from sfumato.anonymizers.tubelets import Tubelets
from sfumato.datasets.base import Clips
from sfumato.datasets.theatre import TheatreDataset
from sfumato.evaluation.material import anonymize_clips

HERE = Path(__file__).parent
ROWS = ("identity", "downsample:factor=8", "strong-blur-people", "blacken-people", "spact-small")


def save(picture: Tensor, name: str, scale: int) -> None:
    """uint8 (3, H, W) as a small PNG with hard pixels."""
    image = Image.fromarray(picture.permute(1, 2, 0).numpy())
    image = image.resize((image.width * scale, image.height * scale), Image.Resampling.NEAREST)
    image.quantize(255).save(HERE / name, optimize=True)


@torch.inference_mode()
def before_after(stage: TheatreDataset, index: int) -> None:
    """One clip, six moments of it, through each anonymizer."""
    footage = stage.draw(torch.tensor([index]))
    clips = Clips(footage.clips[:, None], footage.people[:, None])
    rows = []
    for name in ROWS:
        shown = anonymize_clips(load(name), clips, torch.device("cpu"))[0, 0, [0, 3, 6, 9, 12, 15]]
        rows.append(torch.cat(list(shown), dim=2))
    save(torch.cat(rows, dim=1), "before-after.png", 1)


def contact_sheet(stage: TheatreDataset) -> None:
    """Forty clips, the middle frame of each."""
    frames = stage.clips(torch.arange(40) + 120).pixels[:, 0, 8]
    rows = [torch.cat(list(frames[r : r + 10]), dim=2) for r in range(0, 40, 10)]
    save(torch.cat(rows, dim=1), "theatre.png", 1)


@torch.inference_mode()
def kept_and_repainted(stage: TheatreDataset, name: str, indices: Tensor) -> None:
    """Clips raw, what of them is kept, and what comes out, by an anonymizer that drops parts of a picture."""
    anonymizer, rows = load(name), []
    for video in stage.clips(indices).pixels.float() / 255:
        if isinstance(anonymizer, Tubelets):
            kept, output = anonymizer.keep(video), anonymizer(video)
        else:
            assert isinstance(anonymizer, MaskedTransformer)
            found = anonymizer.render(video)
            kept, output = video * anonymizer.spread(found.mask), found.output
        rows += [torch.cat(list(row[0]), dim=2) for row in (video, kept, output)]
    save((torch.cat(rows, dim=1) * 255).round().to(torch.uint8), f"{name}.png", 2)


if __name__ == "__main__":
    theatre = TheatreDataset()
    before_after(theatre, 64)
    contact_sheet(theatre)
    small = TheatreDataset("small")
    for weights in ("stprivacy-small", "laf-small"):
        kept_and_repainted(small, weights, small.split("test", "person")[[30, 200]])
