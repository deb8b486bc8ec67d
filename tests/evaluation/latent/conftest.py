from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from sfumato.evaluation import scoring


@pytest.fixture(autouse=True)
def fewer_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "SAMPLES", 100)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Tensors here are too small to be worth splitting."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
