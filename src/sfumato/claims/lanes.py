"""Does the jobs of one or several plans, in processes side by side where a GPU or a CPU has room for them."""

from __future__ import annotations

import multiprocessing as mp
import queue
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from sfumato.claims.bench import Desk, Job, Plan, Row
from sfumato.errors import SfumatoError

Task = tuple[Plan, Job]


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

    def rows(self, plan: Plan, job: Job) -> Iterator[Row | str]:
        """The rows of a job; where it cannot be done, why."""
        try:
            yield from self.of(plan).rows(*job)
        except SfumatoError as error:
            yield f"{job[0].name}, seed {job[1]}: {error}"


def _work(tasks: Sequence[Task], lanes: int) -> Iterator[tuple[Plan, Row | str]]:
    plans = list(dict.fromkeys(plan for plan, _ in tasks))
    for plan in plans:
        plan.prepare()
    if lanes == 1 or not tasks:
        desks = Desks()
        yield from ((plan, found) for plan, job in tasks for found in desks.rows(plan, job))
        return
    context = mp.get_context("spawn")
    todo, done = context.Queue(), context.Queue()
    # Raw video first, for all, while other lanes begin to train.
    for task in [*((plan, None) for plan in plans), *tasks, *[None] * lanes]:
        todo.put(task)
    crew = [context.Process(target=_lane, args=(todo, done, lanes), daemon=True) for _ in range(lanes)]
    for process in crew:
        process.start()
    waiting = lanes
    while waiting:
        try:
            found = done.get(timeout=5)
        except queue.Empty:
            if any(process.exitcode for process in crew):
                raise SfumatoError("a lane broke down, see above", "what is done is kept: run again to go on") from None
            continue
        if found is None:
            waiting -= 1
        else:
            yield found


def _lane(
    todo: mp.Queue[tuple[Plan, Job | None] | None], done: mp.Queue[tuple[Plan, Row | str] | None], lanes: int
) -> None:
    """One process that does tasks until there are none; without a job: what the plan's desk does for all."""
    torch.set_num_threads(max(1, torch.get_num_threads() // lanes))
    desks = Desks()
    while (task := todo.get()) is not None:
        plan, job = task
        if job is None:
            desks.of(plan).begin()
            continue
        for found in desks.rows(plan, job):
            done.put((plan, found))
    done.put(None)
