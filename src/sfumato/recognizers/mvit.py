"""MViTv2-S for video: a transformer whose token grid shrinks as its channels grow.

Li et al., "MViTv2: Improved Multiscale Vision Transformers for Classification and Detection", CVPR 2022. The query, key
and value grids are pooled by depthwise convolutions, the pooled query is added to what the attention gives back, and
positions enter through tables of relative distances along time, height and width. A class token carries the feature.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sfumato.errors import SfumatoError
from sfumato.recognizers.base import Clip, Pixels, VideoRecognizer
from sfumato.recognizers.layers import initialise_transformer, scaled

PIXELS = Pixels((0.45, 0.45, 0.45), (0.225, 0.225, 0.225))
STEM_STRIDE = (2, 4, 4)
STAGES = (1, 2, 11, 2)  # blocks in each; channels and heads double from stage to stage
KEY_STRIDES = (8, 4, 2, 1)  # of keys and values, over height and width, in each stage
NORM_EPSILON = 1e-6
STOCHASTIC_DEPTH = 0.2  # of the last block; the first has none
HEAD_DROPOUT = 0.5

Grid = tuple[int, int, int]


class MViT(VideoRecognizer):
    """MViTv2-S for clips of exactly the given size: (B, T, 3, H, W) to (B, outputs).

    `width` multiplies the channels, 96 in the first stage. `depth` is the number of blocks: the third stage has what
    the others (1, 2 and 2) leave. Any (T, H, W) will do, but the tables of relative positions are as large as the
    clip makes them: the published weights fit 16×224×224 only.

    >>> MViT(10, (16, 112, 112), width=0.25, depth=6).feature_width
    192
    """

    head_name = "head.1"

    def __init__(self, outputs: int, clip: Clip, *, width: float = 1.0, depth: int = sum(STAGES)) -> None:
        super().__init__(outputs, clip, PIXELS)
        first = scaled(96, width)
        self.conv_proj = nn.Conv3d(3, first, (3, 7, 7), STEM_STRIDE, (1, 3, 3))
        self.pos_encoding = _ClassToken(first)
        self.blocks = nn.ModuleList()
        channels, grid = first, strided(self.clip, STEM_STRIDE)
        for stage, count in enumerate(_stages(depth)):
            for position in range(count):
                block = _Block(
                    grid,
                    channels,
                    first * 2**stage,
                    heads=2**stage,
                    query_stride=2 if stage > 0 and position == 0 else 1,
                    key_stride=KEY_STRIDES[stage],
                    drop_rate=STOCHASTIC_DEPTH * len(self.blocks) / (depth - 1),
                )
                self.blocks.append(block)
                channels, grid = first * 2**stage, block.attn.query_grid
        self.feature_width = channels
        self.norm = nn.LayerNorm(channels, NORM_EPSILON)
        # Not `self.head = ...`: the published name of these two is that of the property below.
        self._modules["head"] = nn.Sequential(nn.Dropout(HEAD_DROPOUT), nn.Linear(channels, outputs))
        initialise_transformer(self)

    @property
    def head(self) -> nn.Module:
        """Dropout and the last linear layer, (B, feature_width) to (B, outputs)."""
        classifier = self._modules["head"]
        assert classifier is not None
        return classifier

    def encode(self, clips: Tensor) -> Tensor:
        self.require_size(clips)
        tokens = self.pos_encoding(self.conv_proj(clips).flatten(2).transpose(1, 2))
        for block in self.blocks:
            tokens = block(tokens)
        class_token: Tensor = self.norm(tokens[:, 0])
        return class_token


def strided(grid: Grid, stride: Grid) -> Grid:
    """The (T, H, W) that a convolution of that stride leaves: each size over its stride, rounded up.

    >>> strided((8, 7, 7), (1, 2, 2))
    (8, 4, 4)
    """
    time, height, width = (-(-size // step) for size, step in zip(grid, stride, strict=True))
    return time, height, width


def distances(queries: int, keys: int) -> Tensor:
    """(queries, keys): the row of a relative position table for each pair of places along one axis.

    Row `max(queries, keys) - 1` is distance nought. Where one side has fewer places, they count as further apart.

    >>> distances(2, 2).tolist()
    [[1, 0], [2, 1]]
    """
    longer = max(queries, keys)
    query = torch.arange(queries)[:, None] * longer // queries
    key = torch.arange(keys - 1, -1, -1)[None, :] * longer // keys
    return query + key


def _stages(depth: int) -> tuple[int, ...]:
    """How many blocks each stage has when there are `depth` in all."""
    others = STAGES[0] + STAGES[1] + STAGES[3]
    if depth <= others:
        raise SfumatoError(f"an MViT of {depth} blocks lacks a stage", f"use a depth of {others + 1} or more")
    return STAGES[0], STAGES[1], depth - others, STAGES[3]


class _ClassToken(nn.Module):
    """Puts the one learned token before the others; nothing else here says where a token stands."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.class_token = nn.Parameter(nn.init.trunc_normal_(torch.empty(channels), std=0.02))

    def forward(self, tokens: Tensor) -> Tensor:
        return torch.cat((self.class_token.expand(len(tokens), 1, -1), tokens), 1)


