from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from sfumato.anonymizers import load, save
from sfumato.anonymizers.base import ClipSpec
from sfumato.anonymizers.unet import UNet
from sfumato.anonymizers.unet_plus_plus import UNetPlusPlus
from sfumato.errors import SfumatoError
from sfumato.training.frame_game import make_frame_network

from .toys import make_game, same, snapshot, tiny


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
    own = {"width": 4, "norm": "group", "levels": 2, "cell": 4, "grey": True, "size": 64}
    assert narrow.settings() == own | {"frames": 8, "frame_step": 3, "centred": 0}
    assert narrow.spec == ClipSpec(None, (64, 64))
    nested = make_frame_network(tiny(anonymizer="unet++", width=16), 32, 8, 3)
    assert isinstance(nested, UNetPlusPlus)
    assert nested.settings()["width"] == 0.25 and nested.settings()["size"] == 32
    assert make_frame_network(tiny(centred=0.5), 64, 8, 3).spec == ClipSpec(8, (64, 64), 3, blend=False)


def test_drawings_come_to_the_middle_as_fast_as_the_utility_model_reads_and_at_last_without_waiting() -> None:
    game, output = make_game(centred=0.5, steps=10), torch.zeros(1, 1, 3, 4, 4)

    def brought(step: int) -> float:
        game.schedule(step)
        return game.anonymizer.centred / 0.5

    assert game.anonymizer.spec.length  # centred in use: clips are dealt whole
    assert game.anonymizer.centred == brought(0) == 0
    game.shown(output, torch.tensor(math.log(3)))  # f_T guesses among three actions
    assert brought(1) == 0
    game.shown(output, torch.tensor(0.0))  # f_T reads without loss: 3/10 of the way
    assert brought(2) == pytest.approx(0.3)
    game.shown(output, torch.tensor(0.25 * math.log(3)))  # half as well, half as fast
    assert brought(5) == pytest.approx(0.45)
    assert brought(7) == pytest.approx(2 / 3)  # of the way from half of the steps to four fifths
    assert brought(8) == brought(9) == 1
    video = game.banks.action.pixels[:2].float() / 255
    with torch.no_grad():
        moved = game.anonymizer.eval()(video)
        game.anonymizer.centred = 0.0
        assert not torch.equal(moved, game.anonymizer(video))


def test_how_far_drawings_have_come_survives_an_interruption() -> None:
    first, second = (make_game(centred=1.0, steps=10) for _ in range(2))
    first.schedule(7)
    first.shown(torch.zeros(1, 1, 3, 4, 4), torch.tensor(0.0))
    second.load_state_dict(first.state_dict())
    assert second.anonymizer.centred == first.anonymizer.centred == pytest.approx(2 / 3)
    assert second.brought == first.brought == pytest.approx(2 / 3 + 0.3)


def test_taken_up_after_the_last_step_drawings_are_in_the_middle_and_not_beyond(tmp_path: Path) -> None:
    first, second = (make_game(centred=1.0, steps=10) for _ in range(2))
    first.schedule(9)
    first.shown(torch.zeros(1, 1, 3, 4, 4), torch.tensor(0.0))  # f_T reads: the next step would bring them further
    second.load_state_dict(first.state_dict())
    # Beyond the middle is no value of the knob, and what is saved with it could not be loaded.
    assert load(str(save(second.anonymizer, tmp_path / "anonymizer"))).settings()["centred"] == 1


def test_a_game_that_may_end_early_does_not_bring_drawings_to_the_middle() -> None:
    with pytest.raises(SfumatoError, match="centred needs all steps"):
        tiny(centred=1.0, budget_maximum=3.0)
