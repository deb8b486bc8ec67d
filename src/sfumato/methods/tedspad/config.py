"""TeD-SPAD's settings."""

from __future__ import annotations

from dataclasses import dataclass

from sfumato.methods.spact.config import SPActConfig
from sfumato.training.adversarial import setting


@dataclass(frozen=True)
class TeDSPADConfig(SPActConfig):
    """SPAct with a temporal-distinctiveness term; `recipes/tedspad-paper.toml` has U-Net++ and I3D."""

    triplet_weight: float = setting(0.1, low=0)
    triplet_margin: float = setting(1.0, "μ", low=1e-6)
