"""TriDet: boundaries as expected distances, blind to padding and batch-mates, and better than clips one by one."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sfumato.errors import SfumatoError
from sfumato.evaluation.metrics.detection import Found, Truth, detection_map
from sfumato.recognizers.temporal_detection import (
    Detections,
    Predictions,
    Segments,
    TriDet,
    detect,
    detection_loss,
    trident_distances,
)
from sfumato.recognizers.temporal_detection.network import MaskedGroupNorm, SGPLayer, halve


def features(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def network(levels: int = 4) -> TriDet:
    """A small one whose weights are no longer as they begin, in particular no bias 0."""
    torch.manual_seed(0)
    net = TriDet(6, classes=3, width=16, levels=levels, bins=4, window=3)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    return net.eval()


def test_trident_expectation_by_hand() -> None:
    # Two bins: position t weighs b = 0, 1, 2 by exp of the response at t − b or t + b, and of its own offset.
    start, end = torch.tensor([[math.log(2), 0.0, math.log(3)]]), torch.tensor([[0.0, math.log(4), math.log(5)]])
    offsets = torch.zeros(1, 3, 2, 3)
    offsets[0, 0, 1] = torch.tensor([0.0, math.log(2), -math.inf])
    before, after = trident_distances(start, end, offsets)[0].unbind(1)
    # To the start: weights (2, 1, 1) outside counting 1, then (1, 2, 1), then (3, 1, 2).
    assert before.tolist() == pytest.approx([3 / 4, 4 / 4, 5 / 6])
    # To the end: (1, 4·2, 5·0), then (4, 5, 1), then (5, 1, 1).
    assert after.tolist() == pytest.approx([8 / 9, 7 / 10, 3 / 7])


def test_a_sure_boundary_gives_its_exact_distance() -> None:
    start, end = torch.zeros(1, 8), torch.zeros(1, 8)
    start[0, 2], end[0, 6] = 100.0, 100.0
    assert trident_distances(start, end, torch.zeros(1, 8, 2, 5))[0, 4].tolist() == pytest.approx([2, 2])


def test_distances_are_in_clips_on_every_level() -> None:
    net = network(levels=3)
    for head in (net.start_head, net.end_head, net.offset_head):
        for parameter in head.answer.parameters():
            nn.init.zeros_(parameter)
    found = net(features(1, 5, 6))  # every bin of 0 … 4 alike: two positions, of 1, 2 and 4 clips
    assert found.distances[0, :, 0].tolist() == pytest.approx([2] * 5 + [4] * 3 + [8] * 2)
    assert found.distances[0, :, 1].tolist() == pytest.approx([2] * 5 + [4] * 3 + [8] * 2)


def test_every_class_is_improbable_at_first() -> None:
    net = TriDet(6, classes=3, width=16, levels=2)
    nn.init.zeros_(net.class_head.answer.weight)
    assert torch.allclose(net(features(1, 5, 6)).logits.sigmoid(), torch.tensor(0.01))


def test_sgp_by_its_formula() -> None:
    torch.manual_seed(0)
    layer, given = SGPLayer(4, window=3, scale=3), features(1, 4, 10)
    for parameter in layer.feed.parameters():  # the feed-forward part then adds nothing
        nn.init.zeros_(parameter)
    x = F.layer_norm(given[0].T, (4,)).T

    def depthwise(convolution: nn.Conv1d, at: int, channel: int) -> Tensor:
        reach, kernel = convolution.kernel_size[0] // 2, convolution.weight[channel, 0]
        assert convolution.bias is not None
        inside = [(k, at + k - reach) for k in range(len(kernel)) if 0 <= at + k - reach < 10]
        return sum((kernel[k] * x[channel, p] for k, p in inside), convolution.bias[channel])

    assert layer.wide.kernel_size == (9,)
    found = layer(given, torch.ones(1, 10, dtype=torch.bool))[0]
    phi = (layer.average(x.mean(1)[None, :, None])[0, :, 0]).relu()
    for at, channel in ((0, 0), (5, 2), (9, 3)):
        instant = layer.instant(x[:, at][None, :, None])[0, channel, 0]
        window = depthwise(layer.narrow, at, channel) + depthwise(layer.wide, at, channel)
        sgp = phi[channel] * instant + depthwise(layer.gate, at, channel) * window + x[channel, at]
        assert found[channel, at].item() == pytest.approx((given[0, channel, at] + sgp).item(), abs=1e-5)


def test_masked_group_norm_is_group_norm_of_what_is_there() -> None:
    given, mask = features(2, 8, 7), torch.arange(7) < torch.tensor([[7], [4]])
    norm, usual = MaskedGroupNorm(2, 8), nn.GroupNorm(2, 8)
    assert torch.allclose(norm(given, mask)[0], usual(given)[0], atol=1e-5)
    assert torch.allclose(norm(given, mask)[1, :, :4], usual(given[1:, :, :4])[0], atol=1e-5)


def test_halving_takes_the_greatest_neighbour_that_is_there() -> None:
    given, mask = torch.tensor([[[-1.0, -5.0, -4.0, -2.0, 7.0]]]), torch.tensor([[True, True, True, False, False]])
    pooled, left = halve(given, mask)
    assert pooled.tolist() == [[[-1, -4, 0]]] and left.tolist() == [[True, True, False]]


@pytest.mark.parametrize(("clips", "points"), [(1, 4), (2, 5), (7, 14), (8, 15), (13, 26)])
def test_every_length_works(clips: int, points: int) -> None:
    found = network()(features(2, clips, 6))  # 13 + 7 + 4 + 2
    assert found.logits.shape == (2, points, 3) and found.distances.shape == (2, points, 2)
    assert found.mask.shape == (2, points) and found.grid.points.shape == (points,)
    assert found.logits.isfinite().all() and (found.distances >= 0).all()
    assert (found.distances <= 4 * found.grid.strides[:, None]).all()


def inside(found: Predictions, video: int = 0) -> Tensor:
    """Logits and distances of the video's own points."""
    seen = found.mask[video]
    return torch.cat([found.logits[video, seen], found.distances[video, seen]], 1)


