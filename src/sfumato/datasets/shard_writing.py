"""Videos into shards (see shards.py): planned first, then made one by one, so that a stopped preparation goes on."""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

from sfumato.datasets.base import Progress
from sfumato.datasets.decoding import appearing_whole, frames_at, in_order
from sfumato.datasets.shards import INDEX, VERSION, sha256_of
from sfumato.errors import SfumatoError
from sfumato.writing import to_json, write_whole

QUALITY = 95  # of JPEG


@dataclass(frozen=True)
class PlannedClip:
    """A video that goes into a shard. known: what its JSON says besides the pictures (source, labels, split)."""

    path: Path
    known: dict[str, Any]
    shard: int = 0
    number: int = 0

    def __str__(self) -> str:
        return str(self.known["source"])


@dataclass(frozen=True)
class Packed:
    """A video as JPEG pictures of one size."""

    pictures: list[bytes]
    height: int
    width: int


def pack(clip: PlannedClip, short_side: int, fps: Fraction | None) -> Packed:
    """The frames of a video as JPEG; a damaged video is a SfumatoError.

    >>> len(pack(PlannedClip(Path("street.mp4"), {}), 128, None).pictures)  # doctest: +SKIP
    332
    """
    from PIL import Image

    pictures, height, width = [], 0, 0
    for frame in frames_at(clip.path, short_side, fps=fps):
        height, width = frame.shape[:2]
        file = io.BytesIO()
        Image.fromarray(frame).save(file, "JPEG", quality=QUALITY)
        pictures.append(file.getvalue())
    return Packed(pictures, height, width)


def deal(clips: Iterable[PlannedClip], shards: int) -> list[PlannedClip]:
    """Clips in the order in which they are packed: shuffled by a hash of their names, evenly over the shards.

    >>> [clip.shard for clip in deal([PlannedClip(Path(p), {"source": p}) for p in "abcde"], 2)]
    [0, 0, 0, 1, 1]
    """
    shuffled = sorted(clips, key=lambda clip: hashlib.sha256(str(clip).encode()).digest())
    dealt = [replace(clip, shard=place % shards) for place, clip in enumerate(shuffled)]
    return [replace(clip, number=n) for n, clip in enumerate(sorted(dealt, key=lambda clip: clip.shard))]


