"""Makes the pictures of the README from the program itself.

    python docs/make_pictures.py                        # all that need nothing but what ships
    python docs/make_pictures.py --strips family-theatre.png --clip 64 --clip 301 \\
        --with runs/family/mosaic-0-7ffb46fc/anonymizer --with runs/family/spact-0-8a9101b6/anonymizer     # what you trained
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import torch
from PIL import Image
from torch import Tensor

from sfumato.anonymizers import load
from sfumato.anonymizers.masked_transformer import MaskedTransformer
from sfumato.anonymizers.tubelets import Tubelets
from sfumato.datasets.base import Clips, Part
from sfumato.datasets.theatre import TheatreDataset
from sfumato.evaluation.attacks import ATTACKS
from sfumato.evaluation.attacks.decode import Decode
from sfumato.evaluation.attacks.reconstruct import reconstructed
from sfumato.evaluation.exam import Desk, Examinee, Memory, asked
from sfumato.evaluation.material import anonymize_clips
from sfumato.training.fit import FitConfig

HERE = Path(__file__).parent
ROWS = ("identity", "downsample:factor=8", "strong-blur-people", "blacken-people", "spact-small")


def save(picture: Tensor, name: str, scale: int) -> None:
    """uint8 (3, H, W) as a small PNG with hard pixels."""
    image = Image.fromarray(picture.permute(1, 2, 0).numpy())
    image = image.resize((image.width * scale, image.height * scale), Image.Resampling.NEAREST)
    image.quantize(255).save(HERE / name, optimize=True)


@torch.inference_mode()
def strips(stage: TheatreDataset, indices: Tensor, names: Sequence[str], picture: str) -> None:
    """Clips one below the other, six moments of each, raw or through each anonymizer."""
    footage = stage.draw(indices)
    clips = Clips(footage.clips[:, None], footage.people[:, None])
    moments = torch.linspace(0, stage.shape.frames - 1, 6).round().long()
    shown = [anonymize_clips(load(name), clips, torch.device("cpu"))[:, 0, moments] for name in names]
    rows = [torch.cat(list(each[clip]), dim=2) for clip in range(len(indices)) for each in shown]
    save(torch.cat(rows, dim=1), picture, 112 // stage.shape.height)


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


def decoded(stage: TheatreDataset, name: str, indices: Tensor) -> None:
    """Clips raw, as an attacker gets them, and as a linear map of each tubelet gives them back (evaluation/attacks/decode.py)."""
    exam, anonymizer, device = ATTACKS.make("decode-frame"), load(name), torch.device("cpu")

    @cache
    def raw(part: Part) -> Tensor:
        return stage.clips(asked(exam, stage, part)).pixels

    @cache
    def shown(part: Part) -> Tensor:
        return anonymize_clips(anonymizer, Clips(raw(part), None), device)

    desk = Desk(exam, Examinee("tiny-frame", FitConfig()), stage, shown, raw, 0, device, None, Memory())
    decoder = Decode().network(desk)  # before it has learnt anything else
    pixels = stage.clips(indices).pixels
    hidden = anonymize_clips(anonymizer, Clips(pixels, None), device)
    rows = zip(pixels, hidden, reconstructed(decoder, hidden, 1, device), strict=True)
    picture = torch.cat([torch.cat(list(row[0]), dim=2) for clip in rows for row in clip], dim=1)
    save(picture, f"{name}-decoded.png", 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--strips", default="", help="only this picture: test clips, raw and through anonymizers")
    parser.add_argument("--preset", default="", help="of the theatre, such as small")
    parser.add_argument("--clip", type=int, action="append", default=[], help="number of a test clip of new people")
    parser.add_argument("--with", dest="names", action="append", default=[], help="name or folder of an anonymizer")
    args = parser.parse_args()
    if args.strips:
        stage = TheatreDataset(args.preset)
        strips(stage, stage.split("test", "person")[args.clip or [0]], ["identity", *args.names], args.strips)
        return
    theatre = TheatreDataset()
    strips(theatre, torch.tensor([64]), ROWS, "before-after.png")
    contact_sheet(theatre)
    small = TheatreDataset("small")
    for weights in ("stprivacy-small", "laf-small"):
        kept_and_repainted(small, weights, small.split("test", "person")[[30, 200]])
    decoded(small, "stprivacy-small", small.split("test", "person")[[30, 200]])


if __name__ == "__main__":
    main()
