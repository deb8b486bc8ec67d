from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from sfumato.datasets import open_dataset
from sfumato.datasets.inspection import inspect_copy, straddling
from sfumato.datasets.ntu60 import ACTIONS, STRADDLING, TRAINING_SUBJECTS, NTU60Dataset, row_of
from sfumato.errors import SfumatoError

from . import copies
from .copies import SMALL, put, video


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return copies.ntu60(tmp_path)


def opened(root: Path, split: str) -> NTU60Dataset:
    data = open_dataset(f"ntu60:{root}?{SMALL}&split={split}", strict=True)
    assert isinstance(data, NTU60Dataset)
    return data


def people(data: NTU60Dataset, part: str) -> set[str]:
    return {data.rows[i].person for i in data.split(part, "person").tolist()}  # type: ignore[arg-type]


def cameras(data: NTU60Dataset, part: str, by: str) -> set[str]:
    return {data.rows[i].path.name[4:8] for i in data.split(part, by).tolist()}  # type: ignore[arg-type]


def test_names_tell_everything_and_both_official_splits(root: Path) -> None:
    put(root / "S018C001P001R001A001_rgb.avi", video())  # of NTU RGB+D 120
    data = opened(root, "subject")
    assert (len(data), data.persons, len(data.actions)) == (36, ("1", "2", "3", "4", "5", "6"), 60)
    assert {row.action for row in data.rows} == {"drink water", "brush hair"}
    assert people(data, "test") == {"3", "6"}
    assert people(data, "train") | people(data, "val") == {"1", "2", "4", "5"}
    assert len(people(data, "val")) == 1 and not people(data, "train") & people(data, "val")
    assert cameras(data, "test", "clip") == {"C001"}
    assert cameras(data, "train", "clip") == cameras(data, "val", "clip") == {"C002", "C003"}
    groups = [{data.rows[i].group for i in data.split(part, "clip").tolist()} for part in ("train", "val")]  # type: ignore[arg-type]
    assert groups[1] and not groups[0] & groups[1]
    assert [a.name for a in data.attributes] == ["perceived_gender"]
    assert straddling(data.rows) == []


def test_the_cameras_of_one_performance_are_one_recording(root: Path) -> None:
    data = opened(root, "subject")
    performances = Counter(data.recordings(data.split("test", "person")).tolist())
    assert sorted(performances.values()) == [3, 3, 3, 3]


def test_cross_view_can_be_both_splits(root: Path) -> None:
    data = opened(root, "view")
    for by in ("person", "clip"):
        assert cameras(data, "test", by) == {"C001"} and len(data.split("test", by)) == 12
        assert "C001" not in cameras(data, "train", by) | cameras(data, "val", by)
    assert len(straddling(data.rows)) == 12 + 6  # every performance and everybody, as published


def test_bias_needs_the_table_and_draws_from_it(root: Path) -> None:
    data = opened(root, "bias-f")
    # Two women (1, 5) and two men (2, 4) to train and select with, one each to test, three videos of each action.
    assert (people(data, "test"), len(data.split("test", "person"))) == ({"3", "6"}, 12)
    for part in ("train", "val"):
        (woman,), (man,) = people(data, part) & {"1", "5"}, people(data, part) & {"2", "4"}
        chosen = Counter((data.rows[i].person, data.rows[i].action) for i in data.split(part, "clip").tolist())  # type: ignore[arg-type]
        assert chosen == {(woman, "brush hair"): 3, (man, "drink water"): 3}  # 95% and 5% of three
    other = opened(root, "bias-m")
    chosen = Counter((r.attributes["perceived_gender"], r.action) for r in other.rows if r.split["clip"] == "train")
    assert chosen == {("male", "brush hair"): 3, ("female", "drink water"): 3}
    (root / "perceived_gender.csv").unlink()
    with pytest.raises(SfumatoError, match=r"there is no 'perceived_gender\.csv'"):
        opened(root, "bias-f")
    assert opened(root, "subject").attributes == ()


def test_a_whole_copy_would_have_the_published_numbers() -> None:
    """All actions have as many videos: 316 performances before three cameras."""
    performances = [(1 + n % 17, 1 + n % 40, 1 + n // 40 % 2) for n in range(316)]
    names = [f"S{s:03d}C{camera:03d}P{p:03d}R{r:03d}A060_rgb.avi" for s, p, r in performances for camera in (1, 2, 3)]
    rows = [row for name in names if (row := row_of(Path(name), "view"))]
    parts = Counter(row.split["clip"] for row in rows)
    assert (60 * len(rows), 60 * parts["train"], 60 * parts["test"]) == (56_880, 37_920, 18_960)
    groups = [name for name in straddling(rows) if name.startswith("group")]
    assert 60 * len(groups) + len(straddling(rows)) - len(groups) == STRADDLING["view"]
    assert len(set(ACTIONS)) == 60 and len(TRAINING_SUBJECTS) == 20


def test_other_names_are_no_videos_of_the_set() -> None:
    for name in ("S001C001P001R001A061", "S001C004P001R001A001", "S001C001P041R001A001", "S000C001P001R001A001", "x"):
        assert row_of(Path(f"{name}_rgb.avi"), "subject") is None
    row = row_of(Path("S017C003P040R002A060.mp4"), "subject")
    assert row is not None and (row.action, row.person, row.group) == ("walk apart", "40", "S017P040R002A060")
    assert row.split == {"person": "test", "clip": "train"}


def test_a_copy_is_checked_by_any_of_its_splits(root: Path) -> None:
    for split, parts in (("subject", (40_320, 16_560)), ("view", (37_920, 18_960)), ("bias-f", None)):
        counts = {count.what: count for count in inspect_copy(NTU60Dataset, f"{root}?split={split}").counts}
        assert (counts["videos"].published, counts["videos"].found, counts["persons"].found) == (56_880, 36, 6)
        told = (counts["train + val"].published, counts["test"].published) if "test" in counts else None
        assert told == parts