class ShardWriter:
    """Makes the shards of a folder, or those that are still missing, damaged, or of videos that have changed since."""

    def __init__(
        self, folder: Path, clips: Sequence[PlannedClip], labels: dict[str, Any], *, short_side: int,
        fps: Fraction | None, shards: int,
    ) -> None:  # fmt: skip
        if len(clips) < shards:
            raise SfumatoError(f"{len(clips)} clips do not fill {shards} shards", "ask for fewer with --shards")
        self.folder, self.labels, self.short_side, self.fps = folder, labels, short_side, fps
        self.settings = {
            "short_side": short_side, "fps": str(fps) if fps else None, "shards": shards, "quality": QUALITY,
        }  # fmt: skip
        self.clips = deal(clips, shards)
        self.made: list[dict[str, Any] | None] = [None] * shards
        self._plans = [_plan([clip for clip in self.clips if clip.shard == number]) for number in range(shards)]

    def write(
        self, *, workers: int, strict: bool = False, tell: Callable[[object, str], object], progress: Progress
    ) -> tuple[int, int]:
        """How many clips the shards hold and how many were left out, of which those found now were told once each."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._find_made(strict)
        left_out: dict[int, list[str]] = {}

        def note(clip: PlannedClip, why: str) -> None:
            left_out.setdefault(clip.shard, []).append(f"{clip}: {why}")
            tell(clip, why)
            step()

        done = sum(self.made[clip.shard] is not None for clip in self.clips)

        def step() -> None:
            nonlocal done
            done += 1
            progress(done, len(self.clips))

        missing = [clip for clip in self.clips if self.made[clip.shard] is None]
        job = partial(pack, short_side=self.short_side, fps=self.fps)
        results = in_order(job, missing, workers=workers, strict=strict, tell=note)
        for shard, group in groupby(results, key=lambda result: result[0].shard):
            self._make(shard, group, left_out, step)
        for shard, made in enumerate(self.made):
            if made is None:  # not one of its videos could be read
                self._make(shard, (), left_out, step)
        if not self.total:
            raise SfumatoError("none of the videos could be read", "see the lines above")
        self._save(complete=True)
        return self.total, sum(len(made["left_out"]) for made in self.made if made)

    @property
    def total(self) -> int:
        """The clips in all shards made so far."""
        return sum(made["clips"] for made in self.made if made)

    def _make(
        self, shard: int, results: Iterable[tuple[PlannedClip, Packed]], left_out: dict[int, list[str]],
        step: Callable[[], None],
    ) -> None:  # fmt: skip
        path, count = self.folder / f"{shard:05d}.tar", 0
        with appearing_whole(path) as file:
            with tarfile.open(fileobj=file, mode="w", format=tarfile.USTAR_FORMAT) as tar:
                for clip, packed in results:
                    _add(tar, clip, packed)
                    count += 1
                    step()
            file.flush()
            os.fsync(file.fileno())
        self.made[shard] = {
            "file": path.name, "clips": count, "bytes": path.stat().st_size, "sha256": sha256_of(path),
            "plan": self._plans[shard], "left_out": left_out.get(shard, []),
        }  # fmt: skip
        self._save(complete=False)

    def _save(self, complete: bool) -> None:
        about = {"version": VERSION, "complete": complete, "settings": self.settings, "labels": self.labels}
        write_whole(self.folder / INDEX, to_json({**about, "shards": [made for made in self.made if made]}, indent=1))

    def _find_made(self, strict: bool) -> None:
        """Take over what an earlier run has made whole, of the same videos, labels and settings."""
        path = self.folder / INDEX
        if not path.exists():
            return
        try:
            before = json.loads(path.read_text(encoding="utf-8"))
            version, settings, made = before["version"], before["settings"], before["shards"]
            places = {shard["file"]: shard for shard in made}
            _ = [(shard["bytes"], shard["sha256"], shard["plan"], shard["left_out"]) for shard in made]
        except (ValueError, TypeError, KeyError) as error:
            raise SfumatoError(f"'{path}' is no index of shards", "choose another folder") from error
        for key, now in {"version": VERSION, **self.settings}.items():
            if ({"version": version} | settings).get(key) != now:
                was = ({"version": version} | settings).get(key)
                raise SfumatoError(
                    f"'{self.folder}' holds shards with {key} = {was}, not {now}", "choose another folder"
                )
        for shard, plan in enumerate(self._plans):
            old = places.get(f"{shard:05d}.tar")
            if old and old["plan"] == plan and _whole(self.folder / f"{shard:05d}.tar", old):
                # A video that was left out is what `strict` is to stop at.
                self.made[shard] = None if strict and old["left_out"] else old


def _plan(clips: Sequence[PlannedClip]) -> str:
    """What identifies the content of a shard: its videos, as they are now, and all that is said about them."""
    found = hashlib.sha256()
    for clip in clips:
        file = clip.path.stat()
        found.update(to_json([clip.number, clip.known, file.st_size, file.st_mtime_ns]))
    return found.hexdigest()


def _whole(path: Path, told: dict[str, Any]) -> bool:
    return path.is_file() and path.stat().st_size == told["bytes"] and sha256_of(path) == told["sha256"]


def _add(tar: tarfile.TarFile, clip: PlannedClip, packed: Packed) -> None:
    frames = [0]
    for picture in packed.pictures:
        frames.append(frames[-1] + len(picture))
    known = {**clip.known, **_counted_anew(clip.known, len(packed.pictures))}
    about = to_json({**known, "height": packed.height, "width": packed.width, "frames": frames})
    for kind, content in (("json", about), ("mjpeg", b"".join(packed.pictures))):
        member = tarfile.TarInfo(f"{clip.number:06d}.{kind}")  # nobody's, of 1970: the same videos give the same bytes
        member.size, member.mode = len(content), 0o644
        tar.addfile(member, io.BytesIO(content))


def _counted_anew(known: dict[str, Any], frames: int) -> dict[str, Any]:
    """Segments by the frames that are packed: at another rate they are more or fewer."""
    if "segments" not in known:
        return {}
    share = Fraction(frames, known["segments_of"])
    spans = [[round(start * share), round(end * share), label] for start, end, label in known["segments"]]
    return {"segments": [span for span in spans if span[0] < span[1]], "segments_of": frames}
