from __future__ import annotations

import pytest

from sfumato.evaluation import scoring
from sfumato.evaluation.latent import detection


@pytest.fixture(autouse=True)
def fewer_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "SAMPLES", 100)


@pytest.fixture(autouse=True)
def fewer_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """What an untrained TriDet finds, nearly everything, takes longer to sort than its training."""
    monkeypatch.setattr(detection, "CHECKS", 2)
