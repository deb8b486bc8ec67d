from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sfumato.errors import SfumatoError
from sfumato.training import minimax
from sfumato.training.dealing import ActionBatch
from sfumato.training.frame_game import FrameGame
from sfumato.training.minimax import Terms
from sfumato.training.opponents import Views
from sfumato.training.optimisation import one_cycle

from .toys import CPU, equal, gradient, make_bank, make_banks, make_game, objectives, same, snapshot, tiny

KINDS = ["nt-xent", "moco", "rotation", "labels"]


def everybody(game: FrameGame) -> dict[str, nn.Module]:
    """All players, present and past, by name."""
    others = {f"f_B {i}": opponent for i, opponent in enumerate(game.opponents)}
    past = {f"past {i}": opponent for i, opponent in enumerate(game.past)}
    return {"f_A": game.anonymizer, "f_T": game.utility, **others, **past}


def moved(game: FrameGame, before: Mapping[str, Mapping[str, Tensor]]) -> set[str]:
    return {name for name, module in everybody(game).items() if not same(module, before[name])}


def learned(module: nn.Module, before: Mapping[str, Tensor], part: str) -> bool:
    """Whether some parameters or some running statistics of a module have changed."""
    values = module.named_parameters() if part == "parameters" else module.named_buffers()
    return any(not value.equal(before[name]) for name, value in values if name in before)


# ---- who moves in which step -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_step_1_moves_the_anonymizer_alone(kind: str) -> None:
    # batch norm in every f_B: its running statistics would move in train mode
    game = make_game(
        budget=kind, budget_models="tiny-frame+tiny-video", budget_norm="batch", restart_steps=1, history=1
    )
    objective, utility_loss = objectives(game)
    game.budget_step("minimax", 1, game.opponents, game.budget_optimizers)
    game.utility_step("minimax", 1, utility_loss)
    game.restart(1)
    game.budget_step("minimax", 2, game.opponents, game.budget_optimizers)
    before = {name: snapshot(module) for name, module in everybody(game).items()}
    assert set(before) == {"f_A", "f_T", "f_B 0", "f_B 1", "past 0"}
    asked = {name: [p.requires_grad for p in module.parameters()] for name, module in everybody(game).items()}
    game.utility.zero_grad()
    for opponent in [*game.opponents, *game.past]:
        opponent.zero_grad()

    def watched(batch: ActionBatch, output: Tensor, views: Mapping[str, Views]) -> Terms:
        for name, module in everybody(game).items():
            assert all(part.training == (name == "f_A") for part in module.modules()), name
            assert name == "f_A" or not any(p.requires_grad for p in module.parameters()), name
        return objective(batch, output, views)

    game.anonymizer_step(1, watched)
    assert moved(game, before) == {"f_A"}
    assert learned(game.anonymizer, before["f_A"], "parameters") and learned(game.anonymizer, before["f_A"], "buffers")
    for name, module in everybody(game).items():
        assert [p.requires_grad for p in module.parameters()] == asked[name]
        assert name == "f_A" or all(p.grad is None for p in module.parameters()), name


