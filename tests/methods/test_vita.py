from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from sfumato.errors import SfumatoError
from sfumato.methods import find_method
from sfumato.methods.vita.config import VITAConfig
from sfumato.methods.vita.train import train
from sfumato.objectives.labels import entropy, heads_loss
from sfumato.training.frame_game import FrameGame
from sfumato.training.optimisation import frozen

from ..training.toys import (
    CPU,
    each_term_falls,
    make_banks,
    make_game,
    make_stage,
    objectives,
    plain_descent,
    terms_add_up,
    tiny,
)

TERMS = ["action", "budget", "shown"]
PAIR = "tiny-frame+tiny-video"


def vita(**changes: Any) -> VITAConfig:
    config: VITAConfig = tiny(VITAConfig, **{"budget_models": PAIR, **changes})
    return config


def logits(game: FrameGame, number: int) -> torch.Tensor:
    """What f_B number `number` answers on step 1's batch, f_A in the mode it has there."""
    game.anonymizer.train()
    opponent = game.opponents[number]
    with torch.no_grad(), frozen(game.opponents):
        views = game.anonymize(game.deal.privacy_batch("minimax", 0, opponent.level))
        seen = torch.cat([views.first, views.second], 1 if opponent.level == "frame" else 0)
        answered: torch.Tensor = opponent.network(seen)
        return answered


@pytest.mark.parametrize("confusion", ["entropy", "loss"])
def test_the_budget_term_is_the_strongest_readers(confusion: str) -> None:
    game = make_game(vita(confusion=confusion, budget_weight=3.0))
    for turn in range(1, 4):  # so that the two differ
        game.budget_step("minimax", turn, game.opponents[:1], game.budget_optimizers[:1])
    heads, answers = game.banks.privacy.heads, game.deal.privacy_batch("minimax", 0, "frame").answers
    each = [logits(game, number) for number in range(2)]
    if confusion == "entropy":
        expected = [float(entropy(answer, heads)) for answer in each]
    else:
        # a reader of clips has read each of the two views
        told = [answers if len(answer) == len(answers) else answers.repeat(2, 1) for answer in each]
        expected = [float(heads_loss(answer, true, heads)) for answer, true in zip(each, told, strict=True)]
    plain_descent(game, 0.0)
    found = game.anonymizer_step(0, objectives(game)[0])["f_A budget"]
    assert expected[0] != expected[1]
    assert float(found) == pytest.approx(-3.0 * min(expected), rel=1e-4)


@pytest.mark.parametrize("confusion", ["entropy", "loss"])
def test_each_term_reaches_the_anonymizer_with_the_right_sign(confusion: str) -> None:
    game = make_game(vita(confusion=confusion, strongest=False))
    for turn in range(1, 4):
        game.budget_step("minimax", turn, game.opponents, game.budget_optimizers)
    each_term_falls(game, objectives(game)[0], TERMS)
    terms_add_up(game, objectives(game)[0], TERMS)


def test_a_step_against_the_budget_term_makes_the_opponent_less_sure() -> None:
    game = make_game(vita(budget_models="tiny-frame"))
    for turn in range(1, 4):
        game.budget_step("minimax", turn, game.opponents, game.budget_optimizers)
    objective, heads = objectives(game)[0], game.banks.privacy.heads
    before = entropy(logits(game, 0), heads)
    plain_descent(game, 1e-2)
    game.anonymizer_step(0, lambda *seen: {"budget": objective(*seen)["budget"]})
    assert entropy(logits(game, 0), heads) > before


def test_it_trains_with_restarts_and_an_ensemble(tmp_path: Path) -> None:
    config = vita(restart_steps=2, history=1)
    assert (config.budget, config.confusion, config.strongest) == ("labels", "entropy", True)
    result = train(config, make_stage(tmp_path / "run"))
    assert [row["f_B"] for row in result["audit"]] == ["tiny-frame", "tiny-video", "tiny-frame"]
    # of four people in equal numbers, each with one of two values: guessing finds a quarter and a half
    assert [row["chance"] for row in result["audit"]] == [0.375, 0.375, 0.25]


def test_it_needs_privacy_labels() -> None:
    banks = make_banks()
    banks.privacy.heads, banks.privacy.asks_who = (), False
    with pytest.raises(SfumatoError, match="others has no privacy labels: choose a self-supervised budget"):
        FrameGame(vita(), banks, seed=0, device=CPU)
    with pytest.raises(SfumatoError, match="budget_update = none leaves nothing for labels to do"):
        vita(budget_update="none")


def test_it_is_found_by_name() -> None:
    method = find_method("vita")
    assert (method.name, method.config, method.train) == ("vita", VITAConfig, train)
    assert method.config().networks() == ("resnet-50", "mobilenet-v1")


@pytest.mark.parametrize(
    ("told", "heads", "asked"), [("attributes", (2,), (0,)), ("identity", (4,), (1,)), ("both", (2, 4), (0, 1))]
)
def test_what_the_opponent_is_told_can_be_chosen(told: str, heads: tuple[int, ...], asked: tuple[int, ...]) -> None:
    lineup = make_game(vita(budget_models="tiny-frame", budget_labels=told)).opponents[0].lineup
    assert (lineup.heads, lineup.asked) == (heads, asked)


def test_a_reader_of_some_questions_hears_of_no_other() -> None:
    game = make_game(vita(budget_models="tiny-frame", budget_labels="identity"))
    opponent, views = game.opponents[0], game.deal.privacy_batch("minimax", 0, "frame")
    with torch.no_grad(), frozen([opponent]):
        loss, accuracy = opponent.reading(views)
        answer = opponent.network(torch.cat([views.first, views.second], 1))
    assert answer.shape == (4, 4)  # one of four people, for each of four clips
    assert float(loss) == pytest.approx(float(heads_loss(answer, views.answers[:, 1:], (4,))))
    assert float(accuracy) == float((answer.argmax(1) == views.answers[:, 1]).float().mean())
    assert opponent.chance(torch.tensor([[0, 2], [0, 2], [0, 1]])) == pytest.approx(2 / 3)  # 1 for the other question
