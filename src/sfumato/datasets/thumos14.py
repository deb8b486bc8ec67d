"""`thumos14:PATH`: THUMOS14, untrimmed videos with the segments of 20 actions; every Sample has those of its video.

Under PATH: `video_validation_0000051.mp4`, `video_test_0000004.mp4`, … in any folders, and thumos14.json:
`{video: {subset, annotations: [{segment: [from, to], label}, …]}}`, with or without `database` around it, in seconds. As in
every paper one learns from the validation videos: they are train and val here. A video's own action is the one that it
shows longest.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sfumato.datasets.base import Course
from sfumato.datasets.files import Row
from sfumato.datasets.listed import Annotations, ListedDataset, Place, both, hold_out, within
from sfumato.datasets.sample import Segment
from sfumato.errors import SfumatoError

FILE = "thumos14.json"
_PARTS = {"validation": "train", "test": "test"}
# The challenge has 213 test videos; the annotations in use leave out video_test_0001292, whose labels are wrong.
PUBLISHED = {"videos": 412, "train + val": 200, "test": 212, "actions": 20}


@dataclass(frozen=True)
class Span:
    """An action from one second to another."""

    start: float
    end: float
    label: str


class THUMOS14Dataset(ListedDataset):
    """THUMOS14.

    >>> THUMOS14Dataset("data/thumos14").sample(0).segments[0]  # doctest: +SKIP
    Segment(start=558, end=744, label='HighJump')
    """

    kind = "thumos14"
    described = "412 untrimmed videos with segments of 20 actions (Jiang et al. 2014)"
    get_from = "github.com/happyharrycn/actionformer_release, or of the challenge, crcv.ucf.edu/THUMOS14"

    def __init__(self, source: str, *, strict: bool = False) -> None:
        super().__init__(source, strict=strict)
        spans = {video: told for video, (_, told) in read_spans(self.place).items()}
        for row in self.rows:
            # By the rate of this very file: the durations in the JSON are those of 30 frames per second, which some
            # videos do not have (of 17 the last segments would lie behind the end).
            frames = [
                Segment(round(s.start * row.rate), round(s.end * row.rate), s.label) for s in spans[row.path.stem]
            ]
            row.segments = within(frames, row.frames)

    def course(self, index: int) -> Course:
        return Course(self.rows[index].segments)

    @classmethod
    def annotations(cls, place: Place) -> Annotations:
        told = read_spans(place)
        segments = Counter(span.label for _, spans in told.values() for span in spans)
        rows = [
            Row(Path(f"{video}.mp4"), FILE, _shown_longest(spans, segments), split=both(part))
            for video, (part, spans) in told.items()
        ]
        hold_out(rows)
        return Annotations(rows, tuple(sorted(segments)), published=PUBLISHED)


def read_spans(place: Place) -> dict[str, tuple[str, list[Span]]]:
    """Of every video its part and what happens in it, in seconds.

    >>> read_spans(THUMOS14Dataset.at("data/thumos14"))["video_test_0000896"][1][0]  # doctest: +SKIP
    Span(start=18.6, end=24.8, label='HighJump')
    """
    path, text = place.read(FILE)
    try:
        told = json.loads(text)
        return {
            video: (_PARTS[about["subset"].lower()], [_span(each) for each in about["annotations"]])
            for video, about in told.get("database", told).items()
        }
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise SfumatoError(f"'{path}' is not in THUMOS14's format ({error})", f"get it from {place.get_from}") from None


def _span(told: Mapping[str, Any]) -> Span:
    start, end = told["segment"]
    if not 0 <= start < end:
        raise ValueError(f"a segment from {start} to {end}")
    return Span(float(start), float(end), str(told["label"]))


def _shown_longest(spans: list[Span], segments: Mapping[str, int]) -> str:
    """The action with most seconds; of equal ones the rarer, since every CliffDiving is labelled Diving as well."""
    seconds: dict[str, float] = defaultdict(float)
    for span in spans:
        seconds[span.label] += span.end - span.start
    return max(seconds, key=lambda label: (round(seconds[label], 3), -segments[label]), default="")
