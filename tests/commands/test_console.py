from __future__ import annotations

import io

import pytest
from rich.console import Console

from sfumato.commands import console
from sfumato.commands.console import bars, monitored, say

LONG = "[bold]" + "a long name " * 20 + "[/bold].mp4"


def test_a_line_is_never_folded_and_keeps_its_brackets(capsys: pytest.CaptureFixture[str]) -> None:
    say(LONG)
    say(LONG, console=console.err, style="yellow")
    shown = capsys.readouterr()
    assert shown.out == shown.err == f"{LONG}\n"


def test_off_a_terminal_bars_draw_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with bars() as progress:
        task = progress.add_task("clip.mp4", total=2, status="blur")
        progress.update(task, completed=1)
    assert capsys.readouterr() == ("", "")


def test_off_a_terminal_a_judgement_tells_every_training(capsys: pytest.CaptureFixture[str]) -> None:
    with monitored() as monitor:
        monitor.total(2)
        monitor.status("epoch 1/2")
        monitor.done("blur: action")
        monitor.done("blur: frame")
    assert capsys.readouterr() == ("", "[1/2] blur: action\n[2/2] blur: frame\n")


def test_on_a_terminal_a_bar_shows_names_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(console, "err", Console(file=screen, force_terminal=True, width=160, color_system=None))
    with bars() as progress:
        progress.add_task("[red]clip.mp4", total=2, status="[dim]blur")
        progress.refresh()
    assert "[red]clip.mp4" in screen.getvalue() and "[dim]blur" in screen.getvalue()
