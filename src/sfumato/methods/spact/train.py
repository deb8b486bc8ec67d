"""SPAct's algorithm (section 3): f_A* = argmin L_T(f_T(f_A(X)), Y) − ω·L_B(f_B(f_A(X))), no privacy labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from sfumato.methods.spact.config import SPActConfig
from sfumato.training.contest import Stage, contest
from sfumato.training.dealing import ActionBatch
from sfumato.training.minimax import Game, Objective, Terms, UtilityLoss
from sfumato.training.opponents import Views


def objectives(game: Game) -> tuple[Objective, UtilityLoss]:
    """What f_A minimises in step 1 (eq. 9) and f_T in step 2 (eq. 7)."""

    def anonymizer(batch: ActionBatch, output: Tensor, views: Mapping[str, Views]) -> Terms:
        action = game.utility_loss(output, batch.actions)
        return {
            "action": action,  # L_T
            "budget": -game.config.budget_weight * game.budget_confusion(views),  # −ω·L_B
            "shown": game.shown(output, action),
        }

    def utility(batch: ActionBatch, output: Tensor) -> Tensor:
        return game.utility_loss(output, batch.actions)

    return anonymizer, utility


def train(config: SPActConfig, stage: Stage) -> dict[str, Any]:
    """Initialise f_A, f_T and f_B, play the minimax game, audit; f_A is saved in the run folder."""
    game = Game(config, stage.banks, seed=stage.seed, device=stage.device)
    return contest(game, *objectives(game), stage)
