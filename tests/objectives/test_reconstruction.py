"""L1 as a mean over pixels."""

from __future__ import annotations

import pytest
import torch

from sfumato.objectives.reconstruction import l1_reconstruction


def test_l1_worked_by_hand() -> None:
    video = torch.zeros(1, 1, 3, 1, 2)
    output = torch.tensor([0.5, 0.0, 0.25, 0.0, 0.75, 0.0]).view_as(video)
    assert l1_reconstruction(video, output).item() == pytest.approx(1.5 / 6)
    assert l1_reconstruction(output, video).item() == pytest.approx(1.5 / 6)
    assert l1_reconstruction(output, output).item() == 0


@pytest.mark.parametrize("size", [2, 16])
def test_frame_size_does_not_count(size: int) -> None:
    video = torch.full((2, 3, 3, size, size), 0.5)
    assert l1_reconstruction(video, video - 0.25).item() == pytest.approx(0.25)


def test_the_gradient_points_from_the_video_to_the_output() -> None:
    video = torch.tensor([0.2, 0.8]).view(1, 1, 1, 1, 2)
    output = torch.full_like(video, 0.5, requires_grad=True)
    l1_reconstruction(video, output).backward()
    assert output.grad is not None and output.grad.flatten().tolist() == [0.5, -0.5]  # ±1 / 2 pixels
