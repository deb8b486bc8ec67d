"""Videos through an encoder into a store."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
import torch
from torch import Tensor

from sfumato.datasets import open_dataset
from sfumato.datasets.feature_store import FeatureStore, FeatureWriter
from sfumato.recognizers.encoders import Encoder
from sfumato.training.extraction import clips_of_file, describe, extract, extract_items, files, item_name, static_frames
from sfumato.video import VideoWriter, probe

CPU = torch.device("cpu")


class Brightness(Encoder):
    """A clip's mean over all its pixels, that of its first frame, and how much it moves; counts the clips it saw."""

    width, clip = 3, (4, 16, 16)

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("one", torch.ones(1))
        self.seen = 0

    def encode(self, video: Tensor) -> Tensor:
        self.seen += len(video)
        moved = (video[:, 1:] - video[:, :-1]).abs().mean((1, 2, 3, 4))
        return torch.stack([video.mean((1, 2, 3, 4)), video[:, 0].mean((1, 2, 3)), moved], 1)


@pytest.fixture
def film(tmp_path: Path) -> Path:
    """Ten frames, each a little brighter."""
    path = tmp_path / "film.mp4"
    with VideoWriter(path, 10, (16, 16)) as writer:
        for number in range(10):
            writer.write(torch.full((16, 16, 3), 20 * number + 20, dtype=torch.uint8).numpy())
    return path


def test_all_clips_of_a_file_none_twice(film: Path) -> None:
    assert probe(film).frames == 10
    found = list(clips_of_file(film, 4, 1))
    assert [start for start, _ in found] == [0, 4, 8]
    levels = [[round(float(f.float().mean()) / 20) for f in clip] for _, clip in found]
    assert levels == [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 10, 10]]  # the last one filled up with its last frame
    stepped = list(clips_of_file(film, 4, 2))
    assert [start for start, _ in stepped] == [0, 8]
    assert [round(float(f.float().mean()) / 20) for f in stepped[0][1]] == [1, 3, 5, 7]


def test_clips_and_static_clips_side_by_side(film: Path, tmp_path: Path) -> None:
    encoder = Brightness()
    manifest = describe(encoder, "brightness")
    assert extract(encoder, files([film], manifest), FeatureWriter(tmp_path / "f", manifest), device=CPU, batch=2) == 1
    rows = FeatureStore(tmp_path / "f")[0]
    assert rows.shape == (3, 3, 3)
    assert rows[0, :, 0] * 255 == pytest.approx([50, 20, 80], abs=3)  # the clip, its first and its last frame
    assert rows[0, 0, 2] > 0.01 and rows[:, 1:, 2].abs().max() == 0  # static clips do not move


def test_an_interrupted_extraction_encodes_no_clip_twice(film: Path, tmp_path: Path) -> None:
    encoder, folder = Brightness(), tmp_path / "f"
    manifest = describe(encoder, "brightness", static=0)

    def stop(video: str, clips: int) -> None:
        if clips == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        extract(encoder, files([film], manifest), FeatureWriter(folder, manifest), device=CPU, batch=1, progress=stop)
    assert extract(encoder, files([film], manifest), FeatureWriter(folder, manifest), device=CPU, batch=1) == 1
    assert encoder.seen == 3 and len(FeatureStore(folder)[0]) == 3
    assert extract(encoder, files([film], manifest), FeatureWriter(folder, manifest), device=CPU) == 0
    assert encoder.seen == 3


def test_the_clips_of_a_data_set(tmp_path: Path) -> None:
    class Whole(Brightness):
        clip = (8, 64, 64)

    dataset, encoder = open_dataset("theatre:small"), Whole()
    manifest = describe(encoder, "whole", static=1)
    indices = torch.tensor([0, 3, 5])
    assert extract_items(encoder, dataset, indices[:1], FeatureWriter(tmp_path, manifest), device=CPU) == 1
    assert extract_items(encoder, dataset, indices, FeatureWriter(tmp_path, manifest), device=CPU, batch=2) == 2
    store = FeatureStore(tmp_path)
    assert [video.name for video in store.videos] == [item_name(dataset, index) for index in (0, 3, 5)]
    pixels = dataset.clips(indices).pixels[:, 0].float() / 255
    assert torch.allclose(torch.stack([store[i][0, 0] for i in range(3)]), encoder.encode(pixels), atol=1e-5)


def test_an_only_clip_that_was_stored_before_an_interrupt_stays_the_only_one(tmp_path: Path) -> None:
    class Whole(Brightness):
        clip = (8, 64, 64)

    dataset, encoder = open_dataset("theatre:small"), Whole()
    writer = FeatureWriter(tmp_path, describe(encoder, "whole", static=0))
    with suppress(KeyboardInterrupt), writer.video(item_name(dataset, 0)) as rows:
        rows.add(0, torch.ones(1, 3))
        raise KeyboardInterrupt
    assert extract_items(encoder, dataset, torch.tensor([0]), writer, device=CPU) == 1
    assert torch.equal(FeatureStore(tmp_path)[0], torch.ones(1, 1, 3))


def test_static_frames_are_spread() -> None:
    assert static_frames(16, 0) == [] and static_frames(16, 1) == [8] and static_frames(16, 3) == [0, 8, 15]
