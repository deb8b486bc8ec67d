"""An f_T that is taught several actions of a clip, in the same game."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from sfumato.objectives.labels import action_loss, named_actions
from sfumato.training.dealing import Banks
from sfumato.training.frame_game import FrameGame

from .toys import ACTIONS, CPU, make_banks, make_game, tiny


def several() -> Banks:
    """The toys' clips; each also shows the action after its own."""
    banks = make_banks()

    def both(actions: torch.Tensor) -> torch.Tensor:
        own, next_one = (torch.eye(ACTIONS, dtype=torch.int64)[(actions + n) % ACTIONS] for n in (0, 1))
        return own + next_one

    return replace(
        banks, action=replace(banks.action, actions=both(banks.action.actions)),
        watch_action=replace(banks.watch_action, actions=both(banks.watch_action.actions)),
    )  # fmt: skip


def test_the_players_learn_by_binary_cross_entropy() -> None:
    game = FrameGame(tiny(utility_rate=3e-3), several(), seed=0, device=CPU)
    assert game.deal.action_batch("minimax", 0).actions.shape == (4, ACTIONS)
    losses = [float(game.utility_step("opponents", turn, game.action_loss)["L_T"]) for turn in range(40)]
    assert losses[0] == pytest.approx(0.693, abs=0.1) and sum(losses[-5:]) < 0.95 * sum(losses[:5])
    terms = game.anonymizer_step(0, game.adversarial_terms)
    assert 0.4 < float(terms["f_A action"]) < 1  # not the cross-entropy of one of three
    seen = game.watch()
    with torch.no_grad():
        video = game.banks.watch_action.pixels.float() / 255
        game.anonymizer.eval(), game.utility.eval()
        logits = game.utility(game.anonymizer(video))
    truth = game.banks.watch_action.actions
    assert seen["L_T"] == pytest.approx(float(action_loss(logits, truth)), rel=1e-3)
    assert seen["action"] == pytest.approx(float(named_actions(logits, truth)))


def test_what_is_shown_has_its_full_price_only_below_the_loss_of_guessing() -> None:
    # Each of three actions in two of three clips: −(2/3·ln 2/3 + 1/3·ln 1/3).
    game = FrameGame(tiny(), several(), seed=0, device=CPU)
    assert game.guessing == pytest.approx(0.6365, abs=1e-4)
    assert make_game().guessing == pytest.approx(1.0986, abs=1e-4)  # one of three: ln 3
