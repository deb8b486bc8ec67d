from __future__ import annotations

from pathlib import Path

from sfumato.datasets import open_dataset
from sfumato.datasets.inspection import straddling
from sfumato.datasets.toyota_smarthome import (
    ACTIONS,
    TEST_SUBJECTS,
    TRAINING_SUBJECTS,
    ToyotaSmarthomeDataset,
    row_of,
)

from . import copies
from .copies import SMALL, put, video


def test_names_tell_activity_person_and_both_splits(tmp_path: Path) -> None:
    root = copies.toyota_smarthome(tmp_path)
    put(root / "holiday.mp4", video(container="mp4"))
    data = open_dataset(f"toyota-smarthome:{root}?{SMALL}", strict=True)
    assert isinstance(data, ToyotaSmarthomeDataset)
    assert (len(data), data.persons, data.attributes) == (60, ("2", "3", "4", "6", "10"), ())
    assert {row.action for row in data.rows} == {"Cook.Cut", "Walk"}
    people = {
        part: {data.rows[i].person for i in data.split(part, "person").tolist()}  # type: ignore[arg-type]
        for part in ("train", "val", "test")
    }
    assert people["test"] == {"2", "10"} and len(people["val"]) == 1
    assert people["train"] | people["val"] == {"3", "4", "6"} and not people["train"] & people["val"]
    groups = [{data.rows[i].group for i in data.split(p, "clip").tolist()} for p in ("train", "val", "test")]  # type: ignore[arg-type]
    assert sum(map(len, groups)) == len(set().union(*groups)) == 60
    assert straddling(data.rows) == []


def test_a_table_of_perceived_genders_is_an_attribute(tmp_path: Path) -> None:
    root = copies.toyota_smarthome(tmp_path)
    (root / "perceived_gender.csv").write_text("person,perceived_gender\np02,F\n3,F\n4,M\n6,M\n10,M\n")
    data = open_dataset(f"toyota-smarthome:{root}?{SMALL}")
    tested = data.split("test", "person")
    genders = data.labels(tested).attributes[:, 0].tolist()
    persons = [data.persons[p] for p in data.labels(tested).person.tolist()]
    assert {(p, data.attributes[0].values[g]) for p, g in zip(persons, genders, strict=True)} == {
        ("2", "female"), ("10", "male"),
    }  # fmt: skip


def test_there_are_31_activities_and_18_people() -> None:
    assert len(set(ACTIONS)) == 31 and len(TRAINING_SUBJECTS | TEST_SUBJECTS) == 18
    row = row_of(Path("Makecoffee.Pourgrains_p25_r01_v07_c02.mp4"))
    assert row is not None and (row.person, row.group, row.split["person"]) == ("25", "p25_v07", "train")
    for name in ("Fly_p03_r00_v01_c01", "Walk_p05_r00_v01_c01", "Walk_p03_v01_c01", "Walk"):
        assert row_of(Path(f"{name}.mp4")) is None
