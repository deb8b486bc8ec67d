"""Tubelets along the axes in which they vary, each brought to the same deviation: what is faint there is no longer faint.

Anonymizers that paint tubelets from tokens paint from few features, and nearly all that is to be seen of a tubelet may be one
pattern. What else it says is then in the last bits of its pixels, where a network that looks at pixels never finds it.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from sfumato.recognizers.vit import tubelets

Size = tuple[int, int, int]
ROUNDING = 1 / 12 / 255**2  # the variance that 8 bits add to a value


def grid_of(clip: Size, tubelet: Size) -> Size:
    """How many tubelets a clip of (T, H, W) has in time, rows and columns; those at the far ends may be cut short.

    >>> grid_of((8, 64, 60), (2, 16, 16))
    (4, 4, 4)
    """
    steps, rows, columns = (math.ceil(side / step) for side, step in zip(clip, tubelet, strict=True))
    return steps, rows, columns


def cut(video: Tensor, tubelet: Size) -> Tensor:
    """(B, T, 3, H, W) to tubelets (B, L·rows·columns, values), filled up with black.

    >>> cut(torch.rand(1, 8, 3, 64, 64), (2, 16, 16)).shape
    torch.Size([1, 64, 1536])
    """
    clips = video.transpose(1, 2)
    missing = [-side % step for side, step in zip(clips.shape[2:], tubelet, strict=True)]
    return tubelets(F.pad(clips, (0, missing[2], 0, missing[1], 0, missing[0])), tubelet)


def joined(tokens: Tensor, clip: Size, tubelet: Size) -> Tensor:
    """What `cut` has cut: tubelets (B, L·rows·columns, values) to (B, T, 3, H, W), for clips of (T, H, W).

    >>> joined(cut(video, (2, 16, 16)), (8, 64, 64), (2, 16, 16)).equal(video)
    True
    """
    blocks = tokens.unflatten(2, (3, *tubelet)).unflatten(
        1, grid_of(clip, tubelet)
    )  # (B, L, rows, columns, 3, δT, δH, δW)
    video = blocks.permute(0, 1, 5, 4, 2, 6, 3, 7).flatten(6).flatten(4, 5).flatten(1, 2)
    return video[:, : clip[0], :, : clip[1], : clip[2]]


def axes_of(values: Tensor, floor: float) -> Tensor:
    """The directions in which (n, W) vary by more than `floor`, at least one, each over its deviation: (W, K).

    >>> axes_of(torch.tensor([[0.0, 1.0], [4.0, 1.0]]), 0.1).abs()
    tensor([[0.5000],
            [0.0000]])
    """
    centred = values - values.mean(0)
    # In half as many digits small variances would drown in the errors of large ones.
    variances, directions = torch.linalg.eigh((centred.T @ centred).double() / len(values))
    above = variances > floor
    above[-1] = True  # the largest
    return (directions[:, above] / variances[above].clamp(min=floor).sqrt()).to(values.dtype)
