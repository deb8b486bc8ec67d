from __future__ import annotations

import math

import pytest
import torch

from sfumato.anonymizers.base import ClipSpec
from sfumato.anonymizers.unet import UNet
from sfumato.anonymizers.unet_plus_plus import UNetPlusPlus
from sfumato.training.frame_game import allowed_dots, make_frame_network

from .toys import SIDE, make_game, same, snapshot, tiny


def test_the_initialisation_moves_the_anonymizer_alone_towards_identity() -> None:
    game = make_game(reconstruction_rate=5e-3)
    others = [game.utility, *game.opponents]
    before = [snapshot(module) for module in (game.anonymizer, *others)]
    first = game.watch_reconstruction()["L1"]
    losses = [float(game.reconstruction_step(step)["L1"]) for step in range(20)]
    assert not same(game.anonymizer, before[0])
    assert all(same(module, kept) for module, kept in zip(others, before[1:], strict=True))
    assert losses[-1] < losses[0] and game.watch_reconstruction()["L1"] < first


def test_what_is_shown_costs_nothing_before_the_utility_model_reads() -> None:
    game = make_game(sparsity_weight=2.0)
    output = torch.full((1, 1, 3, 4, 4), 0.25, requires_grad=True)
    guessing = math.log(3)
    for share, price in [(0.0, 1.0), (0.25, 0.5), (0.5, 0.0), (1.5, 0.0)]:  # of the loss of guessing among 3 actions
        action_loss = torch.tensor(share * guessing, requires_grad=True)
        shown = game.shown(output, action_loss)
        assert float(shown.detach()) == pytest.approx(price * 2.0 * 0.25, abs=1e-6)
        shown.backward()
        assert action_loss.grad is None  # f_A is not paid for reading badly


def test_what_is_shown_within_the_free_share_costs_nothing() -> None:
    game = make_game(sparsity_weight=2.0, free_share=0.2)
    output = torch.full((1, 1, 3, 4, 4), 0.25)
    assert float(game.shown(output, torch.tensor(0.0))) == pytest.approx(2.0 * 0.05, abs=1e-6)
    assert float(game.shown(output - 0.1, torch.tensor(0.0))) == 0


def test_the_anonymizer_is_as_the_config_asks() -> None:
    narrow = make_frame_network(tiny(levels=2, cell=4, grey=True, anonymizer_norm="group"), 64, 8, 3)
    assert isinstance(narrow, UNet)
    own = {"width": 4, "norm": "group", "levels": 2, "cell": 4, "grey": True, "dots": 0, "size": 64}
    assert narrow.settings() == own | {"frames": 8, "frame_step": 3, "centred": 0}
    assert narrow.spec == ClipSpec(None, (64, 64))
    nested = make_frame_network(tiny(anonymizer="unet++", width=16), 32, 8, 3)
    assert isinstance(nested, UNetPlusPlus)
    assert nested.settings()["width"] == 0.25 and nested.settings()["size"] == 32


def test_dots_grow_few_by_the_same_factor_and_stay_few() -> None:
    assert [allowed_dots(progress, 784, 4) for progress in (0.0, 0.3, 0.6, 0.8, 1.0)] == [784, 56, 4, 4, 4]
    assert [allowed_dots(progress, 9, 20) for progress in (0.0, 1.0)] == [20, 20]  # fewer squares than dots


def test_the_anonymizer_shows_as_many_dots_as_its_step_allows() -> None:
    game = make_game(levels=2, grey=True, cell=2, dots=3, steps=10)
    cells = (SIDE // 2) ** 2
    assert game.anonymizer.bottleneck.dots == 3  # as it is saved, and audited
    game.schedule(0)
    assert game.anonymizer.bottleneck.dots == cells
    game.schedule(3)
    assert game.anonymizer.bottleneck.dots == math.ceil(math.sqrt(3 * cells))
    game.schedule(9)
    output = game.anonymizer(game.banks.action.pixels[:2].float() / 255)
    assert int((output[:, :, 0] > 0).flatten(2).sum(2).max()) <= 3 * 4  # pixels of three squares
