from __future__ import annotations

import pytest
import torch

from sfumato.errors import SfumatoError, counted
from sfumato.training.device import autocast, hardware, pick_device, seeded


def test_auto_is_a_gpu_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert pick_device("auto") == pick_device("cpu") == torch.device("cpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert pick_device("auto") == torch.device("cuda")


@pytest.mark.parametrize("name", ["gpu", "", "cpu:x", "meta", "cuda:99"])
def test_a_device_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with pytest.raises(SfumatoError, match=f"there is no device '{name}': use auto, cpu or cuda"):
        pick_device(name)


@pytest.mark.parametrize("name", ["cuda", "cuda:1"])
def test_without_a_gpu_cuda_is_refused(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SfumatoError, match="no usable CUDA GPU: use --device cpu"):
        pick_device(name)


def test_a_generator_of_ones_own_is_moved_by_nobody() -> None:
    first = torch.rand(3, generator=seeded(5))
    torch.manual_seed(0)
    torch.rand(7)
    assert torch.rand(3, generator=seeded(5)).equal(first)
    assert not torch.rand(3, generator=seeded(6)).equal(first)


def test_a_cpu_computes_in_full_precision() -> None:
    with autocast(torch.device("cpu")):
        assert (torch.ones(4, 4) @ torch.ones(4, 4)).dtype == torch.float32


def test_hardware_is_told_in_words() -> None:
    assert hardware(torch.device("cpu")).endswith(f", {counted(torch.get_num_threads(), 'thread')}")
