from __future__ import annotations

import json
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from sfumato.anonymizers import load
from sfumato.errors import SfumatoError
from sfumato.training.audit import verdict
from sfumato.training.contest import Stage, audit, confront, contest, meet_opponents, minimax
from sfumato.training.frame_game import FrameGame
from sfumato.training.opponents import Opponent, Views
from sfumato.training.phases import Progress
from sfumato.training.processes import launch
from sfumato.training.run import RunFolder

from .toys import (
    CPU,
    equal,
    flat,
    logged,
    make_banks,
    make_game,
    make_stage,
    objectives,
    same,
    snapshot,
    tiny,
    train_in_crew,
)

PHASES = ["reconstruct", "opponents", "minimax", "audit"]
PAIR = "tiny-frame+tiny-video"
ENSEMBLE: dict[str, Any] = {
    "budget": "labels", "confusion": "entropy", "budget_models": PAIR, "budget_norm": "batch", "strongest": True,
    "restart_steps": 2, "history": 2, "schedule": "one-cycle", "steps": 6,
}  # fmt: skip
SHORT: dict[str, Any] = {"reconstruction_steps": 1, "opponent_steps": 1, "audit_steps": 2}
QUEUE: dict[str, Any] = {
    **SHORT, "budget": "moco", "restart_steps": 1, "history": 1, "budget_steps": 2, "opponent_steps": 2, "steps": 3,
}  # fmt: skip


def play(stage: Stage, **changes: Any) -> tuple[FrameGame, dict[str, Any]]:
    """A whole contest with SPAct's objective."""
    game = FrameGame(tiny(**changes), stage.banks, seed=stage.seed, device=stage.device)
    return game, contest(game, *objectives(game), stage)


