"""The *redressed* protocol (no paper asks it): who is it, in other clothes?

In the theatre a person wears the same in every clip, and an attacker may know a shirt instead of a person. Here everybody
wears something else in every clip, in training as in test, and the scene changes too: what identity and re-identification
still find is the face, the hair, the body and the way of moving. Only the theatre can dress people anew.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import torch
from torch import Tensor

from sfumato.datasets.base import VideoDataset
from sfumato.datasets.theatre import TheatreDataset
from sfumato.errors import SfumatoError
from sfumato.evaluation.protocols.known import JudgeConfig, KnownProtocol
from sfumato.theatre.cast import Cast, people
from sfumato.theatre.script import Script

# All that can be taken off. A skirt stays: it shows the gender, which is an attribute of its own.
CLOTHES = ("top", "top2", "bottom", "shoes", "coat", "cover", "pattern", "pattern_scale", "sleeve")
WARDROBE = 10_000  # from the looks of these, whom nobody ever sees


class Redressed(TheatreDataset):
    """The same clips of the same people, who wear something else in each.

    >>> Redressed(TheatreDataset("small")).name
    'theatre:small, re-dressed'
    """

    def __init__(self, theatre: TheatreDataset) -> None:
        self.__dict__.update(theatre.__dict__)
        self.name = f"{theatre.name}, re-dressed"

    def script(self, indices: Tensor, device: torch.device | str = "cpu") -> Script:
        found = super().script(indices, device)
        worn = people(self.seed, WARDROBE + found.index)
        # People who belong together dress alike: in this clip's clothes, or the other would wear the person's own.
        related = found.identifiable["relationship"].bool()
        return replace(
            found,
            cast=_dressed(found.cast, worn, torch.ones_like(related)),
            second_cast=_dressed(found.second_cast, worn, related),
        )


def _dressed(cast: Cast, worn: Cast, which: Tensor) -> Cast:
    """Those of the cast in the clothes of others; which: (N,) bool."""

    def chosen(name: str) -> Tensor:
        own: Tensor = getattr(cast, name)
        if name not in CLOTHES:
            return own
        return torch.where(which if own.ndim == 1 else which[:, None], getattr(worn, name), own)

    return Cast(**{field.name: chosen(field.name) for field in fields(cast)})


class RedressedProtocol(KnownProtocol):
    """The known protocol about who it is, among people who wear something else in every clip."""

    name = "redressed"
    attacks = ("identity", "identity-frames", "identity-placed", "reid", "reid-frames")

    def __init__(self, dataset: VideoDataset, config: JudgeConfig, **rest: Any) -> None:
        if not isinstance(dataset, TheatreDataset):
            raise SfumatoError(
                f"nobody can dress the people of {dataset.name} anew", "judge on theatre or theatre:small"
            )
        super().__init__(Redressed(dataset), config, **rest)
        self.notes.append("everybody wears something else in every clip")
