"""FAPDER, facial attribute-preserving dynamic expression recognition (STPrivacy section 4.8, its Table 4).

The "action" is the expression of a face; what must not be read are five of the appearance attributes of CelebV-HQ, under the
names they have there. For one's own videos: `manifest:faces.csv?action=expression`, with a column per attribute.
"""

from __future__ import annotations

from sfumato.evaluation.protocols.known import ATTRIBUTE_ATTACKS, KnownProtocol


class FapderProtocol(KnownProtocol):
    """The known protocol about five looks of a face, on any data set that has one of these labels."""

    name = "fapder"
    private = ("young", "pointy_nose", "male", "rosy_cheeks", "brown_hair")
    attacks = ATTRIBUTE_ATTACKS
