"""What the command shows while it works: bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (  # fmt: skip
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

# Off a terminal there is no width to ask for: 100 columns hold every table without folding.
out = Console(width=None if sys.stdout.isatty() else 100)
err = Console(stderr=True)


def say(text: str, *, console: Console = out, style: str | None = None) -> None:
    """One line as it is: never folded, and a file called `[bold].mp4` keeps its name.

    >>> say("hidden.mp4: 20 frames with blur")
    """
    console.print(text, style=style, highlight=False, markup=False, soft_wrap=True)


def warn(text: str) -> None:
    """What is worth knowing before a result is used: one yellow line on standard error.

    >>> warn("'cut.avi' is damaged (it ends after 4.0 of 8.0 s)")
    """
    say(f"warning: {text}", console=err, style="yellow")


def say_left_out(problems: Sequence[str]) -> None:
    """Rows of a user's own data that had to be left out: the first few, and how many more.

    >>> say_left_out(["index.csv line 7: there is no file 'a.mp4'"])
    """
    for line in problems[:5]:
        say(f"left out: {line}", console=err, style="yellow")
    if len(problems) > 5:
        say(f"… and {len(problems) - 5} more", console=err, style="yellow")


def bars() -> Progress:
    """The one look of all progress bars, on standard error, so that standard output stays clean for results.

    Off a terminal nothing is drawn: a log would only get empty lines.
    """
    return Progress(
        SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(bar_width=24), MofNCompleteColumn(),
        TimeElapsedColumn(), TextColumn("eta"), TimeRemainingColumn(),
        TextColumn("{task.fields[status]}", style="dim", markup=False),
        console=err, transient=True, disable=not err.is_terminal,
    )  # fmt: skip


SECONDS_APART = 10.0  # of two lines in a log
SECONDS_APART_UNCOUNTED = 60.0  # where there are no tenths to wait for


@contextmanager
def advance(what: str, status: str) -> Iterator[Callable[[int, int | None], None]]:
    """A bar for frames; gives what is to be called with (done, total or None) after each one.

    Off a terminal a line for every tenth, but not more than one in ten seconds: short files say nothing.

    >>> with advance("clip.mp4", "blur") as show:
    ...     show(1, 20)
    """
    with bars() as progress:
        task = progress.add_task(what, total=None, status=status)
        said, tenths = time.monotonic(), 0

        def show(done: int, total: int | None) -> None:
            nonlocal said, tenths
            progress.update(task, completed=done, total=total)
            now = time.monotonic()
            if err.is_terminal or now - said < (SECONDS_APART if total else SECONDS_APART_UNCOUNTED):
                return
            reached = 10 * done // total if total else tenths + 1
            if reached > tenths and (total is None or done < total):
                share = f"{100 * done // total}%, " if total else ""
                of = f" of {total}" if total else ""
                say(f"{what}: {share}{done}{of} frames", console=err)
                said, tenths = now, reached

        yield show


class Monitor:
    """Shows where a judgement stands; its three methods are what `evaluation` calls."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.task = progress.add_task("judging", total=None, status="")
        self.finished = 0
        self.trainings = 0

    def total(self, trainings: int) -> None:
        """How many trainings there will be."""
        self.trainings = trainings
        self.progress.update(self.task, total=trainings)

    def done(self, what: str) -> None:
        """One more is done: on a terminal the bar moves, elsewhere a line is printed."""
        self.finished += 1
        self.progress.advance(self.task)
        if not err.is_terminal:
            say(f"[{self.finished}/{self.trainings}] {what}", console=err)

    def status(self, text: str) -> None:
        """What is going on right now."""
        self.progress.update(self.task, status=text)


@contextmanager
def monitored() -> Iterator[Monitor]:
    """A judgement's progress, shown for as long as the block runs."""
    with bars() as progress:
        yield Monitor(progress)
