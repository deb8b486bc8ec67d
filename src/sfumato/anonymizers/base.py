"""What an anonymizer is: a pure function from video to video that says what clips it was made for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
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


TOLERANCE = 1e-3  # how far outside [0, 1] a value may be by rounding alone
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
    where people are, and refuses to work without one. `settings()` is what `save` writes: constructor arguments. What is no
    video is refused before `forward` sees it.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    spec: ClipSpec = ClipSpec()
    knobs: ClassVar[tuple[Knob, ...]] = ()
    needs_people: ClassVar[bool] = False
    title: str = ""  # what trained weights are called, such as the method that made them
    made_for: str = ""  # what they show, in the words of their model card; "" where there is none
    needs_weights: ClassVar[bool] = False  # a network: without trained weights it hides nothing, or everything

    def settings(self) -> Mapping[str, float | int | str | bool]:
        """The constructor's arguments that make this anonymizer again (weights aside)."""
        return {knob.name: getattr(self, knob.name) for knob in self.knobs}

    @property
    def changes_nothing(self) -> bool:
        """Whether it is so weak, as it is set, that its output is raw video to the eye: judged it can be, used it must not."""
        return False

    def __call__(self, video: Tensor, *arguments: Any, **named: Any) -> Any:
        """`forward`, for what is a video. No hook, since one would be saved and copied with the module."""
        if not (torch.compiler.is_compiling() or torch.jit.is_tracing()):
            # Looking at values makes a GPU wait, and a step of training must not.
            require_video(video, values=not self.training)
        return super().__call__(video, *arguments, **named)

    @abstractmethod
    def forward(self, video: Tensor) -> Tensor:
        """(B, T, C, H, W) in [0, 1] to the same."""


class PartialAnonymizer(Anonymizer):
    """An anonymizer that leaves parts of the picture out, patch by patch, and tells which."""

    @abstractmethod
    def forward_and_mask(self, video: Tensor) -> tuple[Tensor, Tensor]:
        """In eval mode: what `forward` gives, and its mask (B, T, 1, H, W), 1 where the picture is kept and 0 where not."""


def require_video(video: Tensor, *, values: bool = True) -> None:
    """Refuse what is not (B, T, 1 or 3, H, W), floating and, where `values` are looked at, within [0, 1].

    >>> require_video(torch.rand(1, 8, 3, 112, 112))
    """
    if video.ndim != 5 or video.shape[2] not in (1, 3):
        raise SfumatoError(
            f"{tuple(video.shape)} is no video",
            "give (batch, frames, colours, height, width), with 3 colours or 1 grey",
        )
    if not video.is_floating_point():
        raise SfumatoError(f"a video of {video.dtype} was given", "give floats in [0, 1]: of bytes, video / 255")
    if values and video.numel() and not video.is_meta:
        low, high = video.detach().aminmax()
        # Written so that NaN, which fails every comparison, is caught too.
        if not bool((low >= -TOLERANCE) & (high <= 1 + TOLERANCE)):
            raise SfumatoError(
                f"the video is not within [0, 1] ({low:g} to {high:g})", "give it as it is stored, divided by 255"
            )
