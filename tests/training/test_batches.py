"""Which clips and frames come when."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from sfumato.errors import SfumatoError
from sfumato.training.batches import Positives, Rounds, mix


def drawn(rounds: Rounds, rows: int) -> Tensor:
    """At least that many rows, in the order in which they come."""
    steps = -(-rows // rounds.batch)
    return torch.cat([rounds.rows(step) for step in range(steps)])


def test_mix_is_the_same_on_every_machine_for_ever() -> None:
    # SHA-256 of "(0, 'augment', 3)" and "(7,)": the first seven bytes.
    assert mix(0, "augment", 3) == 0x1A779DD0D5F1E1
    assert mix(7) == 0x24A6ADE6D35F1E


def test_mix_gives_every_purpose_a_seed_of_its_own() -> None:
    salts: list[tuple[int | str, ...]] = [(), (0,), (1,), ("0",), (0, 0), ("a", 1), ("a1",), (1, "a"), ("a", "b")]
    seeds = {mix(seed, *salt) for seed in range(20) for salt in salts}
    assert len(seeds) == 20 * len(salts)
    assert all(0 <= seed < 2**63 for seed in seeds)  # what a generator takes


@pytest.mark.parametrize(("count", "batch"), [(12, 4), (12, 5), (7, 3), (5, 12), (3, 3), (1, 4), (4, 8)])
def test_every_round_holds_every_row_once(count: int, batch: int) -> None:
    rows = drawn(Rounds(count, batch, seed=3), 6 * count)
    assert rows.dtype == torch.int64
    for turn in rows[: 6 * count].view(6, count):
        assert sorted(turn.tolist()) == list(range(count))


def test_every_batch_is_full() -> None:
    rounds = Rounds(7, 4, seed=0)
    assert [len(rounds.rows(step)) for step in range(10)] == [4] * 10


def test_rounds_come_in_orders_of_their_own() -> None:
    turns = drawn(Rounds(20, 20, seed=0), 200).view(10, 20)
    assert len({tuple(turn.tolist()) for turn in turns}) == 10
    assert not turns[0].equal(torch.arange(20))


def test_rows_depend_on_seed_and_step_alone() -> None:
    rounds = Rounds(10, 4, seed=5)
    forwards = [rounds.rows(step).tolist() for step in range(12)]
    assert [rounds.rows(step).tolist() for step in reversed(range(12))] == forwards[::-1]
    torch.manual_seed(123)
    assert [Rounds(10, 4, seed=5).rows(step).tolist() for step in (7, 2)] == [forwards[7], forwards[2]]
    assert [Rounds(10, 4, seed=6).rows(step).tolist() for step in range(12)] != forwards


def test_an_empty_data_set_says_what_to_do() -> None:
    with pytest.raises(SfumatoError, match="no clip to train on: give a data set with clips in its training part"):
        Rounds(0, 4, seed=0)


@pytest.mark.parametrize(("action", "privacy"), [(30, 7), (7, 30)])
def test_trap_8_two_data_sets_of_different_length_are_both_seen_whole(action: int, privacy: int) -> None:
    longer, batch = max(action, privacy), 4
    steps = -(-longer // batch)  # one round of the longer one
    seen = [torch.cat([Rounds(count, batch, seed=0).rows(s) for s in range(steps)]) for count in (action, privacy)]
    assert seen[0].unique().tolist() == list(range(action))
    assert seen[1].unique().tolist() == list(range(privacy))
    assert len(seen[0]) == len(seen[1]) == steps * batch
    # The shorter one comes round again, its rows in equal shares.
    counts = min(seen, key=lambda rows: int(rows.max())).bincount()
    assert counts.max() - counts.min() <= 1


def pairs(rule: str, times: list[int]) -> set[tuple[int, int]]:
    """The pairs of frame numbers that a rule allows in a video with these frames."""
    allowed = Positives.parse(rule).allowed(torch.tensor([times]))[0]
    return {(times[i], times[j]) for i, j in allowed.nonzero().tolist()}


def test_rules_are_strict_and_count_frames_of_the_source_video() -> None:
    times = [0, 7, 8, 64, 72]
    assert pairs("any", times) == {(a, b) for a in times for b in times if a != b}
    assert pairs("<8", times) == {(0, 7), (7, 0), (7, 8), (8, 7)}
    assert pairs("<9", times) == pairs("<8", times) | {(0, 8), (8, 0), (64, 72), (72, 64)}
    assert pairs(">64", times) == {(0, 72), (72, 0), (7, 72), (72, 7)}
    assert pairs(">63", times) == pairs(">64", times) | {(0, 64), (64, 0), (8, 72), (72, 8)}


def test_a_frame_is_no_partner_of_itself_nor_of_its_repetition() -> None:
    assert pairs("any", [3, 3, 5]) == {(3, 5), (5, 3)}
    assert not pairs(">2", [3, 3, 5])


@pytest.mark.parametrize("rule", ["any", "<8", ">64"])
def test_a_picture_alone_pairs_with_itself(rule: str) -> None:
    positives = Positives.parse(rule)
    times = torch.zeros(4, 1, dtype=torch.int64)
    positives.check(times, "pictures")
    assert positives.draw(times, torch.Generator()).tolist() == [[0, 0]] * 4


@pytest.mark.parametrize("rule", ["", "8", "< 8", "<0", "<-3", "=8", "near", "Any", "<8.5", "<>8"])
def test_what_is_no_rule_is_refused(rule: str) -> None:
    with pytest.raises(SfumatoError) as error:
        Positives.parse(rule)
    assert error.value.what == f"positives = '{rule}' is no rule"
    assert error.value.next_step == "use any, <8 (near frames) or >64 (far frames)"


def test_videos_without_such_a_pair_are_counted_before_training() -> None:
    times = torch.tensor([[0, 30, 60], [100, 140, 180], [5, 15, 25]])
    with pytest.raises(SfumatoError) as error:
        Positives.parse(">64").check(times, "my clips")
    assert error.value.what == "2 videos of my clips have no two frames >64 frames apart (the longest spans 80)"
    assert error.value.next_step == "set positives to any, or to a distance that its videos have"
    Positives.parse(">64").check(times[1:2], "my clips")
    Positives.parse("any").check(times, "my clips")


@pytest.mark.parametrize("rule", ["any", "<8", ">8"])
def test_every_allowed_pair_is_equally_likely(rule: str) -> None:
    positives = Positives.parse(rule)
    # Frames so far apart that drawing one frame and then its partner would favour those with few partners.
    times = torch.tensor([[0, 4, 6, 10, 20]])
    count = 20_000
    drawn = positives.draw(times.expand(count, -1), torch.Generator().manual_seed(0))
    assert (drawn.shape, drawn.dtype) == ((count, 2), torch.int64)
    allowed = positives.allowed(times)[0]
    shares = (5 * drawn[:, 0] + drawn[:, 1]).bincount(minlength=25).view(5, 5) / count
    assert not shares[~allowed].any()
    assert (shares[allowed] - 1 / int(allowed.sum())).abs().max() < 0.01  # more than four standard deviations


def test_pairs_come_from_each_videos_own_frames() -> None:
    near = torch.tensor([[0, 1, 100], [0, 100, 101], [0, 50, 54]]).repeat(50, 1)
    drawn = Positives.parse("<8").draw(near, torch.Generator().manual_seed(0)).view(50, 3, 2)
    for video, frames in enumerate(({0, 1}, {1, 2}, {1, 2})):
        assert all(set(pair) == frames for pair in drawn[:, video].tolist())


def test_the_generator_alone_decides_which_pairs() -> None:
    times = torch.arange(16).expand(8, -1)
    one, again, other = (Positives.parse("any").draw(times, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2))
    assert one.equal(again)
    assert not one.equal(other)
