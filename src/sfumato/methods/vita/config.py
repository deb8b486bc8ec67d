"""VITA's settings."""

from __future__ import annotations

from dataclasses import dataclass

from sfumato.training.adversarial import AdversarialConfig, setting
from sfumato.training.opponents import Confusion, Kind


@dataclass(frozen=True)
class VITAConfig(AdversarialConfig):
    """f_B is told the privacy labels; f_A makes it unsure. Two f_B, restarted in turn, the stronger one faced."""

    budget: Kind = "labels"
    confusion: Confusion = "entropy"
    budget_models: str = "resnet-50+mobilenet-v1"  # M = 2
    strongest: bool = True
    restart_steps: int = setting(200, "k", low=0)
