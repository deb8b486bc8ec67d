"""`sfumato features extract`: videos or a data set through a frozen encoder, once, into a folder; `import`: what others made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from sfumato.commands.console import bars, err, say
from sfumato.commands.judge import report_problems
from sfumato.datasets import open_dataset
from sfumato.datasets.feature_lists import annotate, describe_brought, read_lists, store, width_of
from sfumato.datasets.feature_store import MANIFEST, FeatureWriter, Manifest, read_manifest
from sfumato.errors import SfumatoError
from sfumato.recognizers.encoders import Encoder, load_encoder
from sfumato.training.device import pick_device
from sfumato.training.extraction import describe, extract, extract_items, files
from sfumato.training.feature_data import SCREENPLAY, Screenplays
from sfumato.video import find_videos
from sfumato.video.decode import SUFFIXES


def extract_features(
    sources: Sequence[str], encoder_name: str, folder: Path, *, static: int, frame_step: int, batch: int, strict: bool = False,
    device: str,
) -> None:  # fmt: skip
    """The features of every source that is not in `folder` yet; a video that fails is named, or stops it (`strict`)."""
    where = pick_device(device)
    encoder = load_encoder(encoder_name).to(where)
    manifest = describe(encoder, encoder_name, frame_step=frame_step, static=static)
    writer = FeatureWriter(folder, manifest)
    before = len(writer.done)
    failed = 0
    for source in sources:
        path = Path(source)
        if path.exists() or "*" in source or path.suffix.lower() in SUFFIXES:
            failed += _from_videos(encoder, find_videos(source), writer, manifest, where, batch, strict)
        else:
            _from_data(encoder, source, writer, where, batch, strict)
    _tell(writer, before, failed)


def _tell(writer: FeatureWriter, before: int, failed: int) -> None:
    """What is in the store now; an error where something is not."""
    clips, added = sum(video.clips for video in writer.done.values()), len(writer.done) - before
    say(
        f"{writer.folder}: {clips} clips of {len(writer.done)} videos, {added} of them new, width {writer.manifest.width}"
    )
    if failed:
        raise SfumatoError(f"{failed} of the videos could not be read", "mend or remove them, and run again to go on")


def import_features(
    lists: Sequence[Path], labels: Path, encoder: str, folder: Path, *, frames: int, strict: bool = False
) -> None:
    """The features that the lists name and that are not in `folder` yet; a file that fails is named, or stops it (`strict`).

    >>> import_features([Path("ucf-i3d.list")], Path("ucf-crime"), "i3d", Path("features"), frames=16)  # doctest: +SKIP
    """
    listed = read_lists(lists, labels)
    first = next((each.path for each in listed if each.path.is_file()), listed[0].path)
    if (Path(encoder) / MANIFEST).is_file():
        manifest = replace(read_manifest(Path(encoder) / MANIFEST), per_clip=1)
        manifest.require(manifest.weights_sha256, width_of(first))
    else:
        manifest = describe_brought(encoder, width_of(first), frames)
    writer = FeatureWriter(folder, manifest)
    before, failed = len(writer.done), 0
    with bars() as progress:
        task = progress.add_task("videos", total=len(listed), status="")
        for features in listed:
            try:
                if features.video not in writer.done:
                    store(features, writer)
            except SfumatoError as error:
                if strict:
                    raise
                failed += 1
                say(f"{features.where}: {error}", console=err, style="red")
            progress.advance(task)
    annotate(listed, writer)
    _tell(writer, before, failed)


def _from_videos(
    encoder: Encoder,
    videos: Sequence[Path],
    writer: FeatureWriter,
    manifest: Manifest,
    device: torch.device,
    batch: int,
    strict: bool,
) -> int:
    """How many of them failed."""
    failed = 0
    with bars() as progress:
        task = progress.add_task("videos", total=len(videos), status="")

        def show(video: str, clips: int) -> None:
            progress.update(task, status=f"{Path(video).name}: {clips} clips")

        for path in videos:
            try:
                extract(encoder, files([path], manifest, strict), writer, device=device, batch=batch, progress=show)
            except SfumatoError as error:
                if strict:
                    raise
                failed += 1
                say(f"{path}: {error}", console=err, style="red")
            progress.advance(task)
    return failed


def _from_data(
    encoder: Encoder, name: str, writer: FeatureWriter, device: torch.device, batch: int, strict: bool
) -> None:
    if name.startswith(SCREENPLAY):
        with bars() as progress:
            task = progress.add_task(name, total=None, status="")
            Screenplays(name).extract(
                encoder, writer, device, lambda done, total: progress.update(task, completed=done, total=total)
            )
        return
    dataset = open_dataset(name, strict=strict)
    with bars() as progress:
        task = progress.add_task(name, total=len(dataset), status="")
        extract_items(
            encoder, dataset, torch.arange(len(dataset)), writer, device=device, batch=batch,
            progress=lambda done, total: progress.update(task, completed=len(dataset) - total + done),
        )  # fmt: skip
    report_problems(dataset)
