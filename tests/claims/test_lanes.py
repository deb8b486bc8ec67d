"""Jobs of several plans, one after another and in processes side by side."""

from __future__ import annotations

import multiprocessing as mp
import os
import signal
import time
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from sfumato.claims import lanes
from sfumato.claims.bench import Plan, Trial
from sfumato.claims.lanes import Foreman, Order, in_lanes_order, run_tasks, usual_lanes
from sfumato.errors import SfumatoError


@pytest.fixture
def lane_work(monkeypatch: pytest.MonkeyPatch, quick_processes: None) -> ModuleType:
    """The module with the desks, importable here and in the lanes' processes."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    return import_module("lane_work")


def test_lanes_share_the_jobs_of_all_plans(tmp_path: Path, lane_work: ModuleType) -> None:
    plans = [lane_work.NotedPlan(name, tmp_path / "runs", lanes=2) for name in ("first", "second")]
    jobs = [(Trial(f"trial {n}", anonymizer="blur"), 0, [None, 2.0]) for n in range(3)]
    found = list(run_tasks([(plan, job) for plan in plans for job in jobs], lanes=2))
    told = sorted((plan.data, row["plan"], row["trial"], str(row["strength"])) for plan, row in found)
    assert told == sorted(
        (name, name, f"trial {n}", at) for name in ("first", "second") for n in range(3) for at in ("None", "2.0")
    )
    for name in ("first", "second"):
        assert len((tmp_path / "runs" / f"{name} begun").read_text().split()) == 1  # raw video is one lane's work
        opened = (tmp_path / "runs" / f"{name} opened").read_text().split()
        assert len(opened) == len(set(opened)) <= 2  # each lane sets up a desk once, if at all


def test_who_is_free_at_the_end_helps_with_what_is_still_being_done(tmp_path: Path) -> None:
    plan = Plan("theatre:small", tmp_path)
    tasks = [(plan, (Trial(name, anonymizer="blur"), 0, [None])) for name in ("first", "second")]
    foreman = Foreman([plan], tasks)
    raw, first, second = (foreman.next_order(None) for _ in range(3))
    assert raw == Order(plan) and [first, second] == [Order(*task, number) for number, task in enumerate(tasks)]
    helping = foreman.next_order(raw)
    assert helping == Order(*tasks[1], 1, assist=True)
    assert foreman.next_order(None) == Order(*tasks[0], 0, assist=True)  # another one, with another task
    assert foreman.next_order(helping) == Order(*tasks[0], 0, assist=True)  # of the second nothing is free any more
    assert foreman.next_order(first) is None and foreman.next_order(second) is None


@pytest.mark.parametrize("lanes", [1, 2])
def test_what_begins_is_told_since_rows_take_minutes(
    tmp_path: Path, lane_work: ModuleType, lanes: int, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = lane_work.NotedPlan("first", tmp_path, lanes=lanes)
    jobs = [(Trial("blur", anonymizer="blur"), 0, [None]), (Trial("blur", anonymizer="blur"), 2, [4.0])]
    list(run_tasks([(plan, job) for job in jobs], lanes))
    told = capsys.readouterr()
    assert told.err.splitlines() == ["1 of 2 begins: blur, seed 0", "2 of 2 begins: blur at 4, seed 2"] and not told.out


def test_a_cpu_has_a_lane_for_each_core(monkeypatch: pytest.MonkeyPatch) -> None:
    for cores, expected in ((1, 1), (2, 2), (64, 4)):
        monkeypatch.setattr(lanes, "cores", lambda cores=cores: cores)
        assert usual_lanes("cpu") == expected


@pytest.mark.parametrize("lanes", [1, 2])
def test_what_cannot_be_done_is_told_after_the_others(tmp_path: Path, lane_work: ModuleType, lanes: int) -> None:
    plan = lane_work.NotedPlan("first", tmp_path, lanes=lanes)
    wrong, right = (Trial(name, anonymizer="blur") for name in ("wrong", "right"))
    rows = run_tasks([(plan, (wrong, 0, [None])), (plan, (right, 3, [None]))], lanes)
    assert next(rows)[1]["trial"] == "right"
    with pytest.raises(SfumatoError, match=r"1 of 2 trials could not be done \(first: wrong, seed 0: this cannot"):
        next(rows)


def test_the_work_of_a_lane_that_breaks_down_goes_to_another(tmp_path: Path, lane_work: ModuleType) -> None:
    plan = lane_work.NotedPlan("first", tmp_path, lanes=2)
    trials = [Trial(name, anonymizer="blur") for name in ("once", "right")]
    rows = [row for _, row in run_tasks([(plan, (trial, 0, [None, 2.0, 3.0])) for trial in trials], lanes=2)]
    told = [(row["trial"], row["strength"]) for row in rows]
    assert (tmp_path / "broken").exists()
    # What was told before is not told again.
    assert sorted(told, key=str) == sorted(((t.name, at) for t in trials for at in (None, 2.0, 3.0)), key=str)


def test_what_breaks_two_lanes_down_stops_all(tmp_path: Path, lane_work: ModuleType) -> None:
    plan = lane_work.NotedPlan("first", tmp_path, lanes=2)
    with pytest.raises(SfumatoError, match="a lane broke down"):
        list(run_tasks([(plan, (Trial("always", anonymizer="blur"), 0, [None]))], lanes=2))


def test_what_cannot_even_begin_is_told_in_one_line(
    tmp_path: Path, lane_work: ModuleType, capfd: pytest.CaptureFixture[str]
) -> None:
    plan = lane_work.NotedPlan("impossible", tmp_path, lanes=2)
    with pytest.raises(SfumatoError, match=r"first: blur, seed 0: impossible data"):
        list(run_tasks([(plan, (Trial("blur", anonymizer="blur"), 0, [None]))], lanes=2))
    assert "Traceback" not in capfd.readouterr().err


def test_what_shares_a_training_comes_after_all_that_begin_one(tmp_path: Path) -> None:
    here, elsewhere = Plan("theatre:small", tmp_path), Plan("theatre:small", tmp_path, "theatre:small-novel")
    first = Trial("stprivacy", "stprivacy", config={"patch": 8}, strengths=(0.3,))
    dropped = Trial("what was dropped", "stprivacy", config={"patch": 8}, training="stprivacy")
    other, blur = Trial("two passes", "stprivacy", config={"two_pass": True}), Trial("blur", anonymizer="blur")
    asked = [
        (here, (first, 1, [None])), (here, (first, 0, [None, 0.3])), (here, (dropped, 0, [None])),
        (elsewhere, (first, 0, [None])), (here, (other, 0, [None])), (here, (blur, 0, [None])),
    ]  # fmt: skip
    ordered = [(trial.name, seed, at, plan.judge_data) for plan, (trial, seed, at) in in_lanes_order(asked)]
    assert ordered == [
        ("stprivacy", 0, [None], ""), ("two passes", 0, [None], ""), ("blur", 0, [None], ""),
        ("stprivacy", 0, [0.3], ""), ("what was dropped", 0, [None], ""),
        ("stprivacy", 0, [None], "theatre:small-novel"), ("stprivacy", 1, [None], ""),
    ]  # fmt: skip


def test_processes_take_turns(tmp_path: Path, lane_work: ModuleType) -> None:
    number = tmp_path / "number"
    number.write_text("0")
    context = mp.get_context("spawn")
    crew = [context.Process(target=lane_work.count_up, args=(str(number), str(tmp_path / "turns" / "x"))) for _ in "ab"]
    for process in crew:
        process.start()
    for process in crew:
        process.join()
    assert number.read_text() == "400"


def test_lanes_end_with_the_command_that_began_them(tmp_path: Path, lane_work: ModuleType) -> None:
    context = mp.get_context("spawn")
    command = context.Process(target=lane_work.wait_for_ever, args=(str(tmp_path),))
    command.start()
    note = tmp_path / "first opened"
    while not (note.exists() and note.read_text().strip()):
        command.join(0.05)
        assert command.is_alive()
    lane = int(note.read_text().split()[0])
    os.kill(command.pid, signal.SIGKILL)
    command.join()
    deadline = time.monotonic() + 20
    while is_there(lane):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def is_there(process: int) -> bool:
    """Whether a process of that number lives."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True
