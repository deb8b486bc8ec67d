"""The symmetric InfoNCE that brings clips and their captions together (CLIP; X-CLIP and ActionCLIP learn likewise)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from sfumato.errors import SfumatoError
from sfumato.objectives.contrastive import cosines


def alignment(video: Tensor, text: Tensor, scale: Tensor | float) -> Tensor:
    """How badly each clip is told to belong to its caption, and each caption to its clip; the mean of the two.

    video, text: (N, E), row i of both from clip i, of any length. scale: what the cosines are multiplied with, the
    inverse of the temperature. All alike, the loss is log N. Clips with equal captions do no harm to each other: equal
    rows of `text` share the answer, and together ask for the same as if each clip of theirs were right; only the least
    loss is then above 0.

    >>> alignment(torch.ones(4, 8), torch.ones(4, 8), 10.0).item()  # log 4
    1.3862...
    """
    if len(video) < 2:
        raise SfumatoError("one clip with its caption has no negatives", "use a batch of at least 2")
    logits = scale * cosines(video, text)
    own = torch.arange(len(video), device=video.device)
    return (F.cross_entropy(logits, own) + F.cross_entropy(logits.T, own)) / 2
