"""SPLAVU's L_B: of which clips its pairs are."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from sfumato.errors import SfumatoError
from sfumato.methods.splavu.budget import Pairs
from sfumato.methods.splavu.train import CoTraining, gather_features, train
from sfumato.objectives.contrastive import nt_xent

from ..training.toys import CPU
from .splavu_toys import make_stage, settings, trimmed, write_store


def budget(folder: Path, pairs: str) -> Pairs:
    """Of videos of three clips, each with two static ones."""
    config = settings("action", {}, pairs=pairs)
    data = gather_features(config, make_stage(folder / "run", write_store(folder / "many", trimmed(30, clips=3))))
    return CoTraining(config, data, seed=0, device=CPU).budget


def shown(budget: Pairs, step: int) -> tuple[float, list[Tensor]]:
    """L_B of that step on features as they are, and the pairs it was made of, (2B, D) for each sight."""
    seen: list[Tensor] = []

    def adapt(clips: Tensor) -> Tensor:
        seen.append(clips)
        return clips

    return float(budget.loss(adapt, step)), seen


def test_all_pairs_are_of_static_clips_and_of_moving_ones_and_count_the_same(tmp_path: Path) -> None:
    loss, seen = shown(own := budget(tmp_path, "all"), 4)
    assert len(seen) == 2
    assert loss == pytest.approx(sum(float(nt_xent(*each.chunk(2), own.config.temperature)) for each in seen) / 2)
    columns = ({1, 2}, {0})
    for clips, allowed in zip(seen, columns, strict=True):
        for pair in zip(*clips.chunk(2), strict=True):
            places = [(own.data.vectors == each).all(-1).nonzero()[0].tolist() for each in pair]
            assert places[0] != places[1] and {column for _, column in places} <= allowed
            assert places[0][0] // 3 == places[1][0] // 3  # of one video of three clips


def test_every_moving_clip_is_drawn_sooner_or_later(tmp_path: Path) -> None:
    own = budget(tmp_path, "all")
    moving = torch.cat([shown(own, step)[1][1] for step in range(60)])
    assert len(moving.unique(dim=0)) == 3 * len(own.videos)


def test_static_pairs_are_the_same_whether_moving_ones_are_asked_for_or_not(tmp_path: Path) -> None:
    (_, alone), (_, both) = shown(budget(tmp_path / "a", "static"), 4), shown(budget(tmp_path / "b", "all"), 4)
    assert len(alone) == 1 and torch.equal(alone[0], both[0])


def test_moving_pairs_need_videos_of_several_clips_and_may_be_of_other_data(tmp_path: Path) -> None:
    short, config = write_store(tmp_path / "short", trimmed()), settings("action", {}, pairs="all")
    with pytest.raises(SfumatoError, match=r"needs videos of two clips and more.*give longer videos by --privacy-data"):
        train(config, make_stage(tmp_path / "run", short))
    long = write_store(tmp_path / "long", trimmed(30, clips=3, seed=5))
    assert train(config, make_stage(tmp_path / "two", short, long))["watched"]["pairs found"] >= 0
