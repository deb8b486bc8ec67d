from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

from sfumato.errors import SfumatoError
from sfumato.methods import find_method
from sfumato.methods.penalty.config import PenaltyConfig
from sfumato.methods.penalty.train import objectives, penalty, train
from sfumato.training.optimisation import frozen

from ..training.toys import (
    each_term_falls,
    gradient,
    let_utility_read,
    make_game,
    make_stage,
    only,
    plain_descent,
    terms_add_up,
    tiny,
)

# What is shown costs less the worse f_T reads, and nothing from half the loss of guessing on: L_T is log(1 + 2/e²) here.
PRICE = 1 - math.log(1 + 2 / math.e**2) / (0.5 * math.log(3))
TERMS = ["action", "budget", "penalty", "shown"]


def test_the_pixel_penalty_is_the_hinge_of_equation_4() -> None:
    config = tiny(PenaltyConfig, penalty_weight=3.0, penalty_limit=0.3)
    game, video = make_game(config), torch.zeros(2, 4, 3, 16, 16)
    output = torch.stack([torch.full_like(video[0], 0.5), torch.full_like(video[0], 0.25)])
    # RMS .5 and .25: .2 above the limit and below it; λ times the mean over clips
    assert float(penalty(game, config, video, output)) == pytest.approx(3.0 * (0.2 + 0.0) / 2, rel=1e-5)


def test_the_feature_penalty_is_relative_to_the_raw_features() -> None:
    config = tiny(PenaltyConfig, penalty="features", penalty_weight=2.0, penalty_limit=0.1)
    game = make_game(config)
    video = torch.rand(3, 4, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    output = video.flip(-1).requires_grad_()
    with frozen([game.utility]):
        found = penalty(game, config, video, output)
        raw, changed = game.utility.features(video), game.utility.features(output)
    share = (raw - changed).square().mean(1).sqrt() / raw.square().mean(1).sqrt()
    torch.testing.assert_close(found, 2.0 * (share - 0.1).relu().mean(), rtol=1e-4, atol=1e-6)
    found.backward()
    assert output.grad is not None and output.grad.abs().sum() > 0


def test_the_terms_are_those_of_equation_3() -> None:
    config = tiny(PenaltyConfig, budget_weight=0.5, sparsity_weight=2.0, penalty_weight=3.0, penalty_limit=0.01)
    game = make_game(config)
    batch, views = game.deal.action_batch("minimax", 0), game.deal.privacy_batch("minimax", 0, "frame")
    with torch.no_grad(), frozen([game.anonymizer, game.utility, *game.opponents]):
        output = 1 - batch.video  # whatever f_A gave
        let_utility_read(game, output, batch.actions)
        found = objectives(game, config)[0](batch, output, {"frame": views})
        expected = {
            "action": F.cross_entropy(game.utility(output), batch.actions),
            "budget": -0.5 * game.opponents[0].reading(views)[0],
            "penalty": 3.0 * ((batch.video - output).square().mean((1, 2, 3, 4)).sqrt() - 0.01).mean(),
            "shown": 2.0 * PRICE * output.mean(),
        }
        assert objectives(game, config)[1](batch, output) == expected["action"]  # f_T pays no penalty
    assert {name: float(value) for name, value in found.items()} == pytest.approx(
        {name: float(value) for name, value in expected.items()}, rel=1e-5
    )


@pytest.mark.parametrize("kind", ["pixels", "features"])
def test_each_term_reaches_the_anonymizer_with_the_right_sign(kind: str) -> None:
    config = tiny(PenaltyConfig, penalty=kind, penalty_limit=0.01)
    game = make_game(config)
    each_term_falls(game, objectives(game, config)[0], TERMS)
    terms_add_up(game, objectives(game, config)[0], TERMS)


@pytest.mark.parametrize("kind", ["pixels", "features"])
def test_within_the_limit_nothing_is_paid(kind: str) -> None:
    config = tiny(PenaltyConfig, penalty=kind, penalty_limit=100.0)
    game = make_game(config)
    plain_descent(game, 0.0)
    assert game.anonymizer_step(0, only(objectives(game, config)[0], "penalty"))["f_A penalty"] == 0
    assert gradient(game.anonymizer).abs().sum() == 0


def test_it_is_paid_on_the_action_clips_only() -> None:
    config = tiny(PenaltyConfig, penalty_limit=0.01)
    game = make_game(config)
    term = only(objectives(game, config)[0], "penalty")
    plain_descent(game, 0.0)
    before = game.anonymizer_step(0, term)["f_A penalty"]
    game.banks.privacy.pixels = 255 - game.banks.privacy.pixels
    assert game.anonymizer_step(0, term)["f_A penalty"] == before
    game.banks.action.pixels = 255 - game.banks.action.pixels
    assert game.anonymizer_step(0, term)["f_A penalty"] != before


def test_it_trains_with_the_nested_unet(tmp_path: Path) -> None:
    result = train(tiny(PenaltyConfig, anonymizer="unet++", steps=2), make_stage(tmp_path / "run"))
    assert set(result) == {"watched", "audit", "trained_parameters", "guessing"}


def test_it_is_found_by_name() -> None:
    method = find_method("penalty")
    assert (method.name, method.config, method.train) == ("penalty", PenaltyConfig, train)
    assert (method.config().penalty, method.config().penalty_weight) == ("pixels", 1.0)


def test_a_penalty_on_features_needs_f_t_to_stand_still() -> None:
    with pytest.raises(SfumatoError, match="utility_update to alternate"):
        PenaltyConfig(penalty="features", utility_update="together")
