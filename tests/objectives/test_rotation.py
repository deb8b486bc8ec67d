"""RotNet's four turns."""

from __future__ import annotations

import math

import pytest
import torch

from sfumato.errors import SfumatoError
from sfumato.objectives.rotation import rotate_all, rotation_loss


def test_each_clip_is_turned_four_ways() -> None:
    # 0 1      1 3      3 2      2 0
    # 2 3      0 2      1 0      3 1     anticlockwise
    frame = torch.tensor([[0.0, 1.0], [2.0, 3.0]])
    video = frame.expand(1, 2, 3, 2, 2)
    turned, labels = rotate_all(video)
    assert turned.shape == (4, 2, 3, 2, 2) and labels.tolist() == [0, 1, 2, 3]
    expected = torch.tensor([[[0.0, 1], [2, 3]], [[1, 3], [0, 2]], [[3, 2], [1, 0]], [[2, 0], [3, 1]]])
    assert torch.equal(turned, expected[:, None, None].expand(4, 2, 3, 2, 2))


def test_labels_go_with_their_clips() -> None:
    video = torch.rand(3, 2, 3, 4, 4)
    turned, labels = rotate_all(video)
    for i in range(12):
        assert torch.equal(turned[i].rot90(-int(labels[i]), (-2, -1)), video[i % 3])


def test_frames_must_be_square() -> None:
    with pytest.raises(SfumatoError, match=r"frames of 6×4 .* crop them to a square"):
        rotate_all(torch.zeros(1, 1, 3, 4, 6))


def test_the_loss_worked_by_hand() -> None:
    logits = torch.zeros(4, 4)
    assert rotation_loss(logits, torch.arange(4)).item() == pytest.approx(math.log(4))  # chance
    logits[0, 0] = math.log(3)  # P(0°) = 3 / (3 + 1 + 1 + 1)
    expected = (-math.log(3 / 6) + 3 * math.log(4)) / 4
    assert rotation_loss(logits, torch.arange(4)).item() == pytest.approx(expected)


def test_the_gradient_passes_through_the_turns() -> None:
    video = torch.rand(2, 1, 3, 4, 4, requires_grad=True)
    turned, _ = rotate_all(video)
    turned.sum().backward()
    assert video.grad is not None and (video.grad == 4).all()
