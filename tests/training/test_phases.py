"""The row of phases with something trained that takes no time: a single number and a memory of random draws."""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from sfumato.errors import SfumatoError
from sfumato.training.phases import Interruption, Phase, Player, Progress, Timing
from sfumato.training.run import RunFolder

from .toys import CPU, logged

Hook = Callable[[str, int], None]


class Trained:
    """Walks by torch's own random numbers, as dropout would; `hook` is called in the middle of every step."""

    def __init__(self, hook: Hook = lambda phase, step: None) -> None:
        self.value, self.hook = torch.zeros(3), hook

    def step(self, phase: str, pace: float) -> Callable[[int], dict[str, Tensor]]:
        def step(number: int) -> dict[str, Tensor]:
            self.hook(phase, number)
            self.value = self.value + pace * torch.rand(3)
            return {"loss": self.value.sum()}

        return step

    def watch(self) -> dict[str, float]:
        return {"L_T": float(self.value.max())}

    def state_dict(self) -> dict[str, Any]:
        return {"value": self.value}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.value = state["value"]

    def strip(self) -> list[Tensor]:
        return [torch.zeros(1, 3, 2, 2, dtype=torch.uint8)]


def make_player(folder: Path, trained: Trained, **changes: Any) -> Player:
    run = RunFolder.open(folder, {"method": "toy", "config": {}, "seed": 0}, resume=folder.exists())
    phases = [
        Phase("first", 5, trained.step("first", 1.0), trained.watch),
        Phase("none", 0, trained.step("none", 1.0), trained.watch),
        Phase("second", 7, trained.step("second", 0.1), trained.watch),
    ]
    return Player(
        **{"phases": phases, "trained": trained, "run": run, "device": CPU, "timing": Timing(2, 3, 4), **changes}
    )


def checkpoint(folder: Path) -> dict[str, Any]:
    state = RunFolder(folder).load_checkpoint(CPU)
    assert state is not None
    return state


@pytest.fixture
def whole(tmp_path: Path) -> tuple[Path, Trained]:
    """A run that nothing interrupted."""
    trained = Trained()
    make_player(tmp_path / "whole", trained).play()
    return tmp_path / "whole", trained


def test_steps_are_logged_and_watched_now_and_then_and_at_the_end(whole: tuple[Path, Trained]) -> None:
    folder, trained = whole
    found = [(line["phase"], line["kind"], line["step"]) for line in logged(folder)]
    assert found == [
        ("first", "step", 2), ("first", "watch", 3), ("first", "step", 4), ("first", "step", 5), ("first", "watch", 5),
        ("second", "step", 2), ("second", "watch", 3), ("second", "step", 4), ("second", "step", 6),
        ("second", "watch", 6), ("second", "step", 7), ("second", "watch", 7),
    ]  # fmt: skip
    last = logged(folder)[-1]
    assert last["L_T"] == pytest.approx(float(trained.value.max()))
    assert checkpoint(folder)["phase"] == 3 and checkpoint(folder)["trained"]["value"].equal(trained.value)


def test_progress_and_pictures(tmp_path: Path) -> None:
    shown: list[Any] = []
    progress = Progress(
        lambda name, steps, done, batches: shown.append((name, steps)),
        lambda done, latest: shown.append((done, *latest)),
        shown.append,
    )
    make_player(tmp_path / "run", Trained(), progress=progress).play()
    assert shown == [
        ("first", 5), (2, "loss"), (4, "loss"), (5, "loss"),
        ("second", 7), (2, "loss"), (4, "loss"), (6, "loss"), (7, "loss"),
    ]  # fmt: skip
    pictures = {path.stem for path in (tmp_path / "run" / "frames").iterdir()}
    assert {"first-000001", "first-000005", "second-000007"} <= pictures
    assert not any(name.startswith("none") for name in pictures)  # a phase without steps shows nothing


def test_a_phase_ends_when_it_is_enough(tmp_path: Path) -> None:
    trained, seen, notes = Trained(), list[float](), list[str]()

    def enough(watched: dict[str, float]) -> bool:
        seen.append(watched["L_T"])
        return len(seen) == 2

    player = make_player(tmp_path / "run", trained, progress=Progress(note=notes.append))
    player.phases[2].enough = enough
    player.play()
    assert [line["step"] for line in logged(tmp_path / "run") if line["phase"] == "second"] == [2, 3, 4, 6, 6]
    assert notes == ["second: enough after 6 steps"] and checkpoint(tmp_path / "run")["phase"] == 3
    # the last picture bears the number of the step that it shows
    assert (tmp_path / "run" / "frames" / "second-000006.png").exists()
    assert not (tmp_path / "run" / "frames" / "second-000007.png").exists()


