"""Many files decoded side by side, each by one thread of one process."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import uuid
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import BinaryIO, TypeVar

import numpy as np
import torch
from torch import Tensor

from sfumato.errors import SfumatoError
from sfumato.video import probe, read_clip, read_frames, scaled_to
from sfumato.video.decode import Frame, Size

Item = TypeVar("Item")
Result = TypeVar("Result")
# Finished work waits for its turn; more than this per worker would only fill the memory.
AHEAD = 3
PATIENCE = 0.1  # seconds after which who waits for a process looks whether Ctrl-C was pressed


def frames_at(path: str | Path, size: Size, *, fps: Fraction | None = None, strict: bool = True) -> Iterator[Frame]:
    """Every frame as uint8 (H, W, 3) of that size, by one thread; fps and damage as in `video.read_frames`.

    >>> next(frames_at("street.mp4", 128)).shape  # doctest: +SKIP
    (128, 228, 3)
    """
    return read_frames(path, size=size, threads=1, fps=fps, strict=strict, warn=lambda _: None)


def read_window(path: str | Path, indices: Sequence[int], size: Size, fps: Fraction | None = None) -> Tensor:
    """The frames of these indices, uint8 (T, 3, H, W): as `video.read_clip`, also by short side and on another rate.

    >>> read_window("street.mp4", [0, 2, 4], 128, Fraction(25)).shape  # doctest: +SKIP
    torch.Size([3, 3, 128, 228])
    """
    if fps is None:
        if isinstance(size, int):
            info = probe(path)
            size = scaled_to(info.height, info.width, size)
        return read_clip(path, indices, size)
    if not indices or min(indices) < 0:
        raise SfumatoError(f"frames {list(indices)} cannot be read", "ask for one or more indices from 0 on")
    pictures: dict[int, Frame] = {}
    wanted, last = set(indices), max(indices)
    for number, picture in enumerate(frames_at(path, size, fps=fps, strict=False)):
        if number in wanted:
            pictures[number] = picture
        if number == last:
            break
    else:
        raise SfumatoError(
            f"'{path}' has {number + 1} frames at {fps} a second, not {last + 1}", "ask for fewer frames"
        )
    return torch.from_numpy(np.stack([pictures[index] for index in indices])).permute(0, 3, 1, 2).contiguous()


def cores() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_order(
    job: Callable[[Item], Result], items: Iterable[Item], *, workers: int, strict: bool, tell: Callable[[Item, str], object]
) -> Iterator[tuple[Item, Result]]:  # fmt: skip
    """(item, job(item)) in the order of the items, worked on by that many processes; one means this process.

    An item whose job raises a SfumatoError, or kills its process, is told once and left out; with `strict` it is raised.
    `job` travels to the other processes: a function of a module, or a `functools.partial` of one.

    >>> list(in_order(abs, [-1, 2], workers=1, strict=True, tell=print))
    [(-1, 1), (2, 2)]
    """
    outcomes = _alone(job, items) if workers == 1 else _side_by_side(job, items, workers)
    with closing(outcomes):
        for item, outcome in outcomes:
            if not isinstance(outcome, _Failed):
                yield item, outcome
            elif strict:
                raise SfumatoError(outcome.what, outcome.next_step or "mend it, or run without --strict")
            else:
                tell(item, str(SfumatoError(outcome.what, outcome.next_step)))


@dataclass(frozen=True)
class _Failed:
    """A SfumatoError that has travelled: an exception arrives from another process with its two parts run together."""

    what: str
    next_step: str


def _tried(job: Callable[[Item], Result], item: Item) -> Result | _Failed:
    try:
        return job(item)
    except SfumatoError as error:
        return _Failed(error.what, error.next_step)


def _alone(
    job: Callable[[Item], Result], items: Iterable[Item]
) -> Generator[tuple[Item, Result | _Failed], None, None]:
    return ((item, _tried(job, item)) for item in items)


def _side_by_side(
    job: Callable[[Item], Result], items: Iterable[Item], workers: int
) -> Generator[tuple[Item, Result | _Failed], None, None]:
    with _interrupts_noted() as interrupted:
        yield from _dealt_out(job, iter(items), workers, interrupted)


def _dealt_out(
    job: Callable[[Item], Result], source: Iterator[Item], workers: int, interrupted: threading.Event
) -> Iterator[tuple[Item, Result | _Failed]]:
    pool = _pool(workers)
    waiting: deque[tuple[Item, Future[Result | _Failed]]] = deque()
    try:
        while True:
            for item in islice(source, AHEAD * workers - len(waiting)):
                waiting.append((item, _submitted(pool, job, item)))
            if not waiting:
                return
            item, future = waiting.popleft()
            _await(future, interrupted)
            try:
                outcome = future.result()
            except BrokenProcessPool:
                # One of those under way killed its process, and all of them are lost with it: each again, by itself.
                lost = [item, *(other for other, _ in waiting)]
                waiting.clear()
                yield from _one_by_one(job, lost)
                pool.shutdown()
                pool = _pool(workers)
                continue
            yield item, outcome
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _await(future: Future[Result], interrupted: threading.Event) -> None:
    """Until it is done, or Ctrl-C was pressed."""
    while not interrupted.is_set():
        if wait([future], timeout=PATIENCE).done:
            return
    raise KeyboardInterrupt


@contextmanager
def _interrupts_noted() -> Iterator[threading.Event]:
    """Ctrl-C is noted and obeyed where nothing is half done: raised inside the pool it may leave it waiting for ever."""
    interrupted = threading.Event()
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or before is signal.SIG_IGN:
        yield interrupted
        return

    def note(number: int, frame: FrameType | None) -> None:
        interrupted.set()

    signal.signal(signal.SIGINT, note)
    try:
        yield interrupted
    finally:
        signal.signal(signal.SIGINT, before or signal.SIG_DFL)


def _submitted(pool: ProcessPoolExecutor, job: Callable[[Item], Result], item: Item) -> Future[Result | _Failed]:
    try:
        return pool.submit(_tried, job, item)
    except BrokenProcessPool as error:  # found out now, told in the item's turn
        future: Future[Result | _Failed] = Future()
        future.set_exception(error)
        return future


def _one_by_one(job: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[tuple[Item, Result | _Failed]]:
    """Each item in a process that works on nothing else meanwhile, and that it may kill."""
    pool = _pool(1)
    try:
        for item in items:
            try:
                outcome = pool.submit(_tried, job, item).result()
            except BrokenProcessPool:
                outcome = _Failed(f"'{item}' ended the process that worked on it", "leave it out, or convert it first")
                pool.shutdown()
                pool = _pool(1)
            yield item, outcome
    finally:
        pool.shutdown()


def _pool(workers: int) -> ProcessPoolExecutor:
    # Not forked: a copy of a process whose threads hold locks may wait for them for ever.
    return ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), initializer=_start_worker)


def _start_worker() -> None:
    """Ctrl-C is for the parent; and the cores are taken by the other workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)


@contextmanager
def appearing_whole(path: Path) -> Iterator[BinaryIO]:
    """A file to write to that gets its name when the block ends well, and vanishes otherwise.

    The name it has until then is nobody else's: of other threads, processes or machines that write the same file.

    >>> with appearing_whole(Path("00000.tar")) as file: file.write(b"…")  # doctest: +SKIP
    """
    part = path.with_name(f".{path.name}.{uuid.uuid4().hex}.part")
    try:
        with part.open("xb") as file:
            yield file
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
