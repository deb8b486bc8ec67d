"""`masked-transformer`: attention is divided, the mask is the paper's, and a masked patch is black."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from sfumato.anonymizers import ClipSpec, label, load, save, untrained
from sfumato.anonymizers.masked_transformer import Attention, Block, MaskedTransformer
from sfumato.anonymizers.streaming import anonymize_stream
from sfumato.errors import SfumatoError

from .contract import batch_mates_are_not_seen, gradients_reach, type_and_range_are_kept

MODES = pytest.mark.parametrize(
    "mode",
    [{}, {"ratio": 0.4}, {"training_mask": "soft"}, {"training_mask": "softmax"}, {"masked": False}],
    ids=lambda mode: "".join(mode) or "paper",
)


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed))


def make(**settings: Any) -> MaskedTransformer:
    """A small network in eval mode: 3 frames of 3×3 places; weights that make a difference."""
    torch.manual_seed(0)
    small = {"embedding": 32, "depth": 2, "patch": 8, "frames": 3, "size": 24}
    network = untrained("masked-transformer", **{**small, **settings})
    assert isinstance(network, MaskedTransformer)
    with torch.no_grad():
        for module in network.modules():
            if isinstance(module, nn.Linear | nn.ConvTranspose2d):
                module.weight.mul_(6)
    return network


def clips(count: int = 2, seed: int = 0) -> Tensor:
    return noise(count, 3, 3, 24, 24, seed=seed)


def shown(video: Tensor) -> Tensor:
    """(B, 3, 9): where any pixel of a patch is not black."""
    pieces = video.unflatten(4, (3, 8)).unflatten(3, (3, 8))  # (B, T, 3, row, 8, column, 8)
    return (pieces != 0).permute(0, 1, 3, 5, 2, 4, 6).flatten(4).any(-1).flatten(2)


# The encoder and the decoder.


def dense(attention: Attention, tokens: Tensor, seen: Tensor) -> Tensor:
    """PyTorch's own attention over all T·N tokens (B, T·N, D) with the same weights, of which row i sees seen[i]."""
    width = tokens.shape[-1]
    theirs = nn.MultiheadAttention(width, attention.heads, batch_first=True, dtype=torch.float64)
    names = {"in_proj_weight": "qkv.weight", "in_proj_bias": "qkv.bias"}
    own = attention.state_dict()
    theirs.load_state_dict(
        {key: own[names.get(key, key.replace("out_proj", "project"))] for key in theirs.state_dict()}
    )
    return theirs(tokens, tokens, tokens, attn_mask=~seen, need_weights=False)[0]


def test_divided_attention_is_dense_attention_to_the_same_place_then_to_the_same_frame() -> None:
    torch.manual_seed(0)
    block = Block(128).double()
    with torch.no_grad():
        for parameter in block.parameters():
            parameter.copy_(parameter * 3 + 0.1 * torch.randn_like(parameter))
    assert block.time.heads == block.space.heads == 2
    tokens = torch.randn(2, 3, 4, 128, dtype=torch.float64)
    frame, place = (index.flatten() for index in torch.meshgrid(torch.arange(3), torch.arange(4), indexing="ij"))
    same_frame, same_place = frame[:, None] == frame, place[:, None] == place
    flat = tokens.flatten(1, 2)
    flat = flat + dense(block.time, block.norm_time(flat), same_place)
    flat = flat + dense(block.space, block.norm_space(flat), same_frame)
    flat = flat + block.feed(block.norm_feed(flat))
    torch.testing.assert_close(block(tokens), flat.unflatten(1, (3, 4)))


def silence(network: MaskedTransformer) -> MaskedTransformer:
    """Blocks that add nothing, so that a token is its patch and its position."""
    with torch.no_grad():
        for block in network.blocks:
            for last in (block.time.project, block.space.project, block.feed[2]):
                last.weight.zero_()
                last.bias.zero_()
    return network


def test_patches_are_a_strided_convolution_and_pixels_a_transposed_one() -> None:
    network, video = silence(make()), clips()
    mean, std = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    frames = (video.flatten(0, 1) - mean.view(3, 1, 1)) / std.view(3, 1, 1)
    embedded = functional.conv2d(
        frames, network.tokenizer.weight.view(32, 3, 8, 8), network.tokenizer.bias, stride=8
    )  # (B·T, D, 3, 3)
    tokens = network.norm(embedded.flatten(2).transpose(1, 2).unflatten(0, (2, 3)) + network.position)
    torch.testing.assert_close(network.encode(video), tokens, rtol=1e-4, atol=1e-4)
    with torch.no_grad():
        network.colour.copy_(torch.tensor([-1.0, 0.0, 1.0]).view(3, 1, 1))
    maps = tokens.flatten(0, 1).transpose(1, 2).unflatten(2, (3, 3))
    painted = (network.decoder(maps) + network.colour).sigmoid().unflatten(0, (2, 3))
    torch.testing.assert_close(network.decode(tokens), painted, rtol=1e-4, atol=1e-4)


