"""`sfumato data prepare`: a data set of video files brought down to one size, as small files or as shards.

Nothing heavy is imported before the command runs, since its options are declared here.
"""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from sfumato.errors import SfumatoError

if TYPE_CHECKING:
    from sfumato.datasets.files import FileDataset


def prepare(
    source: Annotated[str, typer.Argument(help="a data set of video files by name, or its folder", metavar="SOURCE")],
    output: Annotated[Path, typer.Option("-o", "--out", help="the folder it goes into; run again to go on")],
    short_side: Annotated[int, typer.Option(min=16, help="pixels; smaller videos stay as they are")] = 128,
    fps: Annotated[float | None, typer.Option(min=0.1, help="frames per second; as they are unless given")] = None,
    shards: Annotated[int | None, typer.Option(min=1, help="so many tar files, instead of small videos")] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="processes that decode; all cores unless given")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="stop at the first video that cannot be read")] = False,
) -> None:
    """Decode every video of a data set once, and keep it small: for training again and again, or on many machines."""
    from sfumato.commands.console import bars, err, say
    from sfumato.datasets.base import Course
    from sfumato.datasets.decoding import cores

    dataset = _file_dataset(source, strict)
    _check_place(dataset, output)
    _check_kind(dataset, shards)
    for problem in dataset.problems:
        say(f"left out: {problem}", console=err, style="yellow")
    if shards is None and any(dataset.course(n) != Course() for n in range(len(dataset))):
        say("index.csv cannot say when what happens in a video: --shards keeps that", console=err, style="yellow")
    rate = Fraction(fps).limit_denominator(1001) if fps else None

    def tell(video: object, why: str) -> None:
        say(f"left out: {why}", console=err, style="yellow")

    with bars() as progress:
        task = progress.add_task(output.name, total=len(dataset), status="")

        def show(done: int, total: int) -> None:
            progress.update(task, completed=done, total=total)

        make = partial(_into_files, fps=rate) if shards is None else partial(_into_shards, fps=rate, shards=shards)
        kept, left_out = make(
            dataset, output, short_side=short_side, workers=workers or cores(), strict=strict, tell=tell, show=show
        )
    restart = f"?least={dataset.least}" if dataset.least else ""
    name = f"manifest:{output / 'index.csv'}{restart}" if shards is None else f"shards:{output}"
    missing = f", {left_out} left out" if left_out else ""
    say(f"{name}: {kept} clips{missing}")


def _file_dataset(source: str, strict: bool) -> FileDataset:
    from sfumato.datasets import open_dataset, reads_files
    from sfumato.datasets.files import FileDataset

    if Path(source).is_dir():
        source = f"folder:{source}"
    elif not reads_files(source) and Path(source).suffix.lower() == ".csv":
        source = f"manifest:{source}"
    dataset = open_dataset(source, strict=strict)
    if not isinstance(dataset, FileDataset):
        raise SfumatoError(f"{source} is not made of video files", "use it as it is")
    return dataset


def _check_place(dataset: FileDataset, output: Path) -> None:
    """What is written must neither take the place of the source, nor be found there as new videos by the next run."""
    place, root = output.resolve(), Path(dataset.name.partition(":")[2].partition("?")[0]).resolve()
    table = root if root.is_file() else None
    inside = root.is_dir() and place.is_relative_to(root)
    if inside or (table and table.parent == place) or any(place in row.path.resolve().parents for row in dataset.rows):
        raise SfumatoError(f"'{output}' is where the videos are", "choose a folder beside it with -o")
    if output.is_file():
        raise SfumatoError(f"'{output}' is a file", "give -o a folder")


def _check_kind(dataset: FileDataset, shards: int | None) -> None:
    """What is no video, or does not fit into index.csv, is refused before anything is made."""
    from sfumato.datasets.pictures import PictureDataset

    if isinstance(dataset, PictureDataset) or any(row.path.is_dir() for row in dataset.rows):
        raise SfumatoError(f"{dataset.name} is made of pictures, not of videos", "use it as it is")
    if shards is None and (dataset.several_actions or not all(row.action for row in dataset.rows)):
        raise SfumatoError(
            "index.csv cannot hold videos that show several actions, or none", "give --shards, such as --shards 8"
        )


