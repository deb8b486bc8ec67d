"""Features of videos on disk: a manifest that says whose they are, one file of numbers per video, memory-mapped.

A video is S clips in time order; each has a row of `per_clip` vectors: the clip's own, then those of static clips, single
frames of it that stand still. Rows are added one by one and never changed, so that an interrupted extraction goes on with the
next clip.
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
    """Adds videos to a folder, new or begun; one that was begun must be of the same encoder, cut the same way."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder, self.manifest = folder, manifest
        path = folder / MANIFEST
        if path.exists():
            _same(path, read_manifest(path), manifest)
        else:
            folder.mkdir(parents=True, exist_ok=True)
            write_whole(path, to_json({"version": VERSION, **asdict(manifest)}, indent=1))
        self.done = {video.name: video for video in _read_index(folder / INDEX)}

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
        if whole.exists():  # cut off between the file and its line in the index
            whole.replace(part)
        rows = VideoRows(part, self.manifest)
        yield rows
        if not rows.clips:
            raise SfumatoError(f"'{name}' gave no clip", "leave it out")
        content = rows.path.read_bytes()
        video = StoredVideo(name, whole.name, rows.clips, tuple(rows.starts), hashlib.sha256(content).hexdigest())
        rows.path.replace(whole)
        with (self.folder / INDEX).open("ab") as index:
            index.write(to_json(asdict(video)))
        rows.starts_path.unlink()
        self.done[name] = video


class VideoRows:
    """The rows of a video that is being stored."""

    def __init__(self, path: Path, manifest: Manifest) -> None:
        self.path, self.manifest = path, manifest
        self.starts_path = path.with_suffix(".starts")
        row = manifest.per_clip * manifest.width * BYTES
        stored = path.stat().st_size // row if path.exists() else 0
        self.starts = (
            [int(s) for s in self.starts_path.read_text().split()][:stored] if self.starts_path.exists() else []
        )
        # Whichever of the two files got further is cut back: a row counts when both have it.
        self.clips = len(self.starts)
        if path.exists():
            with path.open("r+b") as file:
                file.truncate(self.clips * row)
        self.starts_path.write_text("".join(f"{start}\n" for start in self.starts))

    def add(self, start: int, row: Tensor) -> None:
        """The next clip, (per_clip, D), whose first frame is number `start`."""
        wanted = (self.manifest.per_clip, self.manifest.width)
        if tuple(row.shape) != wanted:
            raise SfumatoError(f"a row of shape {tuple(row.shape)} is not {wanted}", "use the encoder of the manifest")
        if not bool(row.isfinite().all()):
            raise SfumatoError(
                f"the features of the clip at frame {start} are not finite", "check the encoder's weights"
            )
        with self.path.open("ab") as file:
            file.write(row.detach().cpu().float().contiguous().numpy().tobytes())
        with self.starts_path.open("a") as file:
            file.write(f"{start}\n")
        self.starts.append(start)
        self.clips += 1


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
            self._check(path, video)
            self._checked.add(number)
        values: NDArray[np.float32] = np.memmap(path, np.float32, "c").reshape(shape)
        return torch.from_numpy(values)

    def _check(self, path: Path, video: StoredVideo) -> None:
        if path.parent != self.folder or not path.is_file():
            raise SfumatoError(
                f"the features of '{video.name}' are missing", f"extract them again into '{self.folder}'"
            )
        content = path.read_bytes()
        if hashlib.sha256(content).hexdigest() != video.sha256:
            raise SfumatoError(
                f"the features of '{video.name}' are damaged ('{path}' has another checksum)",
                "delete it and extract again",
            )
        if not np.isfinite(np.frombuffer(content, np.float32)).all():
            raise SfumatoError(f"the features of '{video.name}' are not finite", "extract them again")


def read_manifest(path: Path) -> Manifest:
    """What the manifest in that file says.

    >>> read_manifest(Path("features/ucf101/manifest.json")).width  # doctest: +SKIP
    768
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content.pop("version") != VERSION:
            raise SfumatoError(f"'{path}' is of another version", "extract the features again")
        return Manifest(**{**content, "clip": tuple(content["clip"])})
    except OSError as error:
        raise SfumatoError(f"cannot read '{path}'", "name a folder that `sfumato features extract` made") from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise SfumatoError(f"'{path}' is no manifest of features", "extract the features again") from error


def _same(path: Path, old: Manifest, new: Manifest) -> None:
    before, now = asdict(old), asdict(new)
    for key, value in now.items():
        if before[key] != value:
            raise SfumatoError(
                f"'{path.parent}' holds features with {key} = {before[key]}, not {value}", "choose another folder"
            )


def _read_index(path: Path) -> list[StoredVideo]:
    """Whole lines; a last one without its end was cut off while it was written, and its video is stored again."""
    if not path.exists():
        return []
    *lines, rest = path.read_bytes().split(b"\n")
    if rest:
        write_whole(path, b"".join(line + b"\n" for line in lines))
    return [_read_line(path, line) for line in lines]


def _read_line(path: Path, line: bytes) -> StoredVideo:
    try:
        content: Mapping[str, Any] = json.loads(line)
        return StoredVideo(**{**content, "starts": tuple(content["starts"])})
    except (ValueError, TypeError, KeyError) as error:
        raise SfumatoError(f"'{path}' is damaged", "extract the features again") from error
