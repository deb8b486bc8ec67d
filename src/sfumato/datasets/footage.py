"""A site's own footage: a folder of videos, each file one recording, with a table of labels or without.

Without labels nobody knows who is in a recording, but whoever is in it stays the same: `Recordings` cuts each one into
pieces that do not overlap, all of one "person". With labels a recording is one labelled video: `LabelledFootage`.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import torch
from torch import Tensor

from sfumato.datasets.base import Clips, Part, Progress, SplitBy
from sfumato.datasets.clip_cache import read_clip
from sfumato.datasets.files import FileDataset, Row, Sampling
from sfumato.datasets.manifest import (
    _SPLIT_COLUMNS,
    _attribute_columns,
    _free_columns,
    _read,
    parse_options,
    sampling_of,
)
from sfumato.errors import SfumatoError
from sfumato.video import find_videos, read_frames

PIECES = 8  # of a recording, at most
LEAST_PIECES = 4  # two to learn from, one to choose by, one to be asked about
LONGEST = 120.0  # seconds; of a longer recording only the beginning is used, since all before a frame must be decoded
FEWEST_APART = 5  # recordings in each part of a split by recordings, or there is none
NOT_IN_IT = "does not lie in the footage"
LEAD_INTO_IT = "paths are relative to the CSV and must lead into the footage; links that lead outside are not followed"
_COLUMNS = {what: what for what in ("path", "action", "person")}


def footage_files(folder: Path) -> list[Path]:
    """Every video under `folder`, sorted.

    >>> footage_files(Path("camera-3"))  # doctest: +SKIP
    [PosixPath('camera-3/monday.mp4'), …]
    """
    if not folder.is_dir():
        raise SfumatoError(f"there is no folder '{folder}'", "give the folder of the recordings")
    files = find_videos(folder)
    if not files:
        raise SfumatoError(f"no video in '{folder}'", "give the folder of the recordings")
    return files


def sampled(files: Sequence[Path], root: Path, most: int) -> list[Path]:
    """At most `most` of them, in their order: always the same ones, whatever lies beside them, and no stretch in time.

    >>> len(sampled([Path("a/1.mp4"), Path("a/2.mp4")], Path("a"), most=1))
    1
    """
    chosen = sorted(files, key=lambda file: _hash(_inside(file, root)))[:most]
    return [file for file in files if file in set(chosen)]


def content_digest(files: Sequence[Path], root: Path, progress: Progress | None = None) -> str:
    """SHA-256 of the names under `root` and all bytes of these files: the same wherever the footage lies.

    >>> content_digest(footage_files(Path("camera-3")), Path("camera-3"))  # doctest: +SKIP
    """
    found = hashlib.sha256()
    for number, file in enumerate(sorted(files)):
        found.update(f"{_inside(file, root)}\0{file_digest(file)}\n".encode("utf-8", "backslashreplace"))
        if progress:
            progress(number + 1, len(files))
    return found.hexdigest()


def file_digest(file: Path) -> str:
    """SHA-256 of a file's bytes, in constant memory.

    >>> file_digest(Path("labels.csv"))  # doctest: +SKIP
    """
    found = hashlib.sha256()
    with file.open("rb") as opened:
        while block := opened.read(1 << 20):
            found.update(block)
    return found.hexdigest()


def spread(keys: Iterable[str], fewest: int = 1) -> dict[str, Part]:
    """A quarter of the keys to test, a quarter to validate, the rest to train, by their hash; same keys, same parts.

    Unlike a share drawn for each by itself this never leaves a part empty. Where a quarter, or the rest, is less than
    `fewest` even when rounded up to it, all are for training.

    >>> sorted(spread("abcdef").values())
    ['test', 'train', 'train', 'train', 'train', 'val']
    """
    order = sorted(set(keys), key=_hash)
    quarter = max(fewest, len(order) // 4)
    if len(order) < 2 * quarter + fewest:
        return dict.fromkeys(order, "train")
    return {key: "test" if n < quarter else "val" if n < 2 * quarter else "train" for n, key in enumerate(order)}


@dataclass(slots=True)
class Piece(Row):
    """A stretch of a file, from frame `start` on, `frames` long."""

    start: int = 0


class Recordings(FileDataset):
    """Clips of recordings, whose "person" is the recording.

    By clip, the earlier pieces of every recording are for training, a later one to validate, the last to test. By person,
    whole recordings are; of these the earlier half is "another recording" than the later, so that comparing the two is
    re-identification. groups: files that were cut from one recording → its name, where that is known.

    >>> Recordings(Path("camera-3"), footage_files(Path("camera-3")), Sampling()).persons  # doctest: +SKIP
    ('friday.mp4', 'monday.mp4')
    """

    from_videos = False  # of a recording's frames each piece has some
    rows_advice = "mend or replace the recordings and run again"

    def __init__(
        self, root: Path, files: Sequence[Path], sampling: Sampling, groups: Mapping[Path, str] | None = None, *,
        name: str = "", strict: bool = False,
    ) -> None:  # fmt: skip
        rows = [Row(file, _inside(file, root), "") for file in files]
        for row in rows:
            row.person = (groups or {}).get(row.path.resolve(), "") or row.where
        super().__init__(name or f"the footage in {root}", rows, [], sampling, strict=strict, problems=[])

    def _needed(self) -> int:
        return (self.sampling.frames - 1) * (self.sampling.skip or 1) + 1

    def _too_short(self, row: Row) -> SfumatoError | None:
        needed = LEAST_PIECES * self._needed()
        if row.frames >= needed:
            return None
        return SfumatoError(f"{row.frames} frames, {needed} are needed for {LEAST_PIECES} clips", "record longer")

    def _usable(self, rows: Sequence[Row], strict: bool) -> list[Row]:
        whole = super()._usable(rows, strict)
        _shorten(whole)
        apart = spread((row.person for row in whole), FEWEST_APART)
        found: list[Row] = []
        for recording in dict.fromkeys(row.person for row in whole):
            pieces = [piece for row in whole if row.person == recording for piece in self._cut(row)]
            late = max(1, len(pieces) // 4)
            for n, piece in enumerate(pieces):
                left = len(pieces) - n
                part: Part = "test" if left <= late else "val" if left <= 2 * late else "train"
                piece.split = {"clip": part, "person": apart[recording]}
                piece.group = f"{recording} {'earlier' if 2 * n < len(pieces) else 'later'}"
            found += pieces
        return found

    def _cut(self, row: Row) -> list[Piece]:
        """As many pieces as there are clips in it, but no more than PIECES, one after another."""
        count = min(PIECES, row.frames // self._needed())
        ends = [row.frames * n // count for n in range(count + 1)]
        return [
            Piece(row.path, row.where, "", row.person, frames=end - start, rate=row.rate, start=start)
            for start, end in pairwise(ends)
        ]

    def _check_splits(self) -> None:
        """There may be too few recordings to keep some apart: who asks about strangers says so."""

    def _frames_of(self, row: Row, views: int) -> Tensor:
        assert isinstance(row, Piece)
        return super()._frames_of(row, views) + row.start

    def clips(
        self, indices: Tensor, *, views: int = 1, device: torch.device | str = "cpu", progress: Progress | None = None
    ) -> Clips:
        """As of every data set; all pieces of a file are decoded in one go."""
        s = self.sampling
        pixels = torch.empty(len(indices), views, s.frames, 3, s.size, s.size, dtype=torch.uint8, device=device)
        places: dict[Path, list[int]] = {}
        for place, index in enumerate(indices.tolist()):
            places.setdefault(self.rows[index].path, []).append(place)

        def read(file: Path) -> Tensor:
            return self._pieces(file, [self.rows[int(indices[place])] for place in places[file]], views)

        done = 0
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for file, found in zip(places, pool.map(read, places), strict=True):
                pixels[torch.tensor(places[file])] = found.to(device)
                done += len(found)
                if progress:
                    progress(done, len(indices))
        return Clips(pixels, None)

    def _pieces(self, file: Path, rows: Sequence[Row], views: int) -> Tensor:
        """uint8 (pieces, views, T, 3, H, W) of one file."""
        size = self.sampling.size

        def read() -> Tensor:
            wanted = torch.stack([self._frames_of(row, views) for row in rows])
            pixels = read_clip(file, wanted.flatten(), (size, size))
            return pixels.view(*wanted.shape, *pixels.shape[1:])

        try:
            return read()
        except SfumatoError as error:  # the header promised more than the file holds: cut what can really be read
            every = [row for row in self.rows if isinstance(row, Piece) and row.path == file]
            promised, count = sum(row.frames for row in every), sum(1 for _ in read_frames(file, warn=lambda _: None))
            if count < len(every) * self._needed():
                raise SfumatoError(error.what, "take it out of the footage, or copy it again") from error
            self.problems.append(f"{every[0].where}: {error.what}")
            for row in every:
                end = (row.start + row.frames) * count // promised
                row.start = row.start * count // promised
                row.frames = end - row.start
            return read()


def open_footage(source: str, *, strict: bool = False) -> Recordings:
    """`footage:PATH?frames=8&size=64`: the recordings of a folder, of which nobody has said anything.

    >>> open_footage("camera-3?frames=16&size=112").actions  # doctest: +SKIP
    ()
    """
    path, options = parse_options(source, ("frames", "size", "skip"))
    root = Path(path)
    return Recordings(root, footage_files(root), sampling_of(options), name=f"footage:{source}", strict=strict)


class LabelledFootage(FileDataset):
    """The recordings that a table says something about: columns as in a manifest, of which only `path` is needed.

    Paths are relative to the table and must lie under the footage. What is empty is unknown. Where the table has no columns
    of splits, a quarter of each person's recordings is for testing, and a quarter of the persons.

    >>> LabelledFootage(Path("clips"), Path("index.csv"), Sampling(), most=300).persons  # doctest: +SKIP
    ('1', '2', '10')
    """

    def __init__(self, root: Path, table: Path, sampling: Sampling, *, most: int) -> None:
        self.table = table
        header, lines = _read(table)
        if "path" not in header:
            raise SfumatoError(f"'{table}' has no column 'path'", f"its columns are {', '.join(header)}; rename one")
        free = _free_columns(header, _COLUMNS)
        attributes = _attribute_columns(header, lines, free, None, table)
        problems: list[str] = []
        rows: dict[Path, Row] = {}
        for number, line in lines:
            file = (table.parent / line.get("path", "")).resolve()
            where = f"{table.name} line {number}"
            if wrong := _wrong_with(line.get("path", ""), file, root.resolve(), file in rows):
                problems.append(f"{where}: {wrong}")
                continue
            told = {column: line.get(column, "") for column in attributes}
            given = {by: _given(line, by, header) for by in _SPLIT_COLUMNS}
            rows[file] = Row(
                file, where, line.get("action", ""), line.get("person", ""), told,
                {by: part for by, part in given.items() if part}, group=line.get("recording", ""),
            )  # fmt: skip
        if problems and problems[0].endswith(NOT_IN_IT):
            self.rows_advice = LEAD_INTO_IT
        self.listed = len(rows)
        kept = [rows[file] for file in sampled(list(rows), root.resolve(), most)]
        _fill_splits(kept)
        super().__init__(f"the footage of {table}", kept, attributes, sampling, strict=False, problems=problems)

    def _usable(self, rows: Sequence[Row], strict: bool) -> list[Row]:
        found = super()._usable(rows, strict)
        _shorten(found)
        return found

    def _check_splits(self) -> None:
        """What has too few clips in a part is not asked, and is told to be so."""

    def groups(self) -> dict[Path, str]:
        """The recording each file was cut from, where the table says so."""
        return {row.path: row.group for row in self.rows if row.group}


def _wrong_with(name: str, file: Path, root: Path, again: bool) -> str:
    """What is wrong with a row's path, "" if nothing."""
    if not name:
        return "no value for 'path'"
    if not file.is_relative_to(root):
        return f"'{name}' {NOT_IN_IT}"
    if not file.is_file():
        return f"there is no file '{name}'"
    return f"'{name}' is listed twice" if again else ""


