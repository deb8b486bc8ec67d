"""`ntu60:PATH`: NTU RGB+D 60, `S001C001P001R001A001_rgb.avi`: setup, camera, person, repetition, action; a name says all.

`?split=subject`: by person the official cross-subject parts; by clip the official cross-view ones (cameras 2 and 3 to train,
camera 1 to test). `?split=view`: cross-view in both. A performance was recorded by three cameras at once: it is one group.
`?split=bias-f`, `?split=bias-m`: SPLAVU's NTU-Bias-F and NTU-Bias-M (ntu_bias.py). Actions from A061 on are of NTU RGB+D 120
and are not used.
"""

from __future__ import annotations

import re
from pathlib import Path

from sfumato.datasets.files import Row
from sfumato.datasets.listed import Annotations, ListedDataset, Place, both, hold_out
from sfumato.datasets.ntu_bias import FAVOURED, draw_biased
from sfumato.datasets.perceived_gender import label_genders

ACTIONS = (
    "drink water", "eat meal", "brush teeth", "brush hair", "drop", "pick up", "throw", "sit down", "stand up", "clap",
    "read", "write", "tear up paper", "put on jacket", "take off jacket", "put on a shoe", "take off a shoe",
    "put on glasses", "take off glasses", "put on a hat", "take off a hat", "cheer up", "wave", "kick something",
    "reach into pocket", "hop", "jump up", "phone call", "play with phone", "type on a keyboard", "point to something",
    "take a selfie", "check time", "rub two hands", "nod or bow", "shake head", "wipe face", "salute",
    "put palms together", "cross hands in front", "sneeze or cough", "stagger", "fall down", "headache", "chest pain",
    "back pain", "neck pain", "nausea", "fan self", "punch somebody", "kick somebody", "push somebody", "pat on back",
    "point at somebody", "hug", "give object", "touch pocket", "shake hands", "walk towards", "walk apart",
)  # fmt: skip
TRAINING_SUBJECTS = frozenset({1, 2, 4, 5, 8, 9, 13, 14, 15, 16, 17, 18, 19, 25, 27, 28, 31, 34, 35, 38})
SUBJECTS, SETUPS, CAMERAS = 40, 17, 3
PUBLISHED = {"videos": 56_880, "actions": 60, "persons": 40}
PUBLISHED_PARTS = {
    "subject": {"train + val": 40_320, "test": 16_560}, "view": {"train + val": 37_920, "test": 18_960},
}  # fmt: skip
# Cross-view has every performance and everybody on both sides.
STRADDLING = {"view": 18_960 + SUBJECTS}
_NAME = re.compile(r"S(\d{3})C(\d{3})P(\d{3})R(\d{3})A(\d{3})(_rgb)?")


class NTU60Dataset(ListedDataset):
    """NTU RGB+D 60.

    >>> NTU60Dataset("data/ntu60").actions[3]  # doctest: +SKIP
    'brush hair'
    """

    kind = "ntu60"
    described = "56,880 videos of 60 actions by 40 people, three cameras (Shahroudy et al. 2016)"
    get_from = "rose1.ntu.edu.sg/dataset/actionRecognition"
    options = ("split",)

    @classmethod
    def annotations(cls, place: Place) -> Annotations:
        split = place.choice("split", ("subject", "view", *FAVOURED))
        found = (row_of(path.relative_to(place.root), split) for path in place.media.files.values())
        rows = [row for row in found if row]
        attributes = label_genders(rows, place, needed=split in FAVOURED)
        if split in FAVOURED:
            draw_biased(rows, FAVOURED[split])
        elif split == "view":
            hold_out(rows)
        else:
            hold_out(rows, by=("person",), group_of=lambda row: row.person)
            hold_out(rows, by=("clip",))
        published = {**PUBLISHED, **PUBLISHED_PARTS.get(split, {})}
        return Annotations(rows, ACTIONS, attributes, published=published, straddling=STRADDLING.get(split, 0))


def row_of(path: Path, split: str) -> Row | None:
    """What a file's name says; None where it is not a name of this set.

    >>> row_of(Path("S001C002P003R002A013_rgb.avi"), "subject").person
    '3'
    """
    name = _NAME.fullmatch(path.stem)
    if not name:
        return None
    setup, camera, person, repetition, action = (int(number) for number in name.groups()[:5])
    fits = 1 <= setup <= SETUPS and 1 <= camera <= CAMERAS and 1 <= person <= SUBJECTS
    if not fits or not 1 <= action <= len(ACTIONS):
        return None
    parts = both("test" if camera == 1 else "train")
    if split != "view":
        parts["person"] = "train" if person in TRAINING_SUBJECTS else "test"
    group = f"S{setup:03d}P{person:03d}R{repetition:03d}A{action:03d}"
    return Row(path, path.name, ACTIONS[action - 1], str(person), split=parts, group=group)
