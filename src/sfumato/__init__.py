"""Sfumato: who a person is dissolves, what they do stays."""

import os

__version__ = "0.1.0"

# Threads that wait for each other should sleep, not spin: on a machine with other work, spinning threads hold each other
# up at every small step. Only heard if torch is not loaded yet, and only where the user has not said otherwise.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
