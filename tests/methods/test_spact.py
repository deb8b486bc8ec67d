from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sfumato.methods import METHODS, find_method
from sfumato.methods.spact.config import SPActConfig
from sfumato.methods.spact.train import train
from sfumato.objectives.contrastive import nt_xent
from sfumato.training.optimisation import frozen
from sfumato.training.options import load_options

from ..training.toys import (
    each_term_falls,
    let_utility_read,
    logged,
    make_game,
    make_stage,
    objectives,
    plain_descent,
    terms_add_up,
    tiny,
)

# What is shown costs less the worse f_T reads, and nothing from half the loss of guessing on: L_T is log(1 + 2/e²) here.
PRICE = 1 - math.log(1 + 2 / math.e**2) / (0.5 * math.log(3))
TERMS = ["action", "budget", "shown"]


def test_each_term_is_what_the_paper_says() -> None:
    game = make_game(tiny(SPActConfig, budget_weight=0.5, sparsity_weight=2.0, temperature=0.2))
    objective, utility_loss = objectives(game)
    batch, views = game.deal.action_batch("minimax", 0), game.deal.privacy_batch("minimax", 0, "frame")
    with frozen([game.anonymizer, game.utility, *game.opponents]):
        output = 1 - batch.video  # whatever f_A gave
        let_utility_read(game, output, batch.actions)
        found = objective(batch, output, {"frame": views})
        first, second = (game.opponents[0].project(view) for view in (views.first, views.second))
        expected = {
            "action": F.cross_entropy(game.utility(output), batch.actions),
            "budget": -0.5 * nt_xent(first, second, 0.2),
            "shown": 2.0 * PRICE * output.mean(),
        }
        assert utility_loss(batch, output) == expected["action"]  # f_T minimises L_T alone
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, msg=name)


# A video network makes f_B spatio-temporal; both together face f_A at once.
@pytest.mark.parametrize("models", ["tiny-frame", "tiny-video", "tiny-frame+tiny-video"])
def test_each_term_reaches_the_anonymizer_with_the_right_sign(models: str) -> None:
    game = make_game(tiny(SPActConfig, budget_models=models))
    each_term_falls(game, objectives(game)[0], TERMS)
    terms_add_up(game, objectives(game)[0], TERMS)


@pytest.mark.parametrize("kind", ["nt-xent", "moco", "rotation"])
def test_a_step_against_the_budget_term_makes_the_opponent_read_worse(kind: str) -> None:
    game = make_game(tiny(SPActConfig, budget=kind))
    game.budget_step("minimax", 1, game.opponents, game.budget_optimizers)  # MoCo needs keys of earlier batches
    objective = objectives(game)[0]
    each_term_falls(game, objective, TERMS)

    def opponents_loss() -> float:
        """L_B itself, on step 1's batch and with f_A in the mode it has there."""
        game.anonymizer.train()
        with torch.no_grad(), frozen(game.opponents):
            views = game.anonymize(game.deal.privacy_batch("minimax", 0, "frame"))
            return float(game.opponents[0].reading(views)[0])

    plain_descent(game, 1e-6)
    before = opponents_loss()
    game.anonymizer_step(0, lambda *seen: {"budget": objective(*seen)["budget"]})
    assert opponents_loss() > before


def test_without_an_opponent_only_the_action_is_asked_for() -> None:
    game = make_game(tiny(SPActConfig, budget_update="none"))
    assert game.anonymizer_step(0, objectives(game)[0])["f_A budget"] == 0
    terms_add_up(game, objectives(game)[0], ["action", "shown"])


def test_the_default_mosaic_is_trained_too(tmp_path: Path) -> None:
    # two levels, cells of four pixels, grey: gradients pass straight through the rounding
    narrow = {"levels": 2, "cell": 4, "grey": True, "reconstruction_steps": 0, "opponent_steps": 0, "steps": 2}
    stage = make_stage(tmp_path / "run")
    result = train(tiny(SPActConfig, **narrow, audit_steps=1), stage)
    assert set(result["watched"]) == {"L1", "shown", "L_T", "action"}
    names = [line["phase"] for line in logged(tmp_path / "run") if line["kind"] == "step"]
    assert names == ["minimax", "minimax", "audit"]
    game = make_game(tiny(SPActConfig, **narrow))
    game.anonymizer_step(0, objectives(game)[0])
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in game.anonymizer.output.parameters())


@pytest.mark.parametrize("name", ["spact", "tedspad", "penalty", "vita"])
def test_the_summary_tells_whether_the_default_has_an_adversary_and_what_the_paper_had(name: str) -> None:
    summary, config = METHODS.find(name).summary, find_method(name).config()
    here, _, published = summary.partition("; as published")
    assert ("adversary" in here.replace("no adversary", "")) == (config.budget_update != "none")
    if config.budget_update == "none":
        assert f"recipes/{name}-paper.toml" in published and "adversary" in published
        recipe = Path(__file__).parents[2] / "recipes" / f"{name}-paper.toml"
        assert load_options(type(config), recipe=recipe).budget_update == "updated"


def test_it_is_found_by_name() -> None:
    method = find_method("spact")
    assert (method.name, method.config, method.train) == ("spact", SPActConfig, train)


@pytest.mark.parametrize(("dilated", "stride", "dilation"), [(True, 1, 2), (False, 2, 1)])
def test_f_t_keeps_its_resolution_in_time_where_it_is_asked_to(dilated: bool, stride: int, dilation: int) -> None:
    game = make_game(tiny(SPActConfig, utility="r3d-18", utility_width=0.125, utility_dilated=dilated))
    inside, shortcut = (
        next(m for m in part.modules() if isinstance(m, nn.Conv3d))
        for part in (game.utility.layer4[0], game.utility.layer4[0].downsample)
    )
    assert (inside.stride, inside.dilation) == ((stride, 2, 2), (dilation, 1, 1))
    assert shortcut.stride == (stride, 2, 2)
