"""L1 reconstruction (SPAct's eq. 4), by which an anonymizer is first made to change nothing."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F


def l1_reconstruction(video: Tensor, output: Tensor) -> Tensor:
    """Mean absolute difference of video and output, both (B, T, 3, H, W).

    Eq. 4 is the sum over a frame's pixels; the mean is the same loss for every frame size, so that one threshold th_A0
    and one learning rate do for all of them.

    >>> l1_reconstruction(torch.ones(1, 1, 3, 2, 2), torch.full((1, 1, 3, 2, 2), 0.75)).item()
    0.25
    """
    return F.l1_loss(output.float(), video.float())
