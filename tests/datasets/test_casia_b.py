from __future__ import annotations

from pathlib import Path

import pytest
import torch

from sfumato.datasets import open_dataset
from sfumato.datasets.casia_b import PUBLISHED, CASIABDataset, row_of
from sfumato.datasets.inspection import inspect_copy, straddling
from sfumato.errors import SfumatoError

from . import copies
from .copies import SMALL, picture, put, video


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return copies.casia_b(tmp_path)


def opened(root: Path, options: str = "", strict: bool = True) -> CASIABDataset:
    data = open_dataset(f"casia-b:{root}?{SMALL}{options}", strict=strict)
    assert isinstance(data, CASIABDataset)
    return data


def walks(data: CASIABDataset, part: str) -> set[str]:
    return {data.rows[i].group[4:] for i in data.split(part, "clip").tolist()}  # type: ignore[arg-type]


def test_gallery_and_probes_are_of_everybody(root: Path) -> None:
    data = opened(root)
    assert (len(data), data.persons, data.actions, data.attributes) == (48, ("1", "2", "75"), (), ())
    assert walks(data, "train") == {"nm-01", "nm-02", "nm-03"} and walks(data, "val") == {"nm-04"}
    assert walks(data, "test") == {"nm-05", "nm-06"}
    for part in ("train", "val", "test"):
        assert len(data.labels(data.split(part, "clip")).person.unique()) == 3  # type: ignore[arg-type]
    assert walks(opened(root, "&probe=bg"), "test") == {"bg-01"}
    assert walks(opened(root, "&probe=cl"), "test") == {"cl-01"} and walks(opened(root, "&probe=cl"), "val") == {
        "nm-04"
    }


def test_people_are_kept_apart_and_walks_are_whole(root: Path) -> None:
    data = opened(root)
    people = {
        p: {data.rows[i].person for i in data.split(p, "person").tolist()}  # type: ignore[arg-type]
        for p in ("train", "val", "test")
    }
    assert people["test"] == {"75"} and people["train"] | people["val"] == {"1", "2"}
    assert len(people["train"]) == len(people["val"]) == 1
    assert straddling(data.rows) == []
    assert len(data.recordings(torch.arange(48)).unique()) == 24  # two cameras recorded each


def test_condition_and_angle_are_labelled_but_not_private(root: Path) -> None:
    data = opened(root)
    told = data.about(["condition", "angle"])
    index = next(i for i, row in enumerate(data.rows) if row.path.stem == "075-cl-01-090")
    values = told.labels(torch.tensor([index])).attributes[0].tolist()
    named = [spec.values[value] for spec, value in zip(told.attributes, values, strict=True)]
    assert named == ["cl", "090"]


def test_folders_of_pictures_are_videos(root: Path) -> None:
    data = opened(root)
    index = next(i for i, row in enumerate(data.rows) if row.group == "002-nm-05")
    assert data.rows[index].path.is_dir() and data.rows[index].frames == 6
    # Four of the six frames 30, 60, … 180, from the middle.
    clip = data.sample(index).clip
    assert clip.shape == (4, 3, 16, 16)
    assert clip.float().mean((1, 2, 3)).tolist() == [
        30.0 * (1 + n) for n in data.times(torch.tensor([index]))[0].tolist()
    ]
    assert data.clips(torch.tensor([index, 0]), views=2).pixels.shape == (2, 2, 4, 3, 16, 16)


def test_where_there_are_both_the_video_is_used(root: Path) -> None:
    put(root / "video" / "002-nm-01-000.avi", video())
    paths = [row.path for row in opened(root).rows if row.group == "002-nm-01"]
    assert [path.name for path in paths] == ["002-nm-01-000.avi", "090"]


@pytest.mark.parametrize("what", ["empty", "broken"])
def test_a_folder_without_readable_pictures_is_reported_and_skipped_or_stops(root: Path, what: str) -> None:
    folder = root / "silhouettes" / "002" / "nm-01" / "090"
    for path in folder.iterdir():
        path.unlink() if what == "empty" else path.write_bytes(b"no picture")
    data = opened(root, strict=False)
    assert len(data) == 47 and len(data.problems) == 1
    with pytest.raises(SfumatoError, match="002-nm-01-090: "):
        opened(root)
    found = inspect_copy(CASIABDataset, str(root))
    assert len(found.unreadable) == 1 and not found.extra
    # It is there, as the other 47 are; this copy has no more of the published set.
    assert len(found.missing) == 13_640 - 48 and found.missing[0] == "there is no file '001-nm-01-018'"


def test_a_check_looks_at_every_picture_and_opening_at_the_first(root: Path) -> None:
    folder = root / "silhouettes" / "002" / "nm-01" / "090"
    broken = folder / "002-nm-01-090-003.png"
    broken.write_bytes(broken.read_bytes()[:40])
    (line,) = inspect_copy(CASIABDataset, str(root)).unreadable
    assert line.startswith("002-nm-01-090: ") and "002-nm-01-090-003.png' cannot be read" in line
    assert line.endswith(")")
    (folder / "002-nm-01-090-006.png").write_bytes(b"")
    (line,) = inspect_copy(CASIABDataset, str(root)).unreadable
    assert "-003.png' cannot be read" in line and line.endswith(", nor can 1 more of 6")
    assert len(opened(root)) == 48


def test_a_folder_that_leads_out_of_the_root_is_not_followed(
    root: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    put(elsewhere / "1.png", picture(20, "PNG"))
    (root / "silhouettes" / "002" / "bg-02").mkdir()
    (root / "silhouettes" / "002" / "bg-02" / "090").symlink_to(elsewhere)
    data = opened(root, strict=False)
    assert len(data) == 48 and any("lies outside the data root" in problem for problem in data.problems)


def test_a_whole_copy_would_have_the_published_numbers() -> None:
    names = [
        f"{person:03d}-{condition}-{n:02d}-{angle:03d}"
        for person in range(0, 126) for condition in ("nm", "bg", "cl", "xx") for n in range(0, 8) for angle in range(0, 190, 9)
    ]  # fmt: skip
    rows = [row for name in names if (row := row_of(name, Path(f"{name}.avi"), "nm"))]
    test = sum(row.split["person"] == "test" for row in rows)
    assert (len(rows), len(rows) - test, test) == tuple(PUBLISHED[what] for what in ("videos", "train + val", "test"))
    assert row_of("001-nm-01-000-017", Path("x.avi"), "nm") is None
    assert sorted(CASIABDataset.name_of(row) for row in rows) == sorted(CASIABDataset.every_name())
