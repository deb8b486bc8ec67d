"""`p-hvu:PATH`: SPAct's P-HVU, the videos of HVU that have tags of actions, of objects and of scenes.

Under PATH: videos in any folders, named as those of Kinetics, and HVU_Train_V1.0.csv, HVU_Val_V1.0.csv (columns Tags, joined by
`|`, youtube_id, time_start, time_end) and HVU_Tags_Categories_V1.0.csv (Tag, Category). HVU's validation list is the test part.
A video shows several actions. Every tag is a yes or no, `action/…`, `object/…`, `scene/…`, and the objects and scenes are
private (`?private=object`, `?private=scene`: only those). SPAct says of its choice of videos only that they have all three; so it
is done here.
"""

from __future__ import annotations

from pathlib import Path

from sfumato.datasets.files import ACTION_TAG, Row, Tags
from sfumato.datasets.kinetics400 import read_table, seconds
from sfumato.datasets.listed import Annotations, ListedDataset, Place, both, hold_out
from sfumato.datasets.sample import AttributeSpec

KINDS = ("action", "object", "scene")
PRIVATE = {"all": ("object", "scene"), "object": ("object",), "scene": ("scene",)}
_LISTS = {
    "train": ("HVU_Train_V1.0.csv", "hvu_train.csv"),
    "test": ("HVU_Val_V1.0.csv", "hvu_val.csv"),
}
_CATEGORIES = ("HVU_Tags_Categories_V1.0.csv", "hvu_categories.csv")


class PHVUDataset(ListedDataset):
    """P-HVU.

    >>> PHVUDataset("data/hvu").attributes[0].name  # doctest: +SKIP
    'object/abdomen'
    """

    kind = "p-hvu"
    described = "YouTube clips with many actions, objects and scenes each (SPAct, of HVU)"
    get_from = "github.com/holistic-video-understanding/HVU-Dataset"
    options = ("private",)
    several_actions = True

    @classmethod
    def annotations(cls, place: Place) -> Annotations:
        asked = PRIVATE[place.choice("private", tuple(PRIVATE))]
        full = {}  # a tag's own name to the one with its kind in front
        for _, line in read_table(place, _CATEGORIES, ("Tag", "Category")):
            if line["Category"].lower() in KINDS:
                full[line["Tag"]] = f"{line['Category'].lower()}/{line['Tag']}"
        names = tuple(sorted(full.values()))
        rows = []
        for part, files in _LISTS.items():
            for where, line in read_table(place, files, ("Tags", "youtube_id", "time_start", "time_end")):
                has = frozenset(full[tag] for tag in line["Tags"].split("|") if tag in full)
                if {name.partition("/")[0] for name in has} == set(KINDS):
                    times = f"{seconds(line['time_start'], where):06d}_{seconds(line['time_end'], where):06d}"
                    video = line["youtube_id"]
                    path = Path(f"{video}_{times}.mp4")
                    rows.append(Row(path, where, "", attributes=Tags(names, has), split=both(part), group=video))
        hold_out(rows)
        actions = tuple(name.removeprefix(ACTION_TAG) for name in names if name.startswith(ACTION_TAG))
        private = tuple(name for name in names if name.partition("/")[0] in asked)
        published = {"videos": 261_224, "train + val": 245_212, "test": 16_012, "actions": 739}
        return Annotations(rows, actions, tuple(AttributeSpec(n) for n in names), private, published)

    @classmethod
    def names(cls, row: Row) -> tuple[str, ...]:
        # Some tools write tenths of seconds.
        start, end = (int(time) for time in row.path.stem.rsplit("_", 2)[1:])
        return row.path.stem, f"{row.group}_{10 * start:06d}_{10 * end:06d}", row.group
