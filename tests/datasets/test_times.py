"""Which frames of their source videos clips are made of."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from torch import Tensor

from sfumato.datasets import open_dataset
from sfumato.datasets.files import FileDataset, Row, Sampling

PARTS = ("train", "val", "test")


def opened(paths: list[Path], sampling: Sampling) -> FileDataset:
    rows = [
        Row(path, path.name, "bow", split={"person": PARTS[n % 3], "clip": PARTS[n % 3]})
        for n, path in enumerate(paths)
    ]
    return FileDataset("files", rows, [], sampling, strict=False, problems=[])


def seen(data: FileDataset, indices: Tensor, greys: list[int]) -> Tensor:
    """The frame numbers (N, T) as the pixels tell them: from its grey on, a video grows brighter by 8 each frame."""
    found = data.clips(indices).pixels[:, 0].float().mean((2, 3, 4))
    return ((found - torch.tensor(greys)[:, None]) / 8).round().long()


@pytest.mark.parametrize(
    ("sampling", "expected"),
    [
        (Sampling(frames=4, size=16), [1, 4, 7, 10]),  # every third of 12, from the middle of what is left
        (Sampling(frames=4, size=16, skip=1), [4, 5, 6, 7]),
        (Sampling(frames=4, size=16, skip=2), [2, 4, 6, 8]),
        (Sampling(frames=12, size=16), list(range(12))),
        (Sampling(frames=1, size=16), [5]),
    ],
)
def test_times_are_the_frames_that_clips_show(videos: Path, sampling: Sampling, expected: list[int]) -> None:
    data = opened([videos / "clips" / f"{n}.mp4" for n in range(6)], sampling)
    indices = torch.tensor([5, 0, 3])
    times = data.times(indices)
    assert (times.shape, times.dtype) == ((3, sampling.frames), torch.int64)
    assert times.tolist() == [expected] * 3
    assert seen(data, indices, [50, 0, 30]).equal(times)


def test_every_video_has_times_of_its_own(videos: Path) -> None:
    paths = [videos / "clips" / "0.mp4", videos / "short.mp4", videos / "clips" / "1.mp4"]
    data = opened(paths, Sampling(frames=3, size=16))
    assert data.times(torch.tensor([1, 2])).tolist() == [[0, 1, 2], [1, 5, 9]]


def test_times_of_a_file_that_is_shorter_than_it_says_are_those_really_read(videos: Path, tmp_path: Path) -> None:
    whole = (videos / "clips" / "3.mp4").read_bytes()
    (tmp_path / "cut.mp4").write_bytes(whole[: -len(whole) // 8])
    for n in range(2):
        shutil.copy(videos / "clips" / f"{n}.mp4", tmp_path)
    data = opened([tmp_path / name for name in ("cut.mp4", "0.mp4", "1.mp4")], Sampling(frames=12, size=16))
    pixels = data.clips(torch.tensor([0])).pixels
    times = data.times(torch.tensor([0]))
    assert pixels.shape[2] == times.shape[1] == 12
    assert times.max() < data.rows[0].frames < 12


def test_the_theatre_counts_its_frames() -> None:
    data = open_dataset("theatre:small")
    times = data.times(torch.tensor([7, 1, 1999]))
    assert times.dtype == torch.int64
    assert times.tolist() == [list(range(8))] * 3
