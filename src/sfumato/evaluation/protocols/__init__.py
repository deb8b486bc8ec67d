"""How a frozen anonymizer is judged. One file per protocol; each names the paper's section it follows."""

from sfumato.evaluation.protocols.fapder import FapderProtocol
from sfumato.evaluation.protocols.known import KnownProtocol
from sfumato.evaluation.protocols.ospar import OsparProtocol
from sfumato.evaluation.protocols.zero_shot import ZeroShotProtocol
from sfumato.registry import Registry

PROTOCOLS: Registry[KnownProtocol] = Registry("protocol")
PROTOCOLS.add("known", "fresh models on the actions and attributes that are known; SPAct section 4.2", KnownProtocol)
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

__all__ = ["PROTOCOLS"]