@pytest.fixture(autouse=True)
def checkpoints_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Finished runs are compared by their last checkpoint."""
    monkeypatch.setattr(RunFolder, "drop_checkpoint", lambda run: None)


def kept(folder: Path) -> dict[str, Any]:
    state = RunFolder(folder).load_checkpoint(CPU)
    assert state is not None
    return state


# ---- who is trained, how often, until when ---------------------------------------------------------------------------


@pytest.mark.parametrize("update", ["updated", "frozen", "none"])
def test_the_opponent_is_updated_frozen_or_not_there(update: str) -> None:
    game = make_game(budget_update=update)
    phase = minimax(game, *objectives(game))
    before = [snapshot(module) for module in (game.anonymizer, game.utility, *game.opponents)]
    terms = phase.step(0)
    assert len(game.opponents) == (update != "none")
    assert [not same(m, b) for m, b in zip((game.anonymizer, game.utility, *game.opponents), before, strict=True)] == [
        True, True, *([update == "updated"] if update != "none" else []),
    ]  # fmt: skip
    assert ("L_B" in terms) == (update == "updated")
    assert ("L_B" in phase.watch()) == (update != "none")
    assert audit(game).steps == 3  # the labelled attacker comes even where no f_B played
    assert len(game.audit.lineups) == (1 if update == "none" else 2)
    assert (terms["f_A budget"] == 0) == (update == "none")


def test_opponents_take_several_steps_and_no_batch_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    game = make_game(budget_steps=3)
    privacy, action = list[int](), list[int]()
    views, batch = game.deal.privacy_batch, game.deal.action_batch

    def privacy_batch(phase: str, step: int, level: str) -> Views:
        privacy.append(step)
        return views(phase, step, level)

    def action_batch(phase: str, step: int) -> Any:
        action.append(step)
        return batch(phase, step)

    monkeypatch.setattr(game.deal, "privacy_batch", privacy_batch)
    monkeypatch.setattr(game.deal, "action_batch", action_batch)
    phase = minimax(game, *objectives(game))
    phase.step(0)
    phase.step(1)
    assert privacy == list(range(8)) and action == list(range(4))  # one for f_A, then three for f_B; one each for f_T
    steps = game.budget_optimizers[0].state_dict()["state"][0]["step"]
    assert steps == 6


def test_together_the_utility_model_has_no_step_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    game = make_game(utility_update="together")
    monkeypatch.setattr(game, "utility_step", lambda *_: pytest.fail("f_T moved twice"))
    assert "L_T" not in minimax(game, *objectives(game)).step(0)


def test_opponents_begin_anew_every_so_many_steps() -> None:
    game = make_game(budget_models=PAIR, restart_steps=2, history=3, steps=7)
    phase = minimax(game, *objectives(game))
    counts = []
    for number in range(7):
        phase.step(number)
        counts.append((game.restarts, len(game.past)))
    # Not in step 6: f_A would end before an f_B that has hardly learnt, and be reported as having beaten it.
    assert counts == [(0, 0), (0, 0), (1, 1), (1, 1), (2, 2), (2, 2), (2, 2)]


def test_a_phase_is_over_when_its_threshold_is_reached() -> None:
    game = make_game(
        reconstruction_threshold=0.1,
        utility_threshold=0.5,
        budget_threshold=0.6,
        budget_maximum=3.0,
        budget_models=PAIR,
    )
    both = objectives(game)
    identity, meeting, fooled = (
        game.initialisation().enough,
        meet_opponents(game, both[1]).enough,
        minimax(game, *both).enough,
    )
    assert identity({"L1": 0.1}) and not identity({"L1": 0.11})  # th_A0
    assert meeting({"L_T": 0.5, "L_B": 0.6, "L_B1": 0.6})
    assert not meeting({"L_T": 0.51, "L_B": 0.6, "L_B1": 0.6})  # th_T0
    assert not meeting({"L_T": 0.5, "L_B": 0.61, "L_B1": 0.6})  # th_B0, of every f_B
    assert not meeting({"L_T": 0.5, "L_B": 0.6, "L_B1": 0.61})
    assert fooled({"L_T": 9.0, "L_B": 3.0, "L_B1": 3.0}) and not fooled({"L_T": 9.0, "L_B": 2.9, "L_B1": 3.0})
    assert not fooled({"L_T": 9.0, "L_B": 3.0, "L_B1": 2.9})  # th_Bmax: not while one f_B still reads

    # Before an f_B that has never read there is nothing to win, neither now nor after the run was taken up again.
    idle, taken_up = make_game(budget_maximum=3.0), make_game(budget_maximum=3.0)
    last = minimax(idle, *objectives(idle)).enough
    assert not last({"L_T": 9.0, "L_B": 4.1}) and not last({"L_T": 9.0, "L_B": 2.0})
    taken_up.load_state_dict(idle.state_dict())
    assert last({"L_T": 9.0, "L_B": 4.1})
    assert minimax(taken_up, *objectives(taken_up)).enough({"L_T": 9.0, "L_B": 4.1})

    endless = make_game(budget_maximum=0.0)
    assert not minimax(endless, *objectives(endless)).enough({"L_T": 0.0, "L_B": 99.0})
    alone = make_game(budget_maximum=3.0, budget_update="none")
    assert not minimax(alone, *objectives(alone)).enough({"L_T": 0.0})


def test_every_phase_ends_early_where_little_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    little = {
        "reconstruction_threshold": 9.0,
        "utility_threshold": 9.0,
        "budget_threshold": 9.0,
        "budget_maximum": 3.0,
    }
    game = FrameGame(tiny(**little), make_banks(), seed=0, device=CPU)
    stage, (objective, utility_loss) = make_stage(tmp_path / "run"), objectives(game)
    losses, watch = iter([2.9, 3.0, 3.0]), game.watch_opponents  # it has read before it is beaten

    def watch_opponents(opponents: Sequence[Opponent], *, raw: bool = False) -> dict[str, float]:
        return watch(opponents, raw=raw) | ({"L_B": next(losses)} if opponents is game.opponents else {})

    monkeypatch.setattr(game, "watch_opponents", watch_opponents)
    contest(game, objective, utility_loss, stage)
    watched = [(line["phase"], line["step"]) for line in logged(tmp_path / "run") if line["kind"] == "watch"]
    assert watched == [("reconstruct", 2), ("opponents", 2), ("minimax", 2), ("audit", 2), ("audit", 3)]


def test_a_step_of_the_game_takes_two_batches_where_f_t_has_one_of_its_own() -> None:
    for update, batches in (("alternate", 2), ("together", 1)):
        game = make_game(utility_update=update)
        assert minimax(game, *objectives(game)).batches == batches


def test_what_breaks_in_the_audit_does_not_cost_the_finished_f_a(tmp_path: Path) -> None:
    stage = make_stage(tmp_path / "run")
    stage.progress = at(("audit", 1), pull_the_plug)
    with pytest.raises(MemoryError):
        play(stage)
    assert not stage.run.result.exists()
    load(stage.run.anonymizer)


# ---- interrupted and taken up again ----------------------------------------------------------------------------------


def at(place: tuple[str, int], act: Any) -> Progress:
    """Calls `act` in that step of that phase."""
    now = [""]

    def phase(name: str, steps: int, done: int, batches: int) -> None:
        now[0] = name

    def step(done: int, latest: dict[str, float]) -> None:
        if (now[0], done) == place:
            act()

    return Progress(phase, step)


def press_ctrl_c() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def pull_the_plug() -> None:
    raise MemoryError


def assert_same_run(folder: Path, other: Path) -> None:
    assert (folder / "metrics.jsonl").read_bytes() == (other / "metrics.jsonl").read_bytes()
    assert (folder / "result.json").read_bytes() == (other / "result.json").read_bytes()
    names = sorted(path.name for path in (folder / "anonymizer").iterdir())
    assert names == sorted(path.name for path in (other / "anonymizer").iterdir()) and len(names) == 2
    for name in names:
        assert (folder / "anonymizer" / name).read_bytes() == (other / "anonymizer" / name).read_bytes()
    assert equal(kept(folder), kept(other))


# In the minimax phase an f_B begins anew in two steps, and the one that leaves joins the history.
@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({**ENSEMBLE, **SHORT}, id="ensemble"),
        # What a queue adds to the state, a new game takes up in test_minimax.py.
        pytest.param(QUEUE, id="queue", marks=pytest.mark.nightly),
    ],
)
def test_a_run_interrupted_in_every_step_ends_as_if_it_had_not_been(
    tmp_path: Path, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, whole = tmp_path / "run", tmp_path / "whole"
    play(make_stage(whole), **settings)
    asked = tiny(**settings)
    lengths = (asked.reconstruction_steps, asked.opponent_steps, asked.steps, asked.audit_steps)
    saved, save = list[tuple[int, int]](), RunFolder.save_checkpoint

    def noted(run: RunFolder, state: dict[str, Any]) -> None:
        saved.append((state["phase"], state["step"]))
        save(run, state)

    monkeypatch.setattr(RunFolder, "save_checkpoint", noted)
    for number, (phase, steps) in enumerate(zip(PHASES, lengths, strict=True)):
        for step in range(1, steps + 1):
            with pytest.raises(KeyboardInterrupt):
                play(make_stage(folder, resume=True, progress=at((phase, step), press_ctrl_c)), **settings)
            assert saved[-1] == (number, step)
    state = kept(folder)
    assert state["trained"]["restarts"] == 2
    assert len(state["trained"]["past"]) == settings["history"]
    assert not (folder / "result.json").exists()
    play(make_stage(folder, resume=True), **settings)
    assert_same_run(folder, whole)


def test_a_run_killed_in_every_phase_ends_as_if_it_had_not_been(tmp_path: Path) -> None:
    folder, whole = tmp_path / "run", tmp_path / "whole"
    settings = {"budget": "labels", "audit_steps": 1}  # what an ensemble keeps, the test above shows
    play(make_stage(whole), **settings)
    # what was saved last, every second step: nothing yet, after 2 steps, after 4, or at the end of the phase before
    places = [("reconstruct", 2), ("opponents", 3), ("minimax", 5), ("audit", 1)]
    for place, checkpoint in zip(places, [None, (1, 2), (2, 4), (3, 0)], strict=True):
        with pytest.raises(MemoryError):
            play(make_stage(folder, resume=True, progress=at(place, pull_the_plug), save=2), **settings)
        state = RunFolder(folder).load_checkpoint(CPU)
        assert (None if state is None else (state["phase"], state["step"])) == checkpoint
    play(make_stage(folder, resume=True, save=2), **settings)
    assert_same_run(folder, whole)


# ---- breaking down ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"anonymizer_rate": 1e30}, r"phase 'minimax' at step \d: .* is not a number any more"),
        ({"utility_rate": 1e3, "opponent_steps": 0}, r"phase 'minimax' at step 2: L_T is .*, far above 11"),
        ({"budget_rate": 1e3, "budget": "labels"}, r"phase 'opponents' at step 2: L_B is .*, far above 10"),
        ({"budget_rate": 1e3, "budget": "rotation"}, r"phase 'opponents' at step 2: L_B is .*, far above 13.9"),
    ],
)
def test_a_run_that_breaks_down_stops_and_keeps_its_last_good_checkpoint(
    tmp_path: Path, settings: dict[str, Any], message: str
) -> None:
    folder = tmp_path / "run"
    with pytest.raises(SfumatoError, match=message) as caught:
        play(make_stage(folder), **settings)
    assert "the last good checkpoint is kept" in caught.value.what and "smaller rates" in caught.value.next_step
    assert not (folder / "result.json").exists()
    state = kept(folder)
    assert (state["phase"], state["step"]) in ((1, 0), (2, 0))  # after the last phase that had steps
    assert all(value.isfinite().all() for value in flat(state).values() if isinstance(value, Tensor))
    game = make_game(**settings)
    game.load_state_dict(state["trained"])
    assert game.watch()["L_T"] < 11


# ---- what is left at the end -----------------------------------------------------------------------------------------


def test_the_saved_anonymizer_is_the_trained_one(tmp_path: Path) -> None:
    stage = make_stage(tmp_path / "run")
    game, result = play(stage, levels=4, cell=2, grey=True)
    loaded, video = load(stage.run.anonymizer), torch.rand(2, 4, 3, 16, 16)
    with torch.no_grad():
        assert loaded(video).equal(game.anonymizer.eval()(video))
    assert not loaded.training and loaded.spec.size == (16, 16)
    assert stage.run.read_result() == json.loads(json.dumps(result))
    assert (tmp_path / "run" / "frames").is_dir()


def test_a_fresh_opponent_reads_what_the_one_trained_against_cannot_any_more() -> None:
    game = make_game(budget="labels", budget_rate=5e-3, audit_rate=5e-3)
    game.anonymizer.logits = lambda frames: frames.logit(eps=1e-3)  # the identity
    for turn in range(40):
        game.budget_step("opponents", turn, game.opponents, game.budget_optimizers)
    assert game.watch_opponents(game.opponents)["f_B reads"] > 0.7
    game.anonymizer.logits = lambda frames: (1 - frames).logit(eps=1e-3)  # fools that f_B, and hides nothing
    for step in range(40):
        audit(game).step(step)
    row = confront(game)[0]
    assert float(row["in training"]) <= float(row["chance"]) < 0.7 < float(row["fresh"])
    assert row["raw"] > 0.7 and row["verdict"] == "measured"


def test_the_result_says_what_each_opponent_reads_old_and_new(tmp_path: Path) -> None:
    stage = make_stage(tmp_path / "run")
    game, _ = play(stage, budget="labels", budget_models=PAIR)
    old, new = game.watch_opponents(game.opponents), game.watch_audit()
    found = stage.run.read_result()["audit"]
    for row, number in zip(found, ("", "1", "2"), strict=True):
        assert row["in training"] == old.get(f"f_B{number} reads")
        assert row["fresh"] == new[f"anonymized f_B{number} reads"] and row["raw"] == new[f"raw f_B{number} reads"]
        assert row["verdict"] == verdict(row)
    # the two f_B once more, told two attributes' values and four people; then one that is told the people alone
    assert [(row["f_B"], row["task"], row["chance"]) for row in found] == [
        ("tiny-frame", "labels", 0.375), ("tiny-video", "labels", 0.375), ("tiny-frame", "labels", 0.25),
    ]  # fmt: skip
    last = [line for line in logged(tmp_path / "run") if line["kind"] == "watch"][-1]
    assert last["phase"] == "audit" and last["anonymized f_B reads"] == pytest.approx(new["anonymized f_B reads"])


def test_the_audit_moves_fresh_opponents_alone() -> None:
    game = make_game(budget_models=PAIR)
    before = [snapshot(module) for module in (game.anonymizer, game.utility, *game.opponents)]
    game.audit_step(0)
    everybody = [attacker for side in ("anonymized", "raw") for attacker in game.audit.attackers[side]]
    first = [snapshot(attacker) for attacker in everybody]
    game.audit_step(1)
    assert all(same(m, b) for m, b in zip((game.anonymizer, game.utility, *game.opponents), before, strict=True))
    assert len(first) == 6 and not any(same(a, b) for a, b in zip(everybody, first, strict=True))


def test_the_twins_on_raw_video_begin_alike_and_see_no_anonymizer(monkeypatch: pytest.MonkeyPatch) -> None:
    game = make_game(budget_models=PAIR)
    game.audit.begin()
    hidden, raw = game.audit.attackers["anonymized"], game.audit.attackers["raw"]
    assert all(same(a, snapshot(b)) for a, b in zip(hidden, raw, strict=True))

    def nobody(video: Tensor) -> Tensor:
        raise AssertionError("raw clips went through f_A")

    monkeypatch.setattr(game.anonymizer, "forward", nobody)
    game.budget_step("audit", 0, raw, game.audit.optimizers["raw"], raw=True)
    game.watch_opponents(raw, raw=True)
    with pytest.raises(AssertionError, match="raw clips went through f_A"):
        game.budget_step("audit", 0, hidden, game.audit.optimizers["anonymized"])


def test_an_attacker_that_cannot_read_raw_video_proves_nothing() -> None:
    row = {"chance": 0.25, "in training": 0.3, "fresh": 0.3}
    assert verdict({**row, "raw": 0.34}) == "inconclusive" and verdict({**row, "raw": 0.36}) == "measured"


def test_a_fresh_attacker_that_learnt_less_than_it_could_proves_nothing() -> None:
    row = {"chance": 0.25, "raw": 0.9, "in training": 0.8, "fresh": 0.69}
    assert verdict(row) == "inconclusive"  # what the f_B reads that f_A was trained against is there to be read
    assert verdict({**row, "fresh": 0.75}) == verdict({**row, "in training": None}) == "measured"
    assert verdict({**row, "in training": None, "fresh": 0.1}) == "inconclusive"  # guessing would have been better


def test_a_finished_run_needs_no_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    folder, short = tmp_path / "run", {"reconstruction_steps": 1, "opponent_steps": 0, "steps": 1, "audit_steps": 2}
    with pytest.raises(KeyboardInterrupt):
        play(make_stage(folder, progress=at(("audit", 1), press_ctrl_c)), **short)
    assert kept(folder)["phase"] == 3 and not (folder / "result.json").exists()
    RunFolder(folder).drop_checkpoint()
    assert (folder / "checkpoint.pt").exists()  # without a result it is all there is

    _, result = play(make_stage(folder, resume=True), **short)
    assert not (folder / "checkpoint.pt").exists() and RunFolder(folder).read_result() == result
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.name != "run.json"}
    busy = Progress(step=lambda done, latest: pytest.fail("a finished run was trained over"))
    assert play(make_stage(folder, resume=True, progress=busy), **short)[1] == result
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.name != "run.json"} == before


def test_without_an_audit_nothing_is_claimed_and_without_opponents_no_more_than_is_known(tmp_path: Path) -> None:
    short = {"reconstruction_steps": 0, "opponent_steps": 0, "steps": 1}
    stage = make_stage(tmp_path / "unaudited")
    play(stage, **short, audit_steps=0)
    assert stage.run.read_result()["audit"] == []
    stage = make_stage(tmp_path / "alone")
    play(stage, **short, budget_update="none")
    (row,) = stage.run.read_result()["audit"]
    assert row["in training"] is None and row["fresh"] is not None


# ---- two processes ---------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("quick_processes")
def test_two_processes_do_what_one_does_with_the_double_batch(tmp_path: Path, toys: ModuleType) -> None:
    short: dict[str, Any] = {**SHORT, "steps": 3, "audit_steps": 1}
    # f_A and f_T have batch norm, f_B group norm; of VITA's two f_B, all processes must face the same one; MoCo's queue is
    # filled by all of them
    together = {"utility_update": "together", "augmentation": "gentle"}
    trainings = {
        "spact": {**short, **together},
        "vita": {**short, "budget_models": PAIR, "restart_steps": 2, "history": 1},
        "penalty": {**short, "budget": "moco", "opponent_steps": 2, "penalty_limit": 0.01},
    }

    def orders(count: str, batch: int) -> list[tuple[str, dict[str, Any], Path]]:
        for method in trainings:
            about = {"method": method, "config": {}, "seed": 0}
            RunFolder.open(tmp_path / count / method, about, resume=False)
        batches = {"batch": batch, "privacy_batch": batch}
        return [(method, {**known, **batches}, tmp_path / count / method) for method, known in trainings.items()]

    train_in_crew(orders("one", 8))
    launch(toys.train_in_crew, 2, orders("two", 4))
    for method in trainings:
        one, two = logged(tmp_path / "one" / method), logged(tmp_path / "two" / method)
        assert {line["phase"] for line in one} == set(PHASES) and len(one) == len(two)
        for alone, shared in zip(one, two, strict=True):
            assert alone == pytest.approx(shared, abs=2e-6), alone
        result, other = (RunFolder(tmp_path / count / method).read_result() for count in ("one", "two"))
        assert result["watched"] == pytest.approx(other["watched"], abs=2e-6)
