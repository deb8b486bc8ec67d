"""Clips decoded once: the very pixels that were read from a video file, to be read again without decoding.

An entry holds one window of one video as raw uint8. Raw, since reading it back is measured to be several times faster than
decoding JPEG frames or H.264, and since what is read is then exactly what the decoder gave: no result depends on whether
there is a cache (benchmarks/decode_speed.py). For whole videos, of which any window may be asked for, raw is too large: see
shards.py.

An entry is used only when everything is as it was when it was written: the file's path and state, the frames, the size in
pixels, the rate, the version of the decoder, and our own code that reads. `SFUMATO_CLIP_CACHE=DIR` turns it on.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import math
import os
import warnings
import zlib
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sfumato.datasets.decoding import appearing_whole, read_window
from sfumato.video.decode import Size
from sfumato.writing import source_digest, to_json

# All of our code that makes pixels of a file, and entries of pixels: when it changes, no old entry is used any more.
READING = ("video/*.py", "datasets/decoding.py", "datasets/clip_cache.py")
FOLDER = "SFUMATO_CLIP_CACHE"
_LONGEST_HEADER = 1_000_000


class ClipCache:
    """A folder of entries. Any number of threads and processes may use it at once.

    >>> ClipCache("cache").read("street.mp4", [0, 2, 4, 6], (112, 112)).shape  # doctest: +SKIP
    torch.Size([4, 3, 112, 112])
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def read(
        self, path: str | Path, indices: Sequence[int] | Tensor, size: Size, fps: Fraction | None = None
    ) -> Tensor:
        """uint8 (T, 3, H, W): what `decoding.read_window` gives, decoded if it is not here yet, or no longer valid."""
        order = [int(index) for index in indices]
        place, about = self._entry(Path(path), order, size, fps)
        state = _state(Path(path))
        about |= {"source": state, "code": source_digest(*READING)}
        if state is not None and (kept := _load(place, about)) is not None:
            return kept
        pixels = read_window(path, order, size, fps)
        # A file that is being written while it is read must not stand for what it becomes.
        if state is not None and _state(Path(path)) == state:
            self._store(place, about, pixels)
        return pixels

    def _entry(self, path: Path, order: list[int], size: Size, fps: Fraction | None) -> tuple[Path, dict[str, Any]]:
        """Where it is, and what of the request must stand in it.

        The state of the source and our code are not part of the name, so that what they make anew takes the old place.
        """
        about = {
            "decoder": _decoder(), "path": _name(path), "frames": order,
            "size": size if isinstance(size, int) else list(size), "fps": str(fps) if fps else None,
        }  # fmt: skip
        name = hashlib.sha256(to_json(about)).hexdigest()[:40]
        return self.folder / name[:2] / f"{name[2:]}.clip", about

    def _store(self, place: Path, about: dict[str, Any], pixels: Tensor) -> None:
        content = pixels.numpy().tobytes()
        shape = list(pixels.shape)
        header = to_json({**about, "shape": shape, "crc32": _crc32(shape, content)})
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            with appearing_whole(place) as file:
                file.write(header)
                file.write(content)
        except OSError as error:
            # The clip is at hand all the same. Python shows the same warning once.
            warnings.warn(f"the clip cache '{self.folder}' cannot be written to ({error.strerror})", stacklevel=2)


def read_clip(path: str | Path, indices: Sequence[int] | Tensor, size: tuple[int, int]) -> Tensor:
    """As `video.read_clip`, through the cache in the folder that $SFUMATO_CLIP_CACHE names, where it names one.

    >>> read_clip("street.mp4", [0, 2, 4, 6], (112, 112)).shape  # doctest: +SKIP
    torch.Size([4, 3, 112, 112])
    """
    if folder := os.environ.get(FOLDER):
        return ClipCache(folder).read(path, indices, size)
    return read_window(path, [int(index) for index in indices], size)


def _load(place: Path, wanted: dict[str, Any]) -> Tensor | None:
    """The pixels of an entry that is whole and as wanted; None for any other."""
    try:
        with place.open("rb") as file:
            line = file.readline(_LONGEST_HEADER)
            header = json.loads(line)
            shape, crc32 = header.pop("shape"), header.pop("crc32")
            length = math.prod(shape)
            # Also before reading: a damaged header must not ask for all of the memory.
            if header != wanted or os.fstat(file.fileno()).st_size != len(line) + length:
                return None
            content = bytearray(length)
            file.readinto(content)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None
    if _crc32(shape, content) != crc32:
        return None
    return torch.frombuffer(content, dtype=torch.uint8).view(shape)


def _crc32(shape: list[int], content: bytes | bytearray) -> int:
    return zlib.crc32(content, zlib.crc32(to_json(shape)))


def _state(path: Path) -> list[int] | None:
    """What tells that a file is the one it was; None where there is none, which the decoder will say better.

    `cp -p` and `rsync -t` give another content the old time of change, and it may have the old size: so also when the
    entry in the file system was last touched (ctime), which nobody can set, and which file it is (inode). That a chmod
    touches it too, and the video is decoded again, does no harm.
    """
    try:
        found = path.stat()
    except OSError:
        return None
    return [found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino]


def _name(path: Path) -> str:
    """Where the file really is; JSON cannot hold every name a file can have."""
    return os.fsencode(path.resolve()).decode("utf-8", "backslashreplace")


@lru_cache
def _decoder() -> str:
    """PyAV carries its own decoders and scaler; asked for without importing it, since reading from here needs none."""
    try:
        return importlib.metadata.version("av")
    except importlib.metadata.PackageNotFoundError:
        return "none"
