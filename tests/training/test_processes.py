"""Two real processes against one with the double batch."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import Tensor, nn

from sfumato.errors import SfumatoError
from sfumato.training import processes
from sfumato.training.processes import (
    Crew,
    average_gradients,
    current,
    device_of,
    gather,
    launch,
    mean_over_crew,
    same_everywhere,
    synchronise_norms,
)
from sfumato.training.run import RunFolder

CUDA = torch.device("cuda")
Facts = dict[str, Tensor]


@pytest.fixture
def crew_work(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The workers' module, found on sys.path, which spawned processes inherit."""
    monkeypatch.syspath_prepend(Path(__file__).parent)
    return import_module("crew_work")


@pytest.mark.usefixtures("quick_processes")
def test_two_processes_do_what_one_does_with_the_double_batch(tmp_path: Path, crew_work: ModuleType) -> None:
    torch.set_num_threads(6)
    launch(crew_work.write, 2, tmp_path)
    torch.set_num_threads(1)
    alone: Facts = crew_work.study()

    for rank in (0, 1):
        study: Facts = torch.load(tmp_path / f"study-{rank}.pt", weights_only=True)
        assert study.keys() == alone.keys()
        assert {"float32 loss contrast 1", "float64 state video.1.running_var"} < study.keys()
        assert not any("gradient unused" in name for name in study)
        for name, value in alone.items():
            atol = 1e-5 if name.startswith("float32") else 1e-9
            assert torch.allclose(study[name], value, rtol=atol, atol=atol), name

        found: Facts = torch.load(tmp_path / f"by-hand-{rank}.pt", weights_only=True)
        assert {name: value.tolist() for name, value in found.items()} == {
            "crew": [rank, 2],
            "threads": 3,
            "labels": [[0, 8], [7, 9], [1, 8], [7, 9]],
            "gathered": [[1, -1], [2, -1]],
            # Twice the own row's coefficients: averaging over two processes halves them again.
            "gradient": [[20, 2]] if rank == 0 else [[40, 4]],
            "both": [[2], [2]],
            "second only": [[2], [2]],
            "mean": 2,
            "broadcast": [5, 5, 1],
        }


def test_a_mistake_in_one_process_ends_all_and_is_the_parents(
    crew_work: ModuleType, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(SfumatoError, match=r"^the loss is not a number: lower the learning rate$") as caught:
        launch(crew_work.fail, 2)
    assert caught.value.next_step == "lower the learning rate"
    assert capfd.readouterr() == ("", "") and caplog.messages == []


@pytest.fixture
def interruptible() -> Iterator[None]:
    """What a shell starts in the background ignores interrupts, and so would these tests."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible", "quick_processes")
def test_an_interrupt_ends_all_and_lets_them_save(tmp_path: Path, crew_work: ModuleType) -> None:
    with pytest.raises(KeyboardInterrupt):
        launch(crew_work.interrupted, 2, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["saved-0", "saved-1"]


@pytest.mark.usefixtures("interruptible", "quick_processes")
def test_an_interrupted_training_of_several_ends_its_step_and_goes_on_from_there(
    tmp_path: Path, crew_work: ModuleType
) -> None:
    run = RunFolder.open(tmp_path / "run", {"method": "toy", "config": {}, "seed": 0}, resume=False)
    with pytest.raises(KeyboardInterrupt):
        launch(crew_work.play, 2, tmp_path)
    first, second = (int((tmp_path / f"steps-{rank}").read_text()) for rank in (0, 1))
    state = run.load_checkpoint(torch.device("cpu"))
    assert state is not None and first == second == state["step"] == state["trained"]["steps"] >= 3


def test_one_device_works_in_this_process() -> None:
    seen: list[Crew] = []
    launch(lambda crews: crews.append(current()), 1, seen)
    assert seen == [Crew(0, 1)]


def test_alone_everything_stays_as_it_is() -> None:
    x = torch.rand(3, 2, requires_grad=True)
    assert gather(x) is x and Crew().share(x).equal(x) and Crew().main

    layer = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    before = {name: value.clone() for name, value in layer.state_dict().items()}
    assert synchronise_norms(layer) is layer and type(layer[1]) is nn.BatchNorm1d
    same_everywhere(layer)
    average_gradients(layer.parameters())
    assert all(value.equal(before[name]) for name, value in layer.state_dict().items())
    assert all(parameter.grad is None for parameter in layer.parameters())
    logged = mean_over_crew({"loss": x.sum()})["loss"]
    assert logged == x.sum() and not logged.requires_grad


def test_shares_are_contiguous_and_even() -> None:
    rows = torch.arange(6)
    assert [Crew(rank, 3).share(rows).tolist() for rank in range(3)] == [[0, 1], [2, 3], [4, 5]]
    assert [Crew(rank, 3).main for rank in range(3)] == [True, False, False]
    with pytest.raises(
        SfumatoError, match="a batch of 6 cannot be shared evenly among 4 processes: use a multiple of 4"
    ):
        Crew(0, 4).share(rows)


def test_every_process_has_a_gpu_to_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert [device_of(Crew(rank, 2), CUDA) for rank in (0, 1)] == [torch.device("cuda:0"), torch.device("cuda:1")]
    assert device_of(Crew(), torch.device("cuda:1")) == torch.device("cuda:1")
    assert device_of(Crew(7, 8), torch.device("cpu")) == torch.device("cpu")


@pytest.mark.parametrize(
    ("devices", "message"),
    [
        (3, "3 processes need 3 GPUs, and this machine has 2: use --devices 2, or --device cpu"),
        (0, "training cannot run on 0 devices: use --devices 1 or more"),
    ],
)
def test_what_cannot_run_is_not_started(monkeypatch: pytest.MonkeyPatch, devices: int, message: str) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(processes.mp, "spawn", lambda *_, **__: pytest.fail("a process was started"))
    with pytest.raises(SfumatoError, match=message):
        launch(print, devices, device=CUDA)
