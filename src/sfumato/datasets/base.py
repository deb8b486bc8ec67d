"""What every data set offers: the same labels, the same splits, the same way to get clips."""

from __future__ import annotations

import copy
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from sfumato.datasets.sample import AttributeSpec, Sample, Segment
from sfumato.errors import SfumatoError

Part = Literal["train", "val", "test"]
# "person": nobody in val or test was seen in training (for the action).
# "clip": the same people, other recordings (for identity, and for attackers who may know the people).
SplitBy = Literal["person", "clip"]
Progress = Callable[[int, int], None]
# Where a word begins inside of a name; the last capital of several begins the word behind an acronym.
_BORDER = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_BLANK = re.compile(r"[\s_-]|\.(?!\d)")


@dataclass(frozen=True)
class ClipShape:
    """Frames, height and width of the clips a data set gives."""

    frames: int
    height: int
    width: int


@dataclass
class Labels:
    """What is known about N clips: action and person (N,), attributes (N, A); int64, -1: unknown.

    actions: where a clip may show several, (N, number of actions) in {0, 1}; `action` is unknown then.
    """

    action: Tensor
    person: Tensor
    attributes: Tensor
    actions: Tensor | None = None


class Course(NamedTuple):
    """What happens in a whole video: segments of its frames, and whether it holds an anomaly; None where nobody told."""

    segments: tuple[Segment, ...] | None = None
    anomalous: bool | None = None


@dataclass
class Clips:
    """N videos, seen `views` times each. pixels: uint8 (N, views, T, 3, H, W); people: the same with one channel."""

    pixels: Tensor
    people: Tensor | None


class VideoDataset(ABC):
    """A data set of labelled clips. `name` makes it again through `open_dataset`."""

    name: str
    summary: str
    actions: tuple[str, ...]
    persons: tuple[str, ...]
    attributes: tuple[AttributeSpec, ...]
    shape: ClipShape
    # Whether a mirrored clip still means the same: not so where left and right matter, as in sign language.
    mirror_safe: bool
    # Whether a clip may show several of `actions` at once: its labels then say so of each.
    several_actions: bool = False
    # Whether a clip is cut out of a longer video, whose frames are to be had by `frames`.
    from_videos: bool = False
    # Every how many frames of the video a clip has; None: they are spread over all of it, or there are no others.
    frame_step: int | None = None

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def split(self, part: Part, by: SplitBy) -> Tensor:
        """Indices (N,) int64 of one part of a split."""

    @abstractmethod
    def labels(self, indices: Tensor) -> Labels:
        """The labels of those clips, in that order; a column for each of `attributes`."""

    def phrases(self) -> tuple[str, ...]:
        """How each of `actions` reads in a sentence about a person, for who understands sentences; else its name in words.

        >>> open_dataset("theatre:small").phrases()[0]
        'sits down'
        """
        return tuple(map(in_words, self.actions))

    def labelled(self) -> tuple[AttributeSpec, ...]:
        """Every attribute that is labelled, also those that are not private unless somebody asks about them."""
        return self.attributes

    def about(self, names: Sequence[str]) -> VideoDataset:
        """The same clips with other private attributes: those of `names` that are labelled, in that order.

        >>> [a.name for a in open_dataset("theatre:small").about(["scene", "object"]).attributes]
        ['scene', 'object']
        """
        there = {spec.name: spec for spec in self.labelled()}
        found = tuple(there[name] for name in names if name in there)
        if not found:
            own = f"; its own labels are {', '.join(there)}" if there else ""
            raise SfumatoError(
                f"{self.name} has no labels of {', '.join(names)}", f"give data that has one of them{own}"
            )
        view = copy.copy(self)
        view.attributes = found
        return view

    @abstractmethod
    def clips(
        self, indices: Tensor, *, views: int = 1, device: torch.device | str = "cpu", progress: Progress | None = None
    ) -> Clips:
        """The clips, each seen through `views` windows spread evenly in time.

        A data set whose clips are exactly one window long gives one view, whatever is asked.
        """

    def frames(self, index: int) -> Iterator[Tensor]:
        """All frames of the video that a clip was cut out of, uint8 (3, H, W) each, in the size of the clips."""
        raise TypeError(f"the clips of {self.name} are all there is")

    def course(self, index: int) -> Course:
        """What is known about the whole video of a clip."""
        return Course()

    def times(self, indices: Tensor) -> Tensor:
        """The number in its source video of every frame of those clips (one view each), (N, T) int64."""
        return torch.arange(self.shape.frames).expand(len(indices), -1)

    def recordings(self, indices: Tensor) -> Tensor:
        """Which recording each of those clips was cut from, (N,) int64, equal for the same one; else each its own."""
        return indices

    @abstractmethod
    def fingerprint(self) -> str:
        """What identifies the clips and their labels: results computed under another fingerprint are not reused.

        Views `about` different attributes have different ones.
        """

    @abstractmethod
    def sample(self, index: int) -> Sample:
        """One clip with everything that is known about it."""


def in_words(label: str) -> str:
    """A label as one would write it in a sentence; what is in words already stays, acronyms keep their capitals.

    >>> in_words("ApplyEyeMakeup"), in_words("brush_hair"), in_words("Cook.Cut"), in_words("WatchTV")
    ('apply eye makeup', 'brush hair', 'cook cut', 'watch TV')
    """
    words = _BLANK.sub(" ", _BORDER.sub(" ", label)).split()
    return " ".join(word if len(word) > 1 and word.isupper() else word.lower() for word in words)
