"""Features of videos on disk: a manifest that says whose they are, one file of numbers per video, memory-mapped.

A video is S clips in time order; each has a row of `per_clip` vectors: the clip's own, then those of static clips, single
frames of it that stand still. Rows are added one by one and never changed, so that an interrupted extraction goes on with the
next clip. Every row that is taken over has a checksum, and so has every video.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sfumato.errors import SfumatoError
from sfumato.writing import to_json, write_whole

VERSION = 1
MANIFEST, INDEX = "manifest.json", "index.jsonl"
BYTES = 4  # of a float32
ANEW = "extract the features into another folder"


@dataclass(frozen=True)
class Manifest:
    """Whose features these are: encoder, the hash of its weights, how clips are cut, and D = width."""

    encoder: str
    weights_sha256: str
    clip: tuple[int, int, int]  # frames, height, width as the encoder sees them
    frame_step: int
    width: int
    per_clip: int  # vectors per clip: its own, and those of its static clips

    def require(self, weights_sha256: str, width: int) -> None:
        """Refuse features of another encoder or of another width."""
        if self.width != width:
            raise SfumatoError(f"these features are {self.width} wide, not {width}", f"they are of '{self.encoder}'")
        if self.weights_sha256 != weights_sha256:
            raise SfumatoError(
                f"these features are of '{self.encoder}' with weights {self.weights_sha256[:8]}, not {weights_sha256[:8]}",
                "extract them with the encoder that is used",
            )


@dataclass(frozen=True)
class StoredVideo:
    """One line of the index. starts: the first frame of each clip."""

    name: str
    file: str
    clips: int
    starts: tuple[int, ...]
    sha256: str


class FeatureWriter:
    """Adds videos to a folder, new or begun; one that was begun must be of the same encoder, cut the same way.

    done: the videos that are there as they were stored. One whose file is missing or damaged is not, and is stored again; to
    know that, all files are read once.
    """

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder, self.manifest = folder, manifest
        path = folder / MANIFEST
        if path.exists():
            self.manifest = read_manifest(path)
            _require_same(folder, self.manifest, manifest)
        else:
            folder.mkdir(parents=True, exist_ok=True)
            write_whole(path, to_json({"version": VERSION, **asdict(manifest)}, indent=1))
        self.done = {video.name: video for video in _read_index(folder / INDEX) if _is_sound(folder, video)}

    @contextmanager
    def video(self, name: str) -> Iterator[VideoRows]:
        """The rows of a video, from the last clip that was stored; when the block ends well the video is whole.

        >>> with writer.video("a.mp4") as rows:  # doctest: +SKIP
        ...     for start, row in encoded(skip=rows.clips): rows.add(start, row)
        """
        if name in self.done:
            raise SfumatoError(f"'{name}' is stored already", "leave it out")
        digest = hashlib.sha256(name.encode()).hexdigest()[:16]
        part, whole = self.folder / f"{digest}.part", self.folder / f"{digest}.f32"
        if whole.exists():  # cut off between the file and its line in the index, or damaged
            whole.replace(part)
        rows = VideoRows(part, self.manifest)
        yield rows
        if not rows.clips:
            raise SfumatoError(f"'{name}' gave no clip", "leave it out")
        video = StoredVideo(name, whole.name, rows.clips, tuple(rows.starts), rows.sha256())
        rows.path.replace(whole)
        with (self.folder / INDEX).open("ab") as index:
            index.write(to_json(asdict(video)))
        rows.starts_path.unlink()
        self.done[name] = video


class VideoRows:
    """The rows of a video that is being stored. Beside them stands a line for each: its first frame, and a checksum of both."""

    def __init__(self, path: Path, manifest: Manifest) -> None:
        self.path, self.manifest = path, manifest
        self.starts_path = path.with_suffix(".starts")
        self.starts: list[int] = []
        # Of what was meant to be written: what the disk makes of it is held against that.
        self._digest = hashlib.sha256()
        lines = []
        for line, row in self._kept():
            lines.append(line)
            self._count(int(line.split()[0]), row)
        with path.open("ab") as file:
            file.truncate(self.clips * self._row_bytes())
        write_whole(self.starts_path, b"".join(line + b"\n" for line in lines))

    @property
    def clips(self) -> int:
        """How many are stored."""
        return len(self.starts)

    def sha256(self) -> str:
        """Of all rows so far."""
        return self._digest.hexdigest()

    def _row_bytes(self) -> int:
        return self.manifest.per_clip * self.manifest.width * BYTES

    def _kept(self) -> Iterator[tuple[bytes, bytes]]:
        """Lines and rows up to the first that was cut off or damaged in either file: all after it are done again."""
        if not (self.path.exists() and self.starts_path.exists()):
            return
        content, size = self.path.read_bytes(), self._row_bytes()
        for number, line in enumerate(self.starts_path.read_bytes().splitlines()):
            row = content[number * size : (number + 1) * size]
            start = line.split(b" ")[0]
            if len(row) < size or not start.isdigit() or line != _line(int(start), row):
                return
            yield line, row

    def _count(self, start: int, row: bytes) -> None:
        self.starts.append(start)
        self._digest.update(row)

    def add(self, start: int, row: Tensor) -> None:
        """The next clip, (per_clip, D), whose first frame is number `start`."""
        wanted = (self.manifest.per_clip, self.manifest.width)
        if tuple(row.shape) != wanted:
            raise SfumatoError(f"a row of shape {tuple(row.shape)} is not {wanted}", "use the encoder of the manifest")
        if not bool(row.isfinite().all()):
            raise SfumatoError(
                f"the features of the clip at frame {start} are not finite", "check the encoder's weights"
            )
        content = row.detach().cpu().float().contiguous().numpy().tobytes()
        with self.path.open("ab") as file:
            file.write(content)
        with self.starts_path.open("ab") as file:
            file.write(_line(start, content) + b"\n")
        self._count(start, content)


class FeatureStore:
    """Features by video, in the order they were stored.

    >>> FeatureStore("features/ucf101")[0].shape  # clips, vectors per clip, width  # doctest: +SKIP
    torch.Size([12, 3, 768])
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.manifest = read_manifest(self.folder / MANIFEST)
        self.videos = _read_index(self.folder / INDEX)
        if not self.videos:
            raise SfumatoError(f"'{folder}' holds no features yet", "run `sfumato features extract` to the end")
        self._checked: set[int] = set()

    def __len__(self) -> int:
        return len(self.videos)

    def __getitem__(self, number: int) -> Tensor:
        """float32 (S, per_clip, D) of one video; its file is checked when it is first read."""
        video, shape = self.videos[number], (-1, self.manifest.per_clip, self.manifest.width)
        path = self.folder / video.file
        if number not in self._checked:
            _check(self.folder, video)
            self._checked.add(number)
        values: NDArray[np.float32] = np.memmap(path, np.float32, "c").reshape(shape)
        return torch.from_numpy(values)


