"""The parts of STPrivacy's networks: layers that see only kept tokens, and blocks that say which tokens to keep.

Tokens are (B, L, N, D): L steps of time, N places in each, D values. A decision Î is (B, L, N), 1 for a kept token and 0
for a dropped one; None says that all tokens that are there are kept. Equations are those of the paper (SPEC.md section 4).
"""

from __future__ import annotations

import math
from functools import partial

import torch
from torch import Tensor, nn

from sfumato.recognizers.layers import TransformerLayer

STEM_WIDTHS = (32, 64)
CHANGE = 5.0  # how much stronger a tubelet's stem sees changes


def open_columns(decision: Tensor) -> Tensor:
    """Eq. 9, M: (B, n) to (B, n, n). Row i sees the kept tokens, and itself.

    >>> open_columns(torch.tensor([[1.0, 0.0]])).tolist()
    [[[1.0, 0.0], [1.0, 1.0]]]
    """
    own = torch.eye(decision.shape[1], dtype=torch.bool, device=decision.device)
    return torch.where(own, 1.0, decision[:, None, :])


def masked_attention(query: Tensor, key: Tensor, value: Tensor, columns: Tensor) -> Tensor:
    """Eqs. 8 and 10 for each head: query, key, value (B, heads, n, d) and M (B, n, n) to (B, heads, n, d).

    The gradient reaches M. Of a closed column it is held to that of the highest open one: exp(S) has no upper end.

    >>> masked_attention(query, key, value, open_columns(decision))
    """
    columns = columns[:, None]
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    # Taken from every score, the highest open one changes no share, and keeps exp from running over.
    highest = scores.detach().masked_fill(columns == 0, -math.inf).amax(-1, keepdim=True)
    weights = (scores - highest).clamp(max=0).exp() * columns
    return (weights / weights.sum(-1, keepdim=True)).to(value.dtype) @ value


