"""STPrivacy's settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sfumato.errors import SfumatoError
from sfumato.training.adversarial import GameConfig, Schedule, setting
from sfumato.training.opponents import Kind

KEEP_RATIO = 0.7


@dataclass(frozen=True)
class STPrivacyConfig(GameConfig):
    """f_A is a transformer over tubelets; f_T and f_B are video ViTs. `recipes/stprivacy-paper.toml` has the paper's rates."""

    embedding: int = setting(384, "D", low=24)
    duration: int = setting(2, "δT", low=1)
    patch: int = setting(16, "δH = δW", low=2)
    stem: bool = True  # a token is made by convolutions inside its tubelet; false: by the paper's linear map
    keep_ratio: float = setting(KEEP_RATIO, "α", low=0.05, high=1)  # of the tubelets that each of three blocks is given
    mechanism: Literal["both", "sparsification", "anonymization"] = "both"
    two_pass: bool = False  # kept tubelets never see dropped ones
    utility: str = "vit-s"
    budget: Kind = "labels"
    budget_models: str = "vit-s"
    action_weight: float = setting(0.5, "λ_Action", low=0)
    budget_weight: float = setting(0.5, "λ_Privacy", low=0)
    initialisation_steps: int = setting(1500, low=0)
    opponent_steps: int = setting(200, low=0)
    steps: int = setting(1000, low=1)
    privacy_batch: int = setting(16, low=2)  # f_B sees each clip twice, augmented anew
    schedule: Schedule = "one-cycle"
    initialisation_rate: float = setting(5e-4, low=0)
    anonymizer_rate: float = setting(2e-4, "α_A", low=0)
    utility_rate: float = setting(2e-4, "α_T", low=0)
    budget_rate: float = setting(2e-4, "α_B", low=0)
    weight_decay: float = setting(0.05, low=0)
    audit_rate: float = setting(3e-4, low=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        # The default is nobody's choice, and 1 is what it comes to.
        if self.mechanism == "anonymization" and self.keep_ratio not in (KEEP_RATIO, 1):
            raise SfumatoError("mechanism = anonymization leaves nothing for keep_ratio to do", "leave one of them out")
