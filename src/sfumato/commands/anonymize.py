"""`sfumato anonymize`: copies of videos with the people's looks taken out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sfumato.anonymizers import label, load
from sfumato.anonymizers.detectors import make_detector
from sfumato.anonymizers.streaming import anonymize_file
from sfumato.commands.console import bars, err, out
from sfumato.errors import SfumatoError
from sfumato.training.device import pick_device
from sfumato.video import find_videos

_MARK = "-anonymized"
_FILES = {".mp4", ".m4v", ".mov", ".mkv"}


def targets(sources: Sequence[str], output: Path | None) -> list[tuple[Path, Path]]:
    """Each video with where its copy goes: beside it, into the folder `output`, or to the file `output`.

    >>> targets(["clip.mp4"], Path("hidden.mp4"))  # doctest: +SKIP
    [(PosixPath('clip.mp4'), PosixPath('hidden.mp4'))]
    """
    found: list[tuple[Path, Path]] = []
    for source in sources:
        root = Path(source) if Path(source).is_dir() else None
        # Copies made by an earlier run lie beside their originals: they are not sources.
        videos = [v for v in find_videos(source) if not v.stem.endswith(_MARK)]
        for video in videos:
            inside = video.relative_to(root) if root else Path(video.name)
            here = video.with_name(f"{video.stem}{_MARK}.mp4")
            found.append((video, output / inside.with_suffix(".mp4") if output else here))
    if not found:
        raise SfumatoError(f"there are only anonymized copies in '{sources[0]}'", "name a folder with originals")
    if output and output.suffix.lower() in _FILES and not output.is_dir():
        if len(found) > 1:
            raise SfumatoError(f"{len(found)} videos cannot all become '{output}'", "give a folder with -o")
        return [(found[0][0], output)]
    doubles = {t for _, t in found if sum(other == t for _, other in found) > 1}
    if doubles:
        raise SfumatoError(f"two videos would both become '{min(doubles)}'", "anonymize their folders one by one")
    return found


def anonymize_videos(
    sources: Sequence[str], output: Path | None, using: str, *, strength: float | None, audio: str, detector: str | None,
    checkpoint: str | None, overwrite: bool, device: str,
) -> None:  # fmt: skip
    """Anonymize every source; one that fails is named, and the others go on."""
    anonymizer = load(using, strength=strength)
    where = pick_device(device)
    if anonymizer.needs_people and detector is None:
        raise SfumatoError(
            f"'{label(anonymizer)}' must be told where people are",
            "add --detector faces (pip install 'sfumato[faces]') or --detector people --checkpoint DIR",
        )
    find_people = make_detector(detector, checkpoint=checkpoint) if detector and anonymizer.needs_people else None
    jobs = targets(sources, output)
    if len(jobs) == 1 and jobs[0][1].exists() and not overwrite:
        raise SfumatoError(f"'{jobs[0][1]}' exists", "add --overwrite to replace it, or name another with -o")
    failed = 0
    with bars() as progress:
        for source, target in jobs:
            if target.exists() and not overwrite:
                out.print(f"{target}: already there", highlight=False, markup=False)
                continue
            task = progress.add_task(source.name, total=None, status=label(anonymizer))

            def show(done: int, total: int | None, task=task) -> None:  # type: ignore[no-untyped-def]
                progress.update(task, completed=done, total=total)

            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                done = anonymize_file(
                    anonymizer, source, target, audio="keep" if audio == "keep" else "drop", device=where,
                    people=find_people, progress=show,
                )  # fmt: skip
            except SfumatoError as error:
                if len(jobs) == 1:
                    raise
                failed += 1
                err.print(f"error: {source}: {error}", highlight=False, markup=False)
                continue
            finally:
                progress.remove_task(task)
            for warning in done.warnings:
                err.print(f"warning: {warning}", style="yellow", highlight=False, markup=False)
            told = f"{target}: {done.frames} frames with {label(anonymizer)}"
            if done.frames_without_people is not None:
                told += f", {detector} found in {done.frames - done.frames_without_people} of them"
            out.print(told, highlight=False, markup=False)
    if failed:
        raise SfumatoError(f"{failed} of {len(jobs)} videos could not be anonymized", "see the lines above")
