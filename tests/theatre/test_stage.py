from __future__ import annotations

import torch
from torch import Tensor

from sfumato.theatre.dice import Dice
from sfumato.theatre.stage import HORIZON, LANDMARKS, OBJECTS, SCENES, SPORT_OBJECTS, paint_backdrop

SIDE = 48


def backdrop(scene: Tensor, landmark: Tensor, index: Tensor) -> Tensor:
    return paint_backdrop(Dice(0, index), scene, landmark, SIDE)


def test_every_scene_looks_different_under_the_same_dice() -> None:
    scenes = torch.arange(len(SCENES))
    same = torch.zeros_like(scenes)
    pictures = backdrop(scenes, same, same)
    assert pictures.shape == (len(SCENES), SIDE, SIDE, 3)
    assert pictures.min() >= 0 and pictures.max() <= 1
    apart = torch.cdist(pictures.flatten(1), pictures.flatten(1)) / SIDE + torch.eye(len(SCENES)) * 9
    assert apart.min() > 0.1


def test_a_scene_never_looks_quite_the_same_again() -> None:
    scene = torch.tensor([2, 2])
    one, other = backdrop(scene, scene * 0, torch.tensor([0, 1]))
    assert 0.005 < (one - other).abs().mean() < 0.2


def test_landmarks_stand_in_the_background_and_none_is_none() -> None:
    kinds = torch.arange(len(LANDMARKS))
    pictures = backdrop(torch.full_like(kinds, 4), kinds, torch.zeros_like(kinds))
    differs = (pictures != pictures[:1]).any(-1)
    assert not differs[0].any()
    assert (differs[1:].flatten(1).float().mean(1) > 0.01).all()
    # They end at the ground: the lower fifth of the picture is the same with and without.
    assert not differs[:, int(SIDE * (HORIZON + 0.12)) :].any()


def test_sport_objects_are_named_objects() -> None:
    assert len(SPORT_OBJECTS) == len(OBJECTS)
    assert [name for name, sport in zip(OBJECTS, SPORT_OBJECTS, strict=True) if sport] == ["ball", "racket"]