def test_every_frame_and_place_has_a_position_and_there_is_no_class_token() -> None:
    network = silence(make())
    video = torch.full((1, 3, 3, 24, 24), 0.5)
    tokens = network.encode(video)[0].flatten(0, 1)
    assert tokens.shape == (27, 32) and torch.cdist(tokens, tokens).fill_diagonal_(9).min() > 1e-3


def test_the_papers_network_counted_by_hand() -> None:
    with torch.device("meta"):
        paper = MaskedTransformer(embedding=768, depth=12, size=224)
    assert paper.blocks[0].time.heads == 12
    d = 768
    block = 2 * (4 * d * d + 4 * d) + (8 * d * d + 5 * d) + 3 * 2 * d
    ends = (768 * d + d) + 8 * 196 * d + 2 * d + (d * 768 + 3)
    scorer = d * (d // 2) + d // 2 + d // 2 + 1
    count = sum(parameter.numel() for parameter in paper.parameters())
    assert count == 12 * block + ends + scorer and round(count / 1e6) == 116


# The mask.


def test_scores_are_taken_from_their_frames_mean() -> None:
    network, tokens = make(), noise(2, 3, 9, 32)
    with torch.no_grad():
        raw = network.scorer(tokens)[..., 0]
        scores = network.score(tokens)
    for clip in range(2):
        for frame in range(3):
            torch.testing.assert_close(scores[clip, frame], raw[clip, frame] - raw[clip, frame].mean())
    assert scores.std() > 0.02


def test_the_soft_mask_worked_by_hand() -> None:
    # σ(ln 3) = ¾ at a score of ln 3 · τ
    scores = 0.05 * math.log(3) * torch.tensor([[[1.0, 0.0, -1.0, 2.0]]])
    torch.testing.assert_close(make().soft_mask(scores), torch.tensor([[[3 / 4, 1 / 2, 1 / 4, 9 / 10]]]))
    # the threshold is taken off the score: a higher one hides more
    higher = make(threshold=0.05 * math.log(3))
    torch.testing.assert_close(higher.soft_mask(scores), torch.tensor([[[1 / 2, 1 / 4, 1 / 10, 3 / 4]]]))
    warmer = make(temperature=0.1)
    torch.testing.assert_close(warmer.soft_mask(2 * scores), make().soft_mask(scores))
    # e^s̃/τ is 3, 1, 1/3 and 9
    literal = make(training_mask="softmax").mask_in_training(scores)
    torch.testing.assert_close(literal, torch.tensor([[[9.0, 3.0, 1.0, 27.0]]]) / 40)
    assert torch.equal(make(training_mask="soft").mask_in_training(scores), make().soft_mask(scores))
    assert make().mask_in_training(scores).tolist() == [[[1, 0, 0, 1]]]  # as in use


def test_the_soft_mask_of_a_ratio_is_a_half_between_the_kept_and_the_masked() -> None:
    scores = 0.05 * math.log(3) * torch.tensor([[[5.0, 1.0, 3.0] + 6 * [-1.0], [1.0, 5.0, 3.0] + 6 * [-1.0]]])
    mask = make(ratio=0.25).soft_mask(
        scores
    )  # ⌊9/4⌋ = 2 of 9 are kept: half-way is 2, so that 5, 1 and 3 are 3, −1 and 1
    torch.testing.assert_close(mask[0, 0, :3], torch.tensor([27 / 28, 1 / 4, 3 / 4]))
    torch.testing.assert_close(mask[0, 1, :3], torch.tensor([1 / 4, 27 / 28, 3 / 4]))
    assert torch.equal(make(ratio=1.0).soft_mask(scores), torch.ones(1, 2, 9))


def test_the_hard_mask_worked_by_hand() -> None:
    scores = torch.tensor([[[0.3, -0.5, 0.2, 0.0], [0.0, 0.0, 0.0, 0.0]]])
    assert make().hard_mask(scores).tolist() == [[[True, False, True, False], [True, False, False, False]]]
    assert make(threshold=0.2).hard_mask(scores)[0, 0].tolist() == [True, False, False, False]
    assert make(threshold=-0.1).hard_mask(scores)[0, 0].tolist() == [True, False, True, True]
    assert make(threshold=9).hard_mask(scores)[0, 0].tolist() == [True, False, False, False]
    assert make(threshold=9).hard_mask(-scores)[0, 0].tolist() == [False, True, False, False]
    assert make(threshold=-9).hard_mask(scores).all()


@pytest.mark.parametrize(("ratio", "kept"), [(1.0, 9), (0.7, 6), (0.5, 4), (0.01, 1)])
def test_a_ratio_keeps_so_many_of_every_frame_and_those_are_the_best(ratio: float, kept: int) -> None:
    network, video = make(ratio=ratio), clips()
    masks, scores = network.masks(video), network.score(network.encode(video))
    assert (masks.sum(-1) == kept).all()
    highest_masked = scores.masked_fill(masks, -math.inf).amax(-1)
    assert (scores.masked_fill(~masks, math.inf).amin(-1) > highest_masked).all()
    equal = network.hard_mask(torch.zeros(1, 1, 9))
    assert equal[0, 0].tolist() == [True] * kept + [False] * (9 - kept)


@pytest.mark.parametrize("settings", [{}, {"threshold": 0.1}, {"threshold": -0.1}, {"ratio": 0.4}, {"ratio": 1.0}])
def test_training_shows_more_than_half_of_what_use_keeps(settings: dict[str, float]) -> None:
    network, video = make(**settings), clips()
    masks = network.masks(video)
    assert masks.any() and (not masks.all() or settings == {"ratio": 1.0})
    assert torch.equal(network.train().render(video).mask > 0.5, masks)
    assert torch.equal(network.masks(video), masks)  # the mode does not count


def test_a_higher_threshold_hides_more_and_what_is_hidden_depends_on_the_picture() -> None:
    shares = []
    for threshold in (-10.0, -0.1, 0.0, 0.1, 10.0):
        network = make(threshold=threshold)
        share = network.kept_share(clips())
        torch.testing.assert_close(share, network.masks(clips()).flatten(1).sum(1) / 27)
        shares.append(share)
    assert (
        (torch.stack(shares).diff(dim=0) <= 0).all() and (shares[1] > shares[2]).all() and (shares[2] > shares[3]).all()
    )
    assert shares[0].tolist() == [1, 1] and shares[-1].tolist() == pytest.approx([1 / 9, 1 / 9])
    assert not torch.equal(*make().masks(clips()))


# In use.


@pytest.mark.parametrize(
    "settings", [{}, {"threshold": 0.1}, {"threshold": 10.0}, {"ratio": 0.5}, {"training_mask": "softmax"}]
)
def test_masked_patches_are_black_and_kept_ones_are_as_they_were_painted(settings: dict[str, Any]) -> None:
    network, video = make(**settings), clips()
    output, masks = network(video), network.masks(video)
    assert masks.shape == (2, 3, 9) and masks.dtype == torch.bool
    assert torch.equal(shown(output), masks)
    painted = network.decode(network.encode(video))
    everywhere = network.spread(masks).expand_as(video)
    assert torch.equal(output[everywhere], painted[everywhere])
    assert torch.equal(output, network(video)) and 0 <= output.min() <= output.max() < 1
    assert torch.equal(network.render(video).mask, masks.float())


def test_a_mask_is_spread_over_its_patches() -> None:
    mask = torch.arange(27.0).view(1, 3, 9)
    spread = make().spread(mask)
    assert spread.shape == (1, 3, 1, 24, 24)
    assert spread[0, 1, 0, 8:16, 16:].unique().tolist() == [9 + 5] and spread[0, 2, 0, 23, 0] == 18 + 6


def test_without_a_mask_all_is_shown() -> None:
    network, video = make(masked=False), clips()
    assert network.scorer is None
    assert shown(network(video)).all() and network.masks(video).all() and network.kept_share(video).tolist() == [1, 1]
    with pytest.raises(SfumatoError, match="has no mask, and scores nothing"):
        network.score(network.encode(video))


def test_what_a_masked_patch_held_is_seen_in_its_neighbours() -> None:
    """The leak that the module speaks of: with the mask held, another picture in a masked patch changes kept ones."""
    network, video = make(), clips()
    held = network.masks(video)
    other = video.clone()
    changed = torch.zeros_like(held)
    for clip, place in enumerate((~held[:, 0]).int().argmax(-1).tolist()):
        rows, columns = (slice(8 * index, 8 * index + 8) for index in divmod(place, 3))
        other[clip, 0, :, rows, columns] = 1 - video[clip, 0, :, rows, columns]
        changed[clip, 0, place] = True
    assert not held[changed].any()
    before, after = (network.decode(network.encode(each)) * network.spread(held) for each in (video, other))
    assert torch.equal(shown(before), held) and torch.equal(shown(after), held)
    assert torch.equal(before, network(video))
    difference = shown(before - after)
    assert difference[:, 0].any() and difference[:, 1:].any()  # in its own frame, and in the others


@MODES
@pytest.mark.parametrize("training", [False, True])
def test_a_clip_does_not_see_its_batch(mode: dict[str, Any], training: bool) -> None:
    batch_mates_are_not_seen(make(**mode).train(training), clips(4))


@MODES
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("training", [False, True])
def test_the_type_and_the_range_are_kept(mode: dict[str, Any], dtype: torch.dtype, training: bool) -> None:
    type_and_range_are_kept(make(**mode).train(training), clips().to(dtype))


def test_gradients_reach_the_video() -> None:
    gradients_reach(make(), clips())


def test_mixed_and_half_precision_keep_the_videos_type() -> None:
    network, video = make(), clips()
    exact = network.render(video, masked=False)
    tokens = network.encode(video)
    with torch.autocast("cpu", torch.bfloat16):
        mixed = network.render(video, masked=False).output
        scores = network.score(tokens)
    torch.testing.assert_close(scores, network.score(tokens), atol=1e-6, rtol=0)  # scores are not rounded to bf16
    half = network.bfloat16().render(video, masked=False).output
    assert network(video).dtype == torch.float32
    for output in (mixed, half):
        assert output.dtype == torch.float32 and 0 < (output - exact.output).abs().mean() < 0.02


@pytest.mark.parametrize("mode", [{}, {"ratio": 0.4}, {"masked": False}])
def test_the_mask_of_a_clip_is_where_it_shows_anything(mode: dict[str, Any]) -> None:
    network, video = make(**mode), clips()
    output, mask = network.forward_and_mask(video)
    assert torch.equal(output, network(video))
    assert mask.shape == (2, 3, 1, 24, 24) and set(mask.unique().tolist()) <= {0.0, 1.0}
    assert torch.equal(shown(mask.expand_as(video)), shown(output))
    torch.testing.assert_close(mask.mean((1, 2, 3, 4)), network.kept_share(video))


def test_the_streaming_wrapper_brings_a_video_to_size() -> None:
    network = make(frame_step=2)
    assert network.spec == ClipSpec(length=3, size=(24, 24), frame_step=2, blend=False)
    frames = list(np.random.default_rng(0).integers(0, 255, (7, 30, 50, 3), dtype=np.uint8))
    assert [frame.shape for frame in anonymize_stream(network, frames)] == [(30, 50, 3)] * 7


# In training.


@pytest.mark.parametrize("shown", ["soft", "softmax"])
@pytest.mark.parametrize("settings", [{}, {"threshold": 0.1}, {"ratio": 0.4}])
def test_training_may_show_patches_as_bright_as_their_mask_is_soft(shown: str, settings: dict[str, Any]) -> None:
    network, video = make(**settings, training_mask=shown).train(), clips()
    found = network.render(video)
    tokens = network.encode(video)
    torch.testing.assert_close(found.scores, network.score(tokens))
    torch.testing.assert_close(found.mask, network.mask_in_training(found.scores))
    torch.testing.assert_close(found.output, network.decode(tokens) * network.spread(found.mask))
    assert torch.equal(network(video), found.output)
    assert found.mask.std() > 0.01 and (found.mask > 0).all() and (found.mask < 1).any()


@pytest.mark.parametrize("settings", [{}, {"threshold": 0.1}, {"ratio": 0.4}])
def test_training_shows_what_use_shows_and_learns_by_the_soft_mask(settings: dict[str, Any]) -> None:
    video, weights = clips(), clips(seed=1)
    network = make(**settings)
    used = network(video)
    torch.testing.assert_close(network.train()(video), used)
    gradients = []
    for shown in ("hard", "soft"):
        scores = network.score(network.encode(video)).detach().requires_grad_()
        made = make(**settings, training_mask=shown)
        (made.spread(made.mask_in_training(scores)) * weights).sum().backward()
        gradients.append(scores.grad)
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("training", [False, True])
def test_the_mask_can_wait_for_its_phase(training: bool) -> None:
    network, video = make().train(training), clips()
    found = network.render(video, masked=False)
    assert (found.mask == 1).all() and not found.scores.any()
    torch.testing.assert_close(found.output, network.decode(network.encode(video)))


@MODES
def test_the_gradient_of_the_output_reaches_every_parameter(mode: dict[str, Any]) -> None:
    network = make(**mode).train()
    (network(clips()) * clips(seed=1)).sum().backward()
    for key, parameter in network.named_parameters():
        # what is added to all scores of a frame goes with their mean
        if key != "scorer.2.bias":
            assert parameter.grad is not None and parameter.grad.abs().sum() > 1e-6, key


def test_the_gradient_of_the_soft_mask_worked_by_hand() -> None:
    scores = torch.tensor([[[0.05, -0.01, -0.04]]], requires_grad=True)
    make().soft_mask(scores).sum().backward()
    # dm/ds̃ = m(1 − m)/τ
    mask = (scores.detach() / 0.05).sigmoid()
    torch.testing.assert_close(scores.grad, mask * (1 - mask) / 0.05)


# Files, mistakes.


@MODES
def test_what_is_saved_gives_the_same_output(mode: dict[str, Any], tmp_path: Path) -> None:
    network, video = make(**mode, temperature=0.1, frame_step=2), clips()
    again = load(save(network, tmp_path))
    assert isinstance(again, MaskedTransformer) and not again.training
    assert torch.equal(again(video), network(video))
    assert again.settings() == network.settings() and label(again) == label(network)
    assert torch.equal(again.train()(video), network.train()(video))


def test_threshold_and_ratio_move_on_saved_weights_and_nothing_else_does(tmp_path: Path) -> None:
    save(make(), tmp_path)
    bolder = load(tmp_path, strength=10)
    assert isinstance(bolder, MaskedTransformer) and bolder.threshold == 10
    assert (bolder.masks(clips()).sum(-1) == 1).all()
    half = load(tmp_path, ratio=0.5)
    assert isinstance(half, MaskedTransformer) and (half.masks(clips()).sum(-1) == 4).all()
    with pytest.raises(SfumatoError, match=r"threshold = 101 is out of range: use -100 to 100"):
        load(tmp_path, strength=101)
    with pytest.raises(SfumatoError, match=r"'masked' of .* cannot be set: what can: threshold, ratio"):
        load(tmp_path, masked=False)
    with pytest.raises(SfumatoError, match="without weights is no anonymizer"):
        load("masked-transformer")


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"embedding": 1}, "embedding = 1 is too small: use 2 or more"),
        ({"depth": 0}, "depth = 0 is too small: use 1 or more"),
        ({"patch": 0}, "patch = 0"),
        ({"frames": 0}, "frames = 0"),
        ({"size": 0}, "size = 0"),
        ({"frame_step": 0}, "frame_step = 0"),
        ({"size": 20}, "patches of 8 do not fill frames of 20×20"),
        ({"temperature": 0.0}, "temperature = 0 makes no soft mask"),
        ({"ratio": 1.1}, "ratio = 1.1 is out of range"),
        ({"ratio": -0.1}, "ratio = -0.1 is out of range"),
        ({"ratio": 0.5, "threshold": 0.1}, "threshold = 0.1 and ratio = 0.5 both say what is kept: set one"),
        ({"masked": False, "threshold": 0.1}, "nothing is masked, so that threshold and ratio do nothing"),
        ({"masked": False, "ratio": 0.5}, "nothing is masked"),
    ],
)
def test_settings_that_make_no_network_are_refused(settings: dict[str, Any], complaint: str) -> None:
    with pytest.raises(SfumatoError, match=complaint):
        make(**settings)


@pytest.mark.parametrize(
    ("shape", "complaint"),
    [
        ((1, 4, 3, 24, 24), "made for 3 frames of 24×24, not 4 of 24×24"),
        ((1, 3, 3, 24, 32), "not 3 of 24×32"),
        ((1, 3, 3, 32, 24), "not 3 of 32×24"),
        ((1, 3, 1, 24, 24), "is no video"),
        ((3, 3, 24, 24), "is no video"),
    ],
)
@pytest.mark.parametrize("training", [False, True])
def test_other_clips_are_refused(training: bool, shape: tuple[int, ...], complaint: str) -> None:
    with pytest.raises(SfumatoError, match=complaint):
        make().train(training)(torch.zeros(shape))
