"""What the tests of benches share."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sfumato.datasets import theatre
from sfumato.theatre.script import BALANCED


@pytest.fixture
def minute(monkeypatch: pytest.MonkeyPatch) -> None:
    """theatre:small and small-scenes are theatres of a minute: 24 clips in each part, two actions, two frames of 16×16."""
    small = replace(
        theatre.PRESETS["small"], side=16, frames=2, cast=(2, 1, 1), sizes=(24, 24, 24), prevalence=BALANCED,
        action_names=("raise hand", "jumping jack"),
    )  # fmt: skip
    scenes = replace(small, attributes=theatre.PRESETS["small-scenes"].attributes)
    monkeypatch.setitem(theatre.PRESETS, "small", small)
    monkeypatch.setitem(theatre.PRESETS, "small-scenes", scenes)
