"""Where many clips are held."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
import torch

from sfumato.errors import SfumatoError
from sfumato.training import room
from sfumato.training.room import home_of, host_memory, reserve

CPU, GPU = torch.device("cpu"), torch.device("cuda")


def test_the_first_that_has_room_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "host_memory", lambda: 1000)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (80, 200))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 50)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 30)
    assert [home_of(size, GPU) for size in (90, 91, 900, 901)] == [GPU, CPU, CPU, None]  # nine tenths of what is free
    assert [home_of(size, CPU) for size in (90, 900, 901)] == [CPU, CPU, None]
    assert home_of(10**9, torch.device("mps")) == torch.device("mps")


def test_a_container_may_have_less_than_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    told = {"/proc/meminfo": "MemTotal: 9000 kB\nMemAvailable: 5000 kB\n", "/sys/fs/cgroup/memory.max": "max\n"}

    def read(path: Path) -> str:
        if str(path) not in told:
            raise FileNotFoundError
        return told[str(path)]

    monkeypatch.setattr(Path, "read_text", read)
    assert host_memory() == 5000 * 1024
    told["/sys/fs/cgroup/memory.current"] = "1000\n"
    assert host_memory() == 5000 * 1024  # no limit
    told["/sys/fs/cgroup/memory.max"] = "3000\n"
    assert host_memory() == 2000
    told.clear()
    assert host_memory() > 0


def test_a_file_is_gone_from_the_folder_before_anything_is_written(tmp_path: Path) -> None:
    held = reserve((300, 4, 5), None, tmp_path)
    held[:] = torch.arange(5, dtype=torch.uint8)
    assert (held.shape, held.dtype, int(held[299, 3, 4])) == ((300, 4, 5), torch.uint8, 4)
    assert not list(tmp_path.iterdir())
    assert reserve((2, 3), CPU, tmp_path / "nowhere").shape == (2, 3)


def test_a_disk_without_room_is_told_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(room.os, "posix_fallocate", full)
    with pytest.raises(SfumatoError, match=r"has no room for 2\.0 GB of clips \(No space left on device\): free some"):
        reserve((1000, 2_000_000), None, tmp_path)
    assert not list(tmp_path.iterdir())
