"""`lsa64:PATH`: LSA64, Argentinian signs, `024_001_005.mp4`: sign, person and repetition; no label file is needed.

There is no official split. By person: two people to test, two to select with. By clip: of everybody the repetitions 1 to 3
to train, 4 to select, 5 to test. Left and right mean something here, so clips are never mirrored.
"""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

from sfumato.datasets.files import Row
from sfumato.datasets.listed import Annotations, ListedDataset, Place

SIGNS = (
    "opaque", "red", "green", "yellow", "bright", "light-blue", "colors", "pink", "women", "enemy", "son", "man", "away",
    "drawer", "born", "learn", "call", "skimmer", "bitter", "sweet milk", "milk", "water", "food", "argentina", "uruguay",
    "country", "last name", "where", "mock", "birthday", "breakfast", "photo", "hungry", "map", "coin", "music", "ship",
    "none", "name", "patience", "perfume", "deaf", "trap", "rice", "barbecue", "candy", "chewing-gum", "spaghetti",
    "yogurt", "accept", "thanks", "shut down", "appear", "to land", "catch", "help", "dance", "bathe", "buy", "copy",
    "run", "realize", "give", "find",
)  # fmt: skip
PEOPLE = 10
_NAME = re.compile(r"(\d{3})_(\d{3})_(\d{3})")
_VAL, _TEST = (9, 10), (4, 8)
_BY_REPETITION = {1: "train", 2: "train", 3: "train", 4: "val", 5: "test"}


class LSA64Dataset(ListedDataset):
    """LSA64.

    >>> LSA64Dataset("data/lsa64").actions[23]  # doctest: +SKIP
    'argentina'
    """

    kind = "lsa64"
    described = "3,200 videos of 64 signs by ten people (Ronchetti et al. 2016)"
    get_from = "facundoq.github.io/datasets/lsa64"
    mirror_safe = False

    @classmethod
    def annotations(cls, place: Place) -> Annotations:
        rows = [row for path in place.media.files.values() if (row := row_of(path.relative_to(place.root)))]
        return Annotations(rows, SIGNS, published={"videos": 3200, "actions": 64, "persons": PEOPLE})

    @classmethod
    def every_name(cls) -> list[str]:
        """The names of all videos, which only a check asks for: some signs or some people are a data set as well.

        >>> len(LSA64Dataset.every_name()), LSA64Dataset.every_name()[-1]
        (3200, '064_010_005.mp4')
        """
        numbers = product(range(1, len(SIGNS) + 1), range(1, PEOPLE + 1), _BY_REPETITION)
        return [f"{sign:03d}_{person:03d}_{repetition:03d}.mp4" for sign, person, repetition in numbers]

    @classmethod
    def name_of(cls, row: Row) -> str:
        """The name that the video of a row was published under."""
        return f"{row.path.stem}.mp4"


def row_of(path: Path) -> Row | None:
    """What a file's name says; None where it is not a name of this set.

    >>> row_of(Path("024_001_005.mp4")).action
    'argentina'
    """
    name = _NAME.fullmatch(path.stem)
    if not name:
        return None
    sign, person, repetition = (int(number) for number in name.groups())
    if not 1 <= sign <= len(SIGNS) or repetition not in _BY_REPETITION:
        return None
    by_person = "test" if person in _TEST else "val" if person in _VAL else "train"
    return Row(
        path, path.name, SIGNS[sign - 1], str(person), split={"person": by_person, "clip": _BY_REPETITION[repetition]}
    )
