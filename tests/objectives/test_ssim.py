"""SSIM against a slow reference, pixel by pixel, and what must hold of it."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from sfumato.errors import SfumatoError
from sfumato.objectives.ssim import ssim


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed))


def slow_ssim(x: np.ndarray, y: np.ndarray) -> float:
    """Of two pictures (H, W) in float64: Wang et al.'s equation 13 at every place, the moments summed one by one."""
    weights = np.array(
        [[math.exp(-((i - 5) ** 2 + (j - 5) ** 2) / (2 * 1.5**2)) for j in range(11)] for i in range(11)]
    )
    weights /= weights.sum()
    found = []
    for top in range(x.shape[0] - 10):
        for left in range(x.shape[1] - 10):
            a, b = x[top : top + 11, left : left + 11], y[top : top + 11, left : left + 11]
            mean_a = mean_b = variance_a = variance_b = covariance = 0.0
            for i in range(11):
                for j in range(11):
                    mean_a += weights[i, j] * a[i, j]
                    mean_b += weights[i, j] * b[i, j]
            for i in range(11):
                for j in range(11):
                    variance_a += weights[i, j] * (a[i, j] - mean_a) ** 2
                    variance_b += weights[i, j] * (b[i, j] - mean_b) ** 2
                    covariance += weights[i, j] * (a[i, j] - mean_a) * (b[i, j] - mean_b)
            above = (2 * mean_a * mean_b + 0.0001) * (2 * covariance + 0.0009)
            found.append(above / ((mean_a**2 + mean_b**2 + 0.0001) * (variance_a + variance_b + 0.0009)))
    return float(np.mean(found))


@pytest.mark.parametrize(("height", "width"), [(11, 11), (13, 16)])
def test_against_the_slow_reference(height: int, width: int) -> None:
    first = noise(2, 2, 3, height, width)
    second = (0.6 * first + 0.4 * noise(2, 2, 3, height, width, seed=1)).clamp(0, 1)
    second[1, 1] = 1 - first[1, 1]
    found = ssim(first, second)
    assert found.shape == (2, 2)
    for clip in range(2):
        for frame in range(2):
            pairs = zip(first[clip, frame].double().numpy(), second[clip, frame].double().numpy(), strict=True)
            expected = np.mean([slow_ssim(x, y) for x, y in pairs])  # the mean over colours
            assert found[clip, frame].item() == pytest.approx(expected, abs=1e-5)


def test_a_frame_is_wholly_like_itself_and_nothing_is_more() -> None:
    video = noise(2, 3, 3, 16, 12)
    assert torch.equal(ssim(video, video), torch.ones(2, 3))
    other = ssim(video, noise(2, 3, 3, 16, 12, seed=1))
    assert (other.abs() < 0.5).all()


def test_it_is_the_same_both_ways() -> None:
    first, second = noise(1, 2, 3, 14, 14), noise(1, 2, 3, 14, 14, seed=1) ** 2
    assert torch.equal(ssim(first, second), ssim(second, first))


def test_flat_frames_differ_in_brightness_alone() -> None:
    def flat(value: float) -> Tensor:
        return torch.full((1, 1, 3, 12, 12), value)

    # no variance: (2ab + C1) / (a² + b² + C1)
    assert ssim(flat(0.25), flat(0.75)).item() == pytest.approx((0.375 + 1e-4) / (0.625 + 1e-4), abs=1e-4)
    assert ssim(flat(1.0), flat(0.0)).item() == pytest.approx(1e-4 / (1 + 1e-4), rel=1e-2)


def test_structure_turned_round_is_negative() -> None:
    video = (noise(1, 1, 1, 16, 16) > 0.5).float()
    # mean about ½ in both, covariance = −variance ≈ −¼: nearly −1
    assert -1 <= ssim(video, 1 - video).item() < -0.9


def test_a_frame_does_not_see_its_neighbours() -> None:
    first, second = noise(2, 2, 3, 12, 12), noise(2, 2, 3, 12, 12, seed=1)
    before = ssim(first, second)
    second[1, 0] = first[1, 0]
    assert (ssim(first, second) != before).tolist() == [[False, False], [True, False]]


def test_uphill_is_towards_the_other_frame() -> None:
    goal, start = noise(1, 1, 3, 13, 13), noise(1, 1, 3, 13, 13, seed=1)
    picture = start.clone().requires_grad_()
    before = ssim(goal, picture).sum()
    (gradient,) = torch.autograd.grad(before, picture)
    assert gradient.isfinite().all() and (gradient * (goal - start)).sum() > 0
    # a step along it does what its length says: the gradient is that of the value
    step = 1e-2 * gradient / gradient.norm()
    assert (ssim(goal, start + step) - before).item() == pytest.approx(1e-2 * gradient.norm().item(), rel=0.05)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(dtype: torch.dtype) -> None:
    first, second = (noise(1, 2, 3, 12, 12, seed=seed).to(dtype) for seed in (0, 1))
    exact = ssim(first.float(), second.float())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cast = ssim(first, second)
    assert cast.dtype == torch.float32
    assert torch.equal(ssim(first, second), exact) and torch.equal(cast, exact)


def test_frames_that_cannot_be_compared_are_refused() -> None:
    with pytest.raises(SfumatoError, match="frames of 10×16 are smaller than SSIM's window: use 11×11 or larger"):
        ssim(torch.zeros(1, 1, 3, 10, 16), torch.zeros(1, 1, 3, 10, 16))
    with pytest.raises(ValueError, match="cannot be compared"):
        ssim(torch.zeros(2, 1, 3, 16, 16), torch.zeros(1, 1, 3, 16, 16))


def test_what_was_looked_at_without_gradients_can_be_trained_on_afterwards() -> None:
    with torch.inference_mode():
        ssim(noise(1, 1, 3, 23, 29), noise(1, 1, 3, 23, 29, seed=1))
    moved = noise(1, 1, 3, 23, 29, seed=1).requires_grad_(True)
    ssim(noise(1, 1, 3, 23, 29), moved).sum().backward()
    assert moved.grad is not None and bool(moved.grad.any())
