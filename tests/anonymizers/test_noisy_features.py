"""`noisy-features`: its frequencies, and noise that belongs to the frame alone."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from sfumato.anonymizers import label, load
from sfumato.anonymizers.noisy_features import NoisyFeatures, cosine_waves
from sfumato.errors import SfumatoError


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed))


def middle(*shape: int) -> Tensor:
    """Values around one half, far enough from 0 and 1 for weak noise to be seen unclamped."""
    return 0.45 + 0.1 * noise(*shape)


def test_waves_by_hand() -> None:
    # two values: their sum and their difference over √2
    torch.testing.assert_close(cosine_waves(2, 2), torch.tensor([[1.0, 1.0], [1.0, -1.0]]) / math.sqrt(2))
    waves = cosine_waves(8, 8)
    torch.testing.assert_close(waves @ waves.T, torch.eye(8))


@pytest.mark.parametrize(("height", "width"), [(16, 24), (13, 9), (3, 1)])
def test_everything_kept_without_noise_is_the_video(height: int, width: int) -> None:
    video = noise(2, 2, 3, height, width)
    torch.testing.assert_close(NoisyFeatures(kept=8, noise=0)(video), video, atol=1e-5, rtol=0)


def test_one_frequency_kept_without_noise_is_the_mean_of_each_block() -> None:
    video = noise(1, 2, 3, 16, 24)
    torch.testing.assert_close(NoisyFeatures(kept=1, noise=0)(video), load("pixelate:block=8")(video))


def test_no_frequency_above_the_kept_ones_comes_through() -> None:
    waves = cosine_waves(8, 8)
    output = NoisyFeatures(kept=3, noise=0.05)(middle(1, 1, 3, 8, 8))
    assert output.min() > 0 and output.max() < 1
    spectrum = (waves @ output @ waves.T).abs()
    assert spectrum[..., 3:, :].max() < 1e-5 and spectrum[..., :, 3:].max() < 1e-5
    assert spectrum[..., :3, :3].min() > 1e-5


@pytest.mark.parametrize("side", [112, 448])
def test_the_noise_has_the_promised_size_in_small_and_large_frames(side: int) -> None:
    video = torch.full((1, 1, 3, side, side), 0.5)
    off = NoisyFeatures(kept=4, noise=0.1)(video) - video
    # 14 × 14 blocks of 16 coefficients and 3 colours: σ = noise · kept / 8 per pixel, noise / 8 for a block's mean
    assert off.std().item() == pytest.approx(0.05, rel=0.05)
    means = torch.nn.functional.avg_pool2d(off[0], side // 14)
    assert means.std().item() == pytest.approx(0.1 / 8, rel=0.1)
    assert off.mean().abs() < 0.002


def test_the_same_frame_has_the_same_noise_anywhere() -> None:
    anonymizer, video = NoisyFeatures(noise=0.05), middle(3, 4, 3, 24, 16)
    together = anonymizer(video)
    assert torch.equal(together, anonymizer(video))
    alone = anonymizer(video[2:, 1:2])
    torch.testing.assert_close(alone, together[2:, 1:2], atol=1e-6, rtol=0)
    # what storage rounds away does not change it
    nearly = (video * 255).round() / 255
    torch.testing.assert_close(anonymizer(nearly + 1e-4) - 1e-4, anonymizer(nearly), atol=1e-5, rtol=0)


def test_there_is_no_fixed_pattern_to_subtract() -> None:
    video = torch.full((1, 2, 3, 32, 32), 128 / 255)
    video[0, 1, 2, 31, 31] += 1 / 255  # the least that 8 bits can differ by
    first, second = (NoisyFeatures(noise=0.1)(video) - video)[0].flatten(1)
    correlation = torch.corrcoef(torch.stack([first, second]))[0, 1]
    assert correlation.abs() < 0.15
    blocks = first.view(3, 4, 8, 4, 8).transpose(2, 3).flatten(0, 2).flatten(1)  # nor from block to block
    assert (torch.corrcoef(blocks) - torch.eye(48)).mean().abs() < 0.1


def test_drawing_touches_no_global_generator() -> None:
    state = torch.get_rng_state()
    NoisyFeatures()(noise(1, 1, 3, 8, 8))
    assert torch.equal(state, torch.get_rng_state())


def test_a_larger_frame_keeps_no_more_than_a_small_one() -> None:
    small = noise(1, 1, 3, 14, 14)
    fine, coarse = (torch.nn.functional.interpolate(small[0], scale_factor=f, mode="nearest")[None] for f in (32, 8))
    anonymizer = NoisyFeatures(kept=2, noise=0)
    on_camera = torch.nn.functional.avg_pool2d(anonymizer(fine)[0], 4)
    torch.testing.assert_close(on_camera, anonymizer(coarse)[0], atol=0.02, rtol=0)


def test_settings_and_strength() -> None:
    assert label(load("noisy-features:kept=2,noise=1")) == "noisy-features:kept=2,noise=1"
    assert load("noisy-features", strength=2).settings() == {"kept": 4, "noise": 2.0}
    for settings, complaint in (
        ({"kept": 0}, "kept = 0"),
        ({"kept": 9}, "kept = 9"),
        ({"noise": 5}, "noise = 5 is out"),
    ):
        with pytest.raises(SfumatoError, match=complaint):
            load("noisy-features", **settings)
