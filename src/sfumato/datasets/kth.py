"""`kth:PATH`: KTH, `person01_boxing_d1_uncomp.avi`: a name says all, no label file is needed.

By person: the official parts (16 people to train and to select with, nine to test). By clip: of everybody the scenarios d1 and d2
(outdoors, outdoors with zoom) to train, d3 (other clothes) to select, d4 (indoors) to test.
"""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

from sfumato.datasets.files import Row
from sfumato.datasets.listed import Annotations, ListedDataset, Place

ACTIONS = ("boxing", "handclapping", "handwaving", "jogging", "running", "walking")
PEOPLE, SCENARIOS = range(1, 26), (1, 2, 3, 4)
NEVER_PUBLISHED = "person13_handclapping_d3_uncomp.avi"
PUBLISHED = {"videos": 599, "train": 191, "val": 192, "test": 216, "actions": 6, "persons": 25}
_NAME = re.compile(r"person(\d\d)_([a-z]+)_d([1-4])(_uncomp)?")
_TRAIN, _VAL = (11, 12, 13, 14, 15, 16, 17, 18), (19, 20, 21, 23, 24, 25, 1, 4)


class KTHDataset(ListedDataset):
    """KTH.

    >>> KTHDataset("data/kth").persons[:2]  # doctest: +SKIP
    ('1', '2')
    """

    kind = "kth"
    described = "599 grey videos of 25 people, six actions (Schüldt et al. 2004)"
    get_from = "csc.kth.se/cvap/actions"

    @classmethod
    def annotations(cls, place: Place) -> Annotations:
        rows = [row for path in place.media.files.values() if (row := row_of(path.relative_to(place.root)))]
        return Annotations(rows, ACTIONS, published=PUBLISHED)

    @classmethod
    def every_name(cls) -> list[str]:
        """The names of all videos, which only a check asks for: some people or some actions are a data set as well.

        >>> len(KTHDataset.every_name()), KTHDataset.every_name()[-1]
        (599, 'person25_walking_d4_uncomp.avi')
        """
        every = [f"person{p:02d}_{action}_d{s}_uncomp.avi" for p, action, s in product(PEOPLE, ACTIONS, SCENARIOS)]
        return [name for name in every if name != NEVER_PUBLISHED]

    @classmethod
    def name_of(cls, row: Row) -> str:
        """The name that the video of a row was published under."""
        return f"{row.path.stem.removesuffix('_uncomp')}_uncomp.avi"


def row_of(path: Path) -> Row | None:
    """What a file's name says; None where it is not a name of this set.

    >>> row_of(Path("person01_boxing_d1_uncomp.avi")).person
    '1'
    """
    name = _NAME.fullmatch(path.stem)
    if not name or name[2] not in ACTIONS:
        return None
    person, scenario = int(name[1]), name[3]
    by_person = "train" if person in _TRAIN else "val" if person in _VAL else "test"
    by_clip = {"1": "train", "2": "train", "3": "val", "4": "test"}[scenario]
    return Row(path, path.name, name[2], str(person), split={"person": by_person, "clip": by_clip})
