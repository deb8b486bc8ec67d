"""What the tests of benches share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from sfumato.datasets import theatre


@pytest.fixture
def minute(monkeypatch: pytest.MonkeyPatch, small_theatre: Callable[..., theatre.Preset], drawn_once: None) -> None:
    """theatre:small and small-scenes are theatres of a minute: 24 clips in each part, two actions, two frames of 16×16."""
    small = small_theatre()
    scenes = replace(small, attributes=theatre.PRESETS["small-scenes"].attributes)
    monkeypatch.setitem(theatre.PRESETS, "small-scenes", scenes)
