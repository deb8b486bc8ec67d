"""The penalty-driven method's hinge: an anonymizer pays for what it changes beyond a limit B, and only for that."""

from __future__ import annotations

import math

import torch
from torch import Tensor

SILENT = 1e-6  # features with a smaller RMS count as this large: nothing is divided by 0


def pixel_penalty(video: Tensor, output: Tensor, limit: float) -> Tensor:
    """Eq. 4 for each clip: mean over clips of max(0, RMS(video − output) − limit), with its gradient.

    video, output: X and f_A(X), both (B, T, 3, H, W); limit: B. On [0, 1] pixels a clip is about .24 from its own mean
    colour, .49 from black and .55 from its inverse, so that limits above .5 hardly ever bind.

    >>> pixel_penalty(torch.ones(1, 8, 3, 4, 4), torch.zeros(1, 8, 3, 4, 4), 0.75).item()
    0.25
    """
    return (_rms(video.float() - output.float()) - limit).relu().mean()


def feature_penalty(raw: Tensor, anonymised: Tensor, limit: float) -> Tensor:
    """The same on f_T's features, as a share of the raw features' own RMS: mean of max(0, RMS(raw − ·)/RMS(raw) − limit).

    raw, anonymised: f_T's features of X and of f_A(X), both (N, D). The raw ones are the goal and get no gradient:
    f_T must not make the penalty small by moving them.

    >>> feature_penalty(torch.full((1, 4), 2.0), torch.full((1, 4), 3.0), 0.25).item()
    0.25
    """
    goal = raw.detach().float()
    share = _rms(goal - anonymised.float()) / _rms(goal).clamp(min=SILENT)
    return (share - limit).relu().mean()


def _rms(difference: Tensor) -> Tensor:
    """The root mean square of each clip (N, ...): (N,). A norm, because the gradient of √0 is infinite and a norm's is 0."""
    flat = difference.flatten(1)
    return torch.linalg.vector_norm(flat, dim=1) / math.sqrt(flat.shape[1])
