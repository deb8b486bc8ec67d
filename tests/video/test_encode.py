from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

from sfumato.errors import SfumatoError
from sfumato.video import VideoWriter, probe, read_frames

from .odd_videos import HEIGHT, WIDTH, corners, greys, make, numbers

SIZE = (HEIGHT, WIDTH)


def write(path: Path, frames: list[np.ndarray], fps: Fraction | float = 30, audio_from: Path | None = None) -> Path:
    with VideoWriter(path, fps, frames[0].shape[:2], audio_from=audio_from) as writer:
        for frame in frames:
            writer.write(frame)
    return path


def sound_of(path: Path) -> np.ndarray:
    with av.open(str(path)) as container:
        return np.concatenate([frame.to_ndarray() for frame in container.decode(audio=0)], axis=1)


@pytest.mark.parametrize("suffix", ["mp4", "mov", "mkv"])
def test_what_is_written_is_read_again(tmp_path: Path, suffix: str) -> None:
    path = write(tmp_path / f"a.{suffix}", greys(20), fps=Fraction(30000, 1001))
    info = probe(path)
    assert (info.height, info.width, info.fps) == (*SIZE, Fraction(30000, 1001))
    assert numbers(list(read_frames(path))) == list(range(20))
    assert os.listdir(tmp_path) == [path.name]


def test_trap_2_colours_come_back_as_they_went(tmp_path: Path) -> None:
    frame = next(read_frames(write(tmp_path / "a.mp4", [corners()] * 3)))
    for row in (12, 36):
        for column in (16, 48):
            assert np.abs(frame[row, column].astype(int) - corners()[row, column].astype(int)).max() < 8


def test_odd_sizes_are_padded_with_the_edge(tmp_path: Path) -> None:
    frame = next(read_frames(write(tmp_path / "odd.mp4", [corners(37, 51)] * 2)))
    assert frame.shape == (38, 52, 3)
    assert np.abs(frame[-1].astype(int) - frame[-2].astype(int)).max() < 12
    assert np.abs(frame[28, 45].astype(int) - 255).max() < 8


def test_no_tag_and_no_signature_is_written(tmp_path: Path) -> None:
    source = make(tmp_path / "in.mp4", greys(4), sound=True, metadata={"title": "Ward 7", "comment": "Mrs Smith"})
    assert b"Ward 7" in source.read_bytes()
    path = write(tmp_path / "out.mp4", greys(4), audio_from=source)
    data = path.read_bytes()
    for word in (b"Ward 7", b"Smith", b"x264", b"Lavf", b"Lavc"):
        assert word not in data
    with av.open(str(path)) as container:
        assert set(container.metadata) <= {"major_brand", "minor_version", "compatible_brands"}
        for stream in container.streams:
            assert set(stream.metadata) <= {"language", "handler_name", "vendor_id"}
            assert stream.metadata["handler_name"] in ("VideoHandler", "SoundHandler")


def test_sound_is_dropped_unless_asked_for(tmp_path: Path) -> None:
    source = make(tmp_path / "in.mkv", greys(20), rate=10, sound=True)
    assert not probe(write(tmp_path / "mute.mp4", greys(20), fps=10)).has_audio
    wave = sound_of(write(tmp_path / "loud.mp4", greys(20), fps=10, audio_from=source))
    assert wave.shape[1] / 48_000 == pytest.approx(2.0, abs=0.1)
    spectrum = np.abs(np.fft.rfft(wave[0]))
    assert np.argmax(spectrum) * 48_000 / wave.shape[1] == pytest.approx(440, abs=2)


def test_sound_ends_with_the_pictures(tmp_path: Path) -> None:
    source = make(tmp_path / "in.mp4", greys(20), rate=10, sound=True)
    wave = sound_of(write(tmp_path / "half.mp4", greys(10), fps=10, audio_from=source))
    assert wave.shape[1] / 48_000 == pytest.approx(1.0, abs=0.1)


def test_a_source_without_sound_gives_none(tmp_path: Path) -> None:
    source = make(tmp_path / "in.mp4", greys(4))
    assert not probe(write(tmp_path / "out.mp4", greys(4), audio_from=source)).has_audio


def test_an_exception_leaves_nothing_and_touches_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.mp4"
    path.write_bytes(b"what was there before")

    def interrupted() -> None:
        with VideoWriter(path, 30, SIZE) as writer:
            for frame in greys(20) * 5:
                writer.write(frame)
            assert len(os.listdir(tmp_path)) == 2
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert os.listdir(tmp_path) == ["a.mp4"]
    assert path.read_bytes() == b"what was there before"


