from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from sfumato.anonymizers import load
from sfumato.anonymizers.tubelets import Tubelets
from sfumato.errors import SfumatoError
from sfumato.methods import find_method
from sfumato.methods.stprivacy.config import STPrivacyConfig
from sfumato.methods.stprivacy.train import TubeletGame, train
from sfumato.objectives.sparsification import sparsification_loss
from sfumato.training.bank import Bank, frame_step
from sfumato.training.contest import Stage
from sfumato.training.dealing import Banks
from sfumato.training.optimisation import frozen

from ..training.toys import CPU, equal, gradient, logged, make_banks, make_stage, only, plain_descent, same, snapshot

TINY: dict[str, Any] = {
    "embedding": 24, "utility": "tiny-video", "utility_width": 0.25, "budget_models": "tiny-video", "budget_width": 0.25,
    "batch": 4, "privacy_batch": 4, "initialisation_steps": 3, "opponent_steps": 2, "steps": 3, "audit_steps": 2,
    "auditor": "tiny-frame", "schedule": "constant",
}  # fmt: skip
TERMS = ["spars", "action", "budget"]


def enlarged(bank: Bank) -> Bank:
    """Frames of twice the side: four tubelets in each step of time."""
    return replace(bank, pixels=bank.pixels.repeat_interleave(2, -1).repeat_interleave(2, -2))


def make_tubelet_banks() -> Banks:
    banks = make_banks()
    names = ("action", "privacy", "watch_action", "watch_privacy")
    return replace(banks, **{name: enlarged(getattr(banks, name)) for name in names})


def make_game(**changes: Any) -> TubeletGame:
    return TubeletGame(STPrivacyConfig(**{**TINY, **changes}), make_tubelet_banks(), seed=0, device=CPU)


def always_the_same(game: TubeletGame) -> None:
    """Every step draws the same decisions."""
    draw = game.draw

    def drawn(video: Tensor) -> Tensor:
        torch.manual_seed(0)
        return draw(video)

    game.draw = drawn  # type: ignore[method-assign]


def test_the_terms_are_those_of_equation_13() -> None:
    game = make_game(action_weight=0.25, budget_weight=2.0, keep_ratio=0.6)
    batch, views = game.deal.action_batch("minimax", 0), game.deal.privacy_batch("minimax", 0, "video")
    game.anonymizer.train()
    with torch.no_grad(), frozen([game.utility, *game.opponents]):
        output = game.draw(batch.video)
        found = game.tubelet_terms(batch, output, {"video": views})
        assert len(game.decisions) == 3
        expected = {
            "spars": sparsification_loss(game.decisions, 0.6),
            "action": 0.25 * F.cross_entropy(game.utility(output), batch.actions),
            "budget": -2.0 * game.opponents[0].reading(views)[0],
        }
    assert {name: float(value) for name, value in found.items()} == pytest.approx(
        {name: float(value) for name, value in expected.items()}, rel=1e-5
    )


