"""NT-Xent, SPAct's L_B (eq. 5), and how often the positive is really found."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from sfumato.errors import SfumatoError

TIE = 1e-6  # cosines this near are one number in float32


def cosines(rows: Tensor, columns: Tensor) -> Tensor:
    """The cosine of every row (N, D) with every column (M, D): float32 (N, M), under autocast too.

    In bf16 a cosine near 1 moves in steps of .004, and a temperature of .1 makes that .04 in the logits.

    >>> cosines(torch.eye(2), torch.tensor([[0.0, 3.0]])).tolist()
    [[0.0], [1.0]]
    """
    with torch.autocast(rows.device.type, enabled=False):
        return F.normalize(rows.float(), dim=1) @ F.normalize(columns.float(), dim=1).T


def share_nearest(similarities: Tensor, positives: Tensor) -> Tensor:
    """The share of rows (N, M) whose largest entry is the one at `positives` (N,); k entries that tie get 1/k each.

    Without sharing, an anonymizer that makes all pictures alike would seem to be seen through, or not, by the order of
    the columns alone.

    >>> share_nearest(torch.tensor([[0.9, 0.1], [0.5, 0.5]]), torch.tensor([0, 0])).item()
    0.75
    """
    nearest = similarities >= similarities.amax(1, keepdim=True) - TIE
    right = nearest.gather(1, positives[:, None])[:, 0]
    return (right / nearest.sum(1)).mean()


def nt_xent(first: Tensor, second: Tensor, temperature: float = 0.1, videos: Tensor | None = None) -> Tensor:
    """Eq. 5, averaged over all 2N anchors: how badly each projection is told to belong to the other one of its video.

    first, second: Z and Z' (N, D), row i of both from video i; any length, since only their cosines count. The
    denominator holds the positive and every other projection of the batch; with N videos all alike the loss is
    log(2N − 1). videos: (N,), which video each row is of, where one may be there twice: it is no negative of itself.

    >>> nt_xent(torch.ones(4, 8), torch.ones(4, 8)).item()  # log 7
    1.9459...
    """
    similarities, positives = _pairs(first, second, videos)
    return F.cross_entropy(similarities / temperature, positives)


def retrieval_accuracy(first: Tensor, second: Tensor, videos: Tensor | None = None) -> Tensor:
    """The share of the 2N anchors whose nearest other projection is their own positive; chance is 1 / (2N − 1).

    first, second, videos: as `nt_xent` takes them.

    >>> retrieval_accuracy(torch.eye(3), torch.eye(3)).item()
    1.0
    """
    return share_nearest(*_pairs(first.detach(), second.detach(), videos))


def _pairs(first: Tensor, second: Tensor, videos: Tensor | None) -> tuple[Tensor, Tensor]:
    """Cosines of all 2N projections and the column of each one's positive; −∞ with itself and others of its own video."""
    count = len(first)
    if count != len(second):
        raise ValueError(f"{count} views of videos and {len(second)} of the same ones")
    if count < 2:
        raise SfumatoError("a contrastive loss on one video has no negatives", "use a batch of at least 2")
    projections = torch.cat([first.float(), second.float()])
    positives = torch.arange(2 * count, device=first.device).roll(count)
    video = (torch.arange(count, device=first.device) if videos is None else videos).repeat(2)
    alike = (video[:, None] == video).scatter(1, positives[:, None], False)
    return cosines(projections, projections).masked_fill(alike, -torch.inf), positives
