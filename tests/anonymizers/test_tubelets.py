"""`tubelets`: training and use agree, any α works, and what is dropped is gone."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from sfumato.anonymizers import ClipSpec, label, load, save, untrained
from sfumato.anonymizers.streaming import anonymize_stream
from sfumato.anonymizers.tubelets import Decision, Sparsified, Tubelets, kept_counts
from sfumato.errors import SfumatoError
from sfumato.recognizers.vit import tubelets

from .contract import batch_mates_are_not_seen, gradients_reach, type_and_range_are_kept

MODES = pytest.mark.parametrize(
    "mode",
    [{}, {"two_pass": True}, {"anonymize": False}, {"sparsify": False, "alpha": 1.0}, {"stem": True, "two_pass": True}],
    ids=["paper", "two_pass", "sparsification", "anonymization", "stem"],
)


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed))


def make(**settings: Any) -> Tubelets:
    """A small network in eval mode: 2 steps of 3×3 places, of which 6, 4 and 3 stay; weights that make a difference."""
    torch.manual_seed(0)
    small = {"embedding": 32, "depth": 2, "patch": 8, "frames": 4, "size": 24}
    network = untrained("tubelets", **{**small, **settings})
    assert isinstance(network, Tubelets)
    with torch.no_grad():
        for module in network.modules():
            if isinstance(module, nn.Linear):
                module.weight.mul_(6)
    return network


def clips(count: int = 2, seed: int = 0) -> Tensor:
    return noise(count, 4, 3, 24, 24, seed=seed)


def shown(video: Tensor) -> Tensor:
    """(B, 2, 9): where any pixel of a tubelet is not black."""
    pieces = video.unflatten(4, (3, 8)).unflatten(3, (3, 8)).unflatten(1, (2, 2))
    return (pieces != 0).permute(0, 1, 4, 6, 2, 3, 5, 7).flatten(4).any(-1).flatten(2)


def test_tubelets_of_any_size_are_a_strided_convolution() -> None:
    video, linear = noise(2, 3, 3, 8, 12), nn.Linear(3 * 16, 5)
    expected = functional.conv3d(video, linear.weight.view(5, 3, 1, 4, 4), linear.bias, stride=(1, 4, 4))
    torch.testing.assert_close(linear(tubelets(video, (1, 4, 4))), expected.flatten(2).transpose(1, 2))


def test_how_many_are_kept() -> None:
    assert kept_counts(49, 0.7, 3) == (34, 24, 16)
    assert kept_counts(49, 1.0, 3) == (49, 49, 49)
    assert kept_counts(49, 0.05, 3) == (2, 1, 1)
    assert kept_counts(49, 0.001, 2) == (1, 1)
    assert kept_counts(100, 0.29, 1) == (29,)  # 28.999…6 in floating point


# In use.


@pytest.mark.parametrize("two_pass", [False, True])
@pytest.mark.parametrize(("alpha", "kept"), [(1.0, (9, 9, 9)), (0.7, (6, 4, 3)), (0.5, (4, 2, 1)), (0.01, (1, 1, 1))])
def test_any_alpha_on_the_same_weights(two_pass: bool, alpha: float, kept: tuple[int, ...]) -> None:
    network, video = make(two_pass=two_pass), clips()
    network.alpha = alpha
    decision = network.decide(video)
    assert [tuple(each.shape) for each in decision.kept] == [(2, 2, count) for count in kept]
    masks = decision.masks(9)
    assert all((after <= before).all() for before, after in pairwise(masks))
    output = network(video)
    assert output.shape == video.shape and 0 <= output.min() <= output.max() < 1
    assert torch.equal(shown(output), masks[-1].bool())  # the dropped are exactly black, the kept are not
    assert torch.equal(output, network(video))
    assert torch.equal(output, network.forward_with(video, decision))


def test_what_is_kept_depends_on_the_picture() -> None:
    kept = [make().decide(clips(seed=seed)).kept[-1] for seed in (0, 1)]
    assert not torch.equal(*kept)


@MODES
def test_training_with_the_decision_held_is_what_is_used(mode: dict[str, Any]) -> None:
    network, video = make(**mode), clips()
    held = network.decide(video)
    used = network(video)
    found = network.train().sparsify(video, held=held)
    torch.testing.assert_close(network.render(video, found), used, atol=1e-5, rtol=0)
    assert torch.equal(found.decision, held.masks(9)[-1])


def changed(video: Tensor, dropped: Tensor) -> Tensor:
    """Another picture in one dropped tubelet of each clip: the first of its first step."""
    video = video.clone()
    for clip, place in enumerate(dropped[:, 0].int().argmax(-1).tolist()):
        rows, columns = (slice(8 * index, 8 * index + 8) for index in divmod(place, 3))
        video[clip, :2, :, rows, columns] = 1 - video[clip, :2, :, rows, columns]
    return video


@pytest.mark.parametrize("mode", [{"two_pass": True}, {"anonymize": False}])
def test_of_a_dropped_tubelet_nothing_is_left(mode: dict[str, Any]) -> None:
    network, video = make(**mode), clips()
    held = network.decide(video)
    other = changed(video, held.masks(9)[-1] == 0)
    assert not torch.equal(video, other)
    assert torch.equal(network.forward_with(other, held), network.forward_with(video, held))
    assert not torch.equal(network.forward_with(1 - video, held), network.forward_with(video, held))


@pytest.mark.parametrize("block", [0, 2])
def test_in_the_papers_mode_a_dropped_tubelet_is_seen_in_its_neighbours(block: int) -> None:
    """Kept tokens saw it in the layers before the drop, be it the first drop or the last: this is the leak."""
    network, video = make(), clips()
    held = network.decide(video)
    before = torch.ones(2, 2, 9) if block == 0 else held.masks(9)[block - 1]
    other = changed(video, (before > 0) & (held.masks(9)[block] == 0))
    difference = (network.forward_with(other, held) - network.forward_with(video, held)).abs()
    assert difference.flatten(1).amax(1).min() > 1e-4


def test_held_tubelets_are_shown_at_their_own_place() -> None:
    video = clips(1)
    kept = torch.tensor([[[5], [0]]])  # row 1, column 2 of frames 0 and 1; row 0, column 0 of frames 2 and 3
    output = make(anonymize=False).forward_with(video, Decision((kept,) * 3))
    expected = torch.zeros_like(video)
    expected[:, :2, :, 8:16, 16:24] = video[:, :2, :, 8:16, 16:24]
    expected[:, 2:, :, :8, :8] = video[:, 2:, :, :8, :8]
    assert torch.equal(output, expected)
    painted = make().forward_with(video, Decision((kept,) * 3))
    assert torch.equal(painted != 0, (expected != 0).any(2, keepdim=True).expand_as(painted))


@MODES
def test_a_clip_does_not_see_its_batch(mode: dict[str, Any]) -> None:
    batch_mates_are_not_seen(make(**mode), clips(4))


@MODES
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("training", [False, True])
def test_the_type_and_the_range_are_kept(mode: dict[str, Any], dtype: torch.dtype, training: bool) -> None:
    type_and_range_are_kept(make(**mode).train(training), clips().to(dtype))


def test_gradients_reach_the_video() -> None:
    gradients_reach(make(), clips())


def test_odd_sizes_are_filled_with_the_border_and_cut_back() -> None:
    odd, whole, video = make(frames=3, size=20), make(), noise(1, 3, 3, 20, 20)
    whole.load_state_dict(odd.state_dict())
    filled = torch.cat([functional.pad(video[0], (0, 4, 0, 4), mode="replicate"), torch.zeros(1, 3, 24, 24)])[None]
    filled[:, 3] = filled[:, 2]
    torch.testing.assert_close(odd(video), whole(filled)[:, :3, :, :20, :20])
    torch.testing.assert_close(whole(video), odd(video))  # the same grid, so that the same weights take it


def test_without_sparsification_all_is_repainted() -> None:
    network, video = make(sparsify=False, alpha=1.0), clips()
    assert len(network.predictors) == 0
    assert shown(network(video)).all()
    found = network.train().sparsify(video)
    assert len(found.decisions) == 3 and all((decision == 1).all() for decision in found.decisions)


@MODES
def test_the_mask_of_a_clip_is_where_it_shows_anything(mode: dict[str, Any]) -> None:
    network, video = make(**mode), clips()
    output, mask = network.forward_and_mask(video)
    assert torch.equal(output, network(video))
    assert mask.shape == (2, 4, 1, 24, 24) and set(mask.unique().tolist()) <= {0.0, 1.0}
    assert torch.equal(shown(mask.expand_as(video)), shown(output))
    assert mask.mean().item() == pytest.approx(1 if "sparsify" in mode else 3 / 9)


def test_the_mask_of_a_clip_that_is_no_multiple_of_a_tubelet_is_cut_as_the_clip_is() -> None:
    network, video = make(frames=3, size=20), noise(1, 3, 3, 20, 20)
    output, mask = network.forward_and_mask(video)
    assert mask.shape == (1, 3, 1, 20, 20)
    assert torch.equal(mask.expand_as(output) > 0, output > 0)


def test_the_streaming_wrapper_brings_a_video_to_size() -> None:
    network = make()
    assert network.spec == ClipSpec(length=4, size=(24, 24), blend=False)
    frames = list(np.random.default_rng(0).integers(0, 255, (7, 30, 50, 3), dtype=np.uint8))
    assert [frame.shape for frame in anonymize_stream(network, frames)] == [(30, 50, 3)] * 7


# In training.


@pytest.mark.parametrize("mode", [{}, {"two_pass": True}, {"anonymize": False}])
def test_training_drops_by_draw_and_for_good(mode: dict[str, Any]) -> None:
    network, video = make(**mode).train(), clips(4)
    torch.manual_seed(1)
    found = network.sparsify(video)
    assert all(set(decision.unique().tolist()) == {0.0, 1.0} for decision in found.decisions)
    for before, after in pairwise(found.decisions):
        assert (after <= before).all() and (after < before).any()
    assert torch.equal(shown(network.render(video, found)), found.decision.bool())
    torch.manual_seed(1)
    again = network.sparsify(video)
    assert torch.equal(again.features, found.features)
    torch.manual_seed(5)
    drawn = network(video)
    assert not torch.equal(drawn, network(video))
    torch.manual_seed(5)
    assert torch.equal(drawn, network(video))


def test_a_predictor_is_told_what_the_block_before_has_dropped() -> None:
    network, told = make().train(), []
    for predictor in network.predictors:
        predictor.register_forward_pre_hook(lambda _, arguments: told.append(arguments[1]))
    found = network.sparsify(clips())
    assert told[0] is None
    assert torch.equal(told[1], found.decisions[0]) and torch.equal(told[2], found.decisions[1])


@MODES
def test_the_gradient_of_the_output_reaches_every_parameter(mode: dict[str, Any]) -> None:
    network = make(**mode).train()
    (network(clips()) * clips(seed=1)).sum().backward()
    for key, parameter in network.named_parameters():
        if mode.get("anonymize", True) or not key.startswith("norm."):  # without a PAB only the features pass the norm
            assert parameter.grad is not None and parameter.grad.abs().sum() > 0, key


def test_the_gradient_of_the_pooled_features_reaches_what_makes_them() -> None:
    network = make().train()
    (network.sparsify(clips()).pooled() * noise(2, 32)).sum().backward()
    for key, parameter in network.named_parameters():
        if not key.startswith("output."):
            assert parameter.grad is not None and parameter.grad.abs().sum() > 0, key


def test_features_are_pooled_over_the_kept() -> None:
    features = torch.tensor([[[[2.0, 4.0], [50.0, 50.0]], [[4.0, 0.0], [60.0, 60.0]]]])
    found = Sparsified((torch.ones(1, 2, 2), torch.tensor([[[1.0, 0.0], [1.0, 0.0]]])), features)
    assert found.pooled().tolist() == [[3.0, 2.0]]
    network, video = make(two_pass=True), clips()
    found = network.sparsify(video, held=network.decide(video))
    other = changed(video, found.decision == 0)
    torch.testing.assert_close(network.sparsify(other, held=network.decide(video)).pooled(), found.pooled())


def test_mixed_and_half_precision_keep_the_videos_type() -> None:
    network, video = make(), clips()
    held, exact = network.decide(video), network(video)
    with torch.autocast("cpu", torch.bfloat16):
        mixed = [network.forward_with(video, held), network.render(video, network.sparsify(video, held=held))]
    network.bfloat16()
    half = [network.forward_with(video, held), network.render(video, network.sparsify(video, held=held))]
    for output in mixed + half:
        assert output.dtype == torch.float32
        assert torch.equal(shown(output), shown(exact))
        assert 0 < (output - exact).abs().mean() < 0.02


# Work, files, mistakes.


@MODES
@pytest.mark.parametrize("alpha", [1.0, 0.7, 0.4])
def test_the_multiply_adds_are_those_that_are_done(mode: dict[str, Any], alpha: float) -> None:
    network = make(**{"alpha": alpha, **mode})
    # this backend takes attention as two matrix products, which the counter knows
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        network(clips(1))
    assert counter.get_total_flops() / 2 == network.multiply_adds()
    assert network.multiply_adds(alpha) == network.multiply_adds()


def test_the_papers_work_falls_to_61_percent() -> None:
    with torch.device("meta"):
        paper = Tubelets()
    assert paper.multiply_adds(0.7) / paper.multiply_adds(1.0) == pytest.approx(0.61, abs=0.01)
    # of one of twelve layers at 392 tokens: 12 · 392 · 384² + 2 · 392² · 384
    assert 12 * 811_646_976 < paper.multiply_adds(1.0) < 1.1 * 12 * 811_646_976


@MODES
def test_what_is_saved_gives_the_same_output(mode: dict[str, Any], tmp_path: Path) -> None:
    network, video = make(**mode, duration=1), clips()
    again = load(save(network, tmp_path))
    assert isinstance(again, Tubelets) and not again.training
    assert torch.equal(again(video), network(video))
    assert again.settings() == network.settings()
    assert label(again) == label(network)


def test_alpha_is_the_strength_of_saved_weights_and_nothing_else_is(tmp_path: Path) -> None:
    save(make(), tmp_path)
    weaker = load(tmp_path, strength=0.9)
    assert isinstance(weaker, Tubelets)
    assert weaker.settings()["alpha"] == 0.9
    assert [kept.shape[2] for kept in weaker.decide(clips()).kept] == [8, 7, 6]
    with pytest.raises(SfumatoError, match=r"alpha = 0 is out of range: use 0.001 to 1"):
        load(tmp_path, strength=0.0)
    with pytest.raises(SfumatoError, match=r"'two_pass' of .* cannot be set: what can: alpha"):
        load(tmp_path, two_pass=True)
    with pytest.raises(SfumatoError, match="without weights is no anonymizer"):
        load("tubelets")


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"embedding": 3}, "embedding = 3 is too small: use 4 or more"),
        ({"depth": 0}, "depth = 0 is too small: use 1 or more"),
        ({"blocks": 0}, "blocks = 0"),
        ({"duration": 0}, "duration = 0"),
        ({"patch": -1}, "patch = -1"),
        ({"duration": 5}, "clips of 4 frames of 24×24 are less than a tubelet of 5×8×8"),
        ({"patch": 32}, "less than a tubelet of 2×32×32"),
        ({"alpha": 1.1}, "alpha = 1.1 is out of range"),
        ({"anonymize": False, "sparsify": False}, "neither anonymize nor sparsify"),
        ({"sparsify": False, "alpha": 0.5}, "alpha = 0.5 does nothing"),
        ({"frame_step": 0}, "frame_step = 0"),
    ],
)
def test_settings_that_make_no_network_are_refused(settings: dict[str, Any], complaint: str) -> None:
    with pytest.raises(SfumatoError, match=complaint):
        make(**settings)


@pytest.mark.parametrize(
    ("shape", "complaint"),
    [
        ((1, 8, 3, 24, 24), "made for 4 frames of 24×24, not 8 of 24×24"),
        ((1, 4, 3, 24, 32), "not 4 of 24×32"),
        ((1, 1, 3, 24, 24), "a clip of 1 frame is shorter than a tubelet of 2: give 4 frames"),
        ((1, 4, 1, 24, 24), "is no video"),
        ((4, 3, 24, 24), "is no video"),
    ],
)
@pytest.mark.parametrize("training", [False, True])
def test_other_clips_are_refused(training: bool, shape: tuple[int, ...], complaint: str) -> None:
    with pytest.raises(SfumatoError, match=complaint):
        make().train(training)(torch.zeros(shape))


def test_a_decision_that_does_not_fit_is_refused() -> None:
    network, video = make(), clips()
    held = network.decide(video)
    first, second, last = held.kept
    no_place, dropped_before = last.clone(), last.clone()
    no_place[..., -1] = 9
    dropped_before[..., 0] = (held.masks(9)[1] == 0).int().argmax(-1)
    for wrong in (
        (first, second),
        (first, second, last[:1]),
        (first, second, last[..., :0]),
        (first, second, no_place),
        (first, second, dropped_before.sort(-1).values),
        (first, second.flip(-1), last),
    ):
        with pytest.raises(SfumatoError, match="does not fit 2 clips of 2 steps and 3 blocks"):
            network.forward_with(video, Decision(wrong))
        with pytest.raises(SfumatoError, match="does not fit"):
            network.sparsify(video, held=Decision(wrong))


def test_keep_shows_what_is_kept_as_it_came_in_and_nothing_else() -> None:
    anonymizer = make().eval()
    video = clips()
    kept, places = anonymizer.keep(video), anonymizer.decide(video).kept[-1]
    raw, shown = anonymizer._cut(video), anonymizer._cut(kept)
    mask = torch.zeros(raw.shape[:3], dtype=torch.bool).scatter(2, places, True)
    assert shown[mask].equal(raw[mask]) and not shown[~mask].any()
