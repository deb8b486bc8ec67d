"""The penalty-driven algorithm (eq. 3 and 4): L_A = L_T − L_B + λ·max(0, RMS(X − f_A(X)) − B), on action clips only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from sfumato.methods.penalty.config import PenaltyConfig
from sfumato.objectives.penalty import feature_penalty, pixel_penalty
from sfumato.training.contest import Stage, contest
from sfumato.training.dealing import ActionBatch
from sfumato.training.frame_game import FrameGame
from sfumato.training.minimax import Objective, Terms, UtilityLoss
from sfumato.training.opponents import Views


def penalty(game: FrameGame, config: PenaltyConfig, video: Tensor, output: Tensor) -> Tensor:
    """λ times the hinge on pixels (eq. 4), or on f_T's features relative to their own size (section 3.2)."""
    if config.penalty == "pixels":
        return config.penalty_weight * pixel_penalty(video, output, config.penalty_limit)
    with torch.no_grad():
        raw = game.utility.features(video)
    return config.penalty_weight * feature_penalty(raw, game.utility.features(output), config.penalty_limit)


def objectives(game: FrameGame, config: PenaltyConfig) -> tuple[Objective, UtilityLoss]:
    """What f_A minimises in step 1 (eq. 3) and f_T in step 2. No penalty on the privacy clips."""

    def anonymizer(batch: ActionBatch, output: Tensor, views: Mapping[str, Views]) -> Terms:
        return game.adversarial_terms(batch, output, views) | {"penalty": penalty(game, config, batch.video, output)}

    return anonymizer, game.action_loss


def train(config: PenaltyConfig, stage: Stage) -> dict[str, Any]:
    """SPAct's game with this objective."""
    game = FrameGame(config, stage.banks, seed=stage.seed, device=stage.device)
    return contest(game, *objectives(game, config), stage)
