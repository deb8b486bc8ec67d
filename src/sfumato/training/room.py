"""Where many clips are held: on the device, in the host's memory, or in a file, the first of them that has room."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from math import prod
from pathlib import Path

import torch
from torch import Tensor

from sfumato.errors import SfumatoError

CPU = torch.device("cpu")
SHARE = 0.9  # of what is free, how much may be filled


def home_of(size: float, device: torch.device) -> torch.device | None:
    """The device if it has room for so many bytes, else the CPU if the host's memory has; None: neither.

    >>> home_of(1000, torch.device("cpu"))
    device(type='cpu')
    """
    if device.type == "cuda" and size <= SHARE * _free_on(device):
        return device
    if device.type not in ("cuda", "cpu"):
        return device  # shares the host's memory
    return CPU if size <= SHARE * host_memory() else None


def _free_on(device: torch.device) -> int:
    """Bytes that are free on a GPU, with those that are only kept for later."""
    kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return torch.cuda.mem_get_info(device)[0] + kept


def host_memory() -> int:
    """Bytes of the host's memory that can be had without pushing anything out.

    >>> host_memory() > 0
    True
    """
    found = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2  # where nobody tells more
    with suppress(OSError, StopIteration):
        lines = Path("/proc/meminfo").read_text().splitlines()
        found = 1024 * next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
    group = Path("/sys/fs/cgroup")  # in a container there may be less than the machine has
    with suppress(OSError, ValueError):
        limit, used = ((group / f"memory.{name}").read_text() for name in ("max", "current"))
        found = min(found, int(limit) - int(used))
    return found


def reserve(shape: Sequence[int], home: torch.device | None, folder: Path) -> Tensor:
    """Room for that many bytes, uint8, in its home; without one, in a file in the folder that goes with the tensor.

    >>> reserve((2, 3), torch.device("cpu"), Path()).shape
    torch.Size([2, 3])
    """
    if home is not None:
        return torch.empty(tuple(shape), dtype=torch.uint8, device=home)
    size = prod(shape)
    # The name is gone at once, the file when nobody uses it any more: a run that is killed leaves nothing.
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".clips-") as file:
        try:
            os.posix_fallocate(file.fileno(), 0, size)  # a disk that fills up later would kill the run
        except OSError as error:
            raise SfumatoError(
                f"'{folder}' has no room for {size / 1e9:.1f} GB of clips ({error.strerror})",
                "free some space, or choose another folder",
            ) from None
        return torch.from_file(file.name, shared=True, size=size, dtype=torch.uint8).view(tuple(shape))
