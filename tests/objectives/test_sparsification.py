"""L_Spars: how far each step's share of kept tubelets is from α^m."""

from __future__ import annotations

import pytest
import torch

from sfumato.objectives.sparsification import sparsification_loss


def test_worked_by_hand() -> None:
    first = torch.tensor([[[1.0, 1.0, 1.0, 0.0], [1.0, 1.0, 1.0, 1.0]]])  # shares 3/4 and 1, wanted 1/2
    second = torch.tensor([[[1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]]])  # shares 1/4 and 0, wanted 1/4
    # (1/16 + 1/4 + 0 + 1/16) / (2 blocks · 2 steps)
    assert sparsification_loss([first, second], 0.5).item() == pytest.approx(0.375 / 4)
    assert sparsification_loss([first], 0.5).item() == pytest.approx(0.3125 / 2)


def test_each_step_counts_by_itself_and_clips_are_averaged() -> None:
    uneven = torch.tensor([[[1.0, 1.0], [0.0, 0.0]]])  # half of the clip, but of neither step
    even = torch.tensor([[[1.0, 0.0], [0.0, 1.0]]])
    assert sparsification_loss([uneven], 0.5).item() == pytest.approx(0.25)
    assert sparsification_loss([even], 0.5).item() == 0
    assert sparsification_loss([torch.cat([uneven, even])], 0.5).item() == pytest.approx(0.125)


def test_the_gradient_worked_by_hand() -> None:
    decision = torch.tensor([[[1.0, 0.0]]], requires_grad=True)
    # d/dI (I/2 − 0.7)² = 2 · (0.5 − 0.7) / 2 for each of the two
    gradient = torch.autograd.grad(sparsification_loss([decision], 0.7), decision)[0]
    torch.testing.assert_close(gradient, torch.full((1, 1, 2), -0.2))


def test_half_precision_is_computed_in_float32() -> None:
    decisions = [(torch.arange(4 * 3 * 7) % 3 > 0).view(4, 3, 7).to(torch.bfloat16) for _ in range(2)]
    exact = sparsification_loss([decision.float() for decision in decisions], 0.7)
    loss = sparsification_loss(decisions, 0.7)
    assert loss.dtype == torch.float32 and loss.item() == exact.item()
