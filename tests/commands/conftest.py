from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from sfumato.cli import main
from sfumato.video import VideoWriter


@dataclass(frozen=True)
class Run:
    """How the command ended and what it showed."""

    code: int
    out: str
    err: str

    @property
    def error(self) -> str:
        """The one line of a mistake the user can mend, without its "error: "; anything else fails the test."""
        assert self.code == 2, self
        (line,) = self.err.splitlines()
        assert line.startswith("error: "), self
        assert ": " in line.removeprefix("error: "), f"says what, but not what next: {line}"
        return line.removeprefix("error: ")


Command = Callable[..., Run]


@pytest.fixture
def sfumato(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs the real command in this process."""

    def run(*arguments: object) -> Run:
        monkeypatch.setattr(sys, "argv", ["sfumato", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main()
        shown = capsys.readouterr()
        return Run(int(end.value.code or 0), shown.out, shown.err)

    return run


@pytest.fixture
def make_video() -> Callable[..., Path]:
    """Writes a video of noise that moves, so that every anonymizer changes it."""

    def make(path: Path, frames: int = 12, size: tuple[int, int] = (32, 48), seed: int = 0) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        picture = np.random.default_rng(seed).integers(0, 255, (*size, 3)).astype(np.uint8)
        with VideoWriter(path, 25, size) as writer:
            for number in range(frames):
                writer.write(np.roll(picture, number, axis=1))
        return path

    return make


@pytest.fixture
def files() -> Callable[[Path], list[str]]:
    """Every file under a folder, hidden ones too."""
    return lambda root: sorted(p.relative_to(root).as_posix() for p in root.rglob("*") if p.is_file())


@pytest.fixture
def minute_theatre(monkeypatch: pytest.MonkeyPatch, small_theatre: Callable[..., object], drawn_once: None) -> None:
    """`theatre:small` so small that a whole judgement takes seconds."""
    small_theatre()
    monkeypatch.setattr("sfumato.commands.judge._EPOCHS", {"tiny": 1})