def test_gradients_are_not_rounded_to_what_the_networks_compute_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Backward inside autocast would cast down again what an objective computes in float32 on purpose."""
    monkeypatch.setattr(minimax, "autocast", lambda device: torch.autocast("cpu", dtype=torch.bfloat16))
    game = make_game()
    objective, utility_loss = objectives(game)
    seen: list[bool] = []

    def watched(batch: ActionBatch, output: Tensor, views: Mapping[str, Views]) -> Terms:
        assert torch.is_autocast_enabled("cpu")
        output.register_hook(lambda grad: seen.append(torch.is_autocast_enabled("cpu")))
        return objective(batch, output, views)

    def read(batch: ActionBatch, output: Tensor) -> Tensor:
        assert torch.is_autocast_enabled("cpu")
        loss = utility_loss(batch, output)
        loss.register_hook(lambda grad: seen.append(torch.is_autocast_enabled("cpu")))
        return loss

    game.anonymizer_step(0, watched)
    game.utility_step("minimax", 1, read)
    assert seen == [False, False]


def test_frames_whose_shape_tells_how_they_were_turned_are_refused_before_the_first_step() -> None:
    banks = make_banks()
    wide = {
        name: replace(bank, pixels=bank.pixels[..., :8, :])
        for name in ("privacy", "watch_privacy")
        for bank in [getattr(banks, name)]
    }
    with pytest.raises(SfumatoError, match="16×8 cannot be told by rotation"):
        FrameGame(tiny(budget="rotation"), replace(banks, **wide), seed=0, device=CPU)


def test_step_2_moves_the_utility_model_alone() -> None:
    game = make_game(budget_norm="batch")
    before = {name: snapshot(module) for name, module in everybody(game).items()}
    utility_loss = objectives(game)[1]

    def watched(batch: ActionBatch, output: Tensor) -> Tensor:
        assert game.utility.training and not any(part.training for part in game.anonymizer.modules())
        assert not output.requires_grad
        return utility_loss(batch, output)

    assert set(game.utility_step("minimax", 1, watched)) == {"L_T"}
    assert moved(game, before) == {"f_T"}
    assert learned(game.utility, before["f_T"], "parameters") and learned(game.utility, before["f_T"], "buffers")
    assert all(p.grad is None for p in game.anonymizer.parameters())


@pytest.mark.parametrize("kind", KINDS)
def test_step_2_moves_the_opponents_alone(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    game = make_game(budget=kind, budget_models="tiny-frame+tiny-video", budget_norm="batch")
    game.budget_step("minimax", 0, game.opponents, game.budget_optimizers)  # MoCo has no negatives before
    before = {name: snapshot(module) for name, module in everybody(game).items()}
    modes = []
    anonymize = game.anonymize

    def watched(views: Views) -> Views:
        modes.append([part.training for part in game.anonymizer.modules()])
        return anonymize(views)

    monkeypatch.setattr(game, "anonymize", watched)
    terms = game.budget_step("minimax", 1, game.opponents, game.budget_optimizers)
    assert set(terms) == {"L_B", "f_B reads", "L_B1", "f_B1 reads"}
    assert moved(game, before) == {"f_B 0", "f_B 1"}
    assert len(modes) == 2 and not any(map(any, modes))  # one batch for frames, one for clips; f_A as it is deployed
    for number, opponent in enumerate(game.opponents):
        for part in ("parameters", "buffers"):
            assert learned(opponent, before[f"f_B {number}"], part)
    assert all(p.grad is None for p in game.anonymizer.parameters())


def test_together_the_utility_model_moves_in_step_1_by_its_own_loss() -> None:
    game = make_game(utility_update="together", budget_norm="batch")
    objective, utility_loss = objectives(game)
    before = {name: snapshot(module) for name, module in everybody(game).items()}

    def watched(batch: ActionBatch, output: Tensor, views: Mapping[str, Views]) -> Terms:
        modes = {name: {part.training for part in module.modules()} for name, module in everybody(game).items()}
        assert modes == {"f_A": {True}, "f_T": {True}, "f_B 0": {False}}
        return objective(batch, output, views)

    game.anonymizer_step(3, watched)
    assert moved(game, before) == {"f_A", "f_T"}
    found = gradient(game.utility)

    # what f_T descended is L_T alone: no other term moves it
    for name, module in everybody(game).items():
        module.load_state_dict(before[name])
    game.anonymizer.train()
    game.utility.train().zero_grad()
    batch = game.deal.action_batch("minimax", 3)
    utility_loss(batch, game.anonymizer(batch.video)).backward()
    torch.testing.assert_close(found, gradient(game.utility))


def test_an_opponent_learns_to_read() -> None:
    game = make_game(budget="labels", budget_rate=5e-3)
    game.anonymizer = nn.Identity()  # hides nothing
    losses = [
        float(game.budget_step("opponents", turn, game.opponents, game.budget_optimizers)["L_B"]) for turn in range(25)
    ]
    assert sum(losses[-3:]) < 0.7 * sum(losses[:3])
    assert game.watch_opponents(game.opponents)["f_B reads"] > game.watch_chance(game.opponents[0])


# ---- what f_A faces --------------------------------------------------------------------------------------------------


def faced(game: FrameGame) -> list[Tensor]:
    """What every f_B's confusion is, on views that need no f_A."""
    return [opponent.confusion(raw_views(game)[opponent.level]) for opponent in [*game.opponents, *game.past]]


