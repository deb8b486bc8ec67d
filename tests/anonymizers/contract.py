"""What every network over clips must hold, whatever it is made of."""

from __future__ import annotations

import torch
from torch import Tensor

from sfumato.anonymizers.base import Anonymizer


def batch_mates_are_not_seen(network: Anonymizer, video: Tensor) -> None:
    """Each of four clips or more comes out as it would alone. video: changed in place."""
    video[1] = 1 - video[1] / 10  # of quite another brightness
    video[2] = 0
    together = network(video)
    for clip in range(len(video)):
        torch.testing.assert_close(together[clip : clip + 1], network(video[clip : clip + 1]), atol=1e-5, rtol=0)


def type_and_range_are_kept(network: Anonymizer, video: Tensor) -> None:
    """Whatever the video's type. video: changed in place."""
    video[0] = 1
    output = network(video)
    assert output.dtype == video.dtype and output.shape == video.shape
    assert 0 <= output.min() <= output.max() <= 1


def gradients_reach(network: Anonymizer, video: Tensor) -> None:
    """From the pixels that come out to those that went in."""
    network(video.requires_grad_()).sum().backward()
    assert video.grad is not None and video.grad.isfinite().all() and video.grad.abs().sum() > 0
