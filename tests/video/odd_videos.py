"""Makes the odd videos that the tests read, and finds the real ones where they are at hand."""

from __future__ import annotations

import os
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

HEIGHT, WIDTH = 48, 64


def fixtures() -> Path:
    """The folder of real clips; the test is skipped where it is absent."""
    beside = Path(__file__).parents[3] / "shared" / "data"
    folder = Path(os.environ.get("SFUMATO_DATA", beside)) / "fixtures"
    if not folder.is_dir():
        pytest.skip("the real clips are not at hand")
    return folder


def corners(height: int = HEIGHT, width: int = WIDTH) -> np.ndarray:
    """A picture whose four quarters tell every turn and mirror: red, green over blue, white."""
    picture = np.zeros((height, width, 3), np.uint8)
    picture[: height // 2, : width // 2] = (255, 0, 0)
    picture[: height // 2, width // 2 :] = (0, 255, 0)
    picture[height // 2 :, : width // 2] = (0, 0, 255)
    picture[height // 2 :, width // 2 :] = (255, 255, 255)
    return picture


def greys(count: int, height: int = HEIGHT, width: int = WIDTH) -> list[np.ndarray]:
    """Frames of one grey each, 20, 30, 40, …, so that a frame's mean tells its number."""
    return [np.full((height, width, 3), 20 + 10 * number, np.uint8) for number in range(count)]


def numbers(frames: Sequence[np.ndarray]) -> list[int]:
    """The number of each frame of `greys`, read back from its mean."""
    return [round((float(frame.mean()) - 20) / 10) for frame in frames]


def make(
    path: Path,
    frames: Sequence[np.ndarray],
    *,
    codec: str = "libx264",
    pixels: str = "yuv420p",
    rate: int = 30,
    times: Sequence[int] | None = None,
    rotation: tuple[float, bool, bool] | None = None,
    aspect: Fraction | None = None,
    sound: bool = False,
    metadata: dict[str, str] | None = None,
    container_options: dict[str, str] | None = None,
) -> Path:
    """Write `frames` with PyAV; `times` are presentation times in milliseconds instead of a constant rate."""
    with av.open(str(path), "w", options=container_options or {}) as container:
        container.metadata.update(metadata or {})
        stream: Any = container.add_stream(codec, rate=rate, options={"crf": "1"} if codec == "libx264" else {})
        stream.height, stream.width = frames[0].shape[:2]
        stream.pix_fmt = pixels
        if times:
            stream.codec_context.time_base = Fraction(1, 1000)
        if rotation:
            stream.set_display_rotation(*rotation)
        if aspect:
            stream.codec_context.sample_aspect_ratio = aspect
        track: Any = container.add_stream("aac", rate=48_000, layout="mono") if sound else None
        for number, array in enumerate(frames):
            frame = av.VideoFrame.from_ndarray(array, format="rgb24")
            if times:
                frame.pts, frame.time_base = times[number], Fraction(1, 1000)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
        if track:
            container.mux([*track.encode(tone(len(frames) / rate)), *track.encode(None)])
    return path


def tone(seconds: float, rate: int = 48_000) -> Any:
    """A 440 Hz tone."""
    wave = np.sin(2 * np.pi * 440 * np.arange(int(seconds * rate)) / rate).astype(np.float32)
    frame = av.AudioFrame.from_ndarray(wave[None], format="fltp", layout="mono")
    frame.sample_rate, frame.pts, frame.time_base = rate, 0, Fraction(1, rate)
    return frame


def cut(path: Path, share: float) -> Path:
    """Keep only the first part of the file's bytes."""
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])
    return path
