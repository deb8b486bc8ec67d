"""The audit: fresh attackers in pairs, one on what f_A gives and its twin on raw video."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from sfumato.training.audit import SIDES
from sfumato.training.contest import audit, confront
from sfumato.training.frame_game import FrameGame
from sfumato.training.opponents import Opponent, Views

from .toys import CPU, equal, make_banks, make_game, same, snapshot, tiny

PAIR = "tiny-frame+tiny-video"


def attackers(game: FrameGame) -> list[Opponent]:
    return [attacker for side in SIDES for attacker in game.audit.attackers[side]]


@pytest.mark.parametrize("budget", ["nt-xent", "moco", "rotation", "labels"])
def test_twins_begin_alike_and_see_the_same_clips_with_and_without_f_a(
    budget: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    game = make_game(budget=budget, budget_models=PAIR)
    game.audit.begin()
    hidden, raw = (game.audit.attackers[side] for side in SIDES)
    assert len(hidden) == len(raw) == 3
    assert all(same(a, snapshot(b)) and a is not b for a, b in zip(hidden, raw, strict=True))
    assert not any(same(a, snapshot(b)) for a, b in zip(hidden, game.opponents, strict=False))  # fresh

    seen: dict[int, list[Tensor]] = {}
    for attacker in attackers(game):
        for way in ("reading", "watched"):
            told = getattr(attacker, way)

            def looked(views: Views, attacker: Opponent = attacker, told: Any = told) -> Any:
                seen[id(attacker)] = [views.first, views.second]
                return told(views)

            monkeypatch.setattr(attacker, way, looked)
    game.audit_step(4)
    for a, b in zip(hidden, raw, strict=True):
        dealt = game.deal.privacy_batch("audit", 4, a.level)
        with torch.no_grad():
            given = [game.anonymizer.eval()(view) for view in (dealt.first, dealt.second)]
        assert equal(seen[id(b)], [dealt.first, dealt.second])
        assert equal(seen[id(a)], given)
    game.watch_audit()  # and so on the clips they are watched on
    watched = game.deal.watched_views(raw[1].level, plain=raw[1].told)
    assert equal(seen[id(raw[1])], [watched.first, watched.second])
    assert not seen[id(hidden[1])][0].equal(watched.first)


def test_who_is_told_labels_is_watched_on_clips_as_they_are() -> None:
    game = make_game(budget_models=PAIR)
    clips = game.banks.watch_privacy.pixels.float() / 255
    for level, shown in (("frame", 1), ("video", clips.shape[1])):
        plain, distorted = (game.deal.watched_views(level, plain=plain) for plain in (True, False))
        assert plain.first.shape == distorted.first.shape == (len(clips), shown, *clips.shape[2:])
        assert plain.answers.equal(distorted.answers) and not plain.first.equal(distorted.first)
        # every frame of them is one of the clip's own
        assert (plain.first[:, :, None] == clips[:, None]).flatten(3).all(3).any(2).all()
    game.audit.begin()
    asked = [(attacker.lineup.kind, attacker.told) for attacker in game.audit.attackers["raw"]]
    assert asked == [("nt-xent", False), ("nt-xent", False), ("labels", True)]


def test_attackers_learn_at_their_own_rate() -> None:
    game = make_game(budget_rate=1e-2, audit_rate=3e-3)
    game.audit.begin()
    rates = {group["lr"] for side in SIDES for o in game.audit.optimizers[side] for group in o.param_groups}
    assert rates == {3e-3}


def test_a_labelled_attacker_is_told_who_it_is_or_else_what_people_look_like() -> None:
    def told(heads: tuple[int, ...], asks_who: bool, **changes: Any) -> list[tuple[str, tuple[int, ...]]]:
        banks = make_banks()
        banks.privacy.heads, banks.privacy.asks_who = heads, asks_who
        game = FrameGame(tiny(**changes), banks, seed=0, device=CPU)
        assert audit(game).steps == (3 if game.audit.lineups else 0)
        return [(lineup.kind, lineup.asked) for lineup in game.audit.lineups]

    assert told((2, 4), True) == [("nt-xent", ()), ("labels", (1,))]
    assert told((2,), False) == [("nt-xent", ()), ("labels", (0,))]
    assert told((), False) == [("nt-xent", ())]  # no labels: the f_B's own make alone
    assert told((2, 4), True, budget_update="none") == [("labels", (1,))]
    assert told((), False, budget_update="none") == []
    assert told((2, 4), True, budget="labels", budget_labels="attributes") == [("labels", (0,)), ("labels", (1,))]


def clear(game: FrameGame) -> FrameGame:
    """f_A hides nothing; the attackers are trained on that."""
    game.anonymizer = nn.Identity()
    for step in range(40):
        game.audit_step(step)
    return game


def test_the_audit_runs_without_an_f_b_and_reads_what_is_not_hidden() -> None:
    (row,) = confront(clear(make_game(budget_update="none", audit_rate=5e-3)))
    assert (row["f_B"], row["task"], row["in training"]) == ("tiny-frame", "labels", None)
    assert row["chance"] == 0.25 and row["raw"] == row["fresh"] > 0.7  # twins that saw the same
    assert row["verdict"] == "measured"


def test_where_raw_video_cannot_be_read_either_nothing_is_concluded() -> None:
    game = make_game(budget="labels", budget_labels="identity", audit_rate=5e-3)
    for bank in (game.banks.privacy, game.banks.watch_privacy):
        bank.pixels = torch.full_like(bank.pixels, 128)  # nobody to be seen
    rows = confront(clear(game))
    assert len(rows) == 2
    for row in rows:
        assert row["raw"] < row["chance"] + 0.1 and row["verdict"] == "inconclusive"


def test_an_audit_is_taken_up_on_both_sides_as_if_it_had_not_been_left() -> None:
    game, other = make_game(budget="moco", budget_models=PAIR), make_game(budget="moco", budget_models=PAIR)
    assert game.state_dict()["audit"] == {}  # none before it begins
    game.audit_step(0)
    game.audit_step(1)
    other.load_state_dict(copy.deepcopy(game.state_dict()))
    assert equal(game.state_dict()["audit"], other.state_dict()["audit"])
    for both in (game, other):
        both.audit_step(2)
    state = game.state_dict()["audit"]
    assert set(state) == set(SIDES) and equal(state, other.state_dict()["audit"])
    assert not equal(state["raw"], state["anonymized"])
    assert game.watch_audit() == other.watch_audit()
