from __future__ import annotations

import pytest

from sfumato.recognizers.vlm import VideoLanguageModel

from .checkpoints import FAMILIES, load_family


@pytest.fixture(scope="package", params=FAMILIES)
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> VideoLanguageModel:
    """Every family; frozen, so that the tests can share it."""
    return load_family(request.param, tmp_path_factory.mktemp("checkpoint"))