def _described(dataset: FileDataset) -> list[dict[str, Any]]:
    """Of every clip, what a shard says about it: names, split, and labels by number; attributes only where not 0."""
    import torch

    names = [spec.name for spec in dataset.labelled()]
    everything = torch.arange(len(dataset))
    labels = (dataset.about(names) if names else dataset).labels(everything)
    known: list[dict[str, Any]] = []
    for n, name in enumerate(_sources(dataset)):
        values = labels.attributes[n]
        told = {str(column): int(values[column]) for column in values.nonzero().flatten().tolist()}
        action, person = int(labels.action[n]), int(labels.person[n])
        about = {"source": name, "recording": dataset.rows[n].group, "action": action, "person": person}
        known.append({**about, "attributes": told, "split": {}, **_course(dataset, n)})
    for by in ("person", "clip"):
        for part in ("train", "val", "test"):
            for index in dataset.split(part, by).tolist():
                known[index]["split"][by] = part
    return known


def _course(dataset: FileDataset, index: int) -> dict[str, Any]:
    """What is known about a whole video, if anything, with the number of frames by which segments are counted."""
    segments, anomalous = dataset.course(index)
    told: dict[str, Any] = {} if anomalous is None else {"anomalous": anomalous}
    if segments is None:
        return told
    spans = [[segment.start, segment.end, segment.label] for segment in segments]
    return {**told, "segments": spans, "segments_of": dataset.rows[index].frames}


def _sources(dataset: FileDataset) -> list[str]:
    """The videos' names below the folder they have in common: where that is, is nobody's business later."""
    paths = [row.path.resolve() for row in dataset.rows]
    root = Path(os.path.commonpath([path.parent for path in paths]))
    # A name that is not UTF-8 is spelled out: JSON and CSV cannot hold it.
    return [os.fsencode(path.relative_to(root)).decode("utf-8", "backslashreplace") for path in paths]


def _into_shards(
    dataset: FileDataset, output: Path, *, short_side: int, fps: Fraction | None, shards: int, workers: int, strict: bool,
    tell: Callable[[object, str], object], show: Callable[[int, int], None],
) -> tuple[int, int]:  # fmt: skip
    from sfumato.datasets.shard_writing import PlannedClip, ShardWriter

    known = _described(dataset)
    clips = [PlannedClip(row.path, about) for row, about in zip(dataset.rows, known, strict=True)]
    labels = {
        "actions": dataset.actions, "persons": dataset.persons, "phrases": dataset.phrases(),
        "labelled": {spec.name: spec.values for spec in dataset.labelled()},
        "attributes": [spec.name for spec in dataset.attributes], "mirror_safe": dataset.mirror_safe,
        "several_actions": dataset.several_actions, "of": _made_of(dataset),
    }  # fmt: skip
    writer = ShardWriter(output, clips, labels, short_side=short_side, fps=fps, shards=shards)
    return writer.write(workers=workers, strict=strict, tell=tell, progress=show)


def _made_of(dataset: FileDataset) -> dict[str, Any] | None:
    """Of the papers' data sets: whose labels these are, with every choice that was made; see datasets/prepared.py."""
    from sfumato.datasets.listed import ListedDataset

    if not isinstance(dataset, ListedDataset):
        return None
    return {"kind": dataset.kind, "options": dataset.place.chosen, "usual": dataset.place.usual}


