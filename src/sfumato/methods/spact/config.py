"""SPAct's settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sfumato.training.adversarial import AdversarialConfig, Schedule, setting


@dataclass(frozen=True)
class SPActConfig(AdversarialConfig):
    """A sparse black-and-white mosaic that needs no f_B; `recipes/spact-paper.toml` has the paper's own setting."""

    anonymizer_norm: Literal["batch", "group"] = "batch"  # group norm collapsed half-way on lsa64-b20 at these rates
    levels: int = setting(2, low=0)
    cell: int = setting(4, low=1)
    grey: bool = True
    sparsity_weight: float = setting(5.0, "μ", low=0)
    utility_update: Literal["alternate", "together"] = "together"
    budget_update: Literal["updated", "frozen", "none"] = "none"  # what is never drawn need not be hidden from anybody
    augmentation: Literal["strong", "gentle"] = "gentle"
    reconstruction_steps: int = setting(0, low=0)  # a mosaic cannot become the identity
    opponent_steps: int = setting(0, low=0)
    steps: int = setting(1500, low=1)
    schedule: Schedule = "one-cycle"
    anonymizer_rate: float = setting(1e-3, "α_A", low=0)
    utility_rate: float = setting(1e-3, "α_T", low=0)
    budget_rate: float = setting(1e-3, "α_B", low=0)
    weight_decay: float = setting(0.02, low=0)
