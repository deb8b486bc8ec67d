"""The parts of `tubelets`: the paper's equations 2 to 6 and 8 to 10, worked by hand."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from sfumato.anonymizers.tubelet_layers import (
    Predictor,
    Stack,
    TubeletStem,
    aggregate,
    draw_decision,
    masked_attention,
    most_wanted,
    open_columns,
)


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed))


def test_a_dropped_column_is_open_to_itself_alone() -> None:  # eq. 9
    columns = open_columns(torch.tensor([[1.0, 0.0, 1.0]]))
    assert columns.tolist() == [[[1, 0, 1], [1, 1, 1], [1, 0, 1]]]


def test_masked_attention_by_hand() -> None:  # eqs. 8 and 10
    # scores q·k/√4 = ln 1, ln 5, ln 3 in every row; values are unit vectors, so that the output is the attention
    query = torch.tensor([1.0, 0, 0, 0]).expand(1, 1, 3, 4)
    key = torch.zeros(1, 1, 3, 4)
    key[0, 0, :, 0] = 2 * torch.tensor([1.0, 5.0, 3.0]).log()
    value = torch.eye(3, 4)[None, None]
    columns = open_columns(torch.tensor([[1.0, 0.0, 1.0]])).requires_grad_()
    attention = masked_attention(query, key, value, columns)[0, 0, :, :3]
    expected = torch.tensor([[1 / 4, 0, 3 / 4], [1 / 9, 5 / 9, 3 / 9], [1 / 4, 0, 3 / 4]])
    torch.testing.assert_close(attention, expected)
    # d(3/4)/dM_02 = 3/4 − (3/4)² of the first row's third share
    gradient = torch.autograd.grad(attention[0, 2], columns)[0]
    assert gradient[0, 0, 2].item() == pytest.approx(3 / 16)


def test_masked_attention_stays_finite_where_the_dropped_are_loudest() -> None:
    query = torch.full((1, 1, 3, 1), 1.0, requires_grad=True)
    key = torch.tensor([0.0, 500.0, -500.0]).view(1, 1, 3, 1)
    columns = open_columns(torch.tensor([[1.0, 0.0, 0.0]])).requires_grad_()
    attention = masked_attention(query, key, torch.eye(3)[None, None], columns)
    torch.testing.assert_close(attention[0, 0, 0], torch.tensor([1.0, 0.0, 0.0]))
    attention.square().sum().backward()
    assert query.grad is not None and columns.grad is not None
    assert query.grad.isfinite().all() and columns.grad.isfinite().all()


def test_a_layer_is_multi_head_attention_with_that_mask() -> None:
    """Against PyTorch's own layer with the same weights: the scale is √(D/heads) per head."""
    torch.manual_seed(0)
    stack = Stack(128, depth=1)
    layer = stack.layers[0]
    assert layer.heads == 2
    theirs = nn.TransformerEncoderLayer(128, 2, 512, 0.0, functional.gelu, batch_first=True, norm_first=True)
    names = {"self_attn.in_proj_": "qkv.", "self_attn.out_proj": "project", "linear1": "feed.0", "linear2": "feed.2"}
    with torch.no_grad():
        layer.qkv.weight.mul_(3)
    state = layer.state_dict()
    for name, own in names.items():
        state = {key.replace(own, name): value for key, value in state.items()}
    theirs.load_state_dict(state)
    tokens, decision = noise(2, 7, 128), (noise(2, 7, seed=1) > 0.4).float()
    closed = (open_columns(decision) == 0).repeat_interleave(2, dim=0)
    masked, plain = stack(tokens[:, None], decision[:, None])[:, 0], stack(tokens[:, None])[:, 0]
    torch.testing.assert_close(masked, theirs(tokens, closed), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(plain, theirs(tokens), rtol=1e-4, atol=1e-5)


def test_aggregation_by_hand() -> None:  # eqs. 2 to 4
    def column(*rows: list[float]) -> Tensor:
        return torch.tensor(rows)[None, ..., None]

    local = column([10.0, 20.0, 30.0], [40.0, 50.0, 60.0])
    spatial = column([1.0, 2.0, 6.0], [4.0, 8.0, 9.0])
    spatiotemporal = column([3.0, 100.0, 6.0], [100.0, 12.0, 100.0])
    decision = torch.tensor([[[1.0, 0.0, 1.0], [0.0, 1.0, 0.0]]])
    # (1 + 6) / 2 and 8 in the steps, (3 + 6 + 12) / 3 in the clip
    expected = [[[10, 3.5, 7], [20, 3.5, 7], [30, 3.5, 7]], [[40, 8, 7], [50, 8, 7], [60, 8, 7]]]
    assert aggregate(local, spatial, spatiotemporal, decision)[0].tolist() == expected
    assert aggregate(local, spatial, spatiotemporal, None)[0, 1, 0].tolist() == [40, 7, 321 / 6]
    nobody = torch.tensor([[[0.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
    assert aggregate(local, spatial, spatiotemporal, nobody)[0, 0, 0].tolist() == [10, 0, 12]


@pytest.mark.parametrize("embedding", [30, 31, 32])
def test_the_predictor_takes_any_width_and_does_not_see_the_dropped(embedding: int) -> None:  # eq. 5
    torch.manual_seed(0)
    predictor, tokens = Predictor(embedding), torch.randn(2, 2, 4, embedding)
    widths = [part[0].out_features for part in (predictor.local, predictor.spatial, predictor.spatiotemporal)]
    assert sum(widths) == embedding and max(widths) - min(widths) <= 1
    decision = torch.ones(2, 2, 4)
    decision[0, 0, 1] = 0
    before = predictor(tokens, decision)
    tokens[0, 0, 1] = 9 * torch.rand(embedding)
    after = predictor(tokens, decision)
    assert before.shape == (2, 2, 4, 2)
    same = (before == after).all(-1)
    assert same.sum() == 15 and not same[0, 0, 1]
    tokens[0, 1, 1] = 9 * torch.rand(embedding)  # a kept one is seen by its whole clip, and by no other
    assert (predictor(tokens, decision) != after).any(-1).flatten(1).all(1).tolist() == [True, False]


def test_a_decision_is_drawn_with_its_probability_and_has_the_soft_gradient() -> None:  # eq. 6
    torch.manual_seed(0)
    logits = torch.tensor([0.0, math.log(3)]).repeat(4000, 1).requires_grad_()
    drawn = draw_decision(logits)
    assert set(drawn.tolist()) == {0.0, 1.0}
    assert drawn.mean().item() == pytest.approx(0.75, abs=0.02)
    # soft = 1 / (1 + e^−x), x the difference with the noise: the derivative is soft · (1 − soft), and soft > ½ is 1
    gradient = torch.autograd.grad(drawn.sum(), logits)[0]
    torch.testing.assert_close(gradient[:, 0], -gradient[:, 1])
    assert gradient[:, 1].min() > 0 and gradient[:, 1].max().item() == pytest.approx(0.25, abs=0.001)
    assert not torch.equal(draw_decision(logits), drawn)
    torch.manual_seed(0)
    assert torch.equal(draw_decision(logits), drawn)


def test_the_most_wanted_are_taken_and_of_equal_ones_the_first() -> None:
    logits = torch.zeros(1, 2, 49, 2)
    logits[0, 0, [3, 40, 20], 1] = torch.tensor([2.0, 5.0, 1.0])
    logits[0, 0, 3, 0] = 3.0  # its logit is high, its probability is not
    logits[0, 1] = torch.tensor([0.0, 99.0])  # a probability of 1 in floats
    logits[0, 1, 48] = torch.tensor([0.0, 100.0])
    assert most_wanted(logits, 4).tolist() == [[[0, 1, 20, 40], [0, 1, 2, 48]]]


def test_the_stem_sees_the_frames_of_a_tubelet_and_five_times_what_changes_in_it() -> None:
    torch.manual_seed(0)
    stem = TubeletStem(2, 4, 8)
    video = torch.rand(3, 2, 4, 4)  # colours, frames
    seen = torch.cat([video, 5 * (video[:, 1:] - video[:, :1])], 1).flatten(
        0, 1
    )  # for each colour first, second, change
    expected = stem.output(stem.convolutions(seen[None]).flatten(1))
    torch.testing.assert_close(stem(video.flatten()[None]), expected)


@pytest.mark.parametrize(("duration", "patch"), [(1, 2), (2, 8), (4, 6)])
def test_the_stem_makes_each_tubelets_token_from_itself_alone(duration: int, patch: int) -> None:
    stem = TubeletStem(duration, patch, 12)
    cut = torch.rand(2, 5, 3 * duration * patch**2)
    tokens = stem(cut)
    assert tokens.shape == (2, 5, 12)
    other = cut.clone()
    other[0, 3] = 0
    changed = (stem(other) - tokens).abs().amax(2) > 1e-6
    assert changed.nonzero().tolist() == [[0, 3]]
