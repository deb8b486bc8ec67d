"""f_A: anonymizers, pure functions from video to video, by name or from a folder.

>>> from sfumato.anonymizers import load
>>> load("downsample:factor=16")(video)
"""

from sfumato.anonymizers.base import Anonymizer, ClipSpec, Knob
from sfumato.anonymizers.catalogue import ANONYMIZERS, register
from sfumato.anonymizers.settings import parse_name
from sfumato.anonymizers.storage import fingerprint, label, load, save, untrained

__all__ = [
    "ANONYMIZERS",
    "Anonymizer",
    "ClipSpec",
    "Knob",
    "fingerprint",
    "label",
    "load",
    "parse_name",
    "register",
    "save",
    "untrained",
]
