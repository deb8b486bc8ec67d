"""The penalty-driven anonymizer's settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sfumato.errors import SfumatoError
from sfumato.training.adversarial import AdversarialConfig, setting


@dataclass(frozen=True)
class PenaltyConfig(AdversarialConfig):
    """SPAct's game with a price on changing the action clips beyond a limit; `recipes/penalty-paper.toml` has U-Net++ and I3D."""

    penalty: Literal["pixels", "features"] = "pixels"
    penalty_weight: float = setting(1.0, "λ", low=0)
    penalty_limit: float = setting(0.3, "B", low=0)
    anonymizer_rate: float = setting(4e-5, "α_A", low=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.penalty == "features" and self.utility_update == "together":
            # f_T could then lower the penalty by itself, by features that tell nothing apart.
            raise SfumatoError(
                "a penalty on f_T's features needs f_T to stand still", "set utility_update to alternate"
            )
