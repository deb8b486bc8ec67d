"""`sfumato demo`: the whole story on embedded data. A person acts, vanishes, and an attacker says what is left."""

from __future__ import annotations

import time
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import torch
from torch import Tensor

from sfumato.anonymizers import load
from sfumato.anonymizers.shelf import shelved
from sfumato.commands.console import err, out, say
from sfumato.commands.judge import QUICK_ATTACKS, judge_anonymizers
from sfumato.report import render_table, write_report
from sfumato.theatre.screenplay import perform
from sfumato.video import VideoWriter

_PLAIN, _TRAINED, _TOLD = "downsample:factor=8", "spact-small", "blacken-people"
_SIDE, _ENLARGE = 64, 5  # drawn as small as the clips that are judged, and shown larger


def run_demo(folder: Path, device: str) -> None:
    """A side-by-side video, a table, a JSON file and an HTML page under `folder`."""
    started = time.perf_counter()
    # Where only the package is installed there are no trained weights: then one that is told where people are.
    shown = (_PLAIN, _TRAINED if _TRAINED in shelved() else _TOLD)
    folder.mkdir(parents=True, exist_ok=True)
    err.print("1/3  a play, raw and through two anonymizers", highlight=False)
    _write_video(folder / "before-after.mp4", ("identity", *shown))
    say(f"video:  {folder / 'before-after.mp4'}")
    err.print("2/3  fresh models learn from each: what is done, and who does it", highlight=False)
    judged = judge_anonymizers(
        shown, "theatre:small", models="tiny", attacks=QUICK_ATTACKS, runs=folder / "runs", device=device
    )
    err.print("3/3  the judgement", highlight=False)
    out.print(render_table(judged.result))
    judged.result.save(folder / "result.json")
    write_report(judged.result, folder / "report.html", strips=judged.strips())
    say(f"report: {folder / 'report.html'}   ({time.perf_counter() - started:.0f} s in all)")
    say(
        "next:   sfumato judge blur pixelate --data manifest:YOUR_VIDEOS.csv   (what would your own footage give away?)"
    )


@torch.inference_mode()
def _write_video(path: Path, names: Sequence[str]) -> None:
    """The same play side by side through each anonymizer."""
    play = perform(0, 5, frames=96, side=_SIDE, kind="untrimmed")
    video, people = play.video[None].float() / 255, play.people[None].float()
    shown = []
    for name in names:
        anonymizer = load(name)
        shown.append(anonymizer(video, people=people) if anonymizer.needs_people else anonymizer(video))
    wide: Tensor = torch.cat(shown, dim=-1)[0]
    frames = (wide * 255).round().to(torch.uint8).repeat_interleave(_ENLARGE, 2).repeat_interleave(_ENLARGE, 3)
    with VideoWriter(path, Fraction(12), (frames.shape[2], frames.shape[3])) as writer:
        for frame in frames.permute(0, 2, 3, 1).numpy():
            writer.write(frame)