def raw_views(game: FrameGame) -> dict[str, Views]:
    return {level: game.deal.privacy_batch("minimax", 0, level) for level in game.levels()}


@pytest.mark.parametrize("strongest", [False, True])
def test_all_opponents_are_faced_or_the_strongest_alone(strongest: bool) -> None:
    game = make_game(budget_models="tiny-frame+tiny-video", strongest=strongest, restart_steps=1, history=1)
    game.restart(1)
    assert game.levels() == ["frame", "video"]
    each = torch.stack(faced(game))
    assert len(each.unique()) == 3  # two f_B and a past one, which differ
    expected = each.min() if strongest else each.mean()
    torch.testing.assert_close(game.budget_confusion(raw_views(game)), expected)


def test_a_past_opponent_may_be_the_strongest() -> None:
    game = make_game(strongest=True, restart_steps=1, history=1, budget_rate=5e-3)
    game.anonymizer = nn.Identity()
    for turn in range(1, 15):
        game.budget_step("minimax", turn, game.opponents, game.budget_optimizers)
    game.restart(1)
    new, old = faced(game)
    assert old < new
    torch.testing.assert_close(game.budget_confusion(raw_views(game)), old)


def test_restarts_take_turns_and_the_history_keeps_the_last_ones() -> None:
    game = make_game(budget_models="tiny-frame+tiny-video", restart_steps=1, history=2)
    for turn in range(2):
        game.budget_step("minimax", turn, game.opponents, game.budget_optimizers)
    first = [snapshot(opponent) for opponent in game.opponents]

    game.restart(3)
    assert not same(game.opponents[0], first[0]) and same(game.opponents[1], first[1])
    assert len(game.past) == 1 and same(game.past[0], first[0])
    assert not game.budget_optimizers[0].state and game.budget_optimizers[1].state  # its optimizer is new too
    again = make_game(budget_models="tiny-frame+tiny-video", restart_steps=1)
    again.restart(3)
    assert same(again.opponents[0], snapshot(game.opponents[0]))  # a function of the seed and the step
    assert again.past == []

    game.restart(6)
    assert not same(game.opponents[1], first[1])
    assert same(game.past[0], first[0]) and same(game.past[1], first[1])
    middle = snapshot(game.opponents[0])
    game.restart(9)
    assert len(game.past) == 2 and same(game.past[0], first[1]) and same(game.past[1], middle)
    assert not same(game.opponents[0], middle)

    past = [snapshot(opponent) for opponent in game.past]
    game.budget_step("minimax", 10, game.opponents, game.budget_optimizers)
    assert all(same(opponent, kept) for opponent, kept in zip(game.past, past, strict=True))


# ---- learning rates --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("share", "factor"),
    [
        (0.0, 0.04),
        (0.15, 0.52),  # half-way up: 1/25 + 24/25 · ½
        (0.3, 1.0),
        (0.65, 0.5),  # half-way down
        (0.475, 0.8535534),  # a quarter down: (1 + cos 45°) / 2
        (1.0, 0.0),
    ],
)
def test_one_cycle(share: float, factor: float) -> None:
    assert one_cycle(share) == pytest.approx(factor, abs=1e-7)


def rates(game: FrameGame) -> tuple[float, float, float]:
    optimizers = [game.optimizers["anonymizer"], game.optimizers["utility"], *game.budget_optimizers]
    return tuple(optimizer.param_groups[0]["lr"] for optimizer in optimizers)