@pytest.mark.parametrize("clips", [1, 5, 8, 11])
@pytest.mark.parametrize("value", [100.0, math.nan, math.inf])
def test_what_is_no_clip_has_no_influence(clips: int, value: float) -> None:
    net, given = network(), features(2, 14, 6)
    mask = torch.arange(14) < torch.tensor([[clips], [14]])
    padded = given.clone()
    padded[0, clips:] = value
    found, alone = net(padded, mask), net(given[:1, :clips])
    assert torch.allclose(inside(found), inside(alone), atol=1e-5)
    assert torch.allclose(inside(found, 1), inside(net(given[1:])), atol=1e-5)
    assert found.logits.isfinite().all() and found.distances.isfinite().all()
    assert torch.allclose(detect(found)[0].spans, detect(alone)[0].spans, atol=1e-4)


def test_a_gap_in_the_video_has_no_influence_either() -> None:
    net, given, mask = network(), features(1, 14, 6), torch.ones(1, 14, dtype=torch.bool)
    mask[0, [0, 4, 5, 9]] = False
    wild = given.masked_fill(~mask[..., None], math.nan)
    assert torch.equal(inside(net(given, mask)), inside(net(wild, mask)))
    assert inside(net(wild, mask)).isfinite().all()


def test_what_is_no_clip_has_no_part_in_the_gradient() -> None:
    net, given = network(), features(2, 9, 6)
    mask = torch.arange(9) < torch.tensor([[9], [5]])
    given[1, 5:] = math.nan
    given.requires_grad_()
    truth = [
        Segments(torch.tensor([[1.0, 4.0]]), torch.tensor([0])),
        Segments(torch.tensor([[2.0, 5.0]]), torch.tensor([2])),
    ]
    detection_loss(net(given, mask), truth).backward()
    assert given.grad is not None and given.grad.isfinite().all()
    assert not given.grad[~mask].any() and given.grad[mask].any(1).all()
    assert all(p.grad is not None and p.grad.isfinite().all() and p.grad.any() for p in net.parameters())


def test_a_video_without_any_clip_harms_nobody() -> None:
    net, given, mask = network(), features(2, 9, 6), torch.tensor([[True], [False]]).expand(2, 9)
    found = net(given, mask)
    assert found.logits.isfinite().all() and torch.allclose(inside(found), inside(net(given[:1])), atol=1e-5)
    assert len(detect(found)[1].spans) == 0
    nothing = Segments(torch.empty(0, 2), torch.empty(0, dtype=torch.long))
    detection_loss(found, [nothing, nothing]).backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in net.parameters())


def test_batch_mates_do_not_matter() -> None:
    net, given = network(), features(4, 10, 6)
    together = net(given)
    for video in range(4):
        assert torch.allclose(inside(together, video), inside(net(given[video : video + 1])), atol=1e-5)
    assert not torch.allclose(inside(together, 0), inside(together, 1), atol=1e-2)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(SfumatoError, match=r"\(2, 5, 7\) do not fit a detector of 6 features"):
        network()(features(2, 5, 7))
    with pytest.raises(SfumatoError, match="do not fit"):
        network()(features(2, 0, 6))
    with pytest.raises(SfumatoError, match="bins = 0 is too small: use 1 or more"):
        TriDet(6, classes=3, bins=0)
    with pytest.raises(SfumatoError, match="window = 2 has no middle: use an odd number"):
        TriDet(6, classes=3, window=2)


