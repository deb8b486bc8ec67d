"""Raw clips and, below them, what each of several anonymizers shows of them and makes of them.

    python benchmarks/strips.py --data theatre:small-unseen --out docs/laf-ablations.png \
        "as it is=runs/claims/laf-0-…/anonymizer" "unmasked=runs/claims/laf,-unmasked-0-…/anonymizer"

The pairs are a label and what `load` takes: a name or a folder. Each row is one anonymizer, each column a frame of a clip of new
people; to the right of a frame stands its mask, for anonymizers that have one: what is white is shown.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from matplotlib.figure import Figure
from torch import Tensor

from sfumato.anonymizers import Anonymizer, load
from sfumato.anonymizers.base import PartialAnonymizer
from sfumato.datasets import open_dataset
from sfumato.training.device import pick_device

Panels = list[Tensor | None]  # a picture (H, W, 3) or a mask (H, W) in [0, 1]; None: an empty place


def panels(anonymizer: Anonymizer | None, clips: Tensor) -> Panels:
    """The middle frame of every clip, and its mask beside it; `clips` (N, T, 3, H, W) in [0, 1]. No anonymizer: as they are."""
    shown, masks = clips, None
    if isinstance(anonymizer, PartialAnonymizer):
        shown, masks = anonymizer.forward_and_mask(clips)
    elif anonymizer is not None:
        shown = anonymizer(clips)
    middle = clips.shape[1] // 2
    found: Panels = []
    for number, clip in enumerate(shown):
        mask = None if masks is None else masks[number, middle].squeeze().float().cpu()
        found += [clip[middle].permute(1, 2, 0).cpu(), mask]
    return found


def draw(rows: dict[str, Panels], path: Path) -> None:
    """One row for each label."""
    columns = max(len(row) for row in rows.values())
    figure = Figure(figsize=(1.1 * columns + 1.6, 1.12 * len(rows)), layout="constrained", facecolor="white")
    for line, (label, row) in zip(figure.subplots(len(rows), columns, squeeze=False), rows.items(), strict=True):
        for axes, picture in zip(line, row, strict=True):
            axes.axis("off")
            if picture is not None:
                axes.imshow(picture, vmin=0, vmax=1, cmap="gray", interpolation="nearest")
        line[0].text(-0.08, 0.5, label, transform=line[0].transAxes, ha="right", va="center", fontsize=9)
    figure.savefig(path, dpi=110, metadata={"Software": None})


@torch.inference_mode()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("anonymizers", nargs="+", metavar="LABEL=ANONYMIZER")
    parser.add_argument("--data", default="theatre:small")
    parser.add_argument("--clips", type=int, default=4)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    device, dataset = pick_device(args.device), open_dataset(args.data)
    test = dataset.split("test", "person")
    some = test[torch.linspace(0, len(test) - 1, args.clips).long()]
    clips = dataset.clips(some, device=device).pixels[:, 0].to(device).float() / 255
    rows = {"raw": panels(None, clips)}
    for named in args.anonymizers:
        label, _, what = named.partition("=")
        rows[label] = panels(load(what).to(device).eval(), clips)
    draw(rows, args.out)


if __name__ == "__main__":
    main()
