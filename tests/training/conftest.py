"""What tests with several processes share."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture
def toys(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The workers' module, found on sys.path, which spawned processes inherit."""
    monkeypatch.syspath_prepend(Path(__file__).parent)
    return import_module("toys")