def read_manifest(path: Path) -> Manifest:
    """What the manifest in that file says.

    >>> read_manifest(Path("features/ucf101/manifest.json")).width  # doctest: +SKIP
    768
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content.pop("version") != VERSION:
            raise SfumatoError(f"'{path}' is of another version", ANEW)
        return Manifest(**{**content, "clip": tuple(content["clip"])})
    except OSError as error:
        raise SfumatoError(f"cannot read '{path}'", "name a folder that `sfumato features extract` made") from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise SfumatoError(f"'{path}' is no manifest of features", ANEW) from error


def _require_same(folder: Path, old: Manifest, new: Manifest) -> None:
    """Refuse features made otherwise; the same weights may have come by another name."""
    before, now = asdict(old), asdict(new)
    if old.weights_sha256 and old.weights_sha256 == new.weights_sha256:
        del now["encoder"]
    for key, value in now.items():
        if before[key] != value:
            raise SfumatoError(
                f"'{folder}' holds features with {key} = {before[key]}, not {value}", "choose another folder"
            )


def _line(start: int, row: bytes) -> bytes:
    """What is written down about a row: its first frame, and a checksum of that and the row."""
    return b"%d %s" % (start, hashlib.sha256(b"%d " % start + row).hexdigest().encode())


def _check(folder: Path, video: StoredVideo) -> None:
    """Refuse a video by name whose file is not as it was stored."""
    path, next_step = folder / video.file, f"extract them again into '{folder}'"
    if path.parent != folder or not path.is_file():
        raise SfumatoError(f"the features of '{video.name}' are missing", next_step)
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != video.sha256:
        raise SfumatoError(f"the features of '{video.name}' are damaged ('{path}' has another checksum)", next_step)
    if not np.isfinite(np.frombuffer(content, np.float32)).all():
        raise SfumatoError(f"the features of '{video.name}' are not finite", next_step)


def _is_sound(folder: Path, video: StoredVideo) -> bool:
    try:
        _check(folder, video)
    except SfumatoError:
        return False
    return True


def _read_index(path: Path) -> list[StoredVideo]:
    """Whole lines; a last one without its end was cut off while it was written, and its video is stored again.

    Of a video that was stored again the last line counts, in the place of the first: mended features are the same features.
    """
    if not path.exists():
        return []
    *lines, rest = path.read_bytes().split(b"\n")
    if rest:
        write_whole(path, b"".join(line + b"\n" for line in lines))
    return list({video.name: video for video in (_read_line(path, line) for line in lines)}.values())


def _read_line(path: Path, line: bytes) -> StoredVideo:
    try:
        content: Mapping[str, Any] = json.loads(line)
        return StoredVideo(**{**content, "starts": tuple(content["starts"])})
    except (ValueError, TypeError, KeyError) as error:
        raise SfumatoError(f"'{path}' is damaged", "delete it and extract the features again") from error
