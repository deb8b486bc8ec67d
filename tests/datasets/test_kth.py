from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path

import torch

from sfumato.datasets import open_dataset
from sfumato.datasets.inspection import straddling
from sfumato.datasets.kth import KTHDataset, row_of

from .copies import REAL, SMALL, needs_real, put, video


def test_names_tell_action_person_and_both_splits(tmp_path: Path) -> None:
    for person in (2, 11, 19):
        for action in ("boxing", "running"):
            for scenario in (1, 3, 4):
                put(tmp_path / action / f"person{person:02d}_{action}_d{scenario}_uncomp.avi", video())
    put(tmp_path / "holiday.avi", video())
    data = open_dataset(f"kth:{tmp_path}?{SMALL}", strict=True)
    assert isinstance(data, KTHDataset)
    assert (len(data), data.persons, data.actions[0], data.actions[4]) == (18, ("2", "11", "19"), "boxing", "running")
    people = {
        part: data.labels(data.split(part, "person")).person.unique().tolist() for part in ("train", "val", "test")
    }  # type: ignore[arg-type]
    assert people == {"train": [1], "val": [2], "test": [0]}
    for part, scenario in (("train", "d1"), ("val", "d3"), ("test", "d4")):
        rows = [data.rows[i].path.name for i in data.split(part, "clip").tolist()]  # type: ignore[arg-type]
        assert len(rows) == 6 and all(f"_{scenario}_" in name for name in rows)
    labels = data.labels(torch.arange(18))
    assert {data.actions[a] for a in labels.action.tolist()} == {"boxing", "running"}


def test_every_name_is_one_of_the_set_but_for_the_one_that_was_never_published() -> None:
    names = KTHDataset.every_name()
    assert len(set(names)) == 25 * 6 * 4 - 1 and "person13_handclapping_d3_uncomp.avi" not in names
    rows = [row for name in names if (row := row_of(Path("kth", name)))]
    assert [KTHDataset.name_of(row) for row in rows] == names
    assert Counter(row.split["person"] for row in rows) == {"train": 191, "val": 192, "test": 216}
    short = row_of(Path("person25_walking_d4.mp4"))
    assert short is not None and KTHDataset.name_of(short) == names[-1]


def test_other_names_are_no_videos_of_the_set() -> None:
    for name in ("person1_boxing_d1.avi", "person01_flying_d1_uncomp.avi", "person01_boxing_d5_uncomp.avi"):
        assert row_of(Path(name)) is None
    assert row_of(Path("person25_walking_d4.avi")) is not None


@needs_real
def test_the_names_of_the_whole_set_give_the_published_parts() -> None:
    with (REAL / "kth-metadata.csv").open() as file:
        told = list(csv.DictReader(file))
    rows = {line["video"]: row_of(Path(f"{line['video']}.avi")) for line in told}
    for line in told:
        row = rows[line["video"]]
        assert row is not None and row.action == line["action"] and int(row.person) == int(line["person"][6:])
    # That table fills the gap of the one video that was never published.
    del rows["person13_handclapping_d3_uncomp"]
    whole = [row for row in rows.values() if row]
    assert Counter(row.split["person"] for row in whole) == {"train": 191, "val": 192, "test": 216}
    assert straddling(whole) == []
    held = {int(row.person) for row in whole if row.split["person"] == "val"}
    assert held == {1, 4, 19, 20, 21, 23, 24, 25}