def test_a_bad_source_of_sound_leaves_nothing(tmp_path: Path) -> None:
    garbage = tmp_path / "garbage"
    garbage.write_bytes(b"no sound here")
    with (
        pytest.raises(SfumatoError, match="cannot be read"),
        VideoWriter(tmp_path / "a.mp4", 30, SIZE, audio_from=garbage),
    ):
        pass
    assert os.listdir(tmp_path) == ["garbage"]


def test_no_frame_at_all_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SfumatoError, match="no frame was written"), VideoWriter(tmp_path / "a.mp4", 30, SIZE):
        pass
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("where", ["mux", "close"])
def test_a_full_disk_is_one_clear_line_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    real = av.open

    class Full:
        """A container on a disk that is full from some moment on."""

        def __init__(self, *arguments: object, **options: object) -> None:
            self.inner = real(*arguments, **options)  # type: ignore[call-overload]

        def __getattr__(self, name: str) -> object:
            if name == where:
                return self.fail
            return getattr(self.inner, name)

        def fail(self, *_: object) -> None:
            raise av.error.OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "a.mp4")

    monkeypatch.setattr(av, "open", Full)
    with pytest.raises(SfumatoError, match=r"no space left on '.*': free some and run again"):
        write(tmp_path / "a.mp4", greys(20) * 5)
    assert os.listdir(tmp_path) == []


def test_a_real_write_error_reaches_the_user(tmp_path: Path) -> None:
    code = f"""
import resource, signal, sys
import numpy as np
from sfumato.errors import SfumatoError
from sfumato.video import VideoWriter
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
noise = np.random.default_rng(0)
try:
    with VideoWriter({str(tmp_path / "a.mp4")!r}, 30, (64, 64)) as writer:
        for _ in range(200):
            writer.write(noise.integers(0, 255, (64, 64, 3), dtype=np.uint8))
except SfumatoError as error:
    sys.exit(str(error))
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert "cannot be written (File too large)" in run.stderr
    assert "Traceback" not in run.stderr
    assert os.listdir(tmp_path) == []


def test_a_killed_writer_leaves_no_file_under_the_name_and_the_next_one_tidies_up(tmp_path: Path) -> None:
    path = tmp_path / "a.mp4"
    code = f"""
import numpy as np
from sfumato.video import VideoWriter
noise = np.random.default_rng(0)
with VideoWriter({str(path)!r}, 30, (64, 64)) as writer:
    while True:
        writer.write(noise.integers(0, 255, (64, 64, 3), dtype=np.uint8))
        if writer.frames == 100:
            print("writing", flush=True)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == "writing\n"
            (partial,) = os.listdir(tmp_path)
            assert partial == f".a.partial-{child.pid}.mp4"
            with VideoWriter(path, 30, SIZE) as writer:  # one that is still at work is left alone
                writer.write(greys(1)[0])
                assert partial in os.listdir(tmp_path)
            path.unlink()
        finally:
            child.send_signal(signal.SIGKILL)
    assert os.listdir(tmp_path) == [partial]
    assert not path.exists()
    write(path, greys(2))
    assert os.listdir(tmp_path) == ["a.mp4"]


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "folder.mp4").mkdir()
    for path, words in [
        (tmp_path / "none" / "a.mp4", "there is no folder"),
        (tmp_path / "folder.mp4", "is a folder"),
        (tmp_path / "a.gif", r"end its name in \.mp4"),
    ]:
        with pytest.raises(SfumatoError, match=words):
            write(path, greys(1))


def test_a_folder_without_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise av.error.PermissionError(errno.EACCES, os.strerror(errno.EACCES), "a.mp4")

    monkeypatch.setattr(av, "open", refuse)
    with pytest.raises(SfumatoError, match=r"cannot be written \(Permission denied\): check that its folder"):
        write(tmp_path / "a.mp4", greys(1))


def test_a_frame_of_another_size_or_type_is_refused(tmp_path: Path) -> None:
    for frame in (np.zeros((10, 10, 3), np.uint8), np.zeros((*SIZE, 3), np.float32)):
        with pytest.raises(SfumatoError, match="resize it first"), VideoWriter(tmp_path / "a.mp4", 30, SIZE) as writer:
            writer.write(frame)  # type: ignore[arg-type]
    assert os.listdir(tmp_path) == []
