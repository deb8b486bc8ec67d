"""What an anonymizer is: a pure function from video to video that says what clips it was made for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from sfumato.errors import SfumatoError


@dataclass(frozen=True)
class ClipSpec:
    """The clips an anonymizer was made for. `None` means "any": a blur works on one frame of any size.

    length: frames per clip; size: (height, width); frame_step: every n-th frame of the video is taken. blend: windows of a
    long video may overlap and fade into each other; not so where black must stay black.
    """

    length: int | None = None
    size: tuple[int, int] | None = None
    frame_step: int = 1
    blend: bool = True


@dataclass(frozen=True)
class Knob:
    """A strength that can be moved at deployment without retraining.

    >>> Knob("factor", 4, low=1, high=64, summary="how many times smaller").check(8)
    8.0
    """

    name: str
    default: float
    low: float
    high: float
    summary: str = ""

    def check(self, value: float) -> float:
        """`value` as a float, or a SfumatoError that names the range."""
        if not self.low <= value <= self.high:
            raise SfumatoError(f"{self.name} = {value:g} is out of range", f"use {self.low:g} to {self.high:g}")
        return float(value)


JUDGED_SIDE = 112  # the short side of the clips that published strengths are meant for, and that the judge sees


def enlargement(video: Tensor) -> float:
    """How many times larger frames (..., H, W) are than 112 px, at least 1: strengths in pixels grow by it.

    A blur of 8 pixels hides a face in a small frame and nothing in a large one: what was judged on small clips must not
    become weaker on a camera's own pictures.

    >>> enlargement(torch.zeros(3, 448, 800))
    4.0
    """
    return max(1.0, min(video.shape[-2:]) / JUDGED_SIDE)


class Anonymizer(nn.Module, ABC):
    """f_A: `forward(video)` maps (B, T, C, H, W), RGB in [0, 1], to the same shape and range.

    Independent of batch-mates and deterministic in eval mode. `knobs[0]`, where there is one, is what
    `--strength` moves. `needs_people` says that `forward` also takes `people`, a (B, T, 1, H, W) mask of
    where people are, and refuses to work without one. `settings()` is what `save` writes: constructor arguments.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    spec: ClipSpec = ClipSpec()
    knobs: ClassVar[tuple[Knob, ...]] = ()
    needs_people: ClassVar[bool] = False
    title: str = ""  # what trained weights are called, such as the method that made them
    needs_weights: ClassVar[bool] = False  # a network: without trained weights it hides nothing, or everything

    def settings(self) -> Mapping[str, float | int | str | bool]:
        """The constructor's arguments that make this anonymizer again (weights aside)."""
        return {knob.name: getattr(self, knob.name) for knob in self.knobs}

    @abstractmethod
    def forward(self, video: Tensor) -> Tensor:
        """(B, T, C, H, W) in [0, 1] to the same."""


class PartialAnonymizer(Anonymizer):
    """An anonymizer that leaves parts of the picture out, patch by patch, and tells which."""

    @abstractmethod
    def forward_and_mask(self, video: Tensor) -> tuple[Tensor, Tensor]:
        """In eval mode: what `forward` gives, and its mask (B, T, 1, H, W), 1 where the picture is kept and 0 where not."""