class _Block(nn.Module):
    """Pooling attention and a feed-forward part of four times the width, each pre-norm and residual."""

    def __init__(
        self, grid: Grid, channels: int, after: int, *, heads: int, query_stride: int, key_stride: int, drop_rate: float
    ) -> None:
        super().__init__()
        self.grid, self.query_stride, self.drop_rate = grid, query_stride, drop_rate
        self.norm1 = nn.LayerNorm(channels, NORM_EPSILON)
        self.attn = _PoolingAttention(grid, channels, after, heads, query_stride, key_stride)
        self.norm2 = nn.LayerNorm(after, NORM_EPSILON)
        # The published layers count a dropout of rate 0 between the two linear ones.
        self.mlp = nn.Sequential(nn.Linear(after, 4 * after), nn.GELU(), nn.Identity(), nn.Linear(4 * after, after))
        self.project = nn.Linear(channels, after) if channels != after else None

    def forward(self, tokens: Tensor) -> Tensor:
        normed = self.norm1(tokens)
        shortcut = tokens if self.project is None else self.project(normed)
        if self.query_stride > 1:
            shortcut = _pool_grid(shortcut, self.grid, self._shrink)
        tokens = shortcut + self._drop(self.attn(normed))
        return tokens + self._drop(self.mlp(self.norm2(tokens)))

    def _shrink(self, volume: Tensor) -> Tensor:
        stride = self.query_stride
        return F.max_pool3d(volume, (1, stride + 1, stride + 1), (1, stride, stride), (0, 1, 1))

    def _drop(self, branch: Tensor) -> Tensor:
        """Stochastic depth: in training a clip skips the branch now and then; the others' is scaled up for it."""
        if not self.training:
            return branch
        return branch * F.dropout(branch.new_ones(len(branch), 1, 1), self.drop_rate)


class _PoolingAttention(nn.Module):
    """Attention between pooled queries and keys, with relative positions; (B, 1 + N, C) to (B, 1 + N', C')."""

    def __init__(self, grid: Grid, channels: int, after: int, heads: int, query_stride: int, key_stride: int) -> None:
        super().__init__()
        self.heads, self.grid = heads, grid
        self.query_grid = strided(grid, (1, query_stride, query_stride))
        self.key_grid = strided(grid, (1, key_stride, key_stride))
        self.qkv = nn.Linear(channels, 3 * after)
        self.project = nn.Sequential(nn.Linear(after, after))
        self.pool_q = _Pool(after // heads, query_stride)
        self.pool_k = _Pool(after // heads, key_stride)
        self.pool_v = _Pool(after // heads, key_stride)
        for axis, queries, keys in zip("thw", self.query_grid, self.key_grid, strict=True):
            table = torch.empty(2 * max(queries, keys) - 1, after // heads)
            self.register_parameter(f"rel_pos_{axis}", nn.Parameter(nn.init.trunc_normal_(table, std=0.02)))
            self.register_buffer(f"distances_{axis}", distances(queries, keys), persistent=False)

    def forward(self, tokens: Tensor) -> Tensor:
        # (B, 1 + N, 3·C') to three of (B, heads, 1 + N, C'/heads).
        split = self.qkv(tokens).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        query, key, value = (
            pool(part, self.grid) for pool, part in zip((self.pool_q, self.pool_k, self.pool_v), split, strict=True)
        )
        attended = F.scaled_dot_product_attention(query, key, value, self.position_bias(query))
        # Residual pooling, for all tokens but the class token.
        attended = attended + F.pad(query[:, :, 1:], (0, 0, 1, 0))
        result: Tensor = self.project(attended.transpose(1, 2).flatten(2))
        return result

    def position_bias(self, query: Tensor) -> Tensor:
        """(B, heads, 1 + N', C'/heads) to (B, heads, 1 + N', 1 + M), added to the logits of the attention.

        For query p and key q it is Q_p · (R_t + R_h + R_w), each R the table's row for their distance along that axis;
        0 where either is the class token.
        """
        grid = query[:, :, 1:].unflatten(2, self.query_grid)
        along_t = torch.einsum("bnthwc,tkc->bnthwk", grid, self._rows("t"))[..., :, None, None]
        along_h = torch.einsum("bnthwc,hkc->bnthwk", grid, self._rows("h"))[..., None, :, None]
        along_w = torch.einsum("bnthwc,wkc->bnthwk", grid, self._rows("w"))[..., None, None, :]
        return F.pad((along_t + along_h + along_w).flatten(5).flatten(2, 4), (1, 0, 1, 0))

    def _rows(self, axis: str) -> Tensor:
        """(queries, keys, C'/heads): the table of one axis, laid out for every pair of places."""
        return self.get_parameter(f"rel_pos_{axis}")[self.get_buffer(f"distances_{axis}")]


class _Pool(nn.Module):
    """A depthwise 3×3×3 convolution over each head's grid, the class token left out, and a norm over all tokens."""

    def __init__(self, channels: int, stride: int) -> None:
        super().__init__()
        self.pool = nn.Conv3d(channels, channels, 3, (1, stride, stride), 1, groups=channels, bias=False)
        self.norm_act = nn.Sequential(nn.LayerNorm(channels, NORM_EPSILON))

    def forward(self, tokens: Tensor, grid: Grid) -> Tensor:
        pooled = _pool_grid(tokens.flatten(0, 1), grid, self.pool)
        result: Tensor = self.norm_act(pooled).unflatten(0, tokens.shape[:2])
        return result


def _pool_grid(tokens: Tensor, grid: Grid, pool: Callable[[Tensor], Tensor]) -> Tensor:
    """(N, 1 + T·H·W, C) to (N, 1 + T'·H'·W', C): `pool` sees the (N, C, T, H, W) behind the class token."""
    volume = tokens[:, 1:].transpose(1, 2).unflatten(2, grid)
    return torch.cat((tokens[:, :1], pool(volume).flatten(2).transpose(1, 2)), 1)
