"""`sfumato features extract`, used well and badly."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from sfumato.datasets.feature_store import FeatureStore
from sfumato.errors import SfumatoError
from sfumato.recognizers import make_recognizer

Make = Callable[..., Path]


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def encoder(tmp_path: Path) -> str:
    """A recognizer's weights as an encoder, for clips of 16 frames."""
    torch.manual_seed(0)
    torch.save(make_recognizer("tiny-video", 3, clip=(16, 112, 112)).state_dict(), tmp_path / "weights.pt")
    return f"tiny-video:{tmp_path / 'weights.pt'}"


def test_videos_become_vectors_and_a_second_run_does_the_rest(
    encoder: str, tmp_path: Path, make_video: Make, sfumato: Any
) -> None:
    videos, store = tmp_path / "videos", tmp_path / "features"
    make_video(videos / "a.mp4", frames=20)
    run = sfumato("features", "extract", videos, "--encoder", encoder, "-o", store, "--device", "cpu")
    assert (run.code, run.err) == (0, "")
    assert run.out == f"{store}: 2 clips of 1 videos, 1 of them new, width 192\n"
    make_video(videos / "b.mp4", frames=16)
    run = sfumato("features", "extract", videos, "--encoder", encoder, "-o", store, "--device", "cpu")
    assert run.out == f"{store}: 3 clips of 2 videos, 1 of them new, width 192\n"
    found = FeatureStore(store)
    assert [Path(video.name).name for video in found.videos] == ["a.mp4", "b.mp4"]
    assert found[0].shape == (2, 3, 192)


def test_what_is_missing_or_damaged_is_done_again(encoder: str, tmp_path: Path, make_video: Make, sfumato: Any) -> None:
    videos, store = tmp_path / "videos", tmp_path / "features"
    for number in range(3):
        make_video(videos / f"{number}.mp4", frames=16, seed=number)
    extract = ("features", "extract", videos, "--encoder", encoder, "-o", store, "--static", 0, "--device", "cpu")
    assert sfumato(*extract).code == 0
    before = FeatureStore(store)
    rows = [before[number].clone() for number in range(3)]
    (store / before.videos[0].file).unlink()
    (store / before.videos[1].file).write_bytes(b"damaged")
    assert sfumato(*extract).out == f"{store}: 3 clips of 3 videos, 2 of them new, width 192\n"
    after = FeatureStore(store)
    assert all(torch.allclose(after[number], rows[number]) for number in range(3))
    assert sfumato(*extract).out == f"{store}: 3 clips of 3 videos, 0 of them new, width 192\n"


def test_a_video_that_cannot_be_read_is_named_and_the_others_go_on(
    encoder: str, tmp_path: Path, make_video: Make, sfumato: Any
) -> None:
    videos, store = tmp_path / "videos", tmp_path / "features"
    make_video(videos / "b.mp4", frames=16)
    (videos / "a.mp4").write_bytes(b"no video")
    run = sfumato("features", "extract", videos, "--encoder", encoder, "-o", store, "--static", 0, "--device", "cpu")
    assert run.code == 2 and "a.mp4" in run.err and "1 of the videos could not be read" in run.err
    assert FeatureStore(store)[0].shape == (1, 1, 192)
    strict = sfumato("features", "extract", videos, "--encoder", encoder, "-o", "other", "--device", "cpu", "--strict")
    assert "a.mp4' cannot be read as a video" in strict.error
    with pytest.raises(SfumatoError, match="holds no features yet"):  # b.mp4 would have come next
        FeatureStore("other")


def test_a_truncated_video_gives_what_can_be_read_of_it_or_stops(
    encoder: str, tmp_path: Path, make_video: Make, sfumato: Any
) -> None:
    video, store = make_video(tmp_path / "a.mp4", frames=80), tmp_path / "features"
    video.write_bytes(video.read_bytes()[: video.stat().st_size // 2])
    base = ("features", "extract", video, "--encoder", encoder, "-o", store, "--static", 0, "--device", "cpu")
    assert "a.mp4' is damaged" in sfumato(*base, "--strict").error
    with pytest.warns(UserWarning, match="a.mp4' is damaged"):
        assert sfumato(*base).code == 0
    assert 1 < len(FeatureStore(store)[0]) < 5


def test_a_bad_row_of_a_data_set_is_told_or_stops_it(
    encoder: str, tmp_path: Path, make_video: Make, sfumato: Any
) -> None:
    rows = ["path,action,split"]
    for n, part in enumerate(("train", "train", "val", "val", "test", "test")):
        make_video(tmp_path / f"{n}.mp4", frames=16)
        rows.append(f"{n}.mp4,{'ab'[n % 2]},{part}")
    (tmp_path / "index.csv").write_text("\n".join([*rows, "gone.mp4,a,train"]))
    data = f"manifest:{tmp_path}/index.csv?frames=16&size=32"
    base = ("features", "extract", data, "--encoder", encoder, "-o", tmp_path / "features", "--device", "cpu")
    assert "index.csv line 8: there is no file 'gone.mp4': mend the row" in sfumato(*base, "--strict").error
    run = sfumato(*base)
    assert (run.code, run.err) == (0, "left out: index.csv line 8: there is no file 'gone.mp4'\n")


def test_other_features_in_the_folder_and_wrong_names_are_told_in_one_line(
    encoder: str, tmp_path: Path, make_video: Make, sfumato: Any
) -> None:
    video, store = make_video(tmp_path / "a.mp4", frames=16), tmp_path / "features"
    base = ("features", "extract", video, "--device", "cpu", "-o", store)
    assert sfumato(*base, "--encoder", encoder).code == 0
    run = sfumato(*base, "--encoder", encoder, "--static", 1)
    assert (run.code, run.err) == (
        2,
        f"error: '{store}' holds features with per_clip = 3, not 2: choose another folder\n",
    )
    run = sfumato(*base, "--encoder", "videomea")
    assert run.code == 2 and run.err.startswith("error: there is no folder 'videomea'")
    run = sfumato("features", "extract", "gone.mp4", "--encoder", encoder, "--device", "cpu", "-o", store)
    assert (run.code, run.err) == (2, "error: there is no file 'gone.mp4': check the name\n")
    run = sfumato("features", "extract", "theatre:small", "--device", "cpu", "-o", store, "--encoder", encoder)
    assert run.code == 2 and "theatre:small have 8 frames, and the encoder takes 16" in run.err
