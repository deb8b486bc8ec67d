"""SPAct's algorithm (section 3): f_A* = argmin L_T(f_T(f_A(X)), Y) − ω·L_B(f_B(f_A(X))), no privacy labels.

The default settings are not the paper's: a sparse mosaic, and no f_B at all; recipes/spact-paper.toml has the game as published.
"""

from __future__ import annotations

from typing import Any

from sfumato.methods.spact.config import SPActConfig
from sfumato.training.contest import Stage, contest
from sfumato.training.frame_game import FrameGame


def train(config: SPActConfig, stage: Stage) -> dict[str, Any]:
    """Initialise f_A, f_T and f_B (where there is one), play the minimax game, audit; f_A is saved in the run folder."""
    game = FrameGame(config, stage.banks, seed=stage.seed, device=stage.device)
    return contest(game, game.adversarial_terms, game.action_loss, stage)
