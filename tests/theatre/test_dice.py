from __future__ import annotations

import torch
from torch import Tensor

from sfumato.theatre.dice import Dice

MANY = torch.arange(20_000)


def throws(seed: int, index: Tensor, stream: int = 0, count: int = 6) -> Tensor:
    dice = Dice(seed, index, stream)
    return torch.stack([dice.uniform() for _ in range(count)], dim=-1)


def correlation(a: Tensor, b: Tensor) -> float:
    return float(torch.corrcoef(torch.stack([a, b]))[0, 1])


def test_throws_are_uniform() -> None:
    for throw in throws(3, MANY).unbind(-1):
        assert throw.min() >= 0 and throw.max() < 1
        # 20 bins of 1,000 expected: chi-square has 19 degrees of freedom, 50 lies beyond one in 10,000.
        counts = torch.histc(throw, 20, 0, 1)
        assert ((counts - 1000) ** 2 / 1000).sum() < 50


def test_throws_of_one_index_are_independent_of_each_other_and_of_the_next_index() -> None:
    table = throws(0, MANY)
    for other in range(1, 6):
        assert abs(correlation(table[:, 0], table[:, other])) < 0.03
    assert abs(correlation(table[:-1, 0], table[1:, 0])) < 0.03


def test_an_index_throws_the_same_in_every_batch() -> None:
    together = throws(5, torch.tensor([4, 900, 17, 4]))
    alone = throws(5, torch.tensor([17]))
    assert together[2].equal(alone[0])
    assert together[0].equal(together[3])


def test_seed_stream_and_index_each_give_other_throws() -> None:
    index = torch.arange(1000)
    first = throws(0, index)[:, 0]
    for other in (throws(1, index)[:, 0], throws(0, index, stream=1)[:, 0], throws(0, index + 1)[:, 0]):
        assert (first == other).float().mean() < 0.01
        assert abs(correlation(first, other)) < 0.1


def test_large_and_negative_numbers_are_as_good_as_small_ones() -> None:
    for seed, index in ((2**40, MANY), (-7, MANY), (0, MANY + 2**50)):
        assert abs(float(throws(seed, index)[:, 0].mean()) - 0.5) < 0.01


def test_choice_chance_sign_and_colour_keep_their_promise() -> None:
    dice = Dice(1, MANY)
    assert dice.choice(3).bincount().div(len(MANY)).sub(1 / 3).abs().max() < 0.02
    assert abs(float(dice.chance(0.2).float().mean()) - 0.2) < 0.02
    assert set(dice.sign().unique().tolist()) == {-1.0, 1.0}
    colour = dice.colour(0.2, 0.4)
    assert colour.shape == (len(MANY), 3)
    assert colour.min() >= 0.2 and colour.max() < 0.4
    assert abs(correlation(colour[:, 0], colour[:, 1])) < 0.03