class Stack(nn.Module):
    """Layers one after the other, over all places of all steps of time together."""

    def __init__(self, embedding: int, depth: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(TransformerLayer(embedding) for _ in range(depth))

    def forward(self, tokens: Tensor, decision: Tensor | None = None) -> Tensor:
        """(B, L, N, D) to the same."""
        attend = None if decision is None else partial(masked_attention, columns=open_columns(decision.flatten(1)))
        flat = tokens.flatten(1, 2)
        for layer in self.layers:
            flat = layer(flat, attend)
        return flat.unflatten(1, tokens.shape[1:3])


def kept_mean(values: Tensor, decision: Tensor | None, axes: tuple[int, ...]) -> Tensor:
    """Avg: the mean of (B, L, N, W) over those of its axes, of kept tokens only; they stay, of length 1. 0 where none is kept.

    >>> kept_mean(torch.tensor([[[[2.0], [8.0]]]]), torch.tensor([[[1.0, 0.0]]]), (2,)).item()
    2.0
    """
    if decision is None:
        return values.mean(axes, keepdim=True)
    counted = decision[..., None]
    means = (values * counted).sum(axes, keepdim=True) / counted.sum(axes, keepdim=True).clamp(min=1)
    return means.to(values.dtype)


def aggregate(local: Tensor, spatial: Tensor, spatiotemporal: Tensor, decision: Tensor | None) -> Tensor:
    """Eqs. 2 to 4 after their linear maps: each (B, L, N, its width) to (B, L, N, the sum of the widths).

    The second is averaged over the kept places of each step of time, the third over those of all; every token gets both.

    >>> aggregate(local, spatial, spatiotemporal, decision)
    """
    in_step = kept_mean(spatial, decision, (2,)).expand_as(spatial)
    in_clip = kept_mean(spatiotemporal, decision, (1, 2)).expand_as(spatiotemporal)
    return torch.cat([local, in_step, in_clip], dim=-1)


class TubeletStem(nn.Module):
    """Tubelets (…, 3·δT·P·P) to tokens (…, D): two convolutions over the frames of each and how they change, a linear map.

    It looks at one tubelet at a time, so that nothing gets from one to another. A linear map of pixels alone does not find
    movement in a thousand clips.

    >>> TubeletStem(2, 8, 192)(torch.rand(4, 64, 384)).shape
    torch.Size([4, 64, 192])
    """

    def __init__(self, duration: int, patch: int, embedding: int) -> None:
        super().__init__()
        self.shape = (3, duration, patch, patch)
        first, second = STEM_WIDTHS
        half = -(-patch // 2)
        quarter = -(-half // 2)
        channels = 3 * (2 * duration - 1)
        self.convolutions = nn.Sequential(
            nn.Conv2d(channels, first, 3, stride=2, padding=1), nn.GELU(),
            nn.Conv2d(first, second, 3, stride=2, padding=1), nn.GELU(),
        )  # fmt: skip
        self.output = nn.Linear(second * quarter**2, embedding)
        # multiply-adds for one tubelet
        self.work = 9 * first * (channels * half**2 + second * quarter**2) + self.output.weight.numel()

    def forward(self, tubelets: Tensor) -> Tensor:
        """(…, 3·δT·P·P) to (…, D)."""
        frames = tubelets.reshape(-1, *self.shape)
        # As in `with_change`, what changes is small beside what is there.
        seen = torch.cat([frames, CHANGE * frames.diff(dim=2)], 2).flatten(1, 2)
        tokens: Tensor = self.output(self.convolutions(seen).flatten(1))
        return tokens.view(*tubelets.shape[:-1], -1)


class Predictor(nn.Module):
    """Eqs. 1 to 5: what a token is, with what its step and its clip are, to the logits of dropping and of keeping it."""

    def __init__(self, embedding: int) -> None:
        super().__init__()
        # D/3 each; what three does not divide goes to the first ones
        first, second, third = ((embedding + spare) // 3 for spare in (2, 1, 0))
        self.norm = nn.LayerNorm(embedding)  # before it, tokens are a sum that grows from layer to layer
        self.local = nn.Sequential(nn.Linear(embedding, first), nn.GELU())
        self.spatial = nn.Sequential(nn.Linear(embedding, second), nn.GELU())
        self.spatiotemporal = nn.Sequential(nn.Linear(embedding, third), nn.GELU())
        half, quarter = embedding // 2, embedding // 4
        self.decide = nn.Sequential(
            nn.Linear(embedding, half), nn.GELU(), nn.Linear(half, quarter), nn.GELU(), nn.Linear(quarter, 2)
        )

    def forward(self, tokens: Tensor, decision: Tensor | None = None) -> Tensor:
        """(B, L, N, D) to (B, L, N, 2): the logits of dropping (0) and of keeping (1)."""
        tokens = self.norm(tokens)
        evidence = aggregate(self.local(tokens), self.spatial(tokens), self.spatiotemporal(tokens), decision)
        logits: Tensor = self.decide(evidence)
        return logits.float()  # noise is added to them, and they are compared: nothing for half precision


def draw_decision(logits: Tensor) -> Tensor:
    """Eq. 6, hard Gumbel-softmax: logits (..., 2) to 0 or 1 (...), with the gradient of the soft one at temperature 1.

    >>> draw_decision(torch.tensor([[-99.0, 99.0], [99.0, -99.0]]))
    tensor([1., 0.])
    """
    # log z is the logits but for a constant, which a softmax does not see
    gumbel = -torch.empty_like(logits).exponential_().log()
    soft = (logits + gumbel).softmax(-1)[..., 1]
    # The difference is exactly 0, so that the values are exactly 0 and 1, and its gradient is exactly 1.
    return (soft > 0.5).to(soft.dtype) + (soft - soft.detach())


def most_wanted(logits: Tensor, count: int) -> Tensor:
    """The `count` places of each step that are kept with the highest probability: (B, L, N, 2) to (B, L, count), sorted.

    Of equal ones the first are taken. The margin of the logits has the order of the probabilities, without their ties at 1.

    >>> most_wanted(torch.tensor([[[[0.0, 1.0], [0.0, 3.0], [0.0, 2.0]]]]), 2)
    tensor([[[1, 2]]])
    """
    margin = logits[..., 1] - logits[..., 0]
    order = margin.argsort(dim=-1, descending=True, stable=True)
    return order[..., :count].sort(dim=-1).values
