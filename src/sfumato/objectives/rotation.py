"""RotNet: which way up is the picture?"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from sfumato.errors import SfumatoError


def check_square(height: int, width: int) -> None:
    """Refuse frames whose shape alone tells how they were turned.

    >>> check_square(64, 64)
    """
    if height != width:
        raise SfumatoError(f"frames of {width}×{height} cannot be told by rotation", "crop them to a square")


def rotate_all(video: Tensor) -> tuple[Tensor, Tensor]:
    """Every clip (B, T, 3, H, W) turned by 0, 90, 180 and 270° anticlockwise: (4B, T, 3, H, W) and labels (4B,).

    The B clips at 0° come first, then those at 90°, and so on; label k means k·90°. Frames must be square.

    >>> rotate_all(torch.rand(2, 8, 3, 64, 64))[1].tolist()
    [0, 0, 1, 1, 2, 2, 3, 3]
    """
    check_square(*video.shape[-2:])
    turned = [video.rot90(turns, (-2, -1)) for turns in range(4)]
    return torch.cat(turned), torch.arange(4, device=video.device).repeat_interleave(len(video))


def rotation_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy of logits (4B, 4) against the labels (4B,) of `rotate_all`; log 4 where nothing is known.

    >>> rotation_loss(torch.zeros(4, 4), torch.arange(4)).item()
    1.3862...
    """
    return F.cross_entropy(logits.float(), labels)
