"""What tests in several rooms use."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from sfumato.evaluation.exam import Answers, Exam
from sfumato.evaluation.protocols import known


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Clips and networks here are so small that sharing them out costs more than it gives."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Nothing is left in the user's own cache, and nothing found there."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))
    monkeypatch.delenv("SFUMATO_CLIP_CACHE", raising=False)


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The name of every exam that is sat, and so trained for, from now on."""
    names: list[str] = []
    really = known.sit

    def sit(exam: Exam, *arguments: Any, **options: Any) -> Answers:
        names.append(exam.name)
        return really(exam, *arguments, **options)

    monkeypatch.setattr(known, "sit", sit)
    return names
