"""What every data set offers: the same labels, the same splits, the same way to get clips."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from sfumato.datasets.sample import AttributeSpec, Sample

Part = Literal["train", "val", "test"]
# "person": nobody in val or test was seen in training (for the action).
# "clip": the same people, other recordings (for identity, and for attackers who may know the people).
SplitBy = Literal["person", "clip"]
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class ClipShape:
    """Frames, height and width of the clips a data set gives."""

    frames: int
    height: int
    width: int


@dataclass
class Labels:
    """What is known about N clips: action and person (N,) int64 (-1: unknown), attributes (N, A) int64."""

    action: Tensor
    person: Tensor
    attributes: Tensor


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

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def split(self, part: Part, by: SplitBy) -> Tensor:
        """Indices (N,) int64 of one part of a split."""

    @abstractmethod
    def labels(self, indices: Tensor) -> Labels:
        """The labels of those clips, in that order."""

    @abstractmethod
    def clips(
        self, indices: Tensor, *, views: int = 1, device: torch.device | str = "cpu", progress: Progress | None = None
    ) -> Clips:
        """The clips, each seen through `views` windows spread evenly in time.

        A data set whose clips are exactly one window long gives one view, whatever is asked.
        """

    def times(self, indices: Tensor) -> Tensor:
        """The number in its source video of every frame of those clips (one view each), (N, T) int64."""
        return torch.arange(self.shape.frames).expand(len(indices), -1)

    @abstractmethod
    def fingerprint(self) -> str:
        """What identifies the clips and labels: results computed under another fingerprint are not reused."""

    @abstractmethod
    def sample(self, index: int) -> Sample:
        """One clip with everything that is known about it."""
