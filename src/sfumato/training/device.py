"""Where to compute and how exactly: device, precision, seeds."""

from __future__ import annotations

import ctypes
import platform
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TypeVar

import torch
from torch import nn

from sfumato.errors import SfumatoError, counted

M = TypeVar("M", bound=nn.Module)


def pick_device(name: str = "auto") -> torch.device:
    """The device of that name; "auto" is a GPU where there is one.

    >>> pick_device("cpu")
    device(type='cpu')
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name.startswith("cuda") and not torch.cuda.is_available():
        raise SfumatoError("this machine has no usable CUDA GPU", "use --device cpu")
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).item()  # "mps" and "cuda:9" are well-formed names of what may not be here
    except (RuntimeError, AssertionError):
        raise SfumatoError(f"there is no device '{name}'", "use auto, cpu or cuda") from None
    return device


def keep_freed_memory() -> None:
    """Tell the C library to keep freed blocks for the next step instead of handing them back to the system.

    Every training step on a CPU asks for the same large blocks again, and fetching them anew each time is slow. Does
    nothing where the C library is not glibc.
    """
    if platform.libc_ver()[0] != "glibc":
        return
    libc = ctypes.CDLL("libc.so.6")
    mmap_threshold, trim_threshold = -3, -1  # M_MMAP_THRESHOLD, M_TRIM_THRESHOLD of malloc.h
    libc.mallopt(mmap_threshold, 1 << 30)
    libc.mallopt(trim_threshold, (1 << 31) - 1)


def find_fast_kernels() -> None:
    """Let cuDNN try kernels for every shape it meets: a training has few shapes and many steps."""
    torch.backends.cudnn.benchmark = True


def autocast(device: torch.device) -> AbstractContextManager[object]:
    """bf16 where the hardware is made for it (a GPU), full precision elsewhere."""
    if device.type == "cuda":
        return torch.autocast("cuda", dtype=torch.bfloat16)
    return nullcontext()


def settle(module: M, device: torch.device) -> M:
    """`module` on that device, its convolutions' weights channels-last as the clips come, so that none turns them round.

    >>> settle(nn.Conv2d(3, 8, 3), torch.device("cpu")).weight.is_contiguous(memory_format=torch.channels_last)
    True
    """
    layouts = {4: torch.channels_last, 5: torch.channels_last_3d}
    module = module.to(device)
    for parameter in module.parameters():
        if parameter.ndim in layouts:
            parameter.data = parameter.data.contiguous(memory_format=layouts[parameter.ndim])
    return module


def seeded(seed: int, device: torch.device | str = "cpu") -> torch.Generator:
    """A generator of one's own on that device, so that nobody else's draws move it."""
    return torch.Generator(device=device).manual_seed(seed)


def hardware(device: torch.device) -> str:
    """What the numbers were measured on, in words: 'NVIDIA H200' or 'Intel(R) Xeon(R) …, 2 cores'."""
    if device.type == "cuda":
        return str(torch.cuda.get_device_name(device))
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [
            line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")
        ]
        model = names[0] if names else model
    return f"{model}, {counted(torch.get_num_threads(), 'thread')}"
