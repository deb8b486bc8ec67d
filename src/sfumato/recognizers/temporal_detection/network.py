"""TriDet's network: a pyramid of scalable-granularity perception (SGP) layers, a class head and a trident-head."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sfumato.errors import SfumatoError
from sfumato.recognizers.temporal_detection.segments import Predictions, make_grid

GROUPS = 16  # of the group norm, where so many divide the width
PRIOR = 0.01  # every class's probability at first: most points see no action
DEPTH = 2  # hidden layers of each head


class TriDet(nn.Module):
    """S clips' features (B, S, features) of B videos to class logits and distances at every point of the pyramid.

    width: of the hidden features. levels: of the pyramid, each half as long as the one before. bins: a boundary lies at most
    so many positions from a point (B). window, scale: the kernels of an SGP layer, w and k·w. Defaults are those of THUMOS14.
    A video's answers depend on its own clips alone, and not at all on what stands where the mask is False.

    >>> TriDet(16, classes=3, width=8, levels=2)(torch.rand(2, 5, 16)).logits.shape  # 5 points and 3
    torch.Size([2, 8, 3])
    """

    def __init__(
        self,
        features: int,
        classes: int,
        width: int = 512,
        levels: int = 6,
        bins: int = 16,
        window: int = 1,
        scale: int = 5,
    ) -> None:
        super().__init__()
        least = {"features": features, "classes": classes, "width": width, "levels": levels, "bins": bins}
        for key, value in least.items():
            if value < 1:
                raise SfumatoError(f"{key} = {value} is too small", "use 1 or more")
        for key, value in {"window": window, "scale": scale}.items():
            if value < 1 or value % 2 == 0:
                raise SfumatoError(f"{key} = {value} has no middle", "use an odd number")
        self.features, self.levels, self.bins = features, levels, bins
        self.project = MaskedStack(features, width, DEPTH)
        self.stem = nn.ModuleList(SGPLayer(width, window, scale) for _ in range(2))
        self.branch = nn.ModuleList(SGPLayer(width, window, scale) for _ in range(levels - 1))
        self.class_head = Head(width, classes)
        self.start_head, self.end_head = Head(width, 1), Head(width, 1)
        self.offset_head = Head(width, 2 * (bins + 1))
        nn.init.constant_(cast(Tensor, self.class_head.answer.bias), -math.log((1 - PRIOR) / PRIOR))

    def forward(self, features: Tensor, mask: Tensor | None = None) -> Predictions:
        """features (B, S, D); mask: bool (B, S), False where there is no clip."""
        if features.ndim != 3 or features.shape[-1] != self.features or not features.shape[1]:
            raise SfumatoError(
                f"features of shape {tuple(features.shape)} do not fit a detector of {self.features} features",
                "give (videos, clips, features), from the encoder it was trained with",
            )
        if mask is None:
            mask = torch.ones(features.shape[:2], dtype=torch.bool, device=features.device)
        logits, distances, masks = [], [], []
        for level, (hidden, seen) in enumerate(self._pyramid(features, mask)):
            logits.append(self.class_head(hidden, seen).transpose(1, 2))
            distances.append(self._distances(hidden, seen) * 2**level)
            masks.append(seen)
        grid = make_grid(features.shape[1], self.levels, features.device)
        return Predictions(torch.cat(logits, 1), torch.cat(distances, 1), torch.cat(masks, 1), grid)

    def _pyramid(self, features: Tensor, mask: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Each level's hidden features (B, C, S / 2^l) with their mask (B, S / 2^l)."""
        # Not a number times 0 is not a number: what is no clip goes first.
        hidden = self.project(features.masked_fill(~mask[..., None], 0).transpose(1, 2), mask)
        for layer in self.stem:
            hidden = layer(hidden, mask)
        found = [(hidden, mask)]
        for layer in self.branch:
            hidden, mask = halve(hidden, mask)
            hidden = layer(hidden, mask)
            found.append((hidden, mask))
        return found

    def _distances(self, hidden: Tensor, mask: Tensor) -> Tensor:
        """The trident-head: distances (B, S, 2) in positions of this level."""
        # Beyond the video's end no response is known, whether padding follows or nothing.
        start, end = (blank(head(hidden, mask), mask)[:, 0] for head in (self.start_head, self.end_head))
        offsets = self.offset_head(hidden, mask).transpose(1, 2).unflatten(2, (2, self.bins + 1))
        return trident_distances(start.float(), end.float(), offsets.float())


def trident_distances(start: Tensor, end: Tensor, offsets: Tensor) -> Tensor:
    """The expected distances to start and end, (B, S, 2), in positions.

    start, end: how much each position looks like a boundary, (B, S). offsets: what position t itself says of a boundary b
    positions before or after it, (B, S, 2, bins + 1). The softmax of their sum, over t − b and t + b for b = 0 … bins, is the
    probability of each b. A position outside the sequence responds with 0, so that offsets alone decide there: a boundary
    may lie a little outside, and must not be forbidden.

    >>> trident_distances(torch.zeros(1, 4), torch.zeros(1, 4), torch.zeros(1, 4, 2, 3))[0, 0]  # all alike: the mean of 0, 1, 2
    tensor([1., 1.])
    """
    bins = offsets.shape[-1] - 1
    before = F.pad(start, (bins, 0)).unfold(1, bins + 1, 1).flip(-1)
    after = F.pad(end, (0, bins)).unfold(1, bins + 1, 1)
    chances = (torch.stack([before, after], 2) + offsets).softmax(-1)
    return chances @ torch.arange(bins + 1, dtype=chances.dtype, device=chances.device)


