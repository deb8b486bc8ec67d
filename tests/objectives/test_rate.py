"""How much is shown, and how much of it moves."""

from __future__ import annotations

import pytest
import torch

from sfumato.objectives.rate import sparsity, total_change


def test_sparsity_worked_by_hand() -> None:
    output = torch.zeros(2, 1, 3, 2, 2)
    assert sparsity(output).item() == 0
    output[0, 0, :, 0, 0] = 0.5  # 3 values of 24
    assert sparsity(output).item() == pytest.approx(1.5 / 24)
    assert sparsity(torch.ones(1, 2, 3, 2, 2)).item() == 1


def test_total_change_worked_by_hand() -> None:
    # Two clips of three frames: 0 → .5 → .25, and one that stands still. Changes .5, .25, 0, 0.
    brightness = torch.tensor([[0.0, 0.5, 0.25], [1.0, 1.0, 1.0]])
    output = brightness[:, :, None, None, None].expand(2, 3, 3, 2, 2)
    assert total_change(output).item() == pytest.approx(0.75 / 4)
    assert total_change(output.flip(1)).item() == pytest.approx(0.75 / 4)  # backward in time it is as much


def test_a_single_frame_does_not_change() -> None:
    output = torch.rand(2, 1, 3, 2, 2, requires_grad=True)
    change = total_change(output)
    change.backward()
    assert change.item() == 0 and output.grad is not None and not output.grad.any()


def test_downhill_is_darker_and_stiller() -> None:
    output = torch.tensor([0.2, 0.8]).view(1, 2, 1, 1, 1).requires_grad_()
    shown, changed = (torch.autograd.grad(loss(output), output)[0].flatten() for loss in (sparsity, total_change))
    assert shown.tolist() == [0.5, 0.5]
    assert changed.tolist() == [-1, 1]  # the dark frame lighter, the light one darker
