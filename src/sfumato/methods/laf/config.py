"""LaF-Privacy's settings."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

from sfumato.errors import SfumatoError
from sfumato.objectives.visual import LEVELS
from sfumato.training.adversarial import Schedule, setting


@dataclass(frozen=True)
class Part:
    """One of the three phases of training: what f_A minimises, for how long, how fast."""

    name: str
    steps: int
    rate: float
    masking: bool  # whether the AAMM is there, and its loss
    visual_weight: float  # λ_vis; 0: L_visual is left out


@dataclass(frozen=True)
class LaFConfig:
    """f_A is a masked transformer, its only teacher a frozen model. `recipes/laf-paper.toml` has the paper's size and rates."""

    vlm: str = ""  # what `load_vlm` takes: a folder, xclip:FOLDER_OR_ID, actionclip:FOLDER_OR_ID
    # f_A
    embedding: int = setting(192, "D", low=2)
    depth: int = setting(6, "L", low=1)
    patch: int = setting(16, "P", low=1)
    masked: bool = True  # off: no AAMM, every patch is shown (Table 2)
    keep_ratio: float = setting(0.0, "α", low=0, high=1)  # of every frame's patches (appendix B.4); 0: by the threshold
    # what training shows: as in use, or the paper's soft mask, read by SPEC.md or by its letter
    training_mask: Literal["hard", "soft", "softmax"] = "hard"
    temperature: float = setting(0.05, "τ", low=1e-4)
    # what f_A minimises: λ_action·L_action − λ_vis·L_visual + λ_mask·L_mask
    visual: Literal["mse+ssim", "ssim", "mse", "l1+ssim"] = "mse+ssim"
    embeddings: str = "patch+frame+video"  # the levels of L_action, joined by "+"
    pixel_weight: float = setting(1.0, "λ_mse", low=0)  # also of L1
    ssim_weight: float = setting(1.0, "λ_ssim", low=0)
    action_weight: float = setting(1.0, "λ_action", low=0)
    mask_weight: float = setting(1.0, "λ_mask", low=0)  # 2 on UCF101
    phase1_visual_weight: float = setting(1.0, "λ_vis", low=0)
    phase3_visual_weight: float = setting(0.5, "λ_vis", low=0)  # .2 on UCF101
    # lengths and rates
    phases: Literal["1+2+3", "1+3", "3"] = "1+2+3"  # Table 5
    batch: int = setting(16, low=1)
    reconstruction_steps: int = setting(1000, low=0)
    phase1_steps: int = setting(3000, low=1)
    phase2_steps: int = setting(1000, low=1)
    phase3_steps: int = setting(2000, low=1)
    optimizer: Literal["adamw", "sgd"] = "adamw"  # sgd: the paper's
    schedule: Schedule = "one-cycle"  # of each phase by itself; constant: the paper's
    reconstruction_rate: float = setting(1e-3, low=0)
    phase1_rate: float = setting(5e-4, low=0)
    phase2_rate: float = setting(5e-4, low=0)
    phase3_rate: float = setting(2.5e-4, low=0)
    weight_decay: float = setting(0.0, low=0)

    def __post_init__(self) -> None:
        levels = self.levels()
        if not set(levels) <= set(LEVELS) or len(set(levels)) < len(levels):
            raise SfumatoError(
                f"embeddings = '{self.embeddings}' does not fit", f"join some of {', '.join(LEVELS)} by +, each once"
            )
        if not self.masked:
            self._refuse_idle("masked = false", "keep_ratio", "training_mask", "temperature", "mask_weight")
        counted = ["pixel_weight"] * (self.visual != "ssim") + ["ssim_weight"] * ("ssim" in self.visual)
        self._refuse_idle(f"visual = {self.visual}", *({"pixel_weight", "ssim_weight"} - {*counted}))
        if not any(getattr(self, name) for name in counted):
            raise SfumatoError(
                f"visual = {self.visual} counts for nothing with {' and '.join(counted)} 0",
                "give it a weight; to leave L_visual out, set phase1_visual_weight and phase3_visual_weight to 0",
            )

    def _refuse_idle(self, why: str, *names: str) -> None:
        """What was changed and can change nothing would be ignored in silence."""
        if changed := [name for name in names if getattr(self, name) != getattr(LaFConfig, name)]:
            raise SfumatoError(f"{why} leaves nothing for {changed[0]} to do", "leave one of them out")

    def levels(self) -> tuple[str, ...]:
        """The levels of embeddings that L_action compares."""
        return tuple(level.strip() for level in self.embeddings.split("+"))

    def unplayed(self) -> list[str]:
        """The settings of phases that are not played."""
        absent = tuple(f"phase{number}_" for number in "123" if number not in self.phases)
        return [entry.name for entry in fields(self) if entry.name.startswith(absent)]

    def parts(self) -> list[Part]:
        """The phases that are asked for, in their order (appendix A)."""
        every = {
            "1": Part("phase1", self.phase1_steps, self.phase1_rate, False, self.phase1_visual_weight),
            "2": Part("phase2", self.phase2_steps, self.phase2_rate, self.masked, 0.0),
            "3": Part("phase3", self.phase3_steps, self.phase3_rate, self.masked, self.phase3_visual_weight),
        }
        return [every[number] for number in self.phases.split("+")]
