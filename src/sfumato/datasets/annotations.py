"""What is known about the videos of a feature store: `annotations.jsonl` beside their features, one line for each.

    {"name": "a.mp4", "action": "wave", "person": "7", "attributes": {"hat": "yes"}, "split": "train"}
    {"name": "b.mp4", "segments": [[0, 48, "wave"], [80, 130, "bow"]], "anomalous": false}

Every field but `name` may be left out. Segments are frames [start, end) of the video. `split` is one of train, val, test, or an
object with one for `person`, `clip` or both; without it a video falls into a part by the hash of its person or name.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast, get_args

from torch import Tensor

from sfumato.datasets.base import Part, SplitBy, VideoDataset
from sfumato.datasets.files import automatic_split
from sfumato.datasets.sample import Segment
from sfumato.errors import SfumatoError
from sfumato.writing import to_json, write_whole

FILE = "annotations.jsonl"
PARTS = get_args(Part)


@dataclass(frozen=True)
class Annotation:
    """What is known about one video; None and "" stand for what is not."""

    name: str
    action: str = ""
    person: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict)
    segments: tuple[Segment, ...] | None = None
    anomalous: bool | None = None
    split: Mapping[str, str] = field(default_factory=dict)

    def part(self, by: SplitBy) -> Part | None:
        """The part of a split that it belongs to; where one split alone is told, it belongs to no part of the other.

        >>> Annotation("a.mp4", split={"person": "val"}).part("person")
        'val'
        """
        if self.split:
            return cast(Part | None, self.split.get(by))
        return automatic_split(self.person if by == "person" and self.person else self.name)


def read_annotations(folder: Path) -> dict[str, Annotation]:
    """The annotations in that folder by name; none where there is no file.

    >>> read_annotations(Path("features/ucf101"))["a.mp4"].action  # doctest: +SKIP
    'wave'
    """
    path = folder / FILE
    if not path.exists():
        return {}
    found: dict[str, Annotation] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            annotation = _read(json.loads(line))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise SfumatoError(
                f"line {number} of '{path}' is no annotation ({error})", 'write such as {"name": "a.mp4", "action": "wave"}'
            ) from None  # fmt: skip
        found[annotation.name] = annotation
    return found


def add_annotations(folder: Path, annotations: Mapping[str, Annotation]) -> None:
    """Write these beside those that are there, which stay: they were made with the features that are stored.

    >>> add_annotations(Path("features"), {"a.mp4": Annotation("a.mp4", action="wave")})  # doctest: +SKIP
    """
    every = {**annotations, **read_annotations(folder)}
    write_whole(folder / FILE, b"".join(to_json(_written(annotation)) for annotation in every.values()))


def annotate_items(dataset: VideoDataset, indices: Tensor, names: Mapping[int, str]) -> dict[str, Annotation]:
    """What a data set says of those clips, by the names that a store gives them.

    >>> annotate_items(open_dataset("theatre:small"), torch.tensor([0]), {0: "a"})["a"].action  # doctest: +SKIP
    'sit down'
    """
    others = [spec.name for spec in dataset.labelled()]
    # Where nothing is private, what else is labelled: in which clothes somebody walks is not, and who asks must know it.
    told = dataset if dataset.attributes or not others else dataset.about(others)
    labels = told.labels(indices)
    by: tuple[SplitBy, ...] = get_args(SplitBy)
    place = {kind: {int(i): part for part in PARTS for i in dataset.split(part, kind)} for kind in by}
    found = {}
    for row, index in enumerate(indices.tolist()):
        action, person = int(labels.action[row]), int(labels.person[row])
        values = zip(told.attributes, labels.attributes[row].tolist(), strict=True)
        course = dataset.course(index)
        found[names[index]] = Annotation(
            names[index], dataset.actions[action] if action >= 0 else "", dataset.persons[person] if person >= 0 else "",
            {spec.name: spec.values[value] for spec, value in values if value >= 0}, course.segments, course.anomalous,
            split={kind: parts[index] for kind, parts in place.items() if index in parts},
        )  # fmt: skip
    return found


def _written(annotation: Annotation) -> dict[str, Any]:
    """Without what is not known."""
    fields: dict[str, Any] = {
        "name": annotation.name, "action": annotation.action, "person": annotation.person,
        "attributes": dict(annotation.attributes), "split": dict(annotation.split),
    }  # fmt: skip
    told = {key: value for key, value in fields.items() if value}
    if annotation.segments is not None:
        told["segments"] = [[segment.start, segment.end, segment.label] for segment in annotation.segments]
    if annotation.anomalous is not None:
        told["anomalous"] = annotation.anomalous
    return told


def _read(content: Mapping[str, Any]) -> Annotation:
    known = ("name", "action", "person", "attributes", "split", "segments", "anomalous")
    for key in content:
        if key not in known:
            raise ValueError(f"there is no field '{key}'")
    split = content.get("split", {})
    split = dict.fromkeys(get_args(SplitBy), split) if isinstance(split, str) else dict(split)
    if unknown := [part for part in split.values() if part not in PARTS]:
        raise ValueError(f"split '{unknown[0]}' is none of {', '.join(PARTS)}")
    anomalous = content.get("anomalous")
    if anomalous not in (None, True, False):
        raise ValueError("anomalous is neither true nor false")
    segments = content.get("segments")
    return Annotation(
        str(content["name"]), str(content.get("action", "")), str(content.get("person", "")),
        {str(key): str(value) for key, value in content.get("attributes", {}).items()},
        None if segments is None else tuple(_segment(*each) for each in segments), anomalous, split,
    )  # fmt: skip


def _segment(start: int, end: int, label: str) -> Segment:
    if not 0 <= start < end:
        raise ValueError(f"a segment from {start} to {end}")
    return Segment(int(start), int(end), str(label))