def _given(line: Mapping[str, str], by: SplitBy, header: Sequence[str]) -> str:
    """The part a row says it belongs to, "" where it says none or no such."""
    part = next((line.get(column, "") for column in _SPLIT_COLUMNS[by] if column in header), "")
    return part if part in ("train", "val", "test") else ""


def _fill_splits(rows: Sequence[Row]) -> None:
    """Parts for the rows that name none. One recording is in one part; every person is in all parts of the split by clip."""

    def recording(row: Row) -> str:
        return row.group or str(row.path)

    persons = spread(row.person or recording(row) for row in rows)
    by_person: dict[str, list[Row]] = {}
    for row in rows:
        by_person.setdefault(row.person, []).append(row)
    clips = {person: spread(map(recording, theirs)) for person, theirs in by_person.items()}
    for row in rows:
        row.split.setdefault("person", persons[row.person or recording(row)])
        row.split.setdefault("clip", clips[row.person][recording(row)])


def _shorten(rows: Sequence[Row]) -> None:
    for row in rows:
        row.frames = min(row.frames, max(1, round(LONGEST * (row.rate or 30.0))))


def _inside(file: Path, root: Path) -> str:
    return Path(os.path.relpath(file, root)).as_posix()


def _hash(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "backslashreplace")).digest()
