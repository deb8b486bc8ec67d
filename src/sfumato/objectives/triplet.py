"""TeD-SPAD's temporal-distinctiveness term: clips of one video at different times are to look different to f_T.

Our reading: the plain triplet loss on f_T's pooled features, with the Euclidean distance and *without* normalising
them, which is what the released code computes. The positive is the anchor's own moment, augmented otherwise; the
negative is another moment of the same video. On unit vectors a margin of 1 would ask for 60° between any two moments of
a video; on plain features what it asks for depends on their scale, so a margin belongs to one f_T.
"""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F


def temporal_triplet(anchor: Tensor, same_time: Tensor, other_time: Tensor, margin: float = 1.0) -> Tensor:
    """Mean of max(0, ‖anchor − same_time‖ − ‖anchor − other_time‖ + margin), all (N, D), row i of each from video i.

    >>> temporal_triplet(torch.zeros(1, 4), torch.zeros(1, 4), torch.zeros(1, 4)).item()
    1.0
    """
    return F.triplet_margin_loss(anchor.float(), same_time.float(), other_time.float(), margin=margin)
