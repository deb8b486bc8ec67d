"""`toyota-smarthome:PATH`: Toyota Smarthome (trimmed), `Cook.Cut_p02_r00_v14_c06.mp4`: activity, person, video and camera.

By person: the official cross-subject parts (11 people to train and to select with, seven to test). By clip: of everybody
70% of the videos that clips were cut from to train, 15% to select, 15% to test. With a table of perceived genders
(perceived_gender.csv) these are a private attribute.
"""

from __future__ import annotations

import re
from pathlib import Path

from sfumato.datasets.files import Row, automatic_split
from sfumato.datasets.listed import Annotations, ListedDataset, Place, hold_out
from sfumato.datasets.perceived_gender import label_genders

ACTIONS = (
    "Cook.Cleandishes", "Cook.Cleanup", "Cook.Cut", "Cook.Stir", "Cook.Usestove", "Cutbread", "Drink.Frombottle",
    "Drink.Fromcan", "Drink.Fromcup", "Drink.Fromglass", "Eat.Attable", "Eat.Snack", "Enter", "Getup", "Laydown", "Leave",
    "Makecoffee.Pourgrains", "Makecoffee.Pourwater", "Maketea.Boilwater", "Maketea.Insertteabag", "Pour.Frombottle",
    "Pour.Fromcan", "Pour.Fromkettle", "Readbook", "Sitdown", "Takepills", "Uselaptop", "Usetablet", "Usetelephone",
    "Walk", "WatchTV",
)  # fmt: skip
TRAINING_SUBJECTS = frozenset({3, 4, 6, 7, 9, 12, 13, 15, 17, 19, 25})
TEST_SUBJECTS = frozenset({2, 10, 11, 14, 16, 18, 20})
PUBLISHED = {"videos": 16_115, "actions": 31, "persons": 18}
_NAME = re.compile(r"([A-Za-z.]+)_p(\d+)_r(\d+)_v(\d+)_c(\d+)")


class ToyotaSmarthomeDataset(ListedDataset):
    """Toyota Smarthome.

    >>> ToyotaSmarthomeDataset("data/smarthome").persons[:2]  # doctest: +SKIP
    ('2', '3')
    """

    kind = "toyota-smarthome"
    described = "16,115 videos of 31 activities by 18 elderly people (Das et al. 2019)"
    get_from = "project.inria.fr/toyotasmarthome"

    @classmethod
    def annotations(cls, place: Place) -> Annotations:
        rows = [row for path in place.media.files.values() if (row := row_of(path.relative_to(place.root)))]
        hold_out(rows, by=("person",), group_of=lambda row: row.person)
        return Annotations(rows, ACTIONS, label_genders(rows, place), published=PUBLISHED)


def row_of(path: Path) -> Row | None:
    """What a file's name says; None where it is not a name of this set.

    >>> row_of(Path("Cook.Cut_p02_r00_v14_c06.mp4")).person
    '2'
    """
    name = _NAME.fullmatch(path.stem)
    if not name or name[1] not in ACTIONS:
        return None
    person, group = int(name[2]), f"p{name[2]}_v{name[4]}"
    if person not in TRAINING_SUBJECTS | TEST_SUBJECTS:
        return None
    by_person = "train" if person in TRAINING_SUBJECTS else "test"
    return Row(
        path, path.name, name[1], str(person), split={"person": by_person, "clip": automatic_split(group)}, group=group
    )
