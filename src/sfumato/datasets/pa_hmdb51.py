"""`pa-hmdb51:PATH`: PA-HMDB51, 515 videos of HMDB51 whose private attributes are labelled frame by frame.

Under PATH: a copy as for `hmdb51:`, and PrivacyAttributes/<class>.json: `{video: {attribute: [[first, last, value], …]}}`.
`?split=rest` (VITA, SPAct): the 515 are test, the rest of HMDB51, of unknown attributes, is train and val.
`?split=random` (STPrivacy): 60% of the 515 are train and val, 40% test; here clips of one film stay together.
A video's own value is the one that is shown longest; `frame_attributes` has that of every frame.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sfumato.datasets import hmdb51
from sfumato.datasets.files import Row
from sfumato.datasets.listed import Annotations, ListedDataset, Place, both, hold_out, read_text, shuffled
from sfumato.datasets.sample import AttributeSpec
from sfumato.errors import SfumatoError

# The order is that of the numbers in the files. A list of numbers is people side by side: the last value.
ATTRIBUTES = (
    AttributeSpec("skin_color", ("not to tell", "white", "brown or yellow", "black", "several")),
    AttributeSpec("face", ("hidden", "partly visible", "visible")),
    AttributeSpec("gender", ("not to tell", "male", "female", "several")),
    AttributeSpec("nudity", ("none", "partial", "half naked")),
    AttributeSpec("relationship", ("not to tell", "to tell")),
)
TRAIN_SHARE = 0.6
# Films with clips in test and in the rest: the 515 were not chosen by film.
STRADDLING = 328

# Of one attribute in one video: first frame, last frame (inclusive), index of the value.
Span = tuple[int, int, int]


class PAHMDB51Dataset(ListedDataset):
    """PA-HMDB51.

    >>> PAHMDB51Dataset("data/hmdb51").frame_attributes(torch.tensor([0])).shape  # doctest: +SKIP
    torch.Size([1, 16, 5])
    """

    kind = "pa-hmdb51"
    described = "515 videos of HMDB51 with five private attributes per frame (Wu et al. 2021)"
    get_from = "github.com/VITA-Group/PA-HMDB51 (the folder PrivacyAttributes)"
    options = ("split",)

    def __init__(self, source: str, *, strict: bool = False) -> None:
        super().__init__(source, strict=strict)
        self._spans = {Path(video).stem: spans for videos in read_spans(self.place).values() for video, spans in videos}

    @classmethod
    def annotations(cls, place: Place) -> Annotations:
        split, labelled = place.choice("split", ("rest", "random")), read_spans(place)
        rows = [
            Row(Path(action, video), f"{action}.json", action, attributes=_shown_longest(spans), split=both("test"),
                group=hmdb51.source_of(video, action))
            for action, videos in labelled.items() for video, spans in videos
        ]  # fmt: skip
        if split == "random":
            draw_training(rows)
            hold_out(rows)
            return Annotations(rows, tuple(labelled), ATTRIBUTES, published={"videos": 515, "actions": 51})
        lists = hmdb51.HMDB51Dataset.get_from
        place.label_files("*_test_split1.txt", get_from=lists)
        known = {row.path for row in rows}
        told = hmdb51.read_lists(place, "1")
        rest = [row for row in told.rows if row.path not in known]
        for row in rest:
            row.split, row.attributes = both("train"), {a.name: "" for a in ATTRIBUTES}
        hold_out(rest)
        return Annotations(
            rows + rest, told.actions, ATTRIBUTES, straddling=STRADDLING,
            published={"videos": 6766, "train + val": 6251, "test": 515, "actions": 51},
        )  # fmt: skip

    def frame_attributes(self, indices: Tensor) -> Tensor:
        """The value of each of `attributes` in every frame of those clips, (N, T, A) int64; -1: not labelled."""
        values = torch.full((len(indices), self.shape.frames, len(self.attributes)), -1)
        for n, (index, times) in enumerate(zip(indices.tolist(), self.times(indices), strict=True)):
            spans = self._spans.get(self.rows[index].path.stem, {})
            for a, spec in enumerate(self.attributes):
                for first, last, value in spans.get(spec.name, ()):
                    values[n, (times >= first) & (times <= last), a] = value
        return values


def read_spans(place: Place) -> dict[str, list[tuple[str, dict[str, list[Span]]]]]:
    """By action: every labelled video with the spans of each attribute."""
    found = {}
    for path in place.label_files("PrivacyAttributes/*.json"):
        try:
            told = json.loads(read_text(path))
            found[path.stem] = [(video, _spans(values)) for video, values in told.items()]
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise SfumatoError(f"'{path}' is not in PA-HMDB51's format ({error})", "get the file again") from None
    return found


def _spans(values: Mapping[str, Any]) -> dict[str, list[Span]]:
    return {
        a.name: [(int(first), int(last), _value(value, a)) for first, last, value in values[a.name]] for a in ATTRIBUTES
    }


def _value(value: int | list[int], attribute: AttributeSpec) -> int:
    if isinstance(value, list):
        return len(attribute.values) - 1
    if not 0 <= value < len(attribute.values):
        raise ValueError(f"{attribute.name} {value}")
    return value


def _shown_longest(spans: Mapping[str, list[Span]]) -> dict[str, str]:
    """The value of each attribute that most frames have; "" where none is labelled."""
    shown = {}
    for spec in ATTRIBUTES:
        frames: Counter[int] = Counter()
        for first, last, value in spans[spec.name]:
            frames[value] += last - first + 1
        shown[spec.name] = spec.values[frames.most_common(1)[0][0]] if frames else ""
    return shown


def draw_training(rows: list[Row]) -> None:
    """Films in random order become training data until they are 60% of the clips."""
    clips = Counter(row.group for row in rows)
    taken, chosen = 0, set()
    for group in shuffled(list(clips)):
        if taken + clips[group] <= TRAIN_SHARE * len(rows):
            chosen.add(group)
            taken += clips[group]
    for row in rows:
        if row.group in chosen:
            row.split = both("train")
