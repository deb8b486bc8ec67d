"""What families share: scaled widths, the choice of norm, the transformer's layer, and how weights begin."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sfumato.errors import SfumatoError


def scaled(channels: int, width: float) -> int:
    """`channels` times `width`, to the nearest multiple of 8 and at least 8; untouched at width 1.

    >>> scaled(64, 0.3), scaled(45, 1.0)
    (16, 45)
    """
    if width <= 0:
        raise SfumatoError(f"width = {width:g} leaves no channels", "use a number above 0, such as 0.5")
    return channels if width == 1 else max(8, round(channels * width / 8) * 8)


def make_norm(kind: str, channels: int, dims: int, eps: float = 1e-5) -> nn.Module:
    """A norm over (N, channels, *dims axes): "batch", or "group" with up to 32 groups of at least four channels.

    Group norm has no running statistics, which an anonymizer trained against a frozen network could learn to fool
    without removing anything (SPEC.md section 1). A group of one channel would lose that channel's mean.

    >>> make_norm("group", 48, dims=3).num_groups
    8
    """
    if kind == "batch":
        return ClipNorm(channels, eps) if dims == 3 else nn.BatchNorm2d(channels, eps)
    if kind == "group":
        groups = math.gcd(32, channels)
        while groups > 1 and channels // groups < 4:
            groups //= 2
        return nn.GroupNorm(groups, channels, eps)
    raise SfumatoError(f"there is no norm '{kind}'", "use 'batch' or 'group'")


def with_change(clips: Tensor) -> Tensor:
    """Every frame and, twice, how it changes to the next: (B, 3, T, H, W) to (B, 6, T, H, W).

    Without the change, small networks do not find movement before clutter.

    >>> with_change(torch.zeros(1, 3, 8, 64, 64)).shape
    torch.Size([1, 6, 8, 64, 64])
    """
    return torch.cat([clips, 2 * torch.diff(clips, dim=2, append=clips[:, :, -1:])], 1)


class ClipNorm(nn.BatchNorm3d):
    """`nn.BatchNorm3d` by way of frames, since torch's fast kernels for channels-last know pictures, not clips.

    For channels-last clips the way is a view, not a copy.

    >>> ClipNorm(8)(torch.rand(2, 8, 4, 16, 16)).shape
    torch.Size([2, 8, 4, 16, 16])
    """

    def forward(self, clips: Tensor) -> Tensor:
        """(B, C, T, H, W) to the same."""
        super()._check_input_dim(clips)
        frames = clips.transpose(1, 2).flatten(0, 1)
        return super().forward(frames).unflatten(0, (len(clips), -1)).transpose(1, 2)

    def _check_input_dim(self, frames: Tensor) -> None:
        """Clips are checked when they come; what torch sees are frames."""


def head_count(embedding: int) -> int:
    """The number of heads that divides the embedding and makes a head nearest to 64 wide.

    >>> head_count(384), head_count(768), head_count(96)
    (6, 12, 2)
    """
    divisors = [heads for heads in range(1, embedding + 1) if embedding % heads == 0]
    return min(divisors, key=lambda heads: abs(embedding / heads - 64))


class TransformerLayer(nn.Module):
    """Self-attention and a feed-forward part of `growth` times the width (0: none), each pre-norm and residual.

    causal: a token sees those before it alone. heads: 0 for as many as make a head nearest to 64 wide.

    >>> TransformerLayer(96)(torch.rand(2, 8, 96)).shape
    torch.Size([2, 8, 96])
    """

    def __init__(self, embedding: int, causal: bool = False, growth: int = 4, heads: int = 0) -> None:
        super().__init__()
        self.heads, self.causal = heads or head_count(embedding), causal
        self.norm1 = nn.LayerNorm(embedding)
        self.qkv = nn.Linear(embedding, 3 * embedding)
        self.project = nn.Linear(embedding, embedding)
        self.norm2: nn.Module = nn.LayerNorm(embedding) if growth else nn.Identity()
        wide = growth * embedding
        self.feed: nn.Sequential | None = (
            nn.Sequential(nn.Linear(embedding, wide), nn.GELU(), nn.Linear(wide, embedding)) if growth else None
        )

    def forward(self, tokens: Tensor, attend: Callable[[Tensor, Tensor, Tensor], Tensor] | None = None) -> Tensor:
        """(B, n, D) to the same; attend: another attention than the usual, of query, key, value (B, heads, n, D/heads)."""
        split = self.qkv(self.norm1(tokens)).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        query, key, value = split.unbind(0)
        if attend is None:
            attended = F.scaled_dot_product_attention(query, key, value, is_causal=self.causal)
        else:
            attended = attend(query, key, value)
        tokens = tokens + self.project(attended.transpose(1, 2).flatten(2))
        return tokens if self.feed is None else tokens + self.feed(self.norm2(tokens))


def initialise_transformer(network: nn.Module) -> None:
    """Small truncated normal weights for every linear layer, biases 0. In place.

    >>> initialise_transformer(nn.Linear(4, 4))
    """
    for module in network.modules():
        if isinstance(module, nn.Linear):
            nn.init.trunc_normal_(module.weight, std=0.02)
            nn.init.zeros_(module.bias)


def initialise(network: nn.Module) -> None:
    """Kaiming fan-out for every convolution, small normal weights for every linear layer, biases 0. In place.

    >>> initialise(nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU()))
    """
    for module in network.modules():
        if isinstance(module, nn.Conv2d | nn.Conv3d):
            # Counted per group: a depthwise kernel feeds one channel, not all of them.
            fan_out = module.out_channels // module.groups * math.prod(module.kernel_size)
            nn.init.normal_(module.weight, std=math.sqrt(2 / fan_out))
        elif isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=0.01)
        else:
            continue
        if module.bias is not None:
            nn.init.zeros_(module.bias)
