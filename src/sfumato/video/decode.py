"""Frames out of whatever people have: rotated, variable rate, odd sizes, 10 bits, damaged, badly labelled."""

from __future__ import annotations

import glob
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import SfumatoError

if TYPE_CHECKING:
    from torch import Tensor

SUFFIXES = {".3gp", ".avi", ".flv", ".m2ts", ".m4v", ".mkv", ".mov", ".mp4", ".mpeg", ".mpg", ".mts", ".ts", ".webm"}
SUFFIXES |= {".asf", ".mxf", ".ogv", ".vob", ".wmv", ".y4m"}
# Above this a "rate" is the clock of a variable-rate file, not a number of pictures per second.
HIGHEST_RATE = 240
USUAL_RATE = Fraction(30)
# Headers often count one or two frames more than a decoder gives (DivX does it always).
HEADER_SLACK = 2
# A stated duration is often off by less than this (sound that ends later, a last frame without duration).
DURATION_SLACK = 1.0
# Time stamps that jump farther are a discontinuity (a spliced recording), not a picture held for so long.
LONGEST_HOLD = 60

Frame = NDArray[np.uint8]
# An exact (height, width), or a number: the short side, the other in proportion.
Size = tuple[int, int] | int


@dataclass(frozen=True)
class VideoInfo:
    """What is known of a video before it is read through.

    width, height: as shown, after rotation and with square pixels. fps: the average rate. frames, duration
    (seconds): as the header states them, often a little off; None where it does not.
    """

    path: Path
    width: int
    height: int
    fps: Fraction
    frames: int | None
    duration: float | None
    has_audio: bool


@dataclass(frozen=True)
class _Geometry:
    """How decoded pixels become the picture shown: scaled to square pixels, transposed, then flipped."""

    width: int
    height: int
    transposed: bool
    flip_x: bool
    flip_y: bool

    @classmethod
    def of(cls, frame: Any, aspect: Fraction | None) -> _Geometry:
        stretch = aspect if aspect and Fraction(1, 4) <= aspect <= 4 else Fraction(1)
        width, height = max(1, round(frame.width * stretch)), frame.height
        matrix = frame.side_data.get("DISPLAYMATRIX")
        if matrix is None:
            return cls(width, height, False, False, False)
        # Display x' = a·x + c·y and y' = b·x + d·y, in 16.16 fixed point; only quarter turns and mirrors are in use.
        a, b, _, c, d = (int(value) for value in np.frombuffer(bytes(matrix), np.int32)[:5])
        if abs(b) > abs(a):
            return cls(width, height, True, c < 0, b < 0)
        return cls(width, height, False, a < 0, d < 0)

    @property
    def shown(self) -> tuple[int, int]:
        """(height, width) of the picture shown."""
        return (self.width, self.height) if self.transposed else (self.height, self.width)

    def picture(self, reformatter: Any, frame: Any, size: tuple[int, int] | None = None) -> Frame:
        """uint8 (H, W, 3): one pass of the scaler does size, bit depth and colour; bilinear, antialiased."""
        height, width = size or self.shown
        if self.transposed:
            height, width = width, height
        array = reformatter.reformat(frame, width=width, height=height, format="rgb24").to_ndarray()
        if self.transposed:
            array = array.swapaxes(0, 1)
        array = array[:: -1 if self.flip_y else 1, :: -1 if self.flip_x else 1]
        return np.ascontiguousarray(array)


def probe(path: str | Path) -> VideoInfo:
    """What the file says of itself. The first frame is decoded: only it tells the true size and rotation.

    >>> probe("street.mp4").fps  # doctest: +SKIP
    Fraction(30000, 1001)
    """
    with _opened(path, threads=1) as (container, stream):
        frame = next(_decoded(container, stream, _Damage(path, strict=False)), None)
        if frame is None:
            raise _unreadable(path)
        height, width = _Geometry.of(frame, stream.sample_aspect_ratio).shown
        return VideoInfo(
            path=Path(path),
            width=width,
            height=height,
            fps=_rate(stream),
            frames=stream.frames or None,
            duration=_duration(container, stream),
            has_audio=len(container.streams.audio) > 0,
        )


def count_frames(path: str | Path) -> int:
    """The number of frames: the header's, or where it has none, counted without decoding.

    >>> count_frames("street.mp4")  # doctest: +SKIP
    332
    """
    with _opened(path) as (container, stream):
        return stream.frames or sum(packet.size > 0 for packet in container.demux(stream))


def scaled_to(height: int, width: int, short_side: int) -> tuple[int, int]:
    """(height, width) with that short side, the long one even; a picture that is smaller stays as it is.

    >>> scaled_to(240, 320, 128)
    (128, 170)
    """
    if min(height, width) <= short_side:
        return height, width
    long_side = 2 * round(max(height, width) * short_side / min(height, width) / 2)
    return (short_side, long_side) if height <= width else (long_side, short_side)


