from __future__ import annotations

from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from sfumato.datasets.files import Row
from sfumato.datasets.inspection import Inspection, inspect_copy, straddling
from sfumato.datasets.listed import Annotations, Place, both
from sfumato.datasets.lsa64 import LSA64Dataset
from sfumato.datasets.ucf101 import UCF101Dataset
from sfumato.datasets.ucf_crime import UCFCrimeDataset
from sfumato.datasets.vispr import VISPRDataset

from . import copies
from .copies import put, video


class SmallUCF101(UCF101Dataset):
    """UCF101 as if these few videos were all that was ever published."""

    @classmethod
    def annotations(cls, place: Place) -> Annotations:
        published = {"videos": 16, "train + val": 12, "test": 4, "actions": 2}
        return replace(super().annotations(place), published=published)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return copies.ucf101(tmp_path / "ucf101")


def inspected(root: Path) -> Inspection:
    return inspect_copy(SmallUCF101, str(root))


def test_a_whole_copy_is_fine(root: Path) -> None:
    told: list[tuple[int, int]] = []
    found = inspect_copy(SmallUCF101, str(root), lambda done, total: told.append((done, total)))
    assert found.fine and told[-1] == (16, 16)
    assert [(c.what, c.published, c.listed, c.found) for c in found.counts] == [
        ("videos", 16, 16, 16), ("train + val", 12, 12, 12), ("test", 4, 4, 4), ("actions", 2, 2, 2),
    ]  # fmt: skip
    assert found.balance["test"] == {"Archery": 2, "BabyCrawling": 2}
    assert found.balance["train"]["Archery"] + found.balance["val"]["Archery"] == 6


def test_missing_unreadable_and_extra_files_are_told_apart(root: Path) -> None:
    archery = root / "UCF-101" / "Archery"
    (archery / "v_Archery_g01_c01.avi").unlink()
    (archery / "v_Archery_g02_c01.avi").write_bytes(b"no video")
    (archery / "v_Archery_g02_c02.avi").write_bytes(video()[:-50])
    put(root / "holiday.avi", video())
    put(root / "again" / "v_Archery_g03_c01.avi", video())
    found = inspected(root)
    assert not found.fine
    assert found.missing == ["testlist01.txt line 1: there is no file 'Archery/v_Archery_g01_c01.avi'"]
    assert len(found.unreadable) == 2 and "v_Archery_g02_c02.avi' is cut short" in found.unreadable[1]
    assert found.extra == ["again/v_Archery_g03_c01.avi", "holiday.avi"]
    assert [(c.what, c.found) for c in found.counts] == [
        ("videos", 13),
        ("train + val", 10),
        ("test", 3),
        ("actions", 2),
    ]
    assert found.balance["test"] == {"Archery": 1, "BabyCrawling": 2}


def test_a_file_too_many_alone_is_no_harm(root: Path) -> None:
    put(root / "holiday.avi", video())
    assert inspected(root).extra == ["holiday.avi"] and inspected(root).fine


def test_what_leads_out_of_the_root_is_not_fine(root: Path, tmp_path: Path) -> None:
    (root / "more").symlink_to(tmp_path)
    found = inspected(root)
    assert found.outside == ["'more' leads out of the data root"] and not found.fine


def test_a_group_in_train_and_in_test_is_found(root: Path) -> None:
    lists = root / "ucfTrainTestlist"
    train = (lists / "trainlist01.txt").read_text().splitlines()
    moved = next(line for line in train if "Archery_g02_c01" in line)
    (lists / "trainlist01.txt").write_text("\n".join(line for line in train if line != moved))
    (lists / "testlist01.txt").write_text((lists / "testlist01.txt").read_text() + moved.split()[0])
    found = inspected(root)
    assert found.straddling == ["group Archery_g02"] and not found.fine


def test_only_test_against_the_rest_counts_and_people_count_too() -> None:
    numbers = count()

    def row(part: str, group: str = "", person: str = "") -> Row:
        return Row(Path(f"{next(numbers)}.avi"), "", "", person, group=group, split=both(part))

    apart = [
        row("train", "a"),
        row("val", "a"),
        row("test", "b"),
        row("", "b"),
        row("", "a"),
        row("test"),
        row("train"),
    ]
    assert straddling(apart) == []
    assert straddling([row("val", "a"), row("test", "a")]) == ["group a"]
    assert straddling([row("train", person="7"), row("test", person="7"), row("train", "7")]) == ["person 7"]


def test_a_file_of_no_known_group_is_found_on_both_sides_and_one_of_a_group_counts_once() -> None:
    def row(path: str, part: str, group: str = "") -> Row:
        return Row(Path(path), "", "", group=group, split=both(part))

    assert straddling([row("/data/a/1.avi", "val"), row("/data/a/1.avi", "test")], Path("/data")) == ["file a/1.avi"]
    assert straddling([row("1.avi", "train"), row("1.avi", "val"), row("1.avi", ""), row("2.avi", "test")]) == []
    assert straddling([row("a/1.avi", "train"), row("b/1.avi", "test")]) == []
    assert straddling([row("1.avi", "train", "g"), row("1.avi", "test", "g")]) == ["group g"]


def test_a_training_video_in_the_list_of_test_is_found(tmp_path: Path) -> None:
    """The two lists of UCF-Crime write the path of one file differently."""
    root = copies.ucf_crime(tmp_path)
    assert inspect_copy(UCFCrimeDataset, str(root)).straddling == []
    tests = root / "Temporal_Anomaly_Annotation.txt"
    lines = tests.read_text().splitlines()
    tests.write_text("\n".join(["Arson002_x264.mp4  Arson  1  2  -1  -1  ", *lines[1:]]))
    found = inspect_copy(UCFCrimeDataset, str(root))
    assert found.straddling == ["file videos/Arson/Arson002_x264.mp4"] and not found.fine


def test_a_training_picture_in_the_list_of_test_is_found(tmp_path: Path) -> None:
    root = copies.vispr(tmp_path)
    assert inspect_copy(VISPRDataset, str(root)).straddling == []
    with (root / "test2017.txt").open("a") as file:
        file.write("annotations/train2017/2017_01.json\n")
    assert inspect_copy(VISPRDataset, str(root)).straddling == ["file images/train2017/2017_01.jpg"]


def test_a_file_that_leads_out_of_the_root_is_not_missing_as_well(tmp_path: Path) -> None:
    away = put(tmp_path / "away" / "001_001_002.mp4", video(container="mp4"))
    put(tmp_path / "lsa64" / "001_001_001.mp4", video(container="mp4"))
    (tmp_path / "lsa64" / "001_001_002.mp4").symlink_to(away)
    found = inspect_copy(LSA64Dataset, str(tmp_path / "lsa64"))
    assert found.outside == ["'001_001_002.mp4' leads out of the data root"]
    assert (len(found.missing), found.missing[0], found.whole) == (3198, "there is no file '001_001_003.mp4'", 3200)


def test_leaks_that_were_published_are_the_publishers(root: Path) -> None:
    found = inspected(root)
    found.straddling = ["group a", "group b"]
    assert not found.fine
    found.straddling_published = 2
    assert found.fine