def test_the_schedule_is_of_the_anonymizer_and_the_utility_model() -> None:
    settings: dict[str, Any] = {"anonymizer_rate": 1e-2, "utility_rate": 1e-3, "budget_rate": 1e-4, "steps": 20}
    game = make_game(**settings, schedule="one-cycle")
    game.schedule(3)
    assert rates(game) == pytest.approx((0.52e-2, 0.52e-3, 1e-4))
    game.schedule(6)
    assert rates(game) == pytest.approx((1e-2, 1e-3, 1e-4))
    game = make_game(**settings, reconstruction_rate=0.5)
    game.reconstruction_step(0)
    assert rates(game)[0] == 0.5
    game.schedule(3)
    assert rates(game) == pytest.approx((1e-2, 1e-3, 1e-4))


# ---- batches ---------------------------------------------------------------------------------------------------------


def test_batches_are_drawn_anew_in_every_step_and_the_same_in_every_run() -> None:
    game, again = make_game(), make_game()
    first, second = game.deal.action_batch("minimax", 0), game.deal.action_batch("minimax", 1)
    assert first.video.shape == (4, 4, 3, 16, 16) and first.video.min() >= 0 and first.video.max() <= 1
    assert not first.video.equal(second.video)
    assert not first.video.equal(game.deal.action_batch("opponents", 0).video)  # augmented otherwise
    assert first.video.equal(again.deal.action_batch("minimax", 0).video)
    other = FrameGame(tiny(), make_banks(), seed=1, device=CPU)
    assert not first.video.equal(other.deal.action_batch("minimax", 0).video)
    assert not same(other.anonymizer, snapshot(game.anonymizer))


def test_a_gentle_augmentation_is_of_the_action_clips() -> None:
    strong, gentle = make_game(), make_game(augmentation="gentle")
    assert not strong.deal.action_batch("minimax", 0).video.equal(gentle.deal.action_batch("minimax", 0).video)
    raw = strong.deal.privacy_batch("minimax", 0, "frame")
    assert raw.first.equal(gentle.deal.privacy_batch("minimax", 0, "frame").first)


def test_neither_data_set_is_cut_to_the_shorter_one() -> None:
    game = make_game()
    action = torch.cat([game.deal.action_rounds.rows(step) for step in range(3)])
    privacy = torch.cat([game.deal.privacy_rounds.rows(step) for step in range(5)])
    assert sorted(action.tolist()) == list(range(12))
    assert sorted(privacy.tolist()) == sorted([*range(10), *range(10)])


def test_views_are_two_frames_or_the_clip_twice() -> None:
    game = make_game()
    # the frame's number as its grey value, which augmentation changes by a fifth at most
    values = torch.tensor([10, 40, 120, 255], dtype=torch.uint8).view(4, 1, 1, 1)
    game.banks.privacy.pixels = values.expand(10, 4, 3, 16, 16).clone()
    frames, clips = (game.deal.privacy_batch("minimax", 0, level) for level in ("frame", "video"))
    assert frames.first.shape == (4, 1, 3, 16, 16) and clips.first.shape == (4, 4, 3, 16, 16)
    assert not clips.first.equal(clips.second)  # augmented each by itself
    brightest = [view.amax((1, 2, 3, 4)) for view in (frames.first, frames.second)]
    assert ((brightest[0] / brightest[1] - 1).abs() > 0.5).all()  # never the same frame twice
    # and other ones in every step
    levels = torch.tensor([10, 40, 120, 255]) / 255
    pairs = {
        tuple((view.amax((1, 2, 3, 4))[:, None] / levels).log().abs().argmin(1).tolist())
        for step in range(3)
        for batch in [game.deal.privacy_batch("minimax", step, "frame")]
        for view in (batch.first, batch.second)
    }
    assert len(pairs) == 6
    rows = game.deal.privacy_rounds.rows(0)
    assert frames.answers.equal(game.banks.privacy.answers[rows]) and clips.answers.equal(frames.answers)


@pytest.mark.parametrize("part", ["privacy", "watch_privacy"])
def test_videos_without_such_a_pair_are_told_before_the_first_step(part: str) -> None:
    banks = make_banks()
    bank = getattr(banks, part)
    bank.times = bank.times.clone()
    bank.times[3] = bank.times[3] // 2  # spans 3 frames where the others span 6
    FrameGame(tiny(positives=">2"), banks, seed=0, device=CPU)
    with pytest.raises(SfumatoError, match="1 videos of others have no two frames >4 frames apart"):
        FrameGame(tiny(positives=">4"), banks, seed=0, device=CPU)


