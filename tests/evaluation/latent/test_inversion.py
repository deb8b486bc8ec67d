from __future__ import annotations

from typing import Any

import pytest
import torch

from sfumato.datasets.annotations import Annotation
from sfumato.evaluation.latent.base import LatentConfig
from sfumato.evaluation.latent.inversion import InversionProtocol, invert, learn_to_undo

from .toys import (
    ACTION,
    CONSTANT,
    CPU,
    SHUFFLED,
    WIDTH,
    Planted,
    attack,
    feature_set,
    judged,
    keep,
    scores,
    short,
)  # fmt: skip

BOXES = ("black-box", "white-box")


def test_the_gradient_finds_what_went_in() -> None:
    raw = torch.randn(5, 2, WIDTH, generator=torch.Generator().manual_seed(0))
    mask = torch.ones(5, 2, dtype=torch.bool)
    assert torch.allclose(invert(SHUFFLED, SHUFFLED(raw), mask, 1.0), raw, atol=0.05)
    same = CONSTANT(raw)
    assert torch.equal(invert(CONSTANT, same, mask, 1.0), same)


def test_who_inverts_is_never_worse_off_than_by_doing_nothing() -> None:
    # f(x) = 10·x, one step of .2 towards less. From .01: 10·.01 − .01 = .09 off, then 10·(−.19) − .01. From 1: 9 off, then 7.
    tenfold = Planted(lambda features: 10 * features)
    observed = torch.tensor([0.01, 1.0]).view(1, 2, 1).expand(1, 2, WIDTH)
    found = invert(tenfold, observed, torch.ones(1, 2, dtype=torch.bool), 1.0, steps=1)
    assert found[0, :, 0].tolist() == pytest.approx([0.01, 0.8])
    # With more steps it comes nearer than either.
    assert torch.allclose(invert(tenfold, observed, torch.ones(1, 2).bool(), 1.0), observed / 10, atol=0.01)


def test_clips_that_f_a_mixes_are_chosen_together() -> None:
    # Of clips a, b it makes 10·b, 10·a. Observed 1, .001: at first .99 and 9.999 off; after a step, to .8, .201, 1.01 and 7.999.
    # The first clip of the start with the second of the step would be 1.01 and 9.999 off, more than at first.
    class Crossed(Planted):
        def settings(self) -> dict[str, Any]:
            return {"attend": "video"}

    crossed = Crossed(lambda features: 10 * features.flip(1))
    observed = torch.tensor([1.0, 0.001]).view(1, 2, 1).expand(1, 2, WIDTH)
    found = invert(crossed, observed, torch.ones(1, 2, dtype=torch.bool), 1.0, steps=1)
    assert found[0, :, 0].tolist() == pytest.approx([0.8, 0.201])


def test_pairs_teach_the_way_back() -> None:
    raw = torch.randn(400, WIDTH, generator=torch.Generator().manual_seed(0))
    undo = learn_to_undo(SHUFFLED(raw), raw, seed=0, epochs=5)
    others = torch.randn(50, WIDTH, generator=torch.Generator().manual_seed(1))
    assert float((undo(SHUFFLED(others)) - others).detach().square().mean()) < 0.01


def test_what_is_only_moved_comes_back_and_what_is_gone_does_not() -> None:
    gone = Planted(lambda features: SHUFFLED(keep(ACTION)(features)))
    result = judged(short(clips=3), "inversion", epochs=40, moved=SHUFFLED, gone=gone, constant=CONSTANT)
    raw = scores(result, "identity")["inversion-black-box-action top-1"]
    assert raw.value > 0.9 and raw.chance == pytest.approx(1 / 3)
    for box in BOXES:
        action, attributes = f"inversion-{box}-action top-1", f"inversion-{box}-attributes"
        assert scores(result, "moved")[action].value > 0.8
        assert attack(result, "moved", attributes).leakage.value > 0.7
        action_left = scores(result, "gone")[action]
        assert action_left.low > action_left.chance and action_left.raw == raw.value
        assert attack(result, "gone", attributes).leakage.value < 0.4
        assert scores(result, "constant")[action].value == pytest.approx(1 / 3)
        nothing = attack(result, "constant", attributes)
        assert nothing.leakage.low <= 0 <= nothing.leakage.high
    assert "black-box inversion: no other videos in the store, it learns from the training videos" in result.notes


def test_another_data_set_in_the_store_is_what_the_black_box_learns_from() -> None:
    own = short()
    videos = [(a, own.vectors[int(f)][None]) for a, f in zip(own.annotations, own.first, strict=True)]
    strangers = [(Annotation(f"long {n}", segments=()), torch.rand(20, 3, WIDTH)) for n in range(12)]
    protocol = InversionProtocol(feature_set([*videos, *strangers]), LatentConfig("tiny"), CPU)
    assert protocol.pairs.tolist() == list(range(180, 180 + 240))
    assert protocol.notes == []
