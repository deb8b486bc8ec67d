"""Where numbers come from: the commit of the code and the versions of what it stands on."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path

import torch

from sfumato import __version__
from sfumato.writing import source_digest

_PACKAGE = Path(__file__).parents[1]
# All that a fresh recognizer's answers can depend on: imports only go down, and the judge knows no method.
JUDGING = (
    *(f"{room}/**/*.py" for room in (
        "video", "theatre", "datasets", "recognizers", "objectives", "anonymizers", "training", "evaluation",
    )),
    *(f"{module}.py" for module in ("__init__", "errors", "hub", "registry", "turns", "writing")),
)  # fmt: skip


def versions() -> dict[str, str]:
    """Versions of Python, Sfumato and torch."""
    return {"python": platform.python_version(), "sfumato": __version__, "torch": torch.__version__}


def code_digest() -> str:
    """SHA-256 over all of the package's own source: what was computed by other code is not what this code would compute."""
    return source_digest("**/*.py")


def judging_digest() -> str:
    """SHA-256 over the source that a judgement depends on: a new report page or method does not undo what was judged."""
    return source_digest(*JUDGING)


def commit() -> str:
    """The commit this code was checked out from, with "+changes" if edited since; "unknown" outside a checkout.

    Where code travels without its repository, `SFUMATO_COMMIT` says which commit it is.
    """
    if told := os.environ.get("SFUMATO_COMMIT"):
        return told

    def git(*arguments: str) -> str | None:
        try:
            done = subprocess.run(
                ["git", *arguments], cwd=_PACKAGE, capture_output=True, text=True, timeout=10, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    head = git("rev-parse", "--short=12", "HEAD")
    if not head:
        return "unknown"
    return head + ("+changes" if git("status", "--porcelain", "--", ".") else "")
