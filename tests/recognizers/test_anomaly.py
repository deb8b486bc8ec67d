"""MGFN: its losses by hand, blind to padding and batch-mates, and it finds what is planted."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from sfumato.errors import SfumatoError
from sfumato.evaluation.metrics.anomaly import frame_auc
from sfumato.recognizers.anomaly import (
    AMPLIFICATION,
    MGFN,
    FeatureAmplification,
    FocusBlock,
    GlanceBlock,
    Segments,
    magnitude,
    magnitude_contrast,
    magnitudes_apart,
    magnitudes_together,
    mgfn_loss,
    resample,
    sparsity,
    spread_over_frames,
    temporal_smoothness,
    top_by_magnitude,
    video_cross_entropy,
)

WIDTH = 16
FRAMES = 4  # a clip


def features(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def shaken() -> MGFN:
    """A small network all of whose parts have a say, in eval mode."""
    torch.manual_seed(0)
    network = MGFN(WIDTH, widths=(8, 8, 16), depths=(1, 1, 1))
    with torch.no_grad():
        for parameter in network.parameters():
            parameter += 0.2 * torch.randn_like(parameter)
    return network.eval()


def test_many_clips_are_averaged_and_few_repeated() -> None:
    clips = torch.tensor([[[1.0], [2.0], [4.0], [8.0], [16.0]]])
    # Cut at ⌊i · 5/3⌋ = 0, 1, 3, 5, and at ⌊i · 5/8⌋ = 0, 0, 1, 1, 2, 3, 3, 4, 5.
    assert resample(clips, segments=3).flatten().tolist() == [1, 3, 12]
    assert resample(clips, segments=8).flatten().tolist() == [1, 1, 2, 2, 4, 8, 8, 16]


def test_only_clips_that_are_there_are_counted_each_video_by_itself() -> None:
    clips = torch.tensor([[1.0, 2.0, 3.0, 4.0], [5.0, math.nan, 7.0, math.nan]])[..., None]
    mask = torch.tensor([[True] * 4, [True, False, True, False]])
    assert resample(clips, mask, segments=2)[..., 0].tolist() == [[1.5, 3.5], [5, 7]]


def test_a_video_without_clips_is_refused() -> None:
    with pytest.raises(SfumatoError, match="video 1 of the batch has no clip"):
        resample(features(2, 3, 4), torch.tensor([[True] * 3, [False] * 3]))


def test_scores_are_spread_over_frames() -> None:
    scores = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert spread_over_frames(scores, 4).tolist() == [[1, 1, 2, 2], [3, 3, 4, 4]]
    # Middles of three frames at 1/6, 3/6 and 5/6; of two frames over four segments at 1/4 and 3/4.
    assert spread_over_frames(scores[0], 3).tolist() == [1, 2, 2]
    assert spread_over_frames(torch.arange(4.0), 2).tolist() == [1, 3]
    with pytest.raises(SfumatoError, match="over 0 frames"):
        spread_over_frames(scores, 0)


def test_features_are_amplified_by_their_magnitudes() -> None:
    amplify = FeatureAmplification(2)
    with torch.no_grad():
        amplify.convolve.convolve.weight.copy_(torch.tensor([[[1.0, 2.0, 3.0]], [[0.0, 1.0, 0.0]]]))
        amplify.convolve.convolve.bias.copy_(torch.tensor([0.0, 10.0]))  # type: ignore[union-attr]
    given = torch.tensor([[[3.0, 4.0], [0.0, 2.0]]])  # of magnitude 5 and 2
    convolved = torch.tensor([[[2 * 5 + 3 * 2, 5 + 10], [1 * 5 + 2 * 2, 2 + 10]]])
    assert AMPLIFICATION == 0.1 and torch.allclose(amplify(given), given + 0.1 * convolved)


def test_the_longest_features_speak_for_their_video() -> None:
    magnitudes = torch.tensor([[1.0, 9.0, 5.0, 7.0], [4.0, 3.0, 2.0, 1.0]])
    scores = torch.tensor([[0.9, 0.1, 0.2, 0.3], [0.5, 0.7, 0.9, 0.0]])
    assert torch.allclose(top_by_magnitude(scores, magnitudes), torch.tensor([0.2, 0.7]))
    assert torch.allclose(top_by_magnitude(magnitudes, magnitudes), torch.tensor([7.0, 3.0]))


def test_cross_entropy_by_hand() -> None:
    loss = video_cross_entropy(torch.tensor([0.8, 0.4]), torch.tensor([1, 0]))
    assert loss.item() == pytest.approx(-(math.log(0.8) + math.log(0.6)) / 2)


def test_smoothness_and_sparsity_by_hand() -> None:
    scores = torch.tensor([[0.1, 0.4, 0.4], [1.0, 0.0, 0.5]])
    assert temporal_smoothness(scores).item() == pytest.approx((0.09 + 1 + 0.25) / 2)
    assert sparsity(scores).item() == pytest.approx((0.9 + 1.5) / 6)


def test_magnitude_contrast_by_hand() -> None:
    anomalous, normal = torch.tensor([150.0, 160.0, 230.0]), torch.tensor([10.0, 14.0])
    together = (10**2 + 80**2 + 70**2) / 3
    apart = (60**2 + 64**2 + 50**2 + 54**2 + 0 + 0) / 6  # 220 and 216 are beyond the margin
    assert magnitudes_together(anomalous).item() == pytest.approx(together)
    assert magnitudes_apart(anomalous, normal).item() == pytest.approx(apart)
    assert magnitudes_apart(normal, anomalous).item() == pytest.approx(apart)
    assert magnitude_contrast(anomalous, normal).item() == pytest.approx(0.001 * apart + together + 16)


def test_the_whole_loss_by_hand() -> None:
    scores = torch.tensor([[0.5, 0.5, 0.2, 0.9], [0.3, 0.3, 0.3, 0.9]])
    magnitudes = torch.tensor([[150.0, 150.0, 150.0, 0.0], [30.0, 30.0, 30.0, 0.0]])
    expected = (
        -(math.log(0.4) + math.log(0.7)) / 2
        + 8e-4 * (0.3**2 + 0.7**2)
        + 8e-3 * 2.1 / 4
        + 0.001 * (0.001 * (200 - 120) ** 2)
    )
    assert mgfn_loss(Segments(scores, magnitudes), torch.tensor([1, 0])).item() == pytest.approx(expected)


@pytest.mark.parametrize("label", [0, 1])
def test_a_batch_of_one_kind_has_a_loss_too(label: int) -> None:
    given = features(1, 5, WIDTH).zero_().requires_grad_()  # features of no length have a gradient as well
    mgfn_loss(shaken()(given), torch.tensor([label])).backward()
    assert given.grad is not None and given.grad.isfinite().all() and given.grad.abs().sum() > 0


def test_scores_are_between_0_and_1_and_magnitudes_are_lengths() -> None:
    scores, magnitudes = shaken()(features(2, 40, WIDTH))
    assert scores.shape == magnitudes.shape == (2, 32)
    assert ((scores > 0) & (scores < 1)).all() and scores.std() > 0.01 and (magnitudes > 0).all()


def test_at_first_all_segments_are_about_equally_long() -> None:
    found = MGFN(WIDTH, widths=(8, 8, 64), depths=(1, 1, 1))(10 * features(2, 40, WIDTH))
    assert torch.allclose(found.magnitudes, torch.tensor(8.0), rtol=0.01)  # √64


def test_at_first_blocks_do_no_more_than_convolve() -> None:
    stages = MGFN(WIDTH, widths=(8, 8, 16), depths=(1, 1, 1)).stages
    one, other = features(1, 32, WIDTH), features(1, 32, WIDTH, seed=1)
    nothing = stages(torch.zeros_like(one))
    assert torch.allclose(stages(one + other) + nothing, stages(one) + stages(other), atol=1e-5)


@pytest.mark.parametrize("rubbish", [50.0, math.nan])
def test_padding_does_not_matter(rubbish: float) -> None:
    network, given = shaken(), features(2, 40, WIDTH)
    mask = torch.arange(40) < torch.tensor([[25], [40]])
    padded = given.masked_fill(~mask[..., None], rubbish).requires_grad_()
    together = network(padded, mask)
    for video, count in enumerate((25, 40)):
        for ours, alone in zip(together, network(given[video : video + 1, :count]), strict=True):
            assert torch.allclose(ours[video], alone[0], atol=1e-5)
    mgfn_loss(together, torch.tensor([1, 0])).backward()
    assert padded.grad is not None and padded.grad[0, :25].abs().sum() > 0
    assert padded.grad.isfinite().all() and padded.grad[0, 25:].eq(0).all()


def test_batch_mates_do_not_matter() -> None:
    network, given = shaken(), features(4, 40, WIDTH)
    alone = [network(video[None]) for video in given]
    for which, together in enumerate(network(given)):
        assert torch.allclose(together, torch.cat([found[which] for found in alone]), atol=1e-5)


@pytest.mark.parametrize(("kind", "reach"), [(GlanceBlock, 15), (FocusBlock, 3)])
def test_a_glance_sees_the_whole_video_and_a_focus_its_neighbours(kind: type[GlanceBlock], reach: int) -> None:
    torch.manual_seed(0)
    block, given = kind(8).eval(), features(1, 16, 8).requires_grad_()
    torch.nn.init.normal_(block.attention.project.weight)
    block(given)[0, 0].sum().backward()
    assert given.grad is not None
    seen = given.grad[0].abs().sum(1) > 0
    # Two neighbours, and one more through the convolution before them.
    assert seen[: reach + 1].all() and not seen[reach + 1 :].any()


def test_a_focus_has_a_weight_for_each_place() -> None:
    torch.manual_seed(0)
    block = FocusBlock(8)
    with torch.no_grad():
        block.kernel.copy_(torch.tensor([[0.0, 0.0, 0.0, 100.0, 0.0]]))  # all from the next one
    value = features(1, 1, 6, 8)
    found = block.attend(torch.zeros_like(value), torch.zeros_like(value), value)
    assert torch.allclose(found[:, :, :-1], value[:, :, 1:])
    assert torch.allclose(found[:, :, -1], value[:, :, -3:].mean(2))  # there is no next one


@pytest.mark.parametrize("shape", [(2, WIDTH), (2, 3, WIDTH + 1)])
def test_features_of_another_width_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(SfumatoError, match="do not fit an anomaly detector of width 16"):
        shaken()(features(*shape))


def videos(count: int, dice: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Features, mask and truth of videos of 32 to 64 clips; in every second one four clips go another way, and far.

    Scenes differ: each video has a scale, and its own leaning in that direction, so that neither a length nor an average
    tells the kinds apart.
    """
    lengths = torch.randint(32, 65, (count, 1), generator=dice)
    start = (torch.rand(count, 1, generator=dice) * (lengths - 4)).long()
    clip = torch.arange(64)
    truth = (clip >= start) & (clip < start + 4) & (torch.arange(count)[:, None] % 2 == 1)
    clips = torch.randn(count, 64, WIDTH, generator=dice)
    clips[..., 0] += 0.5 * torch.randn(count, 1, generator=dice) + 5 * truth
    clips *= 0.7 + 0.8 * torch.rand(count, 1, 1, generator=dice)
    mask = clip < lengths
    return clips.masked_fill(~mask[..., None], torch.nan), mask, truth


