"""VITA's algorithm: as SPAct's, but f_B knows the privacy labels and f_A maximises its entropy (or its loss)."""

from __future__ import annotations

from typing import Any

from sfumato.methods.vita.config import VITAConfig
from sfumato.training.contest import Stage, contest
from sfumato.training.frame_game import FrameGame


def train(config: VITAConfig, stage: Stage) -> dict[str, Any]:
    """SPAct's game with labelled f_B, restarted every k steps and the strongest faced, as the config says."""
    game = FrameGame(config, stage.banks, seed=stage.seed, device=stage.device)
    return contest(game, game.adversarial_terms, game.action_loss, stage)
