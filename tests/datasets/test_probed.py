"""The index of what was found in files: it saves the look, and changes nothing else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sfumato.datasets import open_dataset
from sfumato.datasets.files import FileDataset, Row
from sfumato.datasets.listed import ListedDataset
from sfumato.datasets.probed import index_folder
from sfumato.errors import SfumatoError

from . import copies
from .copies import SMALL, video


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("sfumato.datasets.probed.FEWEST", 10)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("SFUMATO_CLIP_CACHE", raising=False)
    return copies.ucf101(tmp_path / "ucf101")


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that are looked into from now on."""
    names: list[str] = []
    really = ListedDataset.look_into.__func__  # type: ignore[attr-defined]

    def look_into(cls: type[ListedDataset], row: Row) -> None:
        names.append(row.path.name)
        really(cls, row)

    monkeypatch.setattr(ListedDataset, "look_into", classmethod(look_into))
    return names


def opened(root: Path, options: str = SMALL, strict: bool = False) -> FileDataset:
    data = open_dataset(f"ucf101:{root}?{options}", strict=strict)
    assert isinstance(data, FileDataset)
    return data


CLIP = "UCF-101/Archery/v_Archery_g03_c01.avi"


def test_the_second_time_no_file_is_looked_into(root: Path, looked: list[str]) -> None:
    first = opened(root)
    assert len(looked) == 16
    second = opened(root, "frames=2&size=8&split=2")
    assert len(looked) == 16 and len(second) == 16
    known = [{row.path.name: (row.frames, row.rate) for row in data.rows} for data in (first, second)]
    assert known[0] == known[1] and set(known[0].values()) == {(8, 25.0)}
    assert opened(root).fingerprint() == first.fingerprint()


@pytest.mark.parametrize("what", ["longer, same time", "same size, later"])
def test_a_file_that_changed_is_looked_into_again(root: Path, looked: list[str], what: str) -> None:
    opened(root)
    looked.clear()
    if what == "longer, same time":
        before = (root / CLIP).stat().st_mtime_ns
        (root / CLIP).write_bytes(video(60, frames=12))
        os.utime(root / CLIP, ns=(before, before))
    else:
        os.utime(root / CLIP, ns=(0, 1))
    data = opened(root)
    assert looked == ["v_Archery_g03_c01.avi"]
    frames = next(row.frames for row in data.rows if row.path.name == Path(CLIP).name)
    assert frames == (12 if what == "longer, same time" else 8)
    opened(root)
    assert len(looked) == 1


def test_a_bad_file_is_reported_every_time_and_stops_when_strict(root: Path, looked: list[str]) -> None:
    whole = (root / CLIP).read_bytes()
    (root / CLIP).write_bytes(whole[:-60])
    for _ in range(2):
        data = opened(root)
        assert len(data) == 15 and len(data.problems) == 1 and "is cut short" in data.problems[0]
    assert looked.count(Path(CLIP).name) == 2 and len(looked) == 17
    with pytest.raises(SfumatoError, match="is cut short"):
        opened(root, strict=True)
    (root / CLIP).write_bytes(whole)
    assert len(opened(root, strict=True)) == 16


def test_a_file_that_vanished_is_missing(root: Path) -> None:
    opened(root)
    (root / CLIP).unlink()
    data = opened(root)
    assert len(data) == 15 and "there is no file" in data.problems[0]


@pytest.mark.parametrize("content", ["", "{}", '{"a": [1, 2]}', '{"a": 1}', "[]", "{ damaged"])
def test_a_damaged_index_is_no_index(root: Path, looked: list[str], content: str) -> None:
    opened(root)
    (index,) = index_folder().iterdir()
    index.write_text(content)
    assert len(opened(root)) == 16 and len(looked) == 32
    assert len(opened(root)) == 16 and len(looked) == 32  # mended


def test_sets_of_another_kind_over_the_same_files_do_not_share_it(root: Path, looked: list[str]) -> None:
    opened(root)
    copies.put_labels(root / "ucf101_privacy_attribute_label.pickle", {})
    open_dataset(f"vp-ucf101:{root}?{SMALL}")
    assert len(looked) == 32 and len(list(index_folder().iterdir())) == 2


def test_another_version_looks_again(root: Path, looked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    opened(root)
    monkeypatch.setattr("sfumato.datasets.probed.VERSION", 0)
    opened(root)
    assert len(looked) == 32


def test_few_files_leave_no_index(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sfumato.datasets.probed.FEWEST", 17)
    opened(root)
    assert not index_folder().exists()


def test_the_clip_cache_has_it_where_there_is_one(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert index_folder() == tmp_path / "cache" / "sfumato" / "probed"
    monkeypatch.setenv("SFUMATO_CLIP_CACHE", str(tmp_path / "clips"))
    opened(root)
    assert len(list((tmp_path / "clips" / "probed").iterdir())) == 1
    monkeypatch.delenv("SFUMATO_CLIP_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert index_folder() == tmp_path / "home" / ".cache" / "sfumato" / "probed"


def test_a_cache_that_cannot_be_written_is_done_without(root: Path, tmp_path: Path, looked: list[str]) -> None:
    (tmp_path / "cache").write_text("a file")
    assert len(opened(root)) == len(opened(root)) == 16 and len(looked) == 32


def test_a_name_that_is_not_utf8_is_known_again(root: Path, looked: list[str]) -> None:
    folder = Path(os.fsdecode(os.fsencode(root) + b"\xe9"))
    root.rename(folder)
    assert len(opened(folder)) == len(opened(folder)) == 16 and len(looked) == 16


def test_the_same_folder_by_another_name_is_known(
    root: Path, looked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(root)
    monkeypatch.chdir(root.parent)
    assert len(opened(Path(root.name))) == 16 and len(looked) == 16
