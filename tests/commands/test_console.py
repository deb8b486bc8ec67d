from __future__ import annotations

import io

import pytest
from rich.console import Console

from sfumato.commands import console
from sfumato.commands.console import advance, bars, monitored, say

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


def test_off_a_terminal_a_log_gets_a_tenth_at_a_time_and_not_too_often(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = [0.0]
    monkeypatch.setattr(console.time, "monotonic", lambda: clock[0])
    with advance("a.mp4", "blur") as show:
        for done in range(1, 1001):  # a minute: six lines, not ten
            clock[0] += 1 / 16
            show(done, 1000)
    lines = capsys.readouterr().err.splitlines()
    assert lines == [f"a.mp4: {share}%, {10 * share} of 1000 frames" for share in (16, 32, 48, 64, 80, 96)]
    with advance("b.mkv", "blur") as show:
        for done in range(1, 131):
            clock[0] += 1.0
            show(done, None)
    assert capsys.readouterr().err.splitlines() == ["b.mkv: 60 frames", "b.mkv: 120 frames"]
