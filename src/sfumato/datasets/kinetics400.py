"""`kinetics400:PATH`: Kinetics-400. Its validation list is the test part, as in every paper; val is carved out of training.

Under PATH: videos in any folders, named `ID_SSSSSS_EEEEEE.mp4` (YouTube's id, first and last second) or `ID.mp4`, and
train.csv, validate.csv with the columns label, youtube_id, time_start, time_end. Many of the videos are no longer online.
"""

from __future__ import annotations

import csv
from pathlib import Path

from sfumato.datasets.files import Row
from sfumato.datasets.listed import Annotations, ListedDataset, Place, both, hold_out
from sfumato.errors import SfumatoError

_LISTS = {"train": ("train.csv", "kinetics_train.csv"), "test": ("validate.csv", "val.csv", "kinetics_val.csv")}


class Kinetics400Dataset(ListedDataset):
    """Kinetics-400.

    >>> Kinetics400Dataset("data/kinetics400").actions[:2]  # doctest: +SKIP
    ('abseiling', 'air drumming')
    """

    kind = "kinetics400"
    described = "YouTube clips of ten seconds, 400 actions (Kay et al. 2017)"
    get_from = "github.com/cvdfoundation/kinetics-dataset (annotations)"

    @classmethod
    def annotations(cls, place: Place) -> Annotations:
        rows = []
        for part, names in _LISTS.items():
            for where, line in read_table(place, names, ("label", "youtube_id", "time_start", "time_end")):
                video, times = line["youtube_id"], (line["time_start"], line["time_end"])
                path = Path(f"{video}_{seconds(times[0], where):06d}_{seconds(times[1], where):06d}.mp4")
                rows.append(Row(path, where, line["label"], split=both(part), group=video))
        hold_out(rows)
        actions = tuple(sorted({row.action for row in rows}))
        published = {"actions": 400}  # how many videos there are depends on when they were fetched
        return Annotations(rows, actions, published=published)

    @classmethod
    def names(cls, row: Row) -> tuple[str, ...]:
        return row.path.stem, row.group


def read_table(place: Place, names: tuple[str, ...], columns: tuple[str, ...]) -> list[tuple[str, dict[str, str]]]:
    """The lines of a CSV file that must have these columns, each with its place for messages."""
    path, text = place.read(*names)
    reader = csv.DictReader(text.splitlines())
    missing = [column for column in columns if column not in (reader.fieldnames or ())]
    if missing:
        raise SfumatoError(f"'{path}' has no column '{missing[0]}'", f"get it from {place.get_from}")
    return [
        (f"{path.name} line {reader.line_num}", {column: line[column] or "" for column in columns}) for line in reader
    ]


def seconds(text: str, where: str) -> int:
    """A time of a list, as whole seconds."""
    try:
        return int(float(text))
    except ValueError:
        raise SfumatoError(f"{where}: '{text}' is no time in seconds", "get the list again") from None