def read_frames(
    path: str | Path,
    *,
    size: Size | None = None,
    threads: int = 0,
    fps: Fraction | None = None,
    strict: bool = False,
    warn: Callable[[str], object] = warnings.warn,
) -> Iterator[Frame]:
    """Every frame as uint8 (H, W, 3) RGB, upright, one at a time, in constant memory.

    size: as in `read_clip`, or the short side alone. threads: that decode; 0: as many as there are cores.
    fps: put the frames onto this constant rate by their time stamps, holding or leaving out frames, so that a video
    of variable rate keeps its timing; a held frame is the same array again, so do not write into it.
    Damage: what can be read is given, damaged packets are skipped, and `warn` gets one line at the end;
    with `strict` a SfumatoError is raised instead. A file without one readable frame is always an error.

    >>> sum(frame.mean() for frame in read_frames("street.mp4"))  # doctest: +SKIP
    """
    from av.video.reformatter import VideoReformatter

    with _opened(path, threads=threads) as (container, stream):
        damage = _Damage(path, strict)
        decoded = _decoded(container, stream, damage)
        reformatter, geometry, exact = VideoReformatter(), None, None
        for frame, times in _on_constant_rate(decoded, fps) if fps else ((frame, 1) for frame in decoded):
            if geometry is None:
                geometry = _Geometry.of(frame, stream.sample_aspect_ratio)
                exact = scaled_to(*geometry.shown, size) if isinstance(size, int) else size
            if times:
                picture = geometry.picture(reformatter, frame, exact)
                for _ in range(times):
                    yield picture
        if geometry is None:
            raise _unreadable(path)
        damage.report(warn)


def read_clip(path: str | Path, indices: Sequence[int] | Tensor, size: tuple[int, int] | None = None) -> Tensor:
    """The frames of these indices, in the order asked for: uint8 (T, C, H, W), RGB.

    size: (height, width) to resize to, bilinear with antialiasing, in the decoder's own scaler.
    An index up to two past the last readable frame gives the last frame, since headers count so; beyond is an error.

    >>> read_clip("street.mp4", [0, 2, 4, 6], size=(112, 112)).shape  # doctest: +SKIP
    torch.Size([4, 3, 112, 112])
    """
    import torch
    from av.video.reformatter import VideoReformatter

    order = [int(index) for index in indices]
    if not order or min(order) < 0:
        raise SfumatoError(f"frames {order} cannot be read", "ask for one or more indices from 0 on")
    wanted, last, number = set(order), max(order), -1
    pictures: dict[int, Frame] = {}
    with _opened(path, threads=1) as (container, stream):
        reformatter, geometry, frame = VideoReformatter(), None, None
        for number, frame in enumerate(_decoded(container, stream, _Damage(path, strict=False))):
            geometry = geometry or _Geometry.of(frame, stream.sample_aspect_ratio)
            if number in wanted:
                pictures[number] = geometry.picture(reformatter, frame, size)
            if number == last:
                break
        if geometry is None:
            raise _unreadable(path)
        if last > number + HEADER_SLACK:
            raise SfumatoError(f"'{path}' has {number + 1} readable frames, not {last + 1}", "ask for fewer frames")
        if last > number:
            tail = geometry.picture(reformatter, frame, size)
            pictures.update({index: tail for index in wanted if index > number})
    return torch.from_numpy(np.stack([pictures[index] for index in order])).permute(0, 3, 1, 2).contiguous()


def find_videos(source: str | Path) -> list[Path]:
    """The videos of a file, a folder (with all its subfolders) or a glob, sorted; hidden files are left out.

    >>> find_videos("clips/**/*.mp4")  # doctest: +SKIP
    [PosixPath('clips/a.mp4'), PosixPath('clips/b/c.mp4')]
    """
    path = Path(source)
    if path.is_file():
        return [path]
    if path.is_dir():
        inside = (item for item in path.rglob("*") if not any(p.startswith(".") for p in item.relative_to(path).parts))
    elif glob.has_magic(str(source)):
        inside = (Path(name) for name in glob.glob(str(source), recursive=True))
    else:
        raise _missing(path)
    found = sorted(item for item in inside if item.suffix.lower() in SUFFIXES and item.is_file())
    if not found:
        raise SfumatoError(f"no video in '{source}'", "put a video there, or name a file")
    return found


def open_container(path: str | Path) -> Any:
    """The file as a PyAV container, or a SfumatoError that says why not.

    >>> open_container("song.mp3").streams.audio  # doctest: +SKIP
    """
    import av

    if not Path(path).exists():
        raise _missing(Path(path))
    if Path(path).is_dir():
        raise SfumatoError(f"'{path}' is a folder", "name a video file")
    try:
        # "file:" since a name like "12:30.mp4" would be taken for a protocol.
        return av.open(f"file:{os.fspath(path)}", metadata_errors="replace")
    except av.error.FFmpegError as error:
        raise SfumatoError(f"'{path}' cannot be read as a video ({error.strerror})", "check the file") from error


