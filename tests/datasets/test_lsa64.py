from __future__ import annotations

from pathlib import Path

import torch

from sfumato.datasets import open_dataset
from sfumato.datasets.inspection import inspect_copy
from sfumato.datasets.lsa64 import SIGNS, LSA64Dataset, row_of

from .copies import SMALL, put, video


def test_names_tell_sign_person_and_both_splits(tmp_path: Path) -> None:
    for person in (1, 4, 9):
        for repetition in (1, 4, 5):
            put(tmp_path / "all" / f"024_{person:03d}_{repetition:03d}.mp4", video(container="mp4"))
    put(tmp_path / "all" / "065_001_001.mp4", video(container="mp4"))
    data = open_dataset(f"lsa64:{tmp_path}?{SMALL}", strict=True)
    assert isinstance(data, LSA64Dataset)
    assert (len(data), data.persons, data.mirror_safe) == (9, ("1", "4", "9"), False)
    assert {data.actions[a] for a in data.labels(torch.arange(9)).action.tolist()} == {"argentina"}
    for part, person, repetition in (("train", 0, "001"), ("val", 2, "004"), ("test", 1, "005")):
        assert data.labels(data.split(part, "person")).person.tolist() == [person] * 3  # type: ignore[arg-type]
        assert {data.rows[i].path.stem[-3:] for i in data.split(part, "clip").tolist()} == {repetition}  # type: ignore[arg-type]


def test_a_check_names_what_is_missing_and_opening_does_not(tmp_path: Path) -> None:
    missing = {f"024_{person:03d}_{repetition:03d}.mp4" for person in (1, 4, 9) for repetition in (1, 4, 5)}
    for name in LSA64Dataset.every_name():
        if name not in missing:
            put(tmp_path / name, b"")
    found = inspect_copy(LSA64Dataset, str(tmp_path))
    assert found.missing == [f"there is no file '{name}'" for name in sorted(missing)] and not found.fine
    subset = tmp_path / "subset"
    for name in missing:
        put(subset / name, video(container="mp4"))
    assert open_dataset(f"lsa64:{subset}?{SMALL}", strict=True).problems == []  # type: ignore[attr-defined]


def test_every_name_is_one_of_the_set() -> None:
    names = LSA64Dataset.every_name()
    rows = [row for name in names if (row := row_of(Path("all", name)))]
    assert [LSA64Dataset.name_of(row) for row in rows] == names and len(set(names)) == 64 * 10 * 5
    assert {row.person for row in rows} == {str(person) for person in range(1, 11)}


def test_there_are_sixty_four_signs() -> None:
    assert len(set(SIGNS)) == 64
    last = row_of(Path("064_010_005.mp4"))
    assert last is not None and (last.action, last.person) == ("find", "10")
    for name in ("000_001_001.mp4", "065_001_001.mp4", "001_001_006.mp4", "1_1_1.mp4"):
        assert row_of(Path(name)) is None
