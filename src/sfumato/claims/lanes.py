"""Does the jobs of one or several plans, in processes side by side where a GPU or a CPU has room for them."""

from __future__ import annotations

import multiprocessing as mp
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple

import torch

from sfumato.claims.bench import Desk, Job, Plan
from sfumato.claims.rows import Row
from sfumato.commands.console import err, say
from sfumato.datasets.decoding import cores
from sfumato.errors import SfumatoError
from sfumato.training.device import pick_device

Task = tuple[Plan, Job]


def usual_lanes(device: str) -> int:
    """How many processes share a device unless it is said: one for each CPU core, at most four, as each holds torch and all
    clips; on a GPU one, since how much room there is depends on the trainings.

    >>> 1 <= usual_lanes("cpu") <= 4
    True
    """
    return min(4, cores()) if pick_device(device).type == "cpu" else 1


def in_lanes_order(tasks: Sequence[Task]) -> list[Task]:
    """The tasks of several plans as lanes had best take them: seed after seed, and cut into single judgements.

    Whatever shares a training comes after it, and after all that begin one: who waits for a training holds up a lane.
    """
    single = [(plan, (trial, seed, [at])) for plan, (trial, seed, strengths) in tasks for at in strengths]
    begun: set[tuple[Any, ...]] = set()
    keyed = []
    for plan, (trial, seed, strength) in single:
        training = (trial.training or trial.name, trial.method, *trial.settings(), plan.data, seed)
        keyed.append(((seed, training in begun), (plan, (trial, seed, strength))))
        begun |= {training} if trial.method else set()
    return [task for _, task in sorted(keyed, key=lambda each: each[0])]


def run_jobs(plan: Plan, todo: Sequence[Job]) -> Iterator[Row]:
    """The rows of those jobs, as they get ready. What cannot be done is told at the end: the others go on without it."""
    return (row for _, row in run_tasks([(plan, job) for job in todo], plan.lanes))


def run_tasks(tasks: Sequence[Task], lanes: int) -> Iterator[tuple[Plan, Row]]:
    """As `run_jobs`, for jobs of several plans, which share the lanes: none stands still because one plan has few jobs left."""
    failed: list[str] = []
    for plan, found in _work(tasks, lanes):
        if isinstance(found, str):
            failed.append(found)
        else:
            yield plan, found
    if failed:
        raise SfumatoError(
            f"{len(failed)} of {len(tasks)} trials could not be done (first: {failed[0]})",
            "what is done is kept: run again to go on",
        )


class Desks:
    """The desks of one process, one for each plan, set up when it is first needed."""

    def __init__(self) -> None:
        self._open: dict[Plan, Desk] = {}

    def of(self, plan: Plan) -> Desk:
        """The desk for that plan."""
        if plan not in self._open:
            self._open[plan] = plan.open()
        return self._open[plan]

    def begin(self, plan: Plan) -> None:
        """What is done for all. What cannot be done every job of the plan will tell, by name."""
        with suppress(SfumatoError):
            self.of(plan).begin()

    def rows(self, plan: Plan, job: Job) -> Iterator[Row | str]:
        """The rows of a job; where it cannot be done, why."""
        try:
            yield from self.of(plan).rows(*job)
        except SfumatoError as error:
            yield f"{job[0].name}, seed {job[1]}: {error}"

    def assist(self, plan: Plan, job: Job) -> None:
        """Help with a job of another process. What cannot be done that one will tell."""
        with suppress(SfumatoError):
            self.of(plan).assist(*job)


class Order(NamedTuple):
    """What a lane is to do for a plan: the task of that number, or help with it; without a number: what is done for all."""

    plan: Plan
    job: Job | None = None
    number: int | None = None
    assist: bool = False

    def announce(self, tasks: int) -> None:
        """What begins, on standard error: some tasks take minutes, and until they are done there is no row to show."""
        if self.job and self.number is not None and not self.assist:
            trial, seed, strengths = self.job
            at = "".join(f" at {strength:g}" for strength in strengths if strength is not None)
            say(f"{self.number + 1} of {tasks} begins: {trial.name}{at}, seed {seed}", console=err, style="dim")

    def left(self) -> Order:
        """The same when one more of its rows is there."""
        trial, seed, strengths = self.job or (None, 0, [])
        return self._replace(job=(trial, seed, strengths[1:])) if trial else self


News = Row | str | None  # a row, or why there is none; None: that the lane is free


