"""How a frozen anonymizer is judged. One file per protocol; each names the paper's section it follows."""

from functools import partial
from typing import Any

from sfumato.evaluation.latent import ALL, LatentJudge
from sfumato.evaluation.latent import PROTOCOLS as LATENT
from sfumato.evaluation.protocols.cross_dataset import CrossDatasetProtocol
from sfumato.evaluation.protocols.fapder import FapderProtocol
from sfumato.evaluation.protocols.frame_level import FrameLevelProtocol
from sfumato.evaluation.protocols.known import KnownProtocol
from sfumato.evaluation.protocols.novel import NovelActionsProtocol, NovelAttributesProtocol, NovelProtocol
from sfumato.evaluation.protocols.ospar import OsparProtocol
from sfumato.evaluation.protocols.redressed import RedressedProtocol
from sfumato.evaluation.protocols.transfer_architectures import TransferArchitecturesProtocol
from sfumato.evaluation.protocols.zero_shot import ZeroShotProtocol
from sfumato.registry import Registry

# Those of videos make a KnownProtocol, those of features a LatentJudge.
PROTOCOLS: Registry[Any] = Registry("protocol")
PROTOCOLS.add("known", "fresh models on the actions and attributes that are known; SPAct section 4.1", KnownProtocol)
PROTOCOLS.add(
    "cross-dataset",
    "actions on one data set, attributes of another attacked, such as pictures; SPAct section 4.2",
    CrossDatasetProtocol,
)
PROTOCOLS.add("novel", "actions and attributes that the anonymizer was not made for; SPAct section 4.3", NovelProtocol)
PROTOCOLS.add("novel-actions", "actions that the anonymizer was not made for; SPAct section 4.3", NovelActionsProtocol)
PROTOCOLS.add(
    "novel-attributes",
    "attributes that the anonymizer was not made against; SPAct section 4.3",
    NovelAttributesProtocol,
)
PROTOCOLS.add("frame-level", "only attackers that look at single frames; STPrivacy section 4.7", FrameLevelProtocol)
PROTOCOLS.add(
    "transfer-architectures",
    "five other networks read the action, ResNets of five depths attack; the penalty paper's sections 8.2 and 8.4",
    TransferArchitecturesProtocol,
)
PROTOCOLS.add(
    "redressed", "who it is, among people who wear something else in every clip; of the theatre", RedressedProtocol
)
PROTOCOLS.add(
    "ospar", "the action stays, scene and object are attacked, not the person; STPrivacy section 4.8", OsparProtocol
)
PROTOCOLS.add(
    "fapder", "the expression stays, five looks of the face are attacked; STPrivacy section 4.8", FapderProtocol
)
PROTOCOLS.add(
    "zero-shot",
    "a frozen vision-language model reads the action from prompts, fresh models attack; LaF-Privacy section 4.2",
    ZeroShotProtocol,
)
PROTOCOLS.add(
    ALL, "an anonymizer of features, by all of the following that the data allows; SPLAVU section 4", LatentJudge
)
for _name, _protocol in LATENT.items():
    PROTOCOLS.add(f"{ALL}-{_name}", f"features: {_protocol.summary}", partial(LatentJudge, names=(_name,)))

__all__ = ["PROTOCOLS"]