def auc(scores: list[Tensor], truth: Tensor, mask: Tensor) -> float:
    return frame_auc(scores, [t[m].repeat_interleave(FRAMES) for t, m in zip(truth, mask, strict=True)])


# In the quick suite tests/evaluation/latent/test_anomaly.py asks it of the protocol.
@pytest.mark.nightly
def test_what_is_planted_is_found_from_labels_of_videos_alone() -> None:
    dice = torch.Generator().manual_seed(0)
    torch.manual_seed(0)
    clips, mask, _ = videos(200, dice)
    network = MGFN(WIDTH, widths=(16, 32, 64), depths=(1, 1, 1))
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3)
    for _ in range(60):
        batch = torch.randperm(200, generator=dice)[:32]
        loss = mgfn_loss(network(clips[batch], mask[batch]), batch % 2)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    clips, mask, truth = videos(40, dice)  # others than those of training
    with torch.no_grad():
        scores = network.eval()(clips, mask).scores
    found = [spread_over_frames(s, int(m.sum()) * FRAMES) for s, m in zip(scores, mask, strict=True)]
    lengths = [magnitude(c[m]).repeat_interleave(FRAMES) for c, m in zip(clips, mask, strict=True)]
    baseline = auc(lengths, truth, mask)
    assert auc(found, truth, mask) > max(0.93, baseline + 0.05)
