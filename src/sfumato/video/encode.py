"""Frames into an H.264 file that appears under its name only when it is whole, and says nothing of where it is from."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import SfumatoError
from sfumato.video.decode import open_container

CONTAINERS = {".mp4": "mp4", ".m4v": "mp4", ".mov": "mov", ".mkv": "matroska"}
AUDIO_RATE = 48_000


class VideoWriter:
    """Writes uint8 (H, W, 3) RGB frames at a constant rate; use it as a context manager.

    size: (height, width); an odd side is padded by one line that repeats the edge, since 4:2:0 colour needs even sides.
    The frames go to a hidden `.NAME.partial-PID` beside the target, which takes the final name when the block ends
    well; after an exception it is removed, after a kill the next writer to that name removes it.
    No metadata is written. audio_from: a file whose first sound track is written too, as AAC, its start counted from
    the first picture of that file, cut where the frames end; a file without sound gives none.

    >>> with VideoWriter("grey.mp4", fps=25, size=(48, 64)) as writer:  # doctest: +SKIP
    ...     writer.write(np.full((48, 64, 3), 128, np.uint8))
    """

    def __init__(
        self,
        path: str | Path,
        fps: Fraction | float,
        size: tuple[int, int],
        *,
        audio_from: str | Path | None = None,
    ) -> None:
        self.path = Path(path)
        self.fps = Fraction(fps).limit_denominator(100_000)
        self.size = size
        self.audio_from = audio_from
        self.frames = 0
        self._container: Any = None
        self._sound: _Sound | None = None
        self._partial = self.path.with_name(f"{_partial_prefix(self.path)}{os.getpid()}{self.path.suffix}")
        if self.path.suffix.lower() not in CONTAINERS:
            raise SfumatoError(f"'{path}' cannot be written", f"end its name in {', '.join(CONTAINERS)}")
        if self.fps <= 0 or min(size) < 1:
            raise SfumatoError(f"no video has size {size} at {self.fps} frames per second", "use more than 0")

    def __enter__(self) -> VideoWriter:
        if self.path.is_dir():
            raise SfumatoError(f"'{self.path}' is a folder", "name a file to write")
        if not self.path.parent.is_dir():
            raise SfumatoError(f"there is no folder '{self.path.parent}'", "make it first")
        try:
            with self._explained():
                _remove_leftovers(self.path)
                self._partial.touch()  # the library opens it only with the first packet: late for a wrong place
                self._open()
        except BaseException:
            self._abandon()
            raise
        return self

    def write(self, frame: NDArray[np.uint8]) -> None:
        """Append one frame: uint8 (H, W, 3)."""
        import av
        from av.video.reformatter import ColorRange, Colorspace

        if frame.shape != (*self.size, 3) or frame.dtype != np.uint8:
            raise SfumatoError(
                f"a frame is {frame.dtype} {frame.shape}, the video takes uint8 {(*self.size, 3)}", "resize it first"
            )
        odd_rows, odd_columns = self.size[0] % 2, self.size[1] % 2
        if odd_rows or odd_columns:
            frame = np.pad(frame, ((0, odd_rows), (0, odd_columns), (0, 0)), mode="edge")
        with self._explained():
            picture = self._reformatter.reformat(
                av.VideoFrame.from_ndarray(frame),
                format="yuv420p",
                dst_colorspace=Colorspace.ITU709,
                dst_color_range=ColorRange.MPEG,
            )
            picture.pts, picture.time_base = self.frames, 1 / self.fps
            self._mux(self._video.encode(picture))
            self.frames += 1
            if self._sound is not None:
                self._sound.write_until(self.frames / self.fps)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                with self._explained():
                    self._finish()
        finally:
            self._abandon()

    def _open(self) -> None:
        import av
        from av.bitstream import BitStreamFilterContext
        from av.video.reformatter import ColorPrimaries, ColorRange, Colorspace, ColorTrc, VideoReformatter

        # bitexact keeps the library's version out of the file; faststart lets a browser play it while it loads.
        options = {"fflags": "+bitexact"}
        if (kind := CONTAINERS[self.path.suffix.lower()]) != "matroska":
            options["movflags"] = "+faststart"
        self._container = av.open(f"file:{self._partial}", "w", format=kind, options=options)
        self._video = self._container.add_stream("libx264", rate=self.fps, options={"crf": "19", "preset": "veryfast"})
        self._video.height, self._video.width = (side + side % 2 for side in self.size)
        self._video.pix_fmt = "yuv420p"
        self._video.thread_type = "AUTO"
        context = self._video.codec_context
        context.time_base = 1 / self.fps
        context.colorspace, context.color_range = Colorspace.ITU709, ColorRange.MPEG
        context.color_primaries, context.color_trc = ColorPrimaries.BT709, ColorTrc.BT709
        # x264 signs its work, with all its settings, in a message of type 6.
        self._unsigned = BitStreamFilterContext("filter_units=remove_types=6", self._video)
        self._reformatter = VideoReformatter()
        if self.audio_from is not None:
            self._sound = _Sound(self._container, self.audio_from)

    def _mux(self, packets: list[Any]) -> None:
        for packet in packets:
            self._container.mux(self._unsigned.filter(packet))

    def _finish(self) -> None:
        if not self.frames:
            raise SfumatoError(f"no frame was written to '{self.path}'", "give it at least one")
        self._mux([*self._video.encode(None), None])
        if self._sound is not None:
            self._sound.finish()
        self._container.close()
        # Some file systems tell only now that there is no room; and a power cut must not leave an empty file.
        descriptor = os.open(self._partial, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(self._partial, self.path)

    def _abandon(self) -> None:
        """Let go of everything; what is not finished by now is thrown away."""
        import av

        if self._sound is not None:
            self._sound.close()
        # Closing an unfinished file writes its index, which fails where writing has failed already.
        with suppress(OSError, av.error.FFmpegError):
            if self._container is not None:
                self._container.close()
        self._partial.unlink(missing_ok=True)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """The system's errors as one line for the user; PyAV's own are OSErrors too where the system gave them."""
        import av

        try:
            yield
        except (OSError, av.error.FFmpegError) as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                what, next_step = f"no space left on '{self.path.parent}'", "free some and run again"
            else:
                what = f"'{self.path}' cannot be written ({error.strerror})"
                next_step = "check that its folder may be written to"
            raise SfumatoError(what, next_step) from error


class _Sound:
    """The first sound track of a file, encoded anew as the pictures go by, so that nothing piles up in memory."""

    def __init__(self, output: Any, source: str | Path) -> None:
        from av.codec.context import Flags

        self._output = output
        self._source = open_container(source)
        self._pieces: Iterator[tuple[Fraction, Any]] = iter(())
        self._stream: Any = None
        if self._source.streams.audio:
            track = self._source.streams.audio[0]
            layout = "mono" if track.codec_context.layout.nb_channels == 1 else "stereo"
            self._stream = output.add_stream("aac", rate=AUDIO_RATE, layout=layout)
            self._stream.codec_context.flags |= Flags.bitexact
            self._pieces = self._decoded(track)
        self._next = next(self._pieces, None)

    def write_until(self, seconds: Fraction) -> None:
        """Write all pieces that start before this time of the video."""
        while self._next is not None and self._next[0] < seconds:
            self._output.mux(self._stream.encode(self._next[1]))
            self._next = next(self._pieces, None)

    def finish(self) -> None:
        if self._stream is not None:
            self._output.mux(self._stream.encode(None))

    def close(self) -> None:
        self._source.close()

    def _decoded(self, track: Any) -> Iterator[tuple[Fraction, Any]]:
        """(time, frame), time 0 being that of the first picture; a piece that cannot be decoded is left out."""
        import av

        origin = Fraction(0)
        for stream in self._source.streams.video[:1]:
            origin = (stream.start_time or 0) * Fraction(stream.time_base)
        packets = self._source.demux(track)
        while True:
            try:
                packet = next(packets, None)
            except av.error.FFmpegError:
                return  # the file is cut here, and the pictures end with it
            if packet is None:
                return
            try:
                frames = packet.decode()
            except av.error.FFmpegError:
                continue
            for frame in frames:
                time = (frame.pts or 0) * Fraction(frame.time_base) - origin
                if time >= 0:
                    frame.pts = round(time / Fraction(frame.time_base))
                    yield time, frame


def _partial_prefix(path: Path) -> str:
    return f".{path.stem}.partial-"


def _remove_leftovers(path: Path) -> None:
    """Remove what writers to this name left that were killed; one that is still at work keeps its file."""
    prefix = _partial_prefix(path)
    for item in path.parent.iterdir():
        owner = item.name.removeprefix(prefix).removesuffix(path.suffix)
        if item.name.startswith(prefix) and owner.isdigit() and not _alive(int(owner)):
            item.unlink(missing_ok=True)


def _alive(process: int) -> bool:
    if os.name != "posix":
        return True  # signal 0 asks nothing elsewhere: it ends the process
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