def test_torchs_own_draws_are_a_function_of_the_seed_the_phase_and_the_step(tmp_path: Path) -> None:
    def drawn(name: str, **changes: Any) -> list[float]:
        found: list[float] = []
        hook: Hook = lambda phase, step: found.append(float(torch.rand(())))  # noqa: E731
        make_player(tmp_path / name, Trained(hook), **changes).play()
        return found

    first, again, other = drawn("first", seed=1), drawn("again", seed=1), drawn("other", seed=2)
    assert first == again
    assert len(first) == 12 and len({*first, *other}) == 24  # no two seeds, phases or steps drop out the same


def test_processes_decide_alike_by_the_mean_of_what_they_watch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def with_another(values: dict[str, Tensor]) -> dict[str, Tensor]:
        """The other process, which watches 3 of everything."""
        return {name: (value + 3) / 2 for name, value in values.items()}

    monkeypatch.setattr("sfumato.training.phases.mean_over_crew", with_another)
    seen: list[float] = []

    def enough(watched: dict[str, float]) -> bool:
        seen.append(watched["L_T"])
        return watched["L_T"] == 2.0

    player = make_player(tmp_path / "run", Trained())
    player.phases[0].watch = lambda: {"L_T": 1.0}
    player.phases[0].enough = enough
    player.play()
    assert seen == [2.0]
    watched = [line for line in logged(tmp_path / "run") if (line["phase"], line["kind"]) == ("first", "watch")]
    assert [(line["step"], line["L_T"]) for line in watched] == [(3, 2.0)]


# ---- interrupted and taken up again ----------------------------------------------------------------------------------


def interrupt_at(phase: str, step: int) -> Hook:
    def hook(now: str, number: int) -> None:
        if (now, number) == (phase, step):
            os.kill(os.getpid(), signal.SIGINT)

    return hook


PLACES = [("first", step) for step in range(5)] + [("second", step) for step in range(7)]


@pytest.mark.parametrize(("phase", "step"), PLACES)
def test_ctrl_c_lets_the_step_end_and_the_run_goes_on_from_there(
    tmp_path: Path, whole: tuple[Path, Trained], phase: str, step: int
) -> None:
    folder, handler = tmp_path / "run", signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        make_player(folder, Trained(interrupt_at(phase, step))).play()
    assert signal.getsignal(signal.SIGINT) is handler
    state = checkpoint(folder)
    assert (state["phase"], state["step"]) == (0 if phase == "first" else 2, step + 1)

    resumed, visited = Trained(), list[tuple[str, int]]()
    resumed.hook = lambda now, number: visited.append((now, number))
    make_player(folder, resumed).play()
    assert visited == PLACES[PLACES.index((phase, step)) + 1 :]  # nothing is done twice
    assert resumed.value.equal(whole[1].value)
    assert (folder / "metrics.jsonl").read_bytes() == (whole[0] / "metrics.jsonl").read_bytes()


