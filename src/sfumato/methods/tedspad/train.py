"""TeD-SPAD's algorithm: SPAct, with f_T's features of two moments of one video pushed apart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from sfumato.errors import SfumatoError
from sfumato.methods.tedspad.config import TeDSPADConfig
from sfumato.objectives.triplet import temporal_triplet
from sfumato.training.contest import Stage, contest
from sfumato.training.dealing import ActionBatch
from sfumato.training.frame_game import FrameGame
from sfumato.training.minimax import Objective, Terms, UtilityLoss
from sfumato.training.opponents import Views


def distinctiveness(game: FrameGame, config: TeDSPADConfig, batch: ActionBatch, output: Tensor) -> Tensor:
    """The triplet term: a moment, augmented otherwise, lies nearer to itself than to another moment of the video.

    The moments are the two halves of the clip, (B, T, 3, H, W) → (B, T/2, 3, H, W) each, so that a data set whose
    videos are one clip long has them too.
    """
    half = output.shape[1] // 2
    early, late = output[:, :half], output[:, half : 2 * half]
    again = game.anonymizer(batch.again(half))
    anchor, same, other = game.utility.features(torch.cat([early, again, late])).float().chunk(3)
    return config.triplet_weight * temporal_triplet(anchor, same, other, config.triplet_margin)


def objectives(game: FrameGame, config: TeDSPADConfig) -> tuple[Objective, UtilityLoss]:
    """SPAct's two objectives with the distinctiveness term in both: it is part of L_T."""

    def anonymizer(batch: ActionBatch, output: Tensor, views: Mapping[str, Views]) -> Terms:
        terms = game.adversarial_terms(batch, output, views)
        return terms | {"distinctiveness": distinctiveness(game, config, batch, output)}

    def utility(batch: ActionBatch, output: Tensor) -> Tensor:
        return game.action_loss(batch, output) + distinctiveness(game, config, batch, output)

    return anonymizer, utility


def train(config: TeDSPADConfig, stage: Stage) -> dict[str, Any]:
    """SPAct's game with this objective."""
    if stage.banks.action.pixels.shape[1] < 2:
        raise SfumatoError(f"clips of {stage.banks.action.name} are one frame long", "give clips of 2 frames or more")
    game = FrameGame(config, stage.banks, seed=stage.seed, device=stage.device)
    return contest(game, *objectives(game, config), stage)
