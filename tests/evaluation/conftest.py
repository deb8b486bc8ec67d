from __future__ import annotations

from dataclasses import replace

import pytest

from sfumato.datasets import theatre
from sfumato.datasets.theatre import TheatreDataset
from sfumato.theatre.script import BALANCED


@pytest.fixture
def minute(monkeypatch: pytest.MonkeyPatch, drawn_once: None) -> TheatreDataset:
    """A theatre so small that a judgement takes seconds: two actions, two people in training, 32×32 pixels."""
    small = replace(
        theatre.PRESETS["small"], side=32, frames=4, cast=(2, 1, 1), sizes=(24, 24, 24), prevalence=BALANCED,
        action_names=("raise hand", "jumping jack"),
    )  # fmt: skip
    monkeypatch.setitem(theatre.PRESETS, "small", small)
    return TheatreDataset("small")