class Newer(Trained):
    """A later version of the same, whose state has one part more."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.more = state["more"]


def test_a_checkpoint_of_another_version_is_told_in_one_line(tmp_path: Path) -> None:
    def stop(phase: str, step: int) -> None:
        if (phase, step) == ("second", 5):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make_player(tmp_path / "run", Trained(stop)).play()
    with pytest.raises(SfumatoError, match=r"another version of the code \('more'\)"):
        make_player(tmp_path / "run", Newer()).play()


@pytest.mark.parametrize(("phase", "step", "kept"), [("first", 3, None), ("first", 4, (0, 4)), ("second", 6, (2, 4))])
def test_a_killed_run_goes_on_from_its_last_checkpoint(
    tmp_path: Path, whole: tuple[Path, Trained], phase: str, step: int, kept: tuple[int, int] | None
) -> None:
    def die(now: str, number: int) -> None:
        if (now, number) == (phase, step):
            raise MemoryError

    folder = tmp_path / "run"
    with pytest.raises(MemoryError):
        make_player(folder, Trained(die)).play()
    state = RunFolder(folder).load_checkpoint(CPU)
    assert (None if state is None else (state["phase"], state["step"])) == kept

    resumed = Trained()
    make_player(folder, resumed).play()
    assert resumed.value.equal(whole[1].value)
    assert (folder / "metrics.jsonl").read_bytes() == (whole[0] / "metrics.jsonl").read_bytes()


def test_a_finished_run_has_nothing_left_to_do(whole: tuple[Path, Trained]) -> None:
    resumed = Trained(lambda phase, step: pytest.fail("a step was done again"))
    before = (whole[0] / "metrics.jsonl").read_bytes()
    make_player(whole[0], resumed).play()
    assert resumed.value.equal(whole[1].value)
    assert (whole[0] / "metrics.jsonl").read_bytes() == before


def test_a_run_that_another_process_plays_is_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    late = Trained(lambda phase, step: pytest.fail("it was trained twice at once"))
    first = Trained(lambda phase, step: late_one(step))

    def late_one(step: int) -> None:
        before = RunFolder(folder).records()
        with pytest.raises(SfumatoError, match="another process is training in"):
            make_player(folder, late).play()
        assert RunFolder(folder).records() == before

    make_player(folder, first).play()


def test_the_second_ctrl_c_stops_at_once() -> None:
    with Interruption() as interruption:
        assert not interruption.asked
        os.kill(os.getpid(), signal.SIGINT)
        assert interruption.asked
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


# ---- breaking down ---------------------------------------------------------------------------------------------------


def break_at(phase: str, step: int, value: float, also: Hook = lambda phase, step: None) -> Trained:
    """Before that step what is trained is no number any more."""
    trained = Trained()

    def hook(now: str, number: int) -> None:
        if (now, number) == (phase, step):
            trained.value = torch.tensor([0.0, value, 0.0])
        also(now, number)

    trained.hook = hook
    return trained


@pytest.mark.parametrize(("value", "seen"), [(math.nan, "loss"), (math.inf, "loss")])
def test_what_is_no_number_stops_the_run_with_the_last_good_checkpoint_kept(
    tmp_path: Path, value: float, seen: str
) -> None:
    folder = tmp_path / "run"
    with pytest.raises(SfumatoError) as caught:
        make_player(folder, break_at("second", 4, value)).play()
    message = f"training broke down in phase 'second' at step 6: {seen} is not a number any more"
    assert caught.value.what.startswith(message)
    assert f"the last good checkpoint is kept in '{folder}'" in caught.value.what
    assert all(word in caught.value.next_step for word in ("anonymizer_rate", "utility_rate", "budget_weight"))
    state = checkpoint(folder)
    assert (state["phase"], state["step"]) == (2, 4) and state["trained"]["value"].isfinite().all()
    assert all(isinstance(line.get("loss", 0.0), (float, int)) for line in logged(folder))  # nothing broken is logged


def test_a_loss_far_above_guessing_stops_the_run(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with pytest.raises(SfumatoError, match=r"at step 6: L_T is 50\.\d, far above 10; the last good checkpoint"):
        make_player(folder, break_at("second", 4, 50.0), limits={"L_T": 10.0}).play()
    assert checkpoint(folder)["trained"]["value"].max() < 10


def test_ctrl_c_does_not_save_what_is_broken(tmp_path: Path) -> None:
    # broken in a step that is not logged, and interrupted before the next one that is
    folder = tmp_path / "run"
    with pytest.raises(SfumatoError, match="training broke down in phase 'second' at step 5"):
        make_player(folder, break_at("second", 4, math.nan, interrupt_at("second", 4))).play()
    state = checkpoint(folder)
    assert (state["phase"], state["step"]) == (2, 4) and state["trained"]["value"].isfinite().all()


def test_a_step_that_breaks_the_weights_but_not_its_own_loss_is_not_saved(tmp_path: Path) -> None:
    folder, trained = tmp_path / "run", Trained()
    player = make_player(folder, trained, timing=Timing(log=1, watch=100, save=2))
    inner = player.phases[0].step

    def step(number: int) -> dict[str, Tensor]:
        terms = inner(number)
        if number == 3:
            trained.value = torch.full((3,), math.nan)
        return terms

    player.phases[0].step = step
    with pytest.raises(SfumatoError, match="training broke down in phase 'first' at step 4"):
        player.play()
    assert checkpoint(folder)["step"] == 2 and checkpoint(folder)["trained"]["value"].isfinite().all()
