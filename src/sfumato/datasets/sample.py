"""`Sample`, the one thing every data set yields, and `AttributeSpec`, what a private attribute is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import Tensor


@dataclass(frozen=True)
class AttributeSpec:
    """A private attribute: its name and the names of its values.

    A binary attribute has the two values ("no", "yes"); one with more is scored one value against the rest.

    >>> AttributeSpec("face").binary
    True
    """

    name: str
    values: tuple[str, ...] = ("no", "yes")

    @property
    def binary(self) -> bool:
        """Whether it is a yes or no."""
        return len(self.values) == 2


@dataclass(frozen=True)
class Segment:
    """A span of frames [start, end) with a label: an action in an untrimmed video, or an anomaly."""

    start: int
    end: int
    label: str


@dataclass(frozen=True)
class Sample:
    """One clip with everything that is known about it.

    clip: uint8 (T, C, H, W), RGB. `action` and `person` index the data set's own lists (-1: not labelled); where a clip
    may show several actions they are in `actions`.
    `attributes` maps a name to the index of its value. `people`: uint8 (T, 1, H, W), 1 where a person is, if known.
    """

    clip: Tensor
    action: int
    person: int
    source: str
    attributes: Mapping[str, int] = field(default_factory=dict)
    people: Tensor | None = None
    caption: str = ""
    segments: tuple[Segment, ...] = ()
    anomalies: tuple[Segment, ...] = ()
    actions: tuple[int, ...] = ()