# A toy: clips are noise, and a class's own direction is added for as long as it lasts.
CLASSES, WIDTH, CLIPS = 3, 12, 45


def toy(videos: int, seed: int) -> tuple[Tensor, Tensor, list[Segments]]:
    """Features, mask and segments of untrimmed videos of 29 to 45 clips."""
    random = torch.Generator().manual_seed(seed)

    def draw(low: int, high: int) -> int:
        return int(torch.randint(low, high + 1, (1,), generator=random))

    patterns = 2 * F.normalize(features(CLASSES, WIDTH, seed=99))
    clips, mask = torch.randn(videos, CLIPS, WIDTH, generator=random), torch.zeros(videos, CLIPS, dtype=torch.bool)
    truth = []
    for video in range(videos):
        length, at = draw(29, CLIPS), draw(0, 4)
        mask[video, :length] = True
        spans, labels = [], []
        while at + (lasting := draw(4, 12)) <= length:
            spans.append([float(at), float(at + lasting)])
            labels.append(draw(0, CLASSES - 1))
            clips[video, at : at + lasting] += patterns[labels[-1]]
            at += lasting + draw(2, 8)
        truth.append(Segments(torch.tensor(spans), torch.tensor(labels)))
    return clips, mask, truth


def map_at_half(found: list[Detections], truth: list[Segments]) -> float:
    answers = [Found(*(part.numpy() for part in each)) for each in found]
    rights = [Truth(*(part.numpy() for part in each)) for each in truth]
    return float(detection_map(answers, rights, CLASSES, thresholds=[0.5]).at[0])


def clip_classifier(clips: Tensor, mask: Tensor, truth: list[Segments]) -> nn.Linear:
    """The baseline: each clip by itself, into a class or nothing (0)."""
    labels = torch.zeros(mask.shape, dtype=torch.long)
    for video, segments in enumerate(truth):
        for (start, end), label in zip(segments.spans.long().tolist(), segments.labels.tolist(), strict=True):
            labels[video, start:end] = label + 1
    classifier = nn.Linear(WIDTH, CLASSES + 1)
    optimizer = torch.optim.Adam(classifier.parameters(), lr=0.05)
    for _ in range(100):
        loss = F.cross_entropy(classifier(clips[mask]), labels[mask])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return classifier


def runs(chances: Tensor) -> Detections:
    """Runs of clips with one answer, (clips, 1 + classes) to detections scored by their mean probability."""
    answers = [*chances.argmax(1).tolist(), 0]
    spans, labels, scores, begin = [], [], [], 0
    for at in range(1, len(answers)):
        if answers[at] != answers[begin]:
            if answers[begin]:
                spans.append([float(begin), float(at)])
                labels.append(answers[begin] - 1)
                scores.append(chances[begin:at, answers[begin]].mean())
            begin = at
    return Detections(torch.tensor(spans).view(-1, 2), torch.tensor(labels), torch.tensor(scores))


def smoothed(chances: Tensor, width: int) -> Tensor:
    """(clips, K) averaged over `width` clips."""
    return F.avg_pool1d(chances.T[None], width, 1, width // 2, count_include_pad=False)[0].T


# In the quick suite tests/evaluation/latent/test_detection.py asks it of the protocol.
@pytest.mark.nightly
def test_it_learns_what_clips_one_by_one_do_not_tell() -> None:
    (clips, mask, truth), (new_clips, new_mask, new_truth) = toy(60, seed=0), toy(30, seed=1)
    torch.manual_seed(0)
    classifier = clip_classifier(clips, mask, truth)
    with torch.no_grad():
        chances = [classifier(video[seen]).softmax(1) for video, seen in zip(new_clips, new_mask, strict=True)]
    # As it is, and with the smoothing that suits it best on the very videos it is judged on, which TriDet is not granted.
    plain, *smooth = (
        map_at_half([runs(smoothed(each, width)) for each in chances], new_truth) for width in (1, 3, 5, 7)
    )

    net = TriDet(WIDTH, CLASSES, width=24, levels=3, bins=8)
    optimizer = torch.optim.AdamW(net.parameters(), lr=4e-3)
    for _ in range(60):
        some = torch.randperm(len(clips))[:20]
        loss = detection_loss(net(clips[some], mask[some]), [truth[video] for video in some.tolist()])
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
    reached = map_at_half(detect(net.eval()(new_clips, new_mask)), new_truth)
    # 0.91 against 0.12 and 0.81; with three other seeds 0.89 to 0.93 against 0.08 to 0.10 and 0.69 to 0.86.
    assert reached > 0.8 and reached > plain + 0.5 and reached > max(smooth) + 0.05
