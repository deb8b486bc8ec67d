"""What is labelled "not identifiable" must not be in the picture, and what is labelled so must be."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from sfumato.theatre.cast import HAIR_COLOURS, SKIN_TONES
from sfumato.theatre.choreography import actions
from sfumato.theatre.script import BALANCED, NOBODY, write
from sfumato.theatre.show import Show

COUNT = 12
MOTIONS = tuple(m for m in actions() if m.name in ("wave", "clap", "bow"))
SHOW = Show(MOTIONS, 64, 2)


def play(flags: dict[str, int], looks: dict[str, Tensor], masked: float = 0.0) -> Tensor:
    """uint8 (COUNT, 2, 3, 64, 64): a dozen people alone on stage, their faces to the camera, with these looks."""
    index = torch.arange(COUNT)
    script = write(0, index, index, index % len(MOTIONS), MOTIONS, BALANCED)
    shown = {name: torch.full((COUNT,), flags.get(name, 1)) for name in BALANCED}
    shown["nudity"] = torch.full((COUNT,), flags.get("nudity", 0))
    one = torch.ones(COUNT)
    script = replace(
        script, identifiable=shown, masked=one * masked, second=torch.full((COUNT,), NOBODY), facing=one * 0.2,
        cast=replace(script.cast, **looks),
    )  # fmt: skip
    return SHOW.draw(script).clips


def changed(a: Tensor, b: Tensor) -> Tensor:
    """How many of the clips differ at all."""
    return (a != b).flatten(1).any(1).sum()


def colour(table: tuple[tuple[float, float, float], ...], row: int) -> Tensor:
    return torch.tensor(table[row]).expand(COUNT, 3)


ONE = torch.ones(COUNT)
LOOKS = {
    "skin": ({"skin": colour(SKIN_TONES, 0)}, {"skin": colour(SKIN_TONES, 5)}),
    "face": (
        {"eye_distance": ONE * 0.3, "beard": ONE * 0},
        {"eye_distance": ONE * 0.46, "beard": ONE},
    ),
    "gender": (
        {"hair": colour(HAIR_COLOURS, 0), "hair_length": ONE * 0.1, "beard": ONE, "skirt": ONE * 0},
        {"hair": colour(HAIR_COLOURS, 2), "hair_length": ONE * 0.9, "beard": ONE * 0, "skirt": ONE},
    ),
}


@pytest.mark.parametrize("attribute", LOOKS)
def test_what_is_not_identifiable_is_not_in_the_picture(attribute: str) -> None:
    one, other = LOOKS[attribute]
    masked = float(attribute == "face")
    assert changed(play({attribute: 0}, one, masked), play({attribute: 0}, other, masked)) == 0


@pytest.mark.parametrize("attribute", LOOKS)
def test_what_is_identifiable_is_in_the_picture(attribute: str) -> None:
    one, other = LOOKS[attribute]
    assert changed(play({attribute: 1}, one), play({attribute: 1}, other)) == COUNT


def test_a_face_turned_away_shows_nothing_of_itself() -> None:
    one, other = LOOKS["face"]
    index = torch.arange(COUNT)
    script = write(0, index, index, index % len(MOTIONS), MOTIONS, BALANCED)
    films = [
        SHOW.draw(replace(script, facing=ONE * torch.pi, masked=ONE * 0, cast=replace(script.cast, **looks))).clips
        for looks in (one, other)
    ]
    assert changed(*films) == 0


@pytest.mark.parametrize("attribute", ["skin", "gender", "nudity"])
def test_each_attribute_changes_the_picture(attribute: str) -> None:
    assert changed(play({attribute: 0}, {}), play({attribute: 1}, {})) == COUNT


def test_a_tattoo_and_a_mask_show() -> None:
    index = torch.arange(COUNT)
    script = write(0, index, index, index % len(MOTIONS), MOTIONS, BALANCED)
    with_and_without = [SHOW.draw(replace(script, tattoo=ONE * flag)).clips for flag in (0, 1)]
    assert changed(*with_and_without) >= COUNT - 2  # arms may be behind the body
    assert changed(play({}, {}, masked=0.0), play({}, {}, masked=1.0)) == COUNT
