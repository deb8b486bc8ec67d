"""`ucf101:PATH`: UCF101 with its three official splits (`?split=1`, 2 or 3).

Under PATH: `v_Class_gXX_cYY.avi` in any folders, and classInd.txt, trainlist01.txt, testlist01.txt, … The train list carries
labels from 1, the test list none. Clips of one group (gXX of a class) come from one long video; the lists keep a group
on one side, and so does the validation part that is carved out of training here.
"""

from __future__ import annotations

import re
from pathlib import Path

from sfumato.datasets.files import Row
from sfumato.datasets.listed import Annotations, ListedDataset, Place, both, hold_out
from sfumato.errors import SfumatoError

PUBLISHED = {"1": (9537, 3783), "2": (9586, 3734), "3": (9624, 3696)}  # train and test of each split
_GROUP = re.compile(r"v_(.+_g\d+)_c\d+")


class UCF101Dataset(ListedDataset):
    """UCF101.

    >>> UCF101Dataset("data/ucf101?split=2").actions[:2]  # doctest: +SKIP
    ('ApplyEyeMakeup', 'ApplyLipstick')
    """

    kind = "ucf101"
    described = "13,320 videos of 101 actions, three splits (Soomro et al. 2012)"
    get_from = "crcv.ucf.edu/data/UCF101.php (UCF101TrainTestSplits-RecognitionTask.zip)"
    options = ("split",)

    @classmethod
    def annotations(cls, place: Place) -> Annotations:
        return read_lists(place)


def read_lists(place: Place) -> Annotations:
    """Rows of one split's two lists.

    >>> len(read_lists(UCF101Dataset.at("data/ucf101")).rows)  # doctest: +SKIP
    13320
    """
    split = place.choice("split", tuple(PUBLISHED))
    actions = _classes(place)
    rows = []
    for part in ("train", "test"):
        path, text = place.read(f"{part}list0{split}.txt")
        for number, line in enumerate(text.splitlines(), 1):
            if line.strip():
                rows.append(_row(line.split(), f"{path.name} line {number}", part, actions))
    hold_out(rows)
    train, test = PUBLISHED[split]
    published = {"videos": train + test, "train + val": train, "test": test, "actions": 101}
    return Annotations(rows, tuple(actions.values()), published=published)


def _classes(place: Place) -> dict[str, str]:
    """Label, as the train list writes it, to name."""
    path, text = place.read("classInd.txt")
    pairs = [line.split() for line in text.splitlines() if line.strip()]
    if not pairs or any(len(pair) != 2 for pair in pairs):
        raise SfumatoError(f"'{path}' is not a list of numbered classes", f"get it from {place.get_from}")
    return {label: name for label, name in pairs}


def _row(words: list[str], where: str, part: str, actions: dict[str, str]) -> Row:
    video = Path(words[0])
    action = actions.get(words[1], "") if len(words) > 1 else video.parent.name
    if action not in actions.values() or (part == "train" and len(words) != 2):
        raise SfumatoError(f"{where}: '{' '.join(words)}' names no class of classInd.txt", "get the lists again")
    group = _GROUP.fullmatch(video.stem)
    return Row(video, where, action, split=both(part), group=group[1] if group else "")
