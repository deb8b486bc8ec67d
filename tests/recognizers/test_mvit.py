"""MViTv2-S: published sizes and names, the shrinking grid, relative positions, and that it learns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from sfumato.errors import SfumatoError
from sfumato.recognizers import load_weights, make_recognizer
from sfumato.recognizers.mvit import MViT, distances, strided

CLIP = (8, 64, 64)


def small(outputs: int = 3, clip: tuple[int, int, int] = CLIP) -> MViT:
    """Six blocks, one for the third stage; 16, 32, 64 and 128 channels."""
    torch.manual_seed(0)
    return MViT(outputs, clip, width=0.125, depth=6)


def videos(count: int, clip: tuple[int, int, int] = CLIP) -> Tensor:
    return torch.rand(count, clip[0], 3, *clip[1:], generator=torch.Generator().manual_seed(1))


def blocks_of(recognizer: MViT) -> list[Any]:
    return list(recognizer.blocks)


def published(outputs: int, first: int, blocks: list[tuple[int, int, int, int]], time: int) -> dict[str, list[int]]:
    """Names and shapes of the published state dict.

    Each block is (channels before, channels after, heads, places along height or width that its tables span).
    """
    state = {"pos_encoding.class_token": [first], "conv_proj.weight": [first, 3, 3, 7, 7], "conv_proj.bias": [first]}
    for number, (before, after, heads, span) in enumerate(blocks):
        head = after // heads
        block = {
            "norm1.weight": [before],
            "norm1.bias": [before],
            "norm2.weight": [after],
            "norm2.bias": [after],
            "attn.rel_pos_h": [2 * span - 1, head],
            "attn.rel_pos_w": [2 * span - 1, head],
            "attn.rel_pos_t": [2 * time - 1, head],
            "attn.qkv.weight": [3 * after, before],
            "attn.qkv.bias": [3 * after],
            "attn.project.0.weight": [after, after],
            "attn.project.0.bias": [after],
            "mlp.0.weight": [4 * after, after],
            "mlp.0.bias": [4 * after],
            "mlp.3.weight": [after, 4 * after],
            "mlp.3.bias": [after],
        }
        for pool in ("pool_q", "pool_k", "pool_v"):
            block[f"attn.{pool}.pool.weight"] = [head, 1, 3, 3, 3]
            block[f"attn.{pool}.norm_act.0.weight"] = block[f"attn.{pool}.norm_act.0.bias"] = [head]
        if before != after:
            block |= {"project.weight": [after, before], "project.bias": [after]}
        state |= {f"blocks.{number}.{name}": shape for name, shape in block.items()}
    last = blocks[-1][1]
    return state | {
        "norm.weight": [last],
        "norm.bias": [last],
        "head.1.weight": [outputs, last],
        "head.1.bias": [outputs],
    }


# 64 pixels are 16 places after the stem; the queries of a stage's first block halve them: 16, 8, 4, 2.
SMALL_BLOCKS = [(16, 16, 1, 16), (16, 32, 2, 8), (32, 32, 2, 8), (32, 64, 4, 4), (64, 128, 8, 4), (128, 128, 8, 2)]


def test_names_shapes_and_size_are_the_published_ones() -> None:
    with torch.device("meta"):
        recognizer = make_recognizer("mvit-v2-s", 400, clip=(16, 224, 224))
    # The keys of a new stage's first block are pooled from the wider grid: 28 / 2 and 14 / 1 places.
    third = [(192, 384, 4, 14)] + 10 * [(384, 384, 4, 14)]
    blocks = [(96, 96, 1, 56), (96, 192, 2, 28), (192, 192, 2, 28), *third, (384, 768, 8, 14), (768, 768, 8, 7)]
    assert {name: list(value.shape) for name, value in recognizer.state_dict().items()} == published(
        400, 96, blocks, time=8
    )
    assert sum(parameter.numel() for parameter in recognizer.parameters()) == 34_537_744


def test_a_file_with_the_published_names_loads(tmp_path: Path) -> None:
    state = {name: torch.rand(shape) for name, shape in published(400, 16, SMALL_BLOCKS, time=4).items()}
    torch.save(state, tmp_path / "mvit.pth")
    whole, new_head = small(400), small(3)
    load_weights(whole, tmp_path / "mvit.pth")
    load_weights(new_head, tmp_path / "mvit.pth", new_head=True)
    for recognizer in (whole, new_head):
        loaded = recognizer.state_dict()
        assert loaded.keys() == state.keys()
        assert all(torch.equal(loaded[name], state[name]) for name in state if not name.startswith("head."))
    assert torch.equal(whole.state_dict()["head.1.weight"], state["head.1.weight"])
    assert new_head.get_submodule(new_head.head_name).weight.shape == (3, 128)
    with pytest.raises(SfumatoError, match=r"misshaped: blocks\.0\.attn\.rel_pos_t"):
        load_weights(small(400, (16, 64, 64)), tmp_path / "mvit.pth")


def test_tokens_of_each_stage() -> None:
    """112 pixels: 28 after the stem, then 14, 7 and 4, over 8 steps of time; keys from 28/8, 28/4, 14/4, 14/2, 7/1, 4/1."""
    recognizer = small(clip=(16, 112, 112)).eval()
    queries: list[int] = []
    keys: list[int] = []
    for block in blocks_of(recognizer):
        block.register_forward_hook(lambda _module, _inputs, output: queries.append(output.shape[1]))
        block.attn.pool_k.register_forward_hook(lambda _module, _inputs, output: keys.append(output.shape[2]))
    with torch.no_grad():
        assert recognizer(videos(1, (16, 112, 112))).shape == (1, 3)
    assert queries == [1 + 8 * side**2 for side in (28, 14, 14, 7, 4, 4)]
    assert keys == [1 + 8 * side**2 for side in (4, 7, 4, 7, 7, 4)]


def test_strides_round_up() -> None:
    assert strided((15, 50, 33), (2, 4, 4)) == (8, 13, 9)


def test_distances_count_from_the_last_key_to_the_last_query() -> None:
    assert distances(3, 3).tolist() == [[2, 1, 0], [3, 2, 1], [4, 3, 2]]
    # Four queries over two keys: the keys stand two apart.
    assert distances(4, 2).tolist() == [[2, 0], [3, 1], [4, 2], [5, 3]]
    assert distances(2, 4).tolist() == [[3, 2, 1, 0], [5, 4, 3, 2]]
    assert distances(7, 4).max() <= 2 * 7 - 2


def test_position_bias_is_the_query_times_the_three_tables() -> None:
    attention = blocks_of(small(clip=(4, 64, 32)))[5].attn  # queries and keys on 2×2×1
    query = torch.rand(2, 8, 1 + 4, 16, generator=torch.Generator().manual_seed(2))
    tables = [attention.rel_pos_t, attention.rel_pos_h, attention.rel_pos_w]
    places = [(t, h, 0) for t in range(2) for h in range(2)]
    expected = torch.zeros(2, 8, 5, 5)  # the class token's row and column stay 0
    for p, here in enumerate(places):
        for q, there in enumerate(places):
            row = sum(table[a - b + len(table) // 2] for table, a, b in zip(tables, here, there, strict=True))
            expected[:, :, 1 + p, 1 + q] = query[:, :, 1 + p] @ row
    torch.testing.assert_close(attention.position_bias(query), expected)


def test_attention_by_hand() -> None:
    """softmax(QKᵀ/√d + bias)·V, plus Q for every token but the class token."""
    attention = blocks_of(small())[1].attn
    tokens = torch.randn(2, 1 + 4 * 16 * 16, 16, generator=torch.Generator().manual_seed(3))
    query, key, value = attention.qkv(tokens).view(2, -1, 3, 2, 16).permute(2, 0, 3, 1, 4)
    query, key, value = (
        pool(part, attention.grid)
        for pool, part in ((attention.pool_q, query), (attention.pool_k, key), (attention.pool_v, value))
    )
    attended = (query @ key.mT / 4 + attention.position_bias(query)).softmax(-1) @ value
    attended[:, :, 1:] += query[:, :, 1:]
    expected = attention.project(attended.transpose(1, 2).reshape(2, 1 + 4 * 8 * 8, 32))
    torch.testing.assert_close(attention(tokens), expected, rtol=1e-4, atol=1e-5)


def test_block_by_hand() -> None:
    """Where channels double, the shortcut is the normed tokens, projected and max-pooled around the class token."""
    block = blocks_of(small())[1].eval()
    torch.nn.init.normal_(block.norm1.weight)  # away from 1, so that the norm shows
    tokens = torch.randn(2, 1 + 4 * 16 * 16, 16, generator=torch.Generator().manual_seed(4))
    normed = F.layer_norm(tokens, (16,), block.norm1.weight, block.norm1.bias, eps=1e-6)
    projected = block.project(normed)
    frames = projected[:, 1:].reshape(2 * 4, 16, 16, 32).permute(0, 3, 1, 2)
    pooled = F.max_pool2d(frames, 3, 2, padding=1).permute(0, 2, 3, 1).reshape(2, 4 * 8 * 8, 32)
    middle = torch.cat((projected[:, :1], pooled), 1) + block.attn(normed)
    expected = middle + block.mlp(F.layer_norm(middle, (32,), block.norm2.weight, block.norm2.bias, eps=1e-6))
    torch.testing.assert_close(block(tokens), expected, rtol=1e-4, atol=1e-5)


def test_pixels_and_norms_are_those_of_the_published_weights() -> None:
    recognizer = small()
    video = torch.tensor([0.45, 0.675, 0.0]).view(1, 1, 3, 1, 1)
    torch.testing.assert_close(recognizer.normalise(video).flatten(), torch.tensor([0.0, 1.0, -2.0]))
    norms = [module for module in recognizer.modules() if isinstance(module, torch.nn.LayerNorm)]
    assert len(norms) == 6 * 5 + 1
    assert {norm.eps for norm in norms} == {1e-6}


def test_batch_mates_do_not_matter() -> None:
    recognizer = small().eval()
    video = videos(3) * torch.tensor([0.1, 1.0, 0.5]).view(3, 1, 1, 1, 1)
    with torch.no_grad():
        torch.testing.assert_close(recognizer(video)[1:2], recognizer(video[1:2]), rtol=1e-4, atol=1e-6)


def test_gradients_reach_every_parameter() -> None:
    recognizer = small().eval()
    recognizer(videos(2)).square().sum().backward()
    silent = {name for name, value in recognizer.named_parameters() if value.grad is None or not value.grad.any()}
    # Only the class token leaves the last block, and neither pooling nor positions touch its query.
    last = ("pool_q.pool.weight", "rel_pos_t", "rel_pos_h", "rel_pos_w")
    assert silent == {f"blocks.5.attn.{name}" for name in last}


def test_stochastic_depth_drops_whole_clips_in_training_only() -> None:
    block = blocks_of(small())[5]
    branch = torch.ones(400, 3, 2)
    dropped = block._drop(branch)
    assert torch.equal(dropped, dropped[:, :1, :1].expand(-1, 3, 2))
    kept = dropped[:, 0, 0] > 0
    assert 0.7 < kept.float().mean() < 0.9  # one in five is dropped
    torch.testing.assert_close(dropped[kept], branch[kept] / 0.8)
    assert torch.equal(block.eval()._drop(branch), branch)
    assert [round(each.drop_rate, 6) for each in blocks_of(small())] == [0, 0.04, 0.08, 0.12, 0.16, 0.2]


def test_it_learns_which_half_is_lit() -> None:
    recognizer = small(2, (4, 32, 32))
    video, answers = 0.2 * videos(8, (4, 32, 32)), torch.arange(8) % 2
    video[answers == 0, ..., :16] += 0.8
    video[answers == 1, ..., 16:] += 0.8
    optimizer = torch.optim.AdamW(recognizer.parameters(), lr=3e-3)
    for _ in range(12):
        optimizer.zero_grad()
        F.cross_entropy(recognizer(video), answers).backward()
        optimizer.step()
    with torch.no_grad():
        assert torch.equal(recognizer.eval()(video).argmax(1), answers)


def test_any_clip_size_works_but_only_that_one() -> None:
    recognizer = small(clip=(5, 50, 33)).eval()
    with torch.no_grad():
        assert torch.isfinite(recognizer(videos(1, (5, 50, 33)))).all()
    with pytest.raises(SfumatoError, match=r"made for clips of .* \(5, 50, 33\), not \(6, 50, 33\)"):
        recognizer(videos(1, (6, 50, 33)))


def test_too_few_blocks_are_refused() -> None:
    with pytest.raises(SfumatoError, match="an MViT of 5 blocks lacks a stage: use a depth of 6 or more"):
        make_recognizer("mvit-v2-s", 2, clip=CLIP, depth=5)