def test_the_decisions_are_those_of_the_pictures_that_f_t_sees() -> None:
    game = make_game(mechanism="sparsification")
    batch = game.deal.action_batch("minimax", 0)
    game.anonymizer.train()
    output = game.draw(batch.video)
    # A tubelet is 2 frames of 16×16 pixels: where the last decision is 0, all of it is black.
    dropped = game.decisions[-1].detach()[0, 0] == 0
    assert dropped.any() and not dropped.all()
    for place in range(4):
        row, column = 16 * (place // 2), 16 * (place % 2)
        tubelet = output[0, :2, :, row : row + 16, column : column + 16]
        assert bool((tubelet == 0).all()) == bool(dropped[place])


def test_a_reader_of_frames_sees_frames_of_clips_that_f_a_saw_whole() -> None:
    game = make_game(budget_models="tiny-frame")
    game.anonymizer.eval()
    views = game.deal.privacy_batch("minimax", 0, "frame")
    assert views.frames is not None and views.first.shape[1] == 4
    seen, raw = game.anonymize(views), views.picked()
    for side, (whole, shown, plain) in enumerate(
        [(views.first, seen.first, raw.first), (views.second, seen.second, raw.second)]
    ):
        anonymized = game.anonymizer(whole)
        for clip, frame in enumerate(views.frames[:, side].tolist()):
            assert shown[clip, 0].equal(anonymized[clip, frame]) and plain[clip, 0].equal(whole[clip, frame])


@pytest.mark.parametrize("name", TERMS)
@pytest.mark.parametrize("mechanism", ["both", "sparsification"])
def test_each_term_reaches_the_predictors(name: str, mechanism: str) -> None:
    game = make_game(mechanism=mechanism)
    always_the_same(game)
    plain_descent(game, 0.0)
    game.anonymizer_step(0, only(game.tubelet_terms, name))
    assert float(gradient(game.anonymizer.predictors[0]).abs().sum()) > 0, f"{name} does not reach the first predictor"


def test_each_term_falls_where_nothing_is_drawn() -> None:
    game = make_game(mechanism="anonymization")
    start = snapshot(game.anonymizer)
    for name in ("action", "budget"):
        game.anonymizer.load_state_dict(start)
        plain_descent(game, 0.0)
        game.anonymizer_step(0, only(game.tubelet_terms, name))
        steep = float(gradient(game.anonymizer).norm())
        plain_descent(game, 1e-3 / steep)
        before, after = (game.anonymizer_step(0, only(game.tubelet_terms, name))[f"f_A {name}"] for _ in range(2))
        assert 0.5 < float(before - after) / (1e-3 * steep) < 1.5, name


@pytest.mark.parametrize(("keep_ratio", "falls"), [(0.1, True), (1.0, False)])
def test_the_share_that_is_kept_goes_where_equation_7_wants_it(keep_ratio: float, falls: bool) -> None:
    game = make_game(keep_ratio=keep_ratio)
    always_the_same(game)
    plain_descent(game, 1.0)
    video = game.deal.action_batch("minimax", 0).video

    def kept() -> float:
        torch.manual_seed(1)
        with torch.no_grad():
            decisions = [game.anonymizer.sparsify(video).decisions[-1].mean() for _ in range(20)]
        return float(torch.stack(decisions).mean())

    before = kept()
    for step in range(5):
        game.anonymizer_step(step, only(game.tubelet_terms, "spars"))
    assert (kept() < before) == falls


def test_the_initialisation_teaches_f_a_and_its_head_alone() -> None:
    game = make_game(initialisation_rate=3e-3)
    others = {"f_T": game.utility, "f_B": game.opponents[0]}
    before = {name: snapshot(module) for name, module in others.items()}
    own, head = snapshot(game.anonymizer), snapshot(game.head)
    losses = [float(game.initialisation_step(step)["f_A action"]) for step in range(30)]
    assert all(same(module, before[name]) for name, module in others.items())
    assert not same(game.anonymizer, own) and not same(game.head, head)
    assert sum(losses[-5:]) < sum(losses[:5])


def test_watching_the_initialisation_changes_nothing() -> None:
    game = make_game()
    before = snapshot(game.anonymizer)
    found = game.watch_initialisation()
    assert found.keys() == {"L'_Action", "action"} and found == game.watch_initialisation()
    assert same(game.anonymizer, before)


def test_f_a_is_as_the_config_asks() -> None:
    game = make_game(duration=1, keep_ratio=0.5, two_pass=True, mechanism="sparsification")
    asked = {"embedding": 24, "duration": 1, "alpha": 0.5, "two_pass": True, "anonymize": False, "sparsify": True}
    assert asked.items() <= game.anonymizer.settings().items()
    assert make_game(mechanism="anonymization").anonymizer.settings()["sparsify"] is False


def test_the_step_between_frames_is_that_of_most_clips() -> None:
    assert frame_step(torch.tensor([[0, 3, 6, 9], [1, 4, 7, 10], [0, 5, 10, 15]])) == 3
    assert frame_step(torch.zeros(2, 4, dtype=torch.int64)) == 1  # a video of one frame
    assert make_game().anonymizer.spec.frame_step == 2  # of the toys


def test_clips_of_two_lengths_are_refused_before_the_first_step() -> None:
    banks = make_tubelet_banks()
    shorter = replace(banks.privacy, pixels=banks.privacy.pixels[:, :2], times=banks.privacy.times[:, :2])
    with pytest.raises(SfumatoError, match="toy 4 and others 2 frames differ"):
        TubeletGame(STPrivacyConfig(**TINY), replace(banks, privacy=shorter), seed=0, device=CPU)


def test_without_sparsification_nothing_is_asked_of_the_shares() -> None:
    game = make_game(mechanism="anonymization")
    assert game.anonymizer.alpha == 1.0
    assert float(game.anonymizer_step(0, game.tubelet_terms)["f_A spars"]) == 0


def test_a_share_that_nothing_would_come_of_is_refused() -> None:
    with pytest.raises(SfumatoError, match="mechanism = anonymization leaves nothing for keep_ratio to do: leave one"):
        STPrivacyConfig(mechanism="anonymization", keep_ratio=0.5)
    for mechanism, kept in (("anonymization", 0.7), ("anonymization", 1.0), ("sparsification", 0.5), ("both", 0.5)):
        assert STPrivacyConfig(mechanism=mechanism, keep_ratio=kept).keep_ratio == kept
    with pytest.raises(SfumatoError, match="r2d2"):  # and what holds for all methods still does
        STPrivacyConfig(utility="r2d2")


def test_a_strip_shows_before_what_is_kept_and_after() -> None:
    game = make_game()
    before, kept, after = game.strip(count=1)
    assert before.shape == kept.shape == after.shape and before.dtype == kept.dtype == torch.uint8
    shown = kept > 0
    assert torch.equal(kept[shown], before[shown])  # what is kept is as it was
    assert not torch.equal(kept, before) and not torch.equal(after, before)


def stage_of(folder: Path, **timing: int) -> Stage:
    stage = make_stage(folder, resume=folder.exists(), **timing)
    stage.banks = make_tubelet_banks()
    return stage


def test_a_training_leaves_an_anonymizer_whose_knob_moves(tmp_path: Path) -> None:
    result = train(STPrivacyConfig(**TINY), stage_of(tmp_path / "run"))
    assert {row["task"] for row in result["audit"]} == {"labels"}
    phases = dict.fromkeys(line["phase"] for line in logged(tmp_path / "run"))
    assert list(phases) == ["initialise", "opponents", "minimax", "audit"]
    anonymizer = load(str(tmp_path / "run" / "anonymizer"))
    assert isinstance(anonymizer, Tubelets)
    video = make_tubelet_banks().watch_action.pixels[:1].float() / 255
    anonymizer.alpha = 1.0
    assert (anonymizer(video) > 0).all()


def test_a_resumed_training_ends_as_one_that_was_never_stopped(tmp_path: Path) -> None:
    config = STPrivacyConfig(**{**TINY, "initialisation_steps": 6, "opponent_steps": 1, "audit_steps": 1})
    whole = stage_of(tmp_path / "whole")
    train(config, whole)

    class Stop(Exception):
        pass

    def stop(done: int, latest: dict[str, float]) -> None:
        if done == 5:
            raise Stop

    cut = stage_of(tmp_path / "cut")
    cut.progress.step = stop
    with pytest.raises(Stop):
        train(config, cut)
    again = stage_of(tmp_path / "cut")
    train(config, again)
    first, second = (load(str(tmp_path / name / "anonymizer")).state_dict() for name in ("whole", "cut"))
    assert equal(first, second)


def test_it_is_found_by_name() -> None:
    assert find_method("stprivacy").config is STPrivacyConfig
