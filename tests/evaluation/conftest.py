from __future__ import annotations

from collections.abc import Callable

import pytest

from sfumato.datasets.theatre import TheatreDataset


@pytest.fixture
def minute(small_theatre: Callable[..., object], drawn_once: None) -> TheatreDataset:
    """A theatre so small that a judgement takes seconds: two actions, two people in training, 32×32 pixels."""
    small_theatre(side=32, frames=4)
    return TheatreDataset("small")
