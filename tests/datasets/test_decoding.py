"""Many files at once: sizes, rates, order, failures. The processes are real ones."""

from __future__ import annotations

import signal
import subprocess
import sys
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import BinaryIO

import pytest
import torch

from sfumato.datasets.decoding import appearing_whole, frames_at, in_order, read_window
from sfumato.errors import SfumatoError
from sfumato.video import read_clip, read_frames, scaled_to

DEADLY = "__import__('os')._exit(1)"


def halt(file: BinaryIO) -> None:
    file.write(b"half")
    raise KeyboardInterrupt


@pytest.mark.parametrize("size", [(240, 320, 128, 128, 170), (320, 240, 128, 170, 128), (100, 90, 128, 100, 90)])
def test_the_short_side_decides_and_nothing_is_enlarged(size: tuple[int, ...]) -> None:
    height, width, short_side, tall, wide = size
    assert scaled_to(height, width, short_side) == (tall, wide)


def test_frames_come_at_the_size_and_rate_asked_for(videos: Path) -> None:
    path = videos / "clips" / "3.mp4"  # 12 frames of 32×48 at 25 a second, brighter by 8 each
    small = list(frames_at(path, 16))
    assert len(small) == 12 and small[0].shape == (16, 24, 3)
    twice = list(frames_at(path, 16, fps=Fraction(50)))
    assert [round((float(f.mean()) - 30) / 8) for f in twice] == [n // 2 for n in range(24)]
    whole = list(read_frames(path))
    assert all((a == b).all() for a, b in zip(frames_at(path, 32), whole, strict=True))


def test_a_window_is_what_read_clip_gives_also_by_short_side_and_rate(videos: Path) -> None:
    path = videos / "clips" / "3.mp4"
    assert read_window(path, [5, 1], (16, 16)).equal(read_clip(path, [5, 1], (16, 16)))
    assert read_window(path, [5, 1], 16).equal(read_clip(path, [5, 1], (16, 24)))
    at_twice = read_window(path, [17, 4], 16, Fraction(50))
    assert at_twice.equal(read_clip(path, [8, 2], (16, 24)))
    for indices in ([24], [-1], []):
        with pytest.raises(SfumatoError):
            read_window(path, indices, 16, Fraction(50))


@pytest.mark.usefixtures("quick_processes")
@pytest.mark.parametrize("workers", [1, 2])
def test_results_keep_their_order_and_a_failure_is_told_once(videos: Path, workers: int) -> None:
    paths = [videos / "clips" / f"{n}.mp4" for n in (9, 3, 7, 0, 5, 1, 8, 2)]
    broken, told = videos / "broken.mp4", []  # type: ignore[var-annotated]
    job, before = partial(read_window, indices=[0], size=16), signal.getsignal(signal.SIGINT)
    some = [*paths[:3], broken, *paths[3:]]
    done = list(in_order(job, some, workers=workers, strict=False, tell=lambda *what: told.append(what)))
    assert [path for path, _ in done] == paths
    assert all(pixels.equal(read_window(path, [0], 16)) for path, pixels in done)
    ((path, why),) = told
    assert path == broken and "cannot be read as a video" in why and why.endswith(": check the file")
    with pytest.raises(SfumatoError) as error:
        list(in_order(job, some, workers=workers, strict=True, tell=told.append))
    assert "cannot be read as a video" in error.value.what and error.value.next_step == "check the file"
    assert len(told) == 1
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.usefixtures("quick_processes")
def test_an_item_that_kills_its_process_takes_nobody_with_it() -> None:
    told: list[str] = []
    done = list(in_order(eval, ["1", DEADLY, "2"], workers=2, strict=False, tell=lambda item, _: told.append(item)))
    assert done == [("1", 1), ("2", 2)] and told == [DEADLY]


INTERRUPTED_TWICE = """
import os, signal, threading, time
from sfumato.datasets.decoding import in_order

def twice():
    for _ in range(2):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.0005)

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # what runs in the background inherits that it is ignored
    try:
        for n, _ in enumerate(in_order(time.sleep, [0.01] * 100_000, workers=2, strict=False, tell=print)):
            if n == 5:
                threading.Thread(target=twice).start()
    except KeyboardInterrupt:
        print("stopped")
"""


def test_a_second_interrupt_does_not_leave_it_hanging(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(INTERRUPTED_TWICE)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "stopped\n"


def test_a_file_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    with appearing_whole(path) as one, appearing_whole(path) as other:
        one.write(b"one")
        other.write(b"other")
        assert not path.exists()
    assert path.read_bytes() == b"one"  # the outer block ended last
    with pytest.raises(KeyboardInterrupt), appearing_whole(path) as file:
        halt(file)
    assert path.read_bytes() == b"one" and list(tmp_path.iterdir()) == [path]


def test_a_damaged_video_is_an_error_not_a_shorter_one(tmp_path: Path, videos: Path) -> None:
    whole = (videos / "clips" / "3.mp4").read_bytes()
    cut = tmp_path / "cut.mp4"
    cut.write_bytes(whole[: -len(whole) // 8])
    with pytest.raises(SfumatoError, match="is damaged"):
        list(frames_at(cut, 16))
    assert 0 < len(list(frames_at(cut, 16, strict=False))) < 12
    assert torch.equal(read_window(cut, [0], 16), read_window(videos / "clips" / "3.mp4", [0], 16))