class Foreman:
    """Who gets what next: raw video first, for all, while other lanes begin to train; at the end, who is free helps."""

    def __init__(self, plans: Sequence[Plan], tasks: Sequence[Task]) -> None:
        self._waiting = [
            *(Order(plan) for plan in plans),
            *(Order(plan, job, number) for number, (plan, job) in enumerate(tasks)),
        ]
        self._running: dict[int, Order] = {}  # of which something may be left to take over
        self._broken: list[Order] = []  # that a lane broke down at

    def next_order(self, finished: Order | None) -> Order | None:
        """The next order for a lane that is free, having finished that one; None: nothing is left to do.

        Who has helped with a task has taken over all that was free of it, so that nobody need help again.
        """
        if finished and finished.number is not None:
            self._running.pop(finished.number, None)
        if self._waiting:
            order = self._waiting.pop(0)
            if order.number is not None:
                self._running[order.number] = order
            return order
        if not self._running:
            return None
        number, order = self._running.popitem()  # begun last, so it has most left
        self._running = {number: order, **self._running}  # the next who is free helps with another one
        return order._replace(assist=True)

    def take_back(self, order: Order) -> bool:
        """Give the order of a lane that broke down to the next who is free; False: it is the second lane that broke at it."""
        first = all((order.plan, order.number) != (other.plan, other.number) for other in self._broken)
        self._broken.append(order)
        if order.number is not None:
            self._running.pop(order.number, None)
        if order.job is None or order.job[2]:
            self._waiting.insert(0, order)
        return first


def _work(tasks: Sequence[Task], lanes: int) -> Iterator[tuple[Plan, Row | str]]:
    plans = list(dict.fromkeys(plan for plan, _ in tasks))
    for plan in plans:
        plan.prepare()
    if lanes == 1 or not tasks:
        desks = Desks()
        for number, (plan, job) in enumerate(tasks):
            Order(plan, job, number).announce(len(tasks))
            yield from ((plan, found) for found in desks.rows(plan, job))
        return
    foreman = Foreman(plans, tasks)
    crew = [_begin(lanes) for _ in range(lanes)]
    while crew:
        ready = wait([lane.line for lane in crew])
        for lane in [lane for lane in crew if lane.line in ready]:
            try:
                found: News = lane.line.recv()
            except (EOFError, OSError):
                crew.remove(lane)
                crew += _replacement(lane, foreman, lanes)
                continue
            if found is not None and lane.order:
                yield lane.order.plan, found
                lane.order = lane.order.left()
                continue
            lane.order = foreman.next_order(lane.order)
            if lane.order:
                lane.order.announce(len(tasks))
            with suppress(BrokenPipeError):  # it broke down just now, which is seen when it is listened to
                lane.line.send(lane.order)
            if lane.order is None:
                crew.remove(lane)


@dataclass
class Lane:
    """A process, the line to it, and what it is at."""

    process: mp.process.BaseProcess
    line: Connection
    order: Order | None = None


def _begin(lanes: int) -> Lane:
    context = mp.get_context("spawn")
    line, theirs = context.Pipe()
    process = context.Process(target=_lane, args=(theirs, lanes), daemon=True)
    process.start()
    theirs.close()  # so that the line ends where the process does
    return Lane(process, line)


def _replacement(lane: Lane, foreman: Foreman, lanes: int) -> list[Lane]:
    """A new lane for one that broke down, whose work is begun again; but not where that broke a lane down before."""
    lane.process.join()
    if lane.order and lane.order.assist:
        return []  # who only helped is not missed
    if lane.order is None or not foreman.take_back(lane.order):
        raise SfumatoError("a lane broke down, see above", "what is done is kept: run again to go on")
    say("a lane broke down, see above: its work goes to another", console=err, style="yellow")
    return [_begin(lanes)]


def _lane(line: Connection, lanes: int) -> None:
    """One process that does what it is told until nothing is left, and says when it is free."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(max(1, torch.get_num_threads() // lanes))
    desks = Desks()
    while True:
        line.send(None)
        order: Order | None = line.recv()
        if order is None:
            return
        if order.job is None:
            desks.begin(order.plan)
        elif order.assist:
            desks.assist(order.plan, order.job)
        else:
            for found in desks.rows(order.plan, order.job):
                line.send(found)


def _end_with_parent() -> None:
    """A command that is killed cannot stop its lanes, and for hours nobody would listen to them."""
    if parent := mp.parent_process():
        parent.join()
        os._exit(1)
