"""Sfumato: who a person is dissolves, what they do stays.

>>> import sfumato
>>> hidden = sfumato.load("blur:sigma=16")(video)
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sfumato.anonymizers import load
    from sfumato.anonymizers.streaming import anonymize_file

__version__ = "0.1.0"
__all__ = ["anonymize_file", "load"]

# Threads that wait for each other should sleep, not spin: on a machine with other work, spinning threads hold each other
# up at every small step. Only heard if torch is not loaded yet, and only where the user has not said otherwise.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def __getattr__(name: str) -> Any:
    """`load` and `anonymize_file`, imported when they are first used: the command's help needs no torch."""
    if name == "load":
        from sfumato.anonymizers import load

        return load
    if name == "anonymize_file":
        from sfumato.anonymizers.streaming import anonymize_file

        return anonymize_file
    raise AttributeError(f"module 'sfumato' has no attribute '{name}'")
