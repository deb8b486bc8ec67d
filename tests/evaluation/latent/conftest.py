from __future__ import annotations

import pytest

from sfumato.evaluation import scoring


@pytest.fixture(autouse=True)
def fewer_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "SAMPLES", 100)
