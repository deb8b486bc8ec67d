from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sfumato.datasets.files import Row
from sfumato.datasets.inspection import Inspection, inspect_copy, straddling
from sfumato.datasets.listed import Annotations, Place, both
from sfumato.datasets.ucf101 import UCF101Dataset

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
    def row(part: str, group: str = "", person: str = "") -> Row:
        return Row(Path("x"), "", "", person, group=group, split=both(part))

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


def test_leaks_that_were_published_are_the_publishers(root: Path) -> None:
    found = inspected(root)
    found.straddling = ["group a", "group b"]
    assert not found.fine
    found.straddling_published = 2
    assert found.fine
