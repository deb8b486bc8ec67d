"""OSPAR, object- and scene-preserving action recognition (STPrivacy section 4.8, its Table 5).

What is done must stay readable; where it is done and with what around must not. The people are not attacked. The paper's
P-HVU gives several actions, objects and scenes to a video and scores all three by cMAP, which is the known protocol on
`p-hvu:PATH`; here a clip has one of each, and the action is scored by top-1.
"""

from __future__ import annotations

from sfumato.evaluation.protocols.known import ATTRIBUTE_ATTACKS, KnownProtocol


class OsparProtocol(KnownProtocol):
    """The known protocol about the labels `scene` and `object` of any data set that has one of them."""

    name = "ospar"
    private = ("scene", "object")
    attacks = ATTRIBUTE_ATTACKS
