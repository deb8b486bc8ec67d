"""What tests in several rooms use."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, wraps
from typing import Any

import pytest
import torch
import typer.main
from torch import Tensor

from sfumato.datasets import theatre
from sfumato.datasets.theatre import TheatreDataset
from sfumato.evaluation.exam import Answers, Exam
from sfumato.evaluation.protocols import known
from sfumato.theatre.script import BALANCED

KEPT: dict[tuple[object, ...], Any] = {}


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "nightly: takes minutes; run by `pytest -m nightly`")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What is nightly runs only where it is asked for."""
    if "nightly" in config.getoption("markexpr", ""):
        return
    for item in items:
        if item.get_closest_marker("nightly"):
            item.add_marker(pytest.mark.skip(reason="nightly: run by `pytest -m nightly`"))


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> None:
    """Clips and networks here are so small that sharing them out costs more than it gives."""
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def again_one_thread() -> Iterator[None]:
    """Whatever a test sets, the next begins with one."""
    yield
    torch.set_num_threads(1)


@pytest.fixture(autouse=True, scope="session")
def one_command() -> Iterator[None]:
    """The options of `sfumato` are put together once, not for every command that is run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.main, "get_command", cache(typer.main.get_command))
        yield


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Nothing is left in the user's own cache, and nothing found there."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))
    monkeypatch.delenv("SFUMATO_CLIP_CACHE", raising=False)


def kept(really: Callable[..., Any]) -> Callable[..., Any]:
    """That method of the theatre, which works out the same thing only once for all tests."""

    def shown(self: TheatreDataset, indices: Tensor, *arguments: object, **options: object) -> Any:
        theatre = (self.name, self.seed, str(self.preset), str(self.attributes))
        about = (really.__name__, *theatre, str(arguments), str(options), *indices.tolist())
        if about not in KEPT:
            KEPT[about] = really(self, indices, *arguments, **options)
        parts = {name: part.clone() for name, part in vars(KEPT[about]).items() if part is not None}
        return replace(KEPT[about], **parts)

    return wraps(really)(shown)


@pytest.fixture
def drawn_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a small theatre has drawn and labelled is shown again: many tests want the same. Its own tests draw anew."""
    for name in ("draw", "labels"):
        monkeypatch.setattr(TheatreDataset, name, kept(getattr(TheatreDataset, name)))


@pytest.fixture
def quick_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new process is a copy of one that has loaded torch and done nothing else, and need not load it by itself.

    It writes where that one did: who asks what processes say starts them as usual.
    """
    bare = multiprocessing.get_context("forkserver")
    bare.set_forkserver_preload(["sfumato.datasets.decoding", "torch._dynamo", "torch.distributed.nn.functional"])
    monkeypatch.setattr(multiprocessing, "get_context", lambda _: bare)


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


@pytest.fixture
def small_theatre(monkeypatch: pytest.MonkeyPatch) -> Callable[..., theatre.Preset]:
    """Called, it makes `theatre:small` one of a minute: two actions, two people in training; what is given is otherwise."""

    def shrink(**changes: Any) -> theatre.Preset:
        minute = {
            "side": 16, "frames": 2, "cast": (2, 1, 1), "sizes": (24, 24, 24), "prevalence": BALANCED,
            "action_names": ("raise hand", "jumping jack"),
        }  # fmt: skip
        small = replace(theatre.PRESETS["small"], **(minute | changes))
        monkeypatch.setitem(theatre.PRESETS, "small", small)
        return small

    return shrink
