"""Where the features of a video come from: the clip of a data set that a store named it after."""

from __future__ import annotations

from collections import defaultdict
from functools import lru_cache
from typing import NamedTuple

import torch

from sfumato.datasets import DATASETS, VideoDataset, open_dataset, reads_files
from sfumato.datasets.annotations import Annotation
from sfumato.datasets.theatre import TheatreDataset


class Origin(NamedTuple):
    """A data set's name and the number of a clip in it."""

    data: str
    number: int


def origin(name: str) -> Origin | None:
    """What a store's video was; None for what is no clip of a data set.

    >>> origin("theatre:small/12")
    Origin(data='theatre:small', number=12)
    """
    data, _, number = name.rpartition("/")
    known = data in DATASETS or reads_files(data)
    return Origin(data, int(number)) if known and number.isdecimal() else None


@lru_cache(maxsize=4)
def opened(name: str) -> VideoDataset:
    """The data set of that name, opened once.

    >>> opened("theatre:small").name
    'theatre:small'
    """
    return open_dataset(name)


def look_up(annotations: list[Annotation], attribute: str) -> list[str]:
    """What every video says of an attribute, "" where nothing; the theatre is asked about its own clips.

    A store tells the private attributes alone: that a gender can be seen, say, and not which.

    >>> look_up([Annotation("theatre:small/0")], "gender_value")
    ['woman']
    """
    told = [annotation.attributes.get(attribute, "") for annotation in annotations]
    asked: dict[str, list[int]] = defaultdict(list)
    for number, annotation in enumerate(annotations):
        place = origin(annotation.name)
        if not told[number] and place is not None and not reads_files(place.data):
            asked[place.data].append(number)
    for data, numbers in asked.items():
        theatre = opened(data)
        if not isinstance(theatre, TheatreDataset) or attribute not in {spec.name for spec in theatre.labelled()}:
            continue
        view = theatre.about([attribute])
        indices = torch.tensor([int(annotations[n].name.rpartition("/")[2]) for n in numbers])
        for number, value in zip(numbers, view.labels(indices).attributes[:, 0].tolist(), strict=True):
            told[number] = view.attributes[0].values[value]
    return told