# ---- watching --------------------------------------------------------------------------------------------------------


def test_watching_is_of_what_would_be_deployed_and_changes_nothing() -> None:
    game = make_game(batch=3, budget_norm="batch")  # the watched clips do not fill the last part
    before = {name: snapshot(module) for name, module in everybody(game).items()}
    deployed, judge = copy.deepcopy(game.anonymizer).eval(), copy.deepcopy(game.utility).eval()
    game.anonymizer.train()
    game.utility.train()
    found = game.watch() | game.watch_opponents(game.opponents)
    again = game.watch() | game.watch_opponents(game.opponents)
    assert found == again and moved(game, before) == set()

    video, actions = game.banks.watch_action.pixels.float() / 255, game.banks.watch_action.actions
    with torch.no_grad():
        output = deployed(video)
        logits = judge(output)
    expected = {
        "L1": (output - video).abs().mean(),
        "shown": output.mean(),
        "L_T": F.cross_entropy(logits, actions),
        "action": (logits.argmax(1) == actions).float().mean(),
    }
    for name, value in expected.items():
        assert found[name] == pytest.approx(float(value), abs=1e-5), name
    # an untrained f_A moves nothing apart: L_B is near that of guessing among 2·8 − 1 others
    assert found["L_B"] > 0 and 0 <= found["f_B reads"] <= 1
    assert game.watch_chance(game.opponents[0]) == pytest.approx(1 / 15)


def test_a_strip_shows_before_and_after() -> None:
    game = make_game()
    rows = game.strip()
    assert [tuple(row.shape) for row in rows] == [(4, 3, 16, 16)] * 4 and {row.dtype for row in rows} == {torch.uint8}
    assert rows[0].equal(game.banks.watch_action.pixels[0]) and rows[2].equal(game.banks.watch_action.pixels[1])
    with torch.no_grad():
        output = game.anonymizer.eval()(rows[0][None].float() / 255)[0]
    assert (rows[1].float() / 255 - output).abs().max() <= 0.5 / 255 + 1e-6


# ---- state -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("budget", ["nt-xent", "moco"])  # moco has a queue, and a network that follows
def test_a_new_game_takes_up_the_state_of_another(budget: str) -> None:
    settings: dict[str, Any] = {"budget_models": "tiny-frame+tiny-video", "restart_steps": 1, "history": 2}
    settings["budget"] = budget
    game, other = make_game(**settings), make_game(**settings)

    def play(game: FrameGame, step: int) -> None:
        objective, utility_loss = objectives(game)
        game.anonymizer_step(step, objective)
        game.utility_step("minimax", step, utility_loss)
        game.budget_step("minimax", step, game.opponents, game.budget_optimizers)

    for step in range(3):  # three restarts: the history holds a video network, then a frame network
        play(game, step)
        game.restart(step)
    game.audit_step(0)
    other.load_state_dict(copy.deepcopy(game.state_dict()))
    assert [opponent.level for opponent in other.past] == ["video", "frame"]
    for both in (game, other):
        play(both, 5)
        both.restart(6)
        both.audit_step(1)
    assert other.restarts == 4
    assert equal(game.state_dict(), other.state_dict())


@pytest.mark.parametrize("budget", ["nt-xent", "moco"])
def test_an_f_b_that_tells_videos_apart_needs_two(budget: str) -> None:
    banks = replace(make_banks(), privacy=make_bank(1, 1, "others"))
    with pytest.raises(SfumatoError, match="others has one video to train on"):
        FrameGame(tiny(budget=budget), banks, seed=0, device=CPU)


def test_a_batch_says_which_videos_it_shows() -> None:
    game = make_game(privacy_batch=16)  # of ten videos some are there twice
    videos = game.deal.privacy_batch("minimax", 0, "frame").videos
    assert len(videos) == 16 and videos.unique().numel() == 10
    assert game.anonymize(game.deal.privacy_batch("minimax", 0, "frame")).videos.equal(videos)