def _into_files(
    dataset: FileDataset, output: Path, *, short_side: int, fps: Fraction | None, workers: int, strict: bool,
    tell: Callable[[object, str], object], show: Callable[[int, int], None],
) -> tuple[int, int]:  # fmt: skip
    from sfumato.datasets.decoding import in_order
    from sfumato.datasets.listed import ListedDataset
    from sfumato.datasets.prepared import SETTINGS
    from sfumato.writing import to_json, write_whole

    output.mkdir(parents=True, exist_ok=True)
    settings = {"short_side": short_side, "fps": str(fps) if fps else None}
    _same_settings(output / SETTINGS, settings)
    write_whole(output / SETTINGS, to_json(settings))
    listed = isinstance(dataset, ListedDataset)
    targets = [_target(output, name, listed) for name in _sources(dataset)]
    # A file that several rows name is made once.
    jobs = {target: row.path for target, row in zip(targets, dataset.rows, strict=True)}
    missing = [Shrinking(path, target) for target, path in jobs.items() if not _made(path, target)]
    done = len(jobs) - len(missing)

    def step() -> None:
        nonlocal done
        done += 1
        show(done, len(jobs))

    def note(video: Shrinking, why: str) -> None:
        tell(video, why)
        step()

    job = partial(shrink, short_side=short_side, fps=fps)
    for _ in in_order(job, missing, workers=workers, strict=strict, tell=note):
        step()
    kept = [n for n, target in enumerate(targets) if _made(dataset.rows[n].path, target)]
    if not kept:
        raise SfumatoError("none of the videos could be read", "see the lines above")
    if isinstance(dataset, ListedDataset):
        for path in dataset.place.used:
            copy = output / path.relative_to(dataset.place.labels)
            copy.parent.mkdir(parents=True, exist_ok=True)
            write_whole(copy, path.read_bytes())
    write_whole(output / "index.csv", _table(dataset, [t.relative_to(output).as_posix() for t in targets], kept))
    return len(kept), len(targets) - len(kept)


class Shrinking(NamedTuple):
    """A video, and where it goes."""

    path: Path
    target: Path

    def __str__(self) -> str:
        return str(self.path)


def shrink(job: Shrinking, short_side: int, fps: Fraction | None) -> None:
    """One video written again, small; a damaged one is a SfumatoError and leaves nothing.

    >>> shrink(Shrinking(Path("street.mp4"), Path("small/street.mp4")), 128, None)  # doctest: +SKIP
    """
    from sfumato.datasets.decoding import frames_at
    from sfumato.video import VideoWriter, probe

    path, target = job
    changed = path.stat().st_mtime_ns
    rate = fps or probe(path).fps
    target.parent.mkdir(parents=True, exist_ok=True)
    frames = frames_at(path, short_side, fps=fps)
    first = next(frames)
    with VideoWriter(target, rate, (first.shape[0], first.shape[1])) as writer:
        writer.write(first)
        for frame in frames:
            writer.write(frame)
    os.utime(target, ns=(changed, changed))  # by which the next run knows it: see _made


def _made(path: Path, target: Path) -> bool:
    """Whether an earlier run has made it of the video as it is now. Some file systems keep only even seconds."""
    return target.is_file() and abs(target.stat().st_mtime - path.stat().st_mtime) < 2


def _target(output: Path, name: str, listed: bool) -> Path:
    if listed:  # its loader knows the file by its name, whatever the suffix
        return output / "clips" / f"{os.path.splitext(name)[0]}.mp4"
    # "a.avi" becomes "a.avi.mp4", since "a.mp4" may be there too.
    return output / "clips" / (name if name.lower().endswith(".mp4") else f"{name}.mp4")


def _same_settings(path: Path, now: dict[str, Any]) -> None:
    if not path.exists():
        return
    try:
        before = json.loads(path.read_text(encoding="utf-8"))
        different = next((key for key in now if before.get(key) != now[key]), None)
    except (ValueError, AttributeError) as error:
        raise SfumatoError(f"'{path}' is damaged", "choose another folder") from error
    if different:
        what = f"'{path.parent}' holds videos with {different} = {before.get(different)}, not {now[different]}"
        raise SfumatoError(what, "choose another folder")


def _table(dataset: FileDataset, paths: Sequence[str], kept: Sequence[int]) -> bytes:
    """index.csv: what `manifest:` reads, with every label that the data set has."""
    specs, known = dataset.labelled(), _described(dataset)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    columns = ("path", "recording", "action", "person", *(spec.name for spec in specs), "split_person", "split_clip")
    writer.writerow(columns)
    for n in kept:
        about = known[n]
        values = [about["attributes"].get(str(column), 0) for column in range(len(specs))]
        named = [spec.values[value] if value >= 0 else "" for spec, value in zip(specs, values, strict=True)]
        action = dataset.actions[about["action"]] if about["action"] >= 0 else ""
        person = dataset.persons[about["person"]] if about["person"] >= 0 else ""
        parts = [about["split"].get(by, "") for by in ("person", "clip")]
        writer.writerow([paths[n], about["recording"], action, person, *named, *parts])
    return text.getvalue().encode()
