from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

from sfumato.errors import SfumatoError
from sfumato.methods import find_method
from sfumato.methods.tedspad.config import TeDSPADConfig
from sfumato.methods.tedspad.train import distinctiveness, objectives, train
from sfumato.training.optimisation import frozen

from ..training.toys import (
    each_term_falls,
    gradient,
    let_utility_read,
    make_game,
    make_stage,
    snapshot,
    terms_add_up,
    tiny,
)

# What is shown costs less the worse f_T reads, and nothing from half the loss of guessing on: L_T is log(1 + 2/e²) here.
PRICE = 1 - math.log(1 + 2 / math.e**2) / (0.5 * math.log(3))
TERMS = ["action", "distinctiveness", "budget", "shown"]


def test_the_triplet_holds_two_halves_of_a_clip_apart() -> None:
    config = tiny(TeDSPADConfig, triplet_weight=0.25, triplet_margin=2.0)
    game = make_game(config)
    batch = game.deal.action_batch("minimax", 0)
    with torch.no_grad(), frozen([game.utility, game.anonymizer]):
        output = game.anonymizer(batch.video)
        again = game.anonymizer(batch.again(2))
        early, same, late = (game.utility.features(clip) for clip in (output[:, :2], again, output[:, 2:]))
        near, far = (torch.linalg.vector_norm(early - other, dim=1) for other in (same, late))
        expected = 0.25 * (near - far + 2.0).relu().mean()
        assert float(distinctiveness(game, config, batch, output)) == pytest.approx(float(expected), rel=1e-4)


def test_all_three_clips_of_the_triplet_teach_f_a() -> None:
    config = tiny(TeDSPADConfig, triplet_weight=0.25)
    game = make_game(config)
    batch, network = (
        game.deal.action_batch("minimax", 0),
        game.anonymizer.eval(),
    )  # so that each clip is drawn by itself
    with frozen([game.utility]):
        distinctiveness(game, config, batch, network(batch.video)).backward()
        found = gradient(network)
        network.zero_grad()
        seen = (batch.video[:, :2], batch.again(2), batch.video[:, 2:])
        early, same, late = (game.utility.features(network(clip)) for clip in seen)
        (0.25 * F.triplet_margin_loss(early, same, late)).backward()
    assert found.abs().sum() > 0
    torch.testing.assert_close(found, gradient(network), rtol=1e-3, atol=1e-5 * float(found.abs().max()))


def test_again_is_the_same_moment_augmented_otherwise_and_mirrored_only_where_that_is_harmless() -> None:
    game = make_game(tiny(TeDSPADConfig, augmentation="gentle", batch=12))
    bank = game.banks.action
    assert not bank.mirror_safe  # left and right matter in the toy clips
    bank.pixels = torch.zeros_like(bank.pixels)
    bank.pixels[:, :2, :, :, :5] = 200  # the first moment is bright on the left, the second one black

    def left_and_right(flip: bool) -> tuple[list[bool], list[bool]]:
        """Whether each clip, and the same moment again, is brighter on the left."""
        bank.mirror_safe = flip
        batch = game.deal.action_batch("minimax", 0)
        again = batch.again(2)
        assert again.shape == (12, 2, 3, 16, 16) and (again.amax((2, 3, 4)) > 0.5).all()
        assert not any(a.equal(b) for a, b in zip(again, batch.video[:, :2], strict=True))
        sides = ((video[..., :8] - video[..., 8:]).mean((1, 2, 3, 4)) > 0 for video in (batch.video[:, :2], again))
        first, second = (side.tolist() for side in sides)
        return first, second

    assert left_and_right(flip=False) == ([True] * 12, [True] * 12)
    first, second = left_and_right(flip=True)
    assert len(set(first)) == 2 and second == [not left for left in first]


@pytest.mark.parametrize("utility", ["vit-s", "mvit-v2-s", "c3d"])
def test_networks_that_need_whole_clips_are_refused(utility: str) -> None:
    with pytest.raises(SfumatoError, match="whole clips only"):
        TeDSPADConfig(utility=utility)


def test_the_terms_are_spacts_and_the_triplet() -> None:
    config = tiny(TeDSPADConfig, budget_weight=0.5, sparsity_weight=2.0)
    game = make_game(config)
    batch, views = game.deal.action_batch("minimax", 0), game.deal.privacy_batch("minimax", 0, "frame")
    with torch.no_grad(), frozen([game.anonymizer, game.utility, *game.opponents]):
        output = 1 - batch.video  # whatever f_A gave
        let_utility_read(game, output, batch.actions)
        found = objectives(game, config)[0](batch, output, {"frame": views})
        expected = {
            "action": F.cross_entropy(game.utility(output), batch.actions),
            "distinctiveness": distinctiveness(game, config, batch, output),
            "budget": -0.5 * game.opponents[0].reading(views)[0],
            "shown": 2.0 * PRICE * output.mean(),
        }
    assert {name: float(value) for name, value in found.items()} == pytest.approx(
        {name: float(value) for name, value in expected.items()}, rel=1e-5
    )


def test_each_term_reaches_the_anonymizer_with_the_right_sign() -> None:
    config = tiny(TeDSPADConfig, triplet_weight=1.0)
    game = make_game(config)
    each_term_falls(game, objectives(game, config)[0], TERMS)
    terms_add_up(game, objectives(game, config)[0], TERMS)


def test_the_term_is_part_of_the_utility_loss_in_both_steps() -> None:
    config = tiny(TeDSPADConfig, triplet_weight=10.0)
    game = make_game(config)
    utility_loss = objectives(game, config)[1]
    batch = game.deal.action_batch("minimax", 0)
    with torch.no_grad(), frozen([game.utility, game.anonymizer]):
        output = game.anonymizer(batch.video)
        action = F.cross_entropy(game.utility(output), batch.actions)
        triplet = distinctiveness(game, config, batch, output)
        assert triplet > 0
        torch.testing.assert_close(utility_loss(batch, output), action + triplet)
    before = snapshot(game.utility)
    game.utility_step("minimax", 0, lambda batch, output: distinctiveness(game, config, batch, output))
    assert any(not value.equal(before[name]) for name, value in game.utility.named_parameters())


def test_it_trains(tmp_path: Path) -> None:
    result = train(tiny(TeDSPADConfig, steps=2), make_stage(tmp_path / "run"))
    assert set(result) == {"watched", "audit", "trained_parameters", "guessing"}


def test_it_is_found_by_name() -> None:
    method = find_method("tedspad")
    assert (method.name, method.config, method.train) == ("tedspad", TeDSPADConfig, train)
    assert (method.config().triplet_weight, method.config().triplet_margin) == (0.1, 1.0)
