"""The temporal triplet, on triangles with sides 3-4-5."""

from __future__ import annotations

import pytest
import torch

from sfumato.objectives.triplet import temporal_triplet

ANCHOR = torch.zeros(3, 2)
SAME = torch.tensor([[3.0, 4.0], [0.0, 1.0], [1.0, 0.0]])  # distances 5, 1, 1
OTHER = torch.tensor([[0.0, 3.0], [1.5, 0.0], [0.0, 9.0]])  # distances 3, 1.5, 9


def test_the_triplet_worked_by_hand() -> None:
    # 5 − 3 + 1 = 3; 1 − 1.5 + 1 = .5; 1 − 9 + 1 < 0.
    assert temporal_triplet(ANCHOR, SAME, OTHER).item() == pytest.approx((3 + 0.5 + 0) / 3, abs=1e-5)
    # 2.25; −.25, which is nothing; nothing.
    assert temporal_triplet(ANCHOR, SAME, OTHER, margin=0.25).item() == pytest.approx(2.25 / 3, abs=1e-5)


def test_features_keep_their_length() -> None:
    # Twice the features: 10 − 6 + 1, 2 − 3 + 1, nothing. On unit vectors this would be the same as before.
    assert temporal_triplet(2 * ANCHOR, 2 * SAME, 2 * OTHER).item() == pytest.approx((5 + 0 + 0) / 3, abs=1e-5)


def test_times_are_pushed_apart_and_views_of_one_time_together() -> None:
    same, other = SAME.clone().requires_grad_(), OTHER.clone().requires_grad_()
    temporal_triplet(ANCHOR, same, other).backward()
    assert same.grad is not None and other.grad is not None
    assert ((same.grad * SAME).sum(1)[:2] > 0).all()  # downhill is towards the anchor at 0
    assert ((other.grad * OTHER).sum(1)[:2] < 0).all()  # and away from it
    assert not same.grad[2].any() and not other.grad[2].any()  # far enough already


def test_a_video_that_stands_still_has_a_finite_gradient() -> None:
    still = torch.ones(2, 4, requires_grad=True)
    loss = temporal_triplet(still, still, still)
    loss.backward()
    assert loss.item() == pytest.approx(1)
    assert still.grad is not None and still.grad.isfinite().all()
