"""How much is shown, and how much of it moves."""

from __future__ import annotations

import pytest
import torch

from sfumato.objectives.rate import sparsity


def test_sparsity_worked_by_hand() -> None:
    output = torch.zeros(2, 1, 3, 2, 2)
    assert sparsity(output).item() == 0
    output[0, 0, :, 0, 0] = 0.5  # 3 values of 24
    assert sparsity(output).item() == pytest.approx(1.5 / 24)
    assert sparsity(torch.ones(1, 2, 3, 2, 2)).item() == 1


def test_what_is_free_is_free_for_each_clip() -> None:
    output = torch.zeros(2, 2, 3, 2, 2)
    output[0, 0] = 1  # half of the first clip, nothing of the second
    assert sparsity(output, free=0.2).item() == pytest.approx((0.5 - 0.2) / 2)
    assert sparsity(output, free=0.5).item() == 0


def test_downhill_is_darker() -> None:
    output = torch.tensor([0.2, 0.8]).view(1, 2, 1, 1, 1).requires_grad_()
    assert torch.autograd.grad(sparsity(output), output)[0].flatten().tolist() == [0.5, 0.5]
    assert torch.autograd.grad(sparsity(output, free=0.5), output)[0].flatten().tolist() == [0, 0]
