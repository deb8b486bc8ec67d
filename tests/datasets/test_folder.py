from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
import torch

from sfumato.datasets import open_dataset
from sfumato.datasets.files import FileDataset, automatic_split
from sfumato.errors import SfumatoError

OPTIONS = "?frames=4&size=16"


@pytest.fixture
def folder(videos: Path, tmp_path: Path) -> Path:
    """train, val and test, in each two actions with one video each."""
    for n, part in enumerate(("train", "val", "test")):
        for m, action in enumerate(("bow", "wave")):
            place = tmp_path / "set" / part / action
            place.mkdir(parents=True)
            shutil.copy(videos / "clips" / f"{2 * n + m}.mp4", place / "a.mp4")
    return tmp_path / "set"


def opened(folder: Path, *, strict: bool = False) -> FileDataset:
    data = open_dataset(f"folder:{folder}{OPTIONS}", strict=strict)
    assert isinstance(data, FileDataset)
    return data


def test_a_folder_per_action_and_parts_above_them(folder: Path) -> None:
    data = opened(folder)
    assert data.actions == ("bow", "wave")
    assert (data.persons, data.attributes) == ((), ())
    for part in ("train", "val", "test"):
        rows = data.split(part, "person")
        assert rows.equal(data.split(part, "clip"))
        labels = data.labels(rows)
        assert labels.action.tolist() == [0, 1]
        assert labels.person.tolist() == [-1, -1]
        assert (labels.attributes.shape, labels.attributes.dtype) == ((2, 0), torch.int64)
        assert all(part in data.rows[i].path.parts for i in rows.tolist())
    assert data.clips(torch.arange(6)).pixels.shape == (6, 1, 4, 3, 16, 16)
    with pytest.raises(SfumatoError, match=r"no labels of scene: give data that has one of them$"):
        data.about(["scene"])
    assert data.sample(0).attributes == {}


def test_without_parts_each_file_falls_into_one_by_its_hash(videos: Path, tmp_path: Path) -> None:
    names = [f"bow/{n}.mp4" for n in range(40)]
    chosen = {part: [n for n in names if automatic_split(n) == part][:2] for part in ("train", "val", "test")}
    for name in (name for part in chosen.values() for name in part):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(videos / "clips" / "0.mp4", tmp_path / name)
    data = opened(tmp_path)
    for part, expected in chosen.items():
        found = [str(data.rows[i].path.relative_to(tmp_path)) for i in data.split(part, "clip").tolist()]
        assert sorted(found) == sorted(expected)


def test_bad_files_are_named_and_strict_stops(folder: Path) -> None:
    (folder / "train" / "bow" / "broken.mp4").write_bytes(b"nothing")
    shutil.copy(folder / "train" / "bow" / "a.mp4", folder / "stray.mp4")
    data = opened(folder)
    assert len(data) == 6
    assert any(p.startswith("train/bow/broken.mp4: ") and "cannot be read" in p for p in data.problems)
    assert any(p.startswith("stray.mp4: lies beside") for p in data.problems)
    with pytest.raises(SfumatoError, match=r"stray.mp4: lies beside"):
        opened(folder, strict=True)
    (folder / "stray.mp4").unlink()
    with pytest.raises(SfumatoError, match=r"train/bow/broken.mp4: "):
        opened(folder, strict=True)


def test_an_empty_or_missing_folder_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(SfumatoError, match=r"no video in .*put a video there"):
        opened(tmp_path)
    with pytest.raises(SfumatoError, match=r"there is no folder .*one subfolder per action"):
        opened(tmp_path / "none")
    with pytest.raises(SfumatoError, match="'folder:' names no path"):
        open_dataset("folder:")


def test_too_few_videos_for_a_split_say_where_to_put_more(folder: Path) -> None:
    shutil.rmtree(folder / "val")
    with pytest.raises(SfumatoError, match="no val clips in its split by person: put some into 'val/ACTION/'"):
        opened(folder)


def test_a_path_without_its_kind_is_answered_with_the_data_set_it_looks_like(
    videos: Path, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def meant(name: str) -> str:
        with pytest.raises(SfumatoError, match=f"there is no data set '{re.escape(name)}': ") as error:
            open_dataset(name)
        return error.value.next_step

    monkeypatch.chdir(tmp_path)
    for place in ("clips", "flat", "packed", "nothing"):
        (tmp_path / place).mkdir()
    (tmp_path / "clips" / "index.csv").write_text("path,action\n")
    (tmp_path / "packed" / "index.json").write_text("{}")
    shutil.copy(next(videos.glob("*.mp4")), "flat")
    for name, kind in (
        ("clips/index.csv", "manifest:clips/index.csv"), ("clips?frames=8", "manifest:clips/index.csv?frames=8"),
        ("flat?size=64", "footage:flat?size=64"), (str(folder), f"folder:{folder}"), ("packed", "shards:packed"),
    ):  # fmt: skip
        assert meant(name) == f"did you mean '{kind}'? others: sfumato list datasets"
    for name in ("nothing", "nowhere", ""):
        assert "all 31: sfumato list datasets" in meant(name)
