from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from sfumato.datasets.files import Row
from sfumato.datasets.ntu60 import ACTIONS, row_of
from sfumato.datasets.ntu_bias import draw_biased
from sfumato.errors import SfumatoError

# By the official parts; five women and three men to train, two and three to test.
WOMEN = {"train": (1, 2, 4, 5, 8), "test": (3, 6)}
MEN = {"train": (9, 13, 14), "test": (7, 10, 11)}
UNKNOWN = (15, 12)


def rows(women: dict[str, tuple[int, ...]] = WOMEN, men: dict[str, tuple[int, ...]] = MEN) -> list[Row]:
    """Of everybody 20 videos of three actions."""
    made = []
    genders = {p: g for g, people in (("female", women), ("male", men)) for part in people.values() for p in part}
    for person in (*genders, *UNKNOWN):
        for action in (1, 4, 60):
            for n in range(20):
                name = f"S{1 + n % 10:03d}C{1 + n // 10:03d}P{person:03d}R001A{action:03d}_rgb.avi"
                row = row_of(Path(name), "subject")
                assert row
                row.attributes = {"perceived_gender": genders.get(person, "")}
                made.append(row)
    return made


def counted(told: list[Row], part: str) -> Counter[tuple[str, str]]:
    return Counter((r.attributes["perceived_gender"], r.action) for r in told if r.split["person"] == part)


def people(told: list[Row], part: str) -> Counter[str]:
    return Counter(
        g for g, _ in {(r.attributes["perceived_gender"], r.person) for r in told if r.split["clip"] == part}
    )


def test_training_is_95_to_5_but_for_one_action_and_test_is_balanced() -> None:
    told = rows()
    draw_biased(told, "female")
    drink, hair, apart = ACTIONS[0], ACTIONS[3], ACTIONS[59]
    # Three men, so three women: one of each to select with, two to train, with 40 videos of each action.
    assert counted(told, "train") == {
        ("female", drink): 2, ("male", drink): 38, ("female", hair): 38, ("male", hair): 2, ("female", apart): 2,
        ("male", apart): 38,
    }  # fmt: skip
    assert counted(told, "val") == {
        ("female", drink): 1, ("male", drink): 19, ("female", hair): 19, ("male", hair): 1, ("female", apart): 1,
        ("male", apart): 19,
    }  # fmt: skip
    assert set(counted(told, "test").values()) == {40} and len(counted(told, "test")) == 6
    assert people(told, "test") == {"female": 2, "male": 2}


def test_the_other_set_is_the_mirror_image() -> None:
    one, other = rows(), rows()
    draw_biased(one, "female")
    draw_biased(other, "male")
    swapped = {({"female": "male", "male": "female"}[g], a): n for (g, a), n in counted(one, "train").items()}
    assert counted(other, "train") == swapped
    assert [r.split for r in one if r.split["clip"] == "test"] == [r.split for r in other if r.split["clip"] == "test"]


def test_people_keep_to_their_part_and_the_draw_is_always_the_same() -> None:
    one, other = rows(), rows()
    other.reverse()
    for told in (one, other):
        draw_biased(told, "female")
    names = [{(r.path.name, r.split["person"]) for r in told if r.split["clip"]} for told in (one, other)]
    assert names[0] == names[1]
    parts = {p: {r.split["person"] for r in one if r.person == p} - {""} for p in {r.person for r in one}}
    assert all(len(part) <= 1 for part in parts.values())
    assert parts["15"] == parts["12"] == set()  # nobody knows what they are
    assert all(parts[str(p)] <= {"train", "val"} for p in (*WOMEN["train"], *MEN["train"]))


def test_an_action_with_fewer_videos_brings_all_others_down() -> None:
    told = [
        r for r in rows() if not (r.action == ACTIONS[59] and r.split["person"] == "test" and r.path.name[3] == "1")
    ]
    draw_biased(told, "female")
    cells = counted(told, "test")
    assert len(set(cells.values())) == 1 and 0 < cells["male", ACTIONS[0]] < 40


def test_too_few_people_are_one_line() -> None:
    with pytest.raises(SfumatoError, match="too few women or men among its train people"):
        draw_biased(rows(men={"train": (9,), "test": (7,)}), "female")
    with pytest.raises(SfumatoError, match="too few women or men among its test people"):
        draw_biased(rows(women={"train": (1, 2), "test": ()}), "female")
