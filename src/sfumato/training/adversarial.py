"""The settings that adversarial methods share. A method's own config changes defaults and adds what is its own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from sfumato.anonymizers.bottleneck import Bottleneck
from sfumato.errors import SfumatoError
from sfumato.recognizers import RECOGNIZERS
from sfumato.training.batches import Positives
from sfumato.training.opponents import Confusion, Kind

Schedule = Literal["constant", "one-cycle"]
# Settings that say nothing where no f_B plays.
OF_BUDGET_MODELS = (
    "budget", "budget_models", "budget_width", "budget_norm", "budget_steps", "strongest", "restart_steps", "history",
    "confusion", "budget_labels", "temperature", "positives", "budget_weight", "budget_threshold", "budget_maximum",
    "budget_rate",
)  # fmt: skip


def setting(default: Any, symbol: str = "", low: float | None = None, high: float | None = None) -> Any:
    """A field with the paper's symbol and the range it may have."""
    about = {"symbol": symbol, "low": low, "high": high}
    return field(default=default, metadata={key: value for key, value in about.items() if value not in (None, "")})


@dataclass(frozen=True)
class GameConfig:
    """Who plays against f_A, for how long, and what f_A is rewarded for."""

    # f_T, the utility model
    utility: str = "r3d-18"
    utility_width: float = setting(1.0, low=0.05)
    utility_dilated: bool = False  # r3d-18 alone: the last stage keeps its resolution in time, as SPAct's
    # alternate: f_T moves in step 2, as in the papers. together: f_T and f_A, who want the same, move in step 1.
    utility_update: Literal["alternate", "together"] = "alternate"
    # f_B, the budget models
    budget: Kind = "nt-xent"
    budget_models: str = "resnet-50"  # several joined by "+": a video network makes f_B spatio-temporal
    budget_width: float = setting(1.0, low=0.05)
    budget_norm: Literal["group", "batch"] = "group"
    budget_update: Literal["updated", "frozen", "none"] = "updated"
    budget_steps: int = setting(1, low=1)  # updates of f_B for one of f_A
    strongest: bool = False  # of several f_B, f_A faces the best reader; otherwise all
    restart_steps: int = setting(0, low=0)  # f_A steps after which an f_B begins anew; 0: never
    history: int = setting(0, low=0)  # how many f_B that have been restarted f_A must still fool
    confusion: Confusion = "loss"
    budget_labels: Literal["attributes", "identity", "both"] = "both"  # what a labelled f_B is told
    temperature: float = setting(0.1, "τ", low=1e-3)
    positives: str = "any"  # S_F: any, <8 or >64 frames apart
    # what f_A minimises
    budget_weight: float = setting(1.0, "ω", low=0)
    # lengths and rates
    batch: int = setting(32, low=2)
    privacy_batch: int = setting(32, low=2)
    opponent_steps: int = setting(500, low=0)
    utility_threshold: float = setting(0.5, "th_T0", low=0)  # L_T on validation
    budget_threshold: float = setting(0.5, "th_B0", low=0)  # L_B on validation
    steps: int = setting(2000, low=1)  # f_A's steps in the minimax phase
    budget_maximum: float = setting(0.0, "th_Bmax", low=0)  # stop when L_B on validation is so high; 0: never
    # fresh attackers on the finished f_A: f_B of the same make, and one that is told the labels
    audit_steps: int = setting(500, low=0)
    audit_rate: float = setting(1e-3, low=0)
    auditor: str = "resnet-18"
    # of the action clips; strong: SPAct's crops, erasing and greying; gentle: what the judge's recognizers train with
    augmentation: Literal["strong", "gentle"] = "strong"
    schedule: Schedule = "constant"  # of f_A's and f_T's rates in the minimax phase
    anonymizer_rate: float = setting(1e-4, "α_A", low=0)
    utility_rate: float = setting(1e-4, "α_T", low=0)
    budget_rate: float = setting(1e-4, "α_B", low=0)
    weight_decay: float = setting(0.0, low=0)

    def __post_init__(self) -> None:
        Positives.parse(self.positives)
        for network in (self.utility, self.auditor, *self.networks()):
            RECOGNIZERS.find(network)
        if self.utility_dilated and self.utility != "r3d-18":
            raise SfumatoError(f"'{self.utility}' has no dilated last stage", "set utility to r3d-18")
        if self.history and not self.restart_steps:
            raise SfumatoError("history keeps f_B that were restarted, and none is", "set restart_steps too")
        if self.restart_steps and self.budget_update == "frozen":
            raise SfumatoError("a frozen f_B that begins anew would know nothing", "set restart_steps to 0")
        if self.restart_steps and self.budget_maximum:
            raise SfumatoError(
                "an f_B that has just begun anew reads nothing, which budget_maximum would take for the end",
                "set restart_steps or budget_maximum to 0",
            )
        if self.strongest and self.budget == "moco":
            raise SfumatoError(
                "L_B of MoCo depends on how full each f_B's queue is, so that none is the strongest by it",
                "set strongest to false, or budget to nt-xent",
            )
        if self.confusion == "entropy" and self.budget != "labels":
            raise SfumatoError(f"{self.budget} has no entropy to raise", "set confusion to loss, or budget to labels")
        if self.budget_update == "frozen" and not self.opponent_steps:
            raise SfumatoError("a frozen f_B that was never trained reads nothing", "set opponent_steps, such as 500")
        if self.budget_update == "none" and self.budget == "labels":
            raise SfumatoError("budget_update = none leaves nothing for labels to do", "set budget_update to updated")

    def networks(self) -> tuple[str, ...]:
        """The budget models by name."""
        return tuple(name.strip() for name in self.budget_models.split("+"))


@dataclass(frozen=True)
class AdversarialConfig(GameConfig):
    """f_A is a network on each frame: what it is, how much its pictures can carry, how it begins."""

    anonymizer: Literal["unet", "unet++"] = "unet"
    width: int = setting(16, low=4)  # of the U-Net's first level; unet++ counts 64 as its full width
    anonymizer_norm: Literal["batch", "group"] = "group"  # batch: the papers'; its statistics mix both data sets
    levels: int = setting(0, low=0)  # values a pixel can have; 0: any
    cell: int = setting(1, low=1)  # pixels of a side shown as one
    grey: bool = False
    centred: float = setting(0.0, low=0, high=1)  # how far a clip's drawing is brought to the middle, in the end
    sparsity_weight: float = setting(0.0, "μ", low=0)  # of the share of the picture that is shown on black
    free_share: float = setting(0.0, low=0, high=1)  # of a clip's pictures, that costs nothing
    reconstruction_steps: int = setting(500, low=0)
    reconstruction_threshold: float = setting(0.03, "th_A0", low=0)  # L1 per pixel on validation
    reconstruction_rate: float = setting(1e-3, low=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        Bottleneck(self.levels, self.cell, self.grey)  # refuses what cannot be shown
        if self.centred and self.budget_maximum:
            # Drawings come to the middle by and by: where a game stops early they are not there yet.
            raise SfumatoError("centred needs all steps, and budget_maximum ends them early", "set one of them to 0")
