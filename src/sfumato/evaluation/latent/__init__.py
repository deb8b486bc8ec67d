"""How an anonymizer of features is judged (SPLAVU section 4): one file per protocol, each names the paper's section.

Every protocol trains fresh readers, detectors or attackers on what f_A makes of a store's features, and the same ones on raw
features beside. Which videos it asks about is in the store's annotations.
"""

from sfumato.evaluation.latent.base import LatentConfig
from sfumato.evaluation.latent.judge import ALL, PROTOCOLS, LatentJudge, LatentLine

__all__ = ["ALL", "PROTOCOLS", "LatentConfig", "LatentJudge", "LatentLine"]
