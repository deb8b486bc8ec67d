"""The RMS hinge: its value by hand, and that it has a gradient at all."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from sfumato.objectives.penalty import feature_penalty, pixel_penalty


def clips(*changes: float) -> tuple[Tensor, Tensor]:
    """A grey video (B, 2, 3, 2, 2), and an output that is lighter by `changes[i]` in clip i."""
    video = torch.full((len(changes), 2, 3, 2, 2), 0.25)
    return video, video + torch.tensor(changes).view(-1, 1, 1, 1, 1)


def test_the_pixel_penalty_worked_by_hand() -> None:
    video, output = clips(0.5, 0.1)
    # RMS .5 and .1. The second clip is under the limit, and does not make up for the first.
    assert pixel_penalty(video, output, 0.2).item() == pytest.approx((0.3 + 0) / 2)
    assert pixel_penalty(video, output, 0.0).item() == pytest.approx((0.5 + 0.1) / 2)
    assert pixel_penalty(video, output, 0.6).item() == 0
    assert pixel_penalty(output, video, 0.2).item() == pytest.approx(0.15)


def test_rms_is_the_root_of_the_mean_square() -> None:
    # One pixel of four is off by 1: √(1/4), and not the mean, 1/4.
    video, output = torch.zeros(1, 1, 1, 2, 2), torch.zeros(1, 1, 1, 2, 2)
    output[..., 0, 0] = 1
    assert pixel_penalty(video, output, 0.1).item() == pytest.approx(0.4)


def test_trap_3_the_pixel_penalty_has_a_gradient() -> None:
    video, output = clips(0.5, -0.5, 0.1)
    output.requires_grad_()
    pixel_penalty(video, output, 0.2).backward()
    assert output.grad is not None
    # ∂RMS/∂output = difference / (RMS · 24 pixels), and a third for the mean over clips: ±1/72.
    torch.testing.assert_close(output.grad[0], torch.full_like(output[0], 1 / 72))  # too light: downhill is darker
    torch.testing.assert_close(output.grad[1], torch.full_like(output[1], -1 / 72))
    assert not output.grad[2].any()  # below the limit nothing is paid


@pytest.mark.parametrize("limit", [0.0, 0.3])
def test_trap_3_an_identity_has_a_finite_gradient(limit: float) -> None:
    video, output = clips(0.0, 0.5)
    output.requires_grad_()
    pixel_penalty(video, output, limit).backward()
    assert output.grad is not None and output.grad.isfinite().all()
    assert not output.grad[0].any() and output.grad[1].any()


def test_a_step_downhill_comes_nearer_to_the_video() -> None:
    torch.manual_seed(0)
    video, output = torch.rand(2, 2, 3, 4, 4), torch.rand(2, 2, 3, 4, 4, requires_grad=True)
    before = pixel_penalty(video, output, 0.1)
    before.backward()
    assert output.grad is not None
    assert pixel_penalty(video, output - 10 * output.grad, 0.1) < before


# Clip 0: raw RMS √((9 + 16 + 0 + 0) / 4) = 2.5, difference (0, 0, 3, 4) also 2.5: a share of 1.
# Clip 1: raw RMS 2, difference .5 everywhere: a share of .25.
RAW = torch.tensor([[3.0, 4.0, 0.0, 0.0], [2.0, 2.0, 2.0, 2.0]])
SEEN = torch.tensor([[3.0, 4.0, 3.0, 4.0], [1.5, 1.5, 2.5, 2.5]])


def test_the_feature_penalty_worked_by_hand() -> None:
    assert feature_penalty(RAW, SEEN, 0.4).item() == pytest.approx((0.6 + 0) / 2)
    assert feature_penalty(RAW, SEEN, 0.0).item() == pytest.approx((1 + 0.25) / 2)
    assert feature_penalty(100 * RAW, 100 * SEEN, 0.4).item() == pytest.approx(0.3)  # a share: scale does not count


def test_trap_3_the_feature_penalty_has_a_gradient_and_only_for_the_anonymised() -> None:
    raw, seen = RAW.clone().requires_grad_(), SEEN.clone().requires_grad_()
    feature_penalty(raw, seen, 0.4).backward()
    assert raw.grad is None and seen.grad is not None
    # Difference / (RMS 2.5 · 4 features · raw RMS 2.5), and a half for the mean over clips.
    torch.testing.assert_close(seen.grad[0], torch.tensor([0.0, 0.0, 3.0, 4.0]) / 50)
    assert not seen.grad[1].any()


def test_features_unchanged_or_silent_stay_finite() -> None:
    raw = torch.stack([torch.ones(4), torch.zeros(4)])
    seen = raw.clone().requires_grad_()
    loss = feature_penalty(raw, seen, 0.0)
    loss.backward()
    assert loss.item() == 0 and seen.grad is not None and seen.grad.isfinite().all()
