"""STPrivacy's L_Spars: after every block so many tubelets are kept, in every step of time by itself."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def sparsification_loss(decisions: Sequence[Tensor], keep_ratio: float) -> Tensor:
    """Eq. 7: the mean of (share of kept tubelets − α^m)² over blocks m = 1 … M, steps of time and clips.

    decisions: Î_(1) … Î_(M), each (B, L, N) of 0 and 1, with the gradient of their drawing; keep_ratio: α.

    >>> sparsification_loss([torch.tensor([[[1.0, 1.0, 0.0, 0.0]]])], 0.75).item()
    0.0625
    """
    errors = [(decision.float().mean(-1) - keep_ratio**block) ** 2 for block, decision in enumerate(decisions, 1)]
    return torch.stack(errors).mean()
