"""`hmdb51:PATH`: HMDB51 with its three official splits (`?split=1`, 2 or 3).

Under PATH: videos in any folders, and `<class>_test_split1.txt`, … with lines `video.avi 0|1|2` (1 train, 2 test, 0 neither).
What stands before the class in a video's name is the film or recording it was cut from, here its group. The official
lists keep such a source on one side within a class, but not from class to class.
"""

from __future__ import annotations

from pathlib import Path

from sfumato.datasets.files import Row
from sfumato.datasets.listed import Annotations, ListedDataset, Place, both, hold_out, read_text
from sfumato.errors import SfumatoError

_PARTS = {"0": "", "1": "train", "2": "test"}
# Sources with clips in train and in test (of different classes, but for one) in each split: so it was published.
STRADDLING = {"1": 134, "2": 150, "3": 144}
PUBLISHED = {"videos": 6766, "train + val": 3570, "test": 1530, "actions": 51}


class HMDB51Dataset(ListedDataset):
    """HMDB51.

    >>> HMDB51Dataset("data/hmdb51?split=2").actions[:2]  # doctest: +SKIP
    ('brush_hair', 'cartwheel')
    """

    kind = "hmdb51"
    described = "6,766 videos of 51 actions, three splits (Kuehne et al. 2011)"
    get_from = "serre-lab.clps.brown.edu, HMDB (test_train_splits.rar)"
    options = ("split",)

    @classmethod
    def annotations(cls, place: Place) -> Annotations:
        return read_lists(place, place.choice("split", tuple(STRADDLING)))


def read_lists(place: Place, split: str) -> Annotations:
    """Rows of the 51 lists of one split.

    >>> len(read_lists(HMDB51Dataset.at("data/hmdb51"), "1").rows)  # doctest: +SKIP
    6766
    """
    rows, actions = [], []
    for path in place.label_files(f"*_test_split{split}.txt"):
        action = path.name.removesuffix(f"_test_split{split}.txt")
        actions.append(action)
        for number, line in enumerate(read_text(path).splitlines(), 1):
            words, where = line.split(), f"{path.name} line {number}"
            if not words:
                continue
            if len(words) != 2 or words[1] not in _PARTS:
                raise SfumatoError(f"{where}: '{line.strip()}' is not 'video.avi 0|1|2'", "get the lists again")
            part = both(_PARTS[words[1]])
            rows.append(Row(Path(action, words[0]), where, action, split=part, group=source_of(words[0], action)))
    hold_out(rows)
    return Annotations(rows, tuple(actions), published=PUBLISHED, straddling=STRADDLING[split])


def source_of(video: str, action: str) -> str:
    """The film or recording that a video was cut from.

    >>> source_of("RATRACE_wave_f_nm_np1_fr_goo_37.avi", "wave")
    'RATRACE'
    """
    return video.partition(f"_{action}_")[0]
