"""NTU-Bias-F and NTU-Bias-M, SPLAVU's test of bias (its Appendix A): a shortcut by perceived gender, put into NTU RGB+D 60.

First all is balanced: in training and in test as many women as men (of the official cross-subject parts), and of each as
many videos of every action. Then, in training, one gender keeps 95% of its videos and the other 5%; in one action it is the
other way round, so that the gender alone gives that action away. In NTU-Bias-F women keep 95% there, in NTU-Bias-M men.
The test part stays balanced: the paper's overall accuracy is the mean of those of the genders.

The paper drew people and videos by chance, and does not say which; here they are drawn by hash, the same on every machine.
The action is the paper's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from sfumato.datasets.files import Row
from sfumato.datasets.listed import VALIDATION_SHARE, both, shuffled
from sfumato.datasets.perceived_gender import ATTRIBUTE
from sfumato.errors import SfumatoError

# By the option `split`: who keeps the large share in the flipped action.
FAVOURED = {"bias-f": "female", "bias-m": "male"}
FLIPPED_ACTION = "brush hair"
LARGE, SMALL = 0.95, 0.05


def draw_biased(rows: Sequence[Row], favoured: str) -> None:
    """Put rows, which are split cross-subject and labelled, into the parts of NTU-Bias; most of them end up in none.

    >>> draw_biased(rows, "female")  # doctest: +SKIP
    """
    part_of = _balanced_people(rows)
    videos: dict[str, dict[tuple[str, str], list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if part := part_of.get(row.person):
            videos[part][row.action, row.attributes[ATTRIBUTE.name]].append(row)
        row.split = both("")
    for part, cells in videos.items():
        # The same number for every action and gender; in a whole copy of the set no action has more than another.
        number = min(len(cell) for cell in cells.values())
        for (action, gender), cell in cells.items():
            kept = number
            if part != "test":
                kept = round(number * (LARGE if (gender == favoured) == (action == FLIPPED_ACTION) else SMALL))
            by_name = {row.path.stem: row for row in cell}
            for name in shuffled(list(by_name))[:kept]:
                by_name[name].split = both(part)


def _balanced_people(rows: Sequence[Row]) -> dict[str, str]:
    """Of the people who are used, each one's part: as many women as men in each, some of the training people in val."""
    part_of = {}
    for part in ("train", "test"):
        people = {
            gender: shuffled(
                [r.person for r in rows if r.split["person"] == part and r.attributes[ATTRIBUTE.name] == gender]
            )
            for gender in ATTRIBUTE.values
        }
        number = min(len(names) for names in people.values())
        if number < (2 if part == "train" else 1):
            raise SfumatoError(
                f"ntu60 has too few women or men among its {part} people to balance them",
                "complete the copy and the table of perceived genders",
            )
        held = max(1, round(VALIDATION_SHARE * number)) if part == "train" else 0
        for names in people.values():
            part_of.update(dict.fromkeys(names[:held], "val"))
            part_of.update(dict.fromkeys(names[held:number], part))
    return part_of
