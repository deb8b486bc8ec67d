from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch

from sfumato.datasets import theatre
from sfumato.datasets.theatre import TheatreDataset
from sfumato.theatre.script import BALANCED


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def minute(monkeypatch: pytest.MonkeyPatch) -> TheatreDataset:
    """A theatre so small that a judgement takes seconds: two actions, two people in training, 32×32 pixels."""
    small = replace(
        theatre.PRESETS["small"], side=32, frames=4, cast=(2, 1, 1), sizes=(24, 24, 24), prevalence=BALANCED,
        action_names=("raise hand", "jumping jack"),
    )  # fmt: skip
    monkeypatch.setitem(theatre.PRESETS, "small", small)
    return TheatreDataset("small")
