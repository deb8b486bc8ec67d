"""Losses against labels, and entropy without them."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional as F

from sfumato.errors import SfumatoError
from sfumato.objectives.labels import action_loss, blind_action_loss, entropy, heads_loss, named_actions, split_heads


def test_heads_are_cut_where_they_end() -> None:
    first, second = split_heads(torch.arange(10.0).view(2, 5), (2, 3))
    assert first.tolist() == [[0, 1], [5, 6]]
    assert second.tolist() == [[2, 3, 4], [7, 8, 9]]


def test_the_loss_worked_by_hand() -> None:
    # Question 0: logits (0, ln 3), so P = (1/4, 3/4). Question 1: three equal logits, P = 1/3 each.
    logits = torch.tensor([[0.0, math.log(3), 0.0, 0.0, 0.0]] * 2)
    labels = torch.tensor([[1, 2], [0, 0]])
    expected = ((-math.log(3 / 4) - math.log(1 / 4)) / 2 + math.log(3)) / 2
    assert heads_loss(logits, labels, (2, 3)).item() == pytest.approx(expected)


def test_unknown_answers_count_for_nothing() -> None:
    logits = torch.tensor([[0.0, math.log(3), 9.0, 0.0, 0.0]] * 2, requires_grad=True)
    # Row 1 of question 0 is unknown; nobody knows question 1: only −ln(3/4) is left.
    loss = heads_loss(logits, torch.tensor([[1, -1], [-1, -1]]), (2, 3))
    assert loss.item() == pytest.approx(-math.log(3 / 4))
    loss.backward()
    assert logits.grad is not None and not logits.grad[1].any() and not logits.grad[0, 2:].any()


def test_with_no_answer_known_the_loss_is_zero_and_still_has_a_gradient() -> None:
    logits = torch.randn(2, 5, requires_grad=True)
    loss = heads_loss(logits, torch.full((2, 2), -1), (2, 3))
    loss.backward()
    assert loss.item() == 0 and logits.grad is not None and not logits.grad.any()


def test_entropy_worked_by_hand() -> None:
    # Question 0: P = (1/4, 3/4). Question 1: P = (1/2, 1/4, 1/4), whose entropy is 1.5 bits of at most log2(3).
    logits = torch.tensor([[0.0, math.log(3), math.log(2), 0.0, 0.0]])
    first = -(0.25 * math.log2(0.25) + 0.75 * math.log2(0.75))
    assert entropy(logits, (2, 3)).item() == pytest.approx((first + 1.5 / math.log2(3)) / 2)
    # A second clip that knows nothing of either: 1 and 1.
    both = torch.cat([logits, torch.full((1, 5), 7.0)])
    assert entropy(both, (2, 3)).item() == pytest.approx(((first + 1) / 2 + (1.5 / math.log2(3) + 1) / 2) / 2)


def test_entropy_goes_from_knowing_all_to_knowing_nothing() -> None:
    assert entropy(torch.full((3, 12), -2.0), (2, 10)).item() == pytest.approx(1)
    certain = torch.zeros(3, 12)
    certain[:, [0, 5]] = 1e4  # so certain that the other probabilities are exactly 0
    certain.requires_grad_()
    loss = entropy(certain, (2, 10))
    loss.backward()
    assert loss.item() == 0 and certain.grad is not None and certain.grad.isfinite().all()


def test_climbing_the_entropy_makes_answers_alike() -> None:
    logits = torch.tensor([[1.0, 0.0]], requires_grad=True)
    entropy(logits, (2,)).backward()
    assert logits.grad is not None and logits.grad[0, 0] < 0 < logits.grad[0, 1]


def test_a_question_with_one_answer_is_refused() -> None:
    with pytest.raises(SfumatoError, match="single answer tells nothing: leave that attribute out"):
        entropy(torch.zeros(2, 3), (2, 1))


def test_yes_no_questions_are_multi_label_bce_of_the_logit_differences() -> None:
    torch.manual_seed(0)
    logits, answers = torch.randn(6, 14), torch.randint(2, (6, 7))
    difference = logits[:, 1::2] - logits[:, 0::2]
    expected = F.binary_cross_entropy_with_logits(difference, answers.float())
    assert heads_loss(logits, answers, (2,) * 7).item() == pytest.approx(expected.item())


def test_the_action_of_a_clip_or_several_worked_by_hand() -> None:
    # One action: P = (1/4, 3/4). Several: P(shown) = 1/2 and 3/4 of each.
    logits = torch.tensor([[0.0, math.log(3)]] * 2)
    assert action_loss(logits, torch.tensor([1, 0])).item() == pytest.approx((math.log(4 / 3) + math.log(4)) / 2)
    several = action_loss(logits, torch.tensor([[1, 1], [0, 0]])).item()
    assert several == pytest.approx((2 * math.log(2) + math.log(4 / 3) + math.log(4)) / 4)
    assert named_actions(logits, torch.tensor([1, 0])).item() == 0.5
    assert named_actions(logits, torch.tensor([[1, 1], [1, 0]])).item() == 0.5


def test_who_does_not_look_has_the_loss_of_how_often_actions_are_shown() -> None:
    assert blind_action_loss(torch.tensor([0, 0, 1]), 4) == math.log(4)
    shown = torch.tensor([[1, 0, 1], [1, 0, 0], [1, 0, 0], [1, 0, 0]])  # always, never, in one of four
    expected = -(0.25 * math.log(0.25) + 0.75 * math.log(0.75)) / 3
    assert blind_action_loss(shown, 3) == pytest.approx(expected)
    # No constant answer does better.
    blind = torch.tensor([[20.0, -20.0, math.log(1 / 3)]]).expand(4, -1)
    assert action_loss(blind, shown).item() == pytest.approx(expected)
