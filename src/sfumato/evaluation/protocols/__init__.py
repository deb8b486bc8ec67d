"""How a frozen anonymizer is judged. One file per protocol; each names the paper's section it follows."""

from sfumato.evaluation.protocols.known import KnownProtocol
from sfumato.registry import Registry

PROTOCOLS: Registry[KnownProtocol] = Registry("protocol")
PROTOCOLS.add("known", "fresh models on the actions and attributes that are known; SPAct section 4.2", KnownProtocol)

__all__ = ["PROTOCOLS"]
