"""SPLAVU's settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sfumato.errors import SfumatoError
from sfumato.training.adversarial import setting

TASKS = ("action", "detection", "anomaly")
BASE_BATCH = 512  # what the paper's rates are for; they grow and shrink with the batch
PIECE = 64  # features


@dataclass(frozen=True)
class SPLAVUConfig:
    """f_A is an adapter behind a frozen f_E. The defaults are the paper's, but for what `recipes/splavu-paper.toml` changes."""

    encoder: str = ""  # f_E: what `load_encoder` takes; needed for videos, while features say whose they are
    tasks: str = "action"  # T: of action (AR), detection (TAD) and anomaly (AD), joined by "+"; epochs count the first
    detection_data: str = ""  # D_TAD; empty: --data
    anomaly_data: str = ""  # D_AD; empty: --data
    # f_A, the anonymizing adapter module (AAM)
    attend: Literal["feature", "video", "batch", "none"] = (
        "feature"  # what attention runs over; none: an MLP (Table 10)
    )
    layers: int = setting(3, low=1)
    heads: int = setting(8, low=1)  # 4, 8 or 16 in Table 12
    feed_forward: bool = True
    tokens: int = setting(0, low=0)  # attend = feature: the pieces D is cut into; 0: of about 64 features each
    head_width: float = setting(1.0, low=0.01)  # of TriDet's and MGFN's channels, as a share of the published
    # what f_A and the heads minimise: ω_U·L_U + ω_LC·L_LC − ω_B·L_B  (eq. 7), L_U = ω_AR·L_AR + ω_TAD·L_TAD + ω_AD·L_AD  (eq. 4)
    utility_weight: float = setting(1.0, "ω_U", low=0)
    action_weight: float = setting(1.0, "ω_AR", low=0)
    detection_weight: float = setting(1.0, "ω_TAD", low=0)
    anomaly_weight: float = setting(1.0, "ω_AD", low=0)
    consistency_weight: float = setting(100.0, "ω_LC", low=0)
    budget_weight: float = setting(1.0, "ω_B", low=0)
    # L_B: static, NT-Xent between static clips of one video (eq. 5). labels, the supervised variant (Table 2).
    budget: Literal["static", "labels"] = "static"
    # Of which clips: the paper's static ones, or all, moving ones too. Asked for static ones alone f_A lets video pass.
    pairs: Literal["static", "all"] = "static"
    temperature: float = setting(0.1, "τ", low=1e-3)
    # lengths and rates
    epochs: int = setting(100, low=1)
    batch: int = setting(BASE_BATCH, low=1)  # videos, a clip of each
    privacy_batch: int = setting(256, low=2)  # videos, two static clips of each
    detection_batch: int = setting(8, low=1)  # videos, whole
    anomaly_batch: int = setting(32, low=2)  # videos, whole, half of them with an anomaly
    anonymizer_rate: float = setting(1e-4, low=0)  # of f_A and the heads, for a batch of 512
    reconstruction_epochs: int = setting(100, low=0)  # for an MLP alone: with attention f_A begins as the identity
    reconstruction_rate: float = setting(2e-5, low=0)
    budget_rate: float = setting(1e-3, low=0)  # budget = labels: of f_B
    weight_decay: float = setting(0.01, low=0)

    def __post_init__(self) -> None:
        asked = self.asked()
        if not set(asked) <= set(TASKS) or len(set(asked)) < len(asked):
            raise SfumatoError(
                f"tasks = '{self.tasks}' does not fit", f"join some of {', '.join(TASKS)} by +, each once"
            )
        for task in ("detection", "anomaly"):
            if getattr(self, f"{task}_data") and task not in asked:
                raise SfumatoError(
                    f"{task}_data is given, and {task} is no task", f"add {task} to tasks, or leave it out"
                )

    def asked(self) -> tuple[str, ...]:
        """The tasks to be kept, in the order they are named."""
        return tuple(task.strip() for task in self.tasks.split("+"))

    def weight(self, task: str) -> float:
        """ω_U times the task's own ω."""
        own: float = getattr(self, f"{task}_weight")
        return self.utility_weight * own

    def pieces(self, width: int) -> int:
        """Into how many equal pieces attention cuts D = `width` features.

        >>> SPLAVUConfig().pieces(768), SPLAVUConfig().pieces(256), SPLAVUConfig(tokens=16).pieces(256)
        (12, 4, 16)
        """
        wanted = max(4, width / PIECE)
        return self.tokens or min((n for n in range(1, width + 1) if width % n == 0), key=lambda n: abs(n - wanted))
