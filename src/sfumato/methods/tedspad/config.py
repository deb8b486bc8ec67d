"""TeD-SPAD's settings."""

from __future__ import annotations

from dataclasses import dataclass

from sfumato.errors import SfumatoError
from sfumato.methods.spact.config import SPActConfig
from sfumato.training.adversarial import setting


@dataclass(frozen=True)
class TeDSPADConfig(SPActConfig):
    """SPAct with a temporal-distinctiveness term; `recipes/tedspad-paper.toml` has U-Net++ and I3D."""

    triplet_weight: float = setting(0.1, low=0)
    triplet_margin: float = setting(1.0, low=1e-6)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.utility.startswith(("vit", "mvit", "c3d")):
            raise SfumatoError(
                f"'{self.utility}' reads whole clips only, and moments are half as long", "use r3d-18 or i3d-r50"
            )
