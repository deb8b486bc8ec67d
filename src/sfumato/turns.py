"""Processes that would do the same work take turns at it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def turn(work: Path, *, wait: bool = True) -> Iterator[bool]:
    """Whether it is this process's turn at `work`, a file or folder that is there or will be.

    While it is, others that want the same one wait, or are told that it is not theirs. It ends with the process, however
    that ends, and leaves nothing behind.

    >>> with turn(Path("runs/spact")) as mine: ...  # doctest: +SKIP
    """
    work.parent.mkdir(parents=True, exist_ok=True)
    lock = work.with_name(f".{work.name}.turn")
    while True:
        with lock.open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError:
                yield False
                return
            if not _is_at(file.fileno(), lock):  # who had it before has removed the file: there may be a new one
                continue
            try:
                yield True
            finally:
                lock.unlink(missing_ok=True)
            return


def _is_at(descriptor: int, path: Path) -> bool:
    """Whether an open file is still the one of that name."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