@contextmanager
def _opened(path: str | Path, threads: int = 0) -> Iterator[tuple[Any, Any]]:
    """The container and its first true video stream, decoded by that many threads; 0: as many as there are cores.

    One is best for who reads many short files side by side: starting the others takes longer than they save.
    """
    from av.stream import Disposition

    with open_container(path) as container:
        # The cover picture of a song is a video stream too, of one frame.
        streams = [stream for stream in container.streams.video if not stream.disposition & Disposition.attached_pic]
        if not streams:
            raise SfumatoError(f"'{path}' has no video stream", "name a file with pictures in it")
        if streams[0].codec_context is None:
            raise SfumatoError(f"'{path}' is in a format that cannot be decoded here", "convert it to H.264 first")
        streams[0].thread_type = "AUTO"
        streams[0].codec_context.thread_count = threads
        yield container, streams[0]


class _Damage:
    """What could not be read of one file; with `strict` the first damage is the end."""

    def __init__(self, path: str | Path, strict: bool) -> None:
        self.path, self.strict = path, strict
        self.packets = 0
        self.cut = ""

    def packet(self) -> None:
        self.packets += 1
        self._stop_if_strict()

    def ended(self, at: float, expected: float | None, slack: float = DURATION_SLACK) -> None:
        if expected is not None and expected - at > slack:
            self.cut = f"it ends after {at:.1f} of {expected:.1f} s"
            self._stop_if_strict()

    def __str__(self) -> str:
        skipped = f"{self.packets} unreadable piece{'s' * (self.packets > 1)} left out" if self.packets else ""
        return f"'{self.path}' is damaged ({', '.join(filter(None, (skipped, self.cut)))})"

    def report(self, warn: Callable[[str], object]) -> None:
        if self.packets or self.cut:
            warn(str(self))

    def _stop_if_strict(self) -> None:
        if self.strict:
            raise SfumatoError(str(self), "mend or copy the file again, or read it without strict")


def _decoded(container: Any, stream: Any, damage: _Damage) -> Iterator[Any]:
    """Frames as PyAV gives them, in order of presentation; what cannot be decoded is noted and skipped."""
    import av

    packets = container.demux(stream)
    end, count = 0.0, 0
    while True:
        try:
            packet = next(packets, None)
        except av.error.FFmpegError:
            damage.packet()
            packet = None
        try:
            # A demuxer that broke off has not told the decoder to give what it still holds; after one that has, a
            # second telling gives nothing.
            frames = stream.decode(None) if packet is None else packet.decode()
        except av.error.EOFError:
            frames = []
        except av.error.FFmpegError:
            damage.packet()
            frames = []
        for frame in frames:
            if frame.pts is not None:
                end = float((frame.pts - (stream.start_time or 0) + (frame.duration or 0)) * frame.time_base)
            count += 1
            yield frame
        if packet is None:
            # A whole file's duration tells nothing of the pictures where there is sound, which may go on after them.
            stated = stream.duration is not None or len(container.streams) == 1
            damage.ended(end, _duration(container, stream) if stated else None)
            # The duration of an AVI is reckoned from what is there, however little; what was recorded is told by its header's
            # count alone. A count without pictures (a camera that held the last one) is no cut: there the time stamps go on.
            if container.format.name == "avi" and stream.frames - damage.packets - count > HEADER_SLACK:
                damage.ended(end, float(stream.frames * stream.time_base), slack=float(HEADER_SLACK / _rate(stream)))
            return


def _on_constant_rate(frames: Iterator[Any], fps: Fraction) -> Iterator[tuple[Any, int]]:
    """Each frame with the number of ticks of 1/fps it is shown for; 0 where the next one comes within its tick."""
    held, slot, origin = None, 0, Fraction(0)
    for frame in frames:
        time = None if frame.pts is None else frame.pts * Fraction(frame.time_base)
        if held is None:
            held, origin = frame, time or Fraction(0)
            continue
        at = slot + 1 if time is None else round((time - origin) * fps)
        if time is not None and not slot - fps <= at <= slot + LONGEST_HOLD * fps:
            at = slot + 1
            origin = time - at / fps
        yield held, max(0, at - slot)
        held, slot = frame, max(slot, at)
    if held is not None:
        lasts = (held.duration or 0) * Fraction(held.time_base)
        yield held, max(1, round(min(lasts, LONGEST_HOLD) * fps))


def _rate(stream: Any) -> Fraction:
    rates = (stream.average_rate, stream.guessed_rate)
    return next((Fraction(rate) for rate in rates if rate and 0 < rate <= HIGHEST_RATE), USUAL_RATE)


def _duration(container: Any, stream: Any) -> float | None:
    """Seconds, as stated for the stream or else for the whole file (Matroska states only that)."""
    if stream.duration is not None:
        return float(stream.duration * stream.time_base)
    return None if container.duration is None else container.duration / 1e6


def _missing(path: Path) -> SfumatoError:
    return SfumatoError(f"there is no file '{path}'", "check the name")


def _unreadable(path: str | Path) -> SfumatoError:
    return SfumatoError(f"no frame of '{path}' can be read", "the file is damaged or empty; copy it again")
