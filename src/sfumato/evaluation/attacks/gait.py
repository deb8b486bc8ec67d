"""Gait: attributes and identity from movement alone.

The attacker is shown where the picture changes from one frame to the next, white on black, and nothing else: no colour, no
texture, no brightness. What it finds is in how somebody moves and in their outline, which no change of clothes and no filter
over the pixels takes away. A change counts from a quarter of the clip's largest one on, so that a faint video is read like a
strong one, but never below a few grey levels, which are noise.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import torch
from torch import Tensor

from sfumato.datasets.base import Part, VideoDataset
from sfumato.evaluation.attacks.variants import variants
from sfumato.evaluation.exam import Approach, Desk

SHARE = 0.25  # of the largest change in the clip
LEAST = 4  # grey levels
BATCH = 64


@dataclass(frozen=True)
class Gait(Approach):
    """Trains and answers on clips of which only the movement is left."""

    def prepare(self, desk: Desk) -> Desk:
        @lru_cache  # one copy for training, validation and test each
        def clips(part: Part) -> Tensor:
            return movement(desk.clips(part))

        return replace(desk, clips=clips)

    def note(self, dataset: VideoDataset, views: int) -> str:
        return "gait attackers see where something moves, and nothing else"


def movement(pixels: Tensor) -> Tensor:
    """Where the next frame differs, white on black: uint8 (N, views, T, 3, H, W) to the same shape.

    The last frame, which has no next one, repeats the one before; of a single frame nothing moves.

    >>> movement(torch.zeros(1, 1, 4, 3, 8, 8, dtype=torch.uint8)).any()
    tensor(False)
    """
    done = torch.zeros_like(pixels)
    if pixels.shape[2] < 2:
        return done
    for start in range(0, len(pixels), BATCH):
        chunk = pixels[start : start + BATCH].to(torch.int16)
        change = chunk.diff(dim=2).abs().amax(3, keepdim=True)  # (n, views, T − 1, 1, H, W)
        largest = change.amax((2, 3, 4, 5), keepdim=True)
        moving = (change > (SHARE * largest).clamp(min=LEAST)).to(torch.uint8) * 255
        done[start : start + BATCH] = torch.cat([moving, moving[:, :, -1:]], dim=2)  # the same in all colours
    return done


GAIT = variants("gait", "from movement alone", Gait())