class SGPLayer(nn.Module):
    """SGP in the place of a transformer layer's self-attention: (B, C, S) with a mask (B, S) to the same.

    SGP(x) = φ(x)·FC(x) + ψ(x)·(Conv_w(x) + Conv_kw(x)) + x. The instant-level branch sets a position off from the video's
    average, φ(x) = ReLU(FC(average of x)); the window-level branch looks around it in two sizes, gated by ψ(x) = Conv_w(x).
    Convolutions are depthwise.

    >>> SGPLayer(8, window=1, scale=5)(torch.rand(2, 8, 5), torch.ones(2, 5).bool()).shape
    torch.Size([2, 8, 5])
    """

    def __init__(self, width: int, window: int, scale: int) -> None:
        super().__init__()
        self.norm = ChannelNorm(width)
        self.instant = nn.Conv1d(width, width, 1)
        self.average = nn.Conv1d(width, width, 1)
        self.gate, self.narrow, self.wide = (
            nn.Conv1d(width, width, kernel, padding=kernel // 2, groups=width)
            for kernel in (window, window, window * scale)
        )
        self.feed_norm = MaskedGroupNorm(math.gcd(GROUPS, width), width)
        hidden = 3 * width // 2
        self.feed = nn.Sequential(nn.Conv1d(width, hidden, 1), nn.GELU(), nn.Conv1d(hidden, width, 1))

    def forward(self, hidden: Tensor, mask: Tensor) -> Tensor:
        """(B, C, S) to the same, 0 where the mask (B, S) is False."""
        x = blank(self.norm(hidden), mask)
        average = x.sum(2, keepdim=True) / mask.sum(1).clamp(min=1)[:, None, None]
        instant = F.relu(self.average(average)) * self.instant(x)
        window = self.gate(x) * (self.narrow(x) + self.wide(x))
        hidden = blank(hidden + instant + window + x, mask)
        return blank(hidden + self.feed(self.feed_norm(hidden, mask)), mask)


class MaskedStack(nn.Module):
    """`depth` times a convolution over three positions, a norm over channels and ReLU: (B, inputs, S) to (B, width, S)."""

    def __init__(self, inputs: int, width: int, depth: int) -> None:
        super().__init__()
        widths = [inputs] + [width] * depth
        self.convolutions = nn.ModuleList(nn.Conv1d(before, after, 3, padding=1) for before, after in pairwise(widths))
        self.norms = nn.ModuleList(ChannelNorm(width) for _ in range(depth))

    def forward(self, hidden: Tensor, mask: Tensor) -> Tensor:
        """0 where the mask (B, S) is False."""
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            hidden = blank(F.relu(norm(convolution(hidden))), mask)
        return hidden


class Head(nn.Module):
    """DEPTH hidden layers and a convolution to `outputs`, the same for all levels: (B, C, S) to (B, outputs, S)."""

    def __init__(self, width: int, outputs: int) -> None:
        super().__init__()
        self.hidden = MaskedStack(width, width, DEPTH)
        self.answer = nn.Conv1d(width, outputs, 3, padding=1)

    def forward(self, hidden: Tensor, mask: Tensor) -> Tensor:
        """Of no meaning where the mask (B, S) is False."""
        return cast(Tensor, self.answer(self.hidden(hidden, mask)))


class ChannelNorm(nn.LayerNorm):
    """Layer norm over the channels of (B, C, S), each position by itself."""

    def forward(self, hidden: Tensor) -> Tensor:
        """(B, C, S) to the same."""
        return super().forward(hidden.transpose(1, 2)).transpose(1, 2)


class MaskedGroupNorm(nn.Module):
    """Group norm over (B, C, S) whose statistics are those of the positions that are there.

    >>> MaskedGroupNorm(2, 8)(torch.rand(1, 8, 5), torch.ones(1, 5).bool()).shape
    torch.Size([1, 8, 5])
    """

    def __init__(self, groups: int, width: int) -> None:
        super().__init__()
        self.groups = groups
        self.weight, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, hidden: Tensor, mask: Tensor) -> Tensor:
        """(B, C, S) with a mask (B, S) to the same; of no meaning where the mask is False."""
        grouped = hidden.unflatten(1, (self.groups, -1))
        there = mask[:, None, None]
        count = there.sum((2, 3), keepdim=True).clamp(min=1) * grouped.shape[2]
        centred = grouped - (grouped * there).sum((2, 3), keepdim=True) / count
        variance = (centred.square() * there).sum((2, 3), keepdim=True) / count
        normal = (centred * (variance + 1e-5).rsqrt()).flatten(1, 2)
        return normal * self.weight[:, None] + self.bias[:, None]


def blank(hidden: Tensor, mask: Tensor) -> Tensor:
    """(B, C, S) with 0 where the mask (B, S) is False.

    >>> blank(torch.ones(1, 1, 2), torch.tensor([[True, False]]))
    tensor([[[1., 0.]]])
    """
    return hidden.masked_fill(~mask[:, None], 0)


def halve(hidden: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Every second position, the first included, with the greatest of itself and its neighbours; (B, C, S) and (B, S).

    >>> halve(torch.tensor([[[1.0, 5.0, 2.0]]]), torch.ones(1, 3).bool())[0]
    tensor([[[5., 5.]]])
    """
    pooled = F.max_pool1d(hidden.masked_fill(~mask[:, None], -math.inf), 3, stride=2, padding=1)
    return blank(pooled, mask[:, ::2]), mask[:, ::2]
