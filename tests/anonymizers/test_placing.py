"""Drawings brought to the middle and to one size."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from sfumato.anonymizers.base import ClipSpec
from sfumato.anonymizers.placing import SPREAD, recentred
from sfumato.anonymizers.unet import UNet
from sfumato.errors import SfumatoError


def drawing(*points: tuple[int, int, int], side: int = 20, frames: int = 2) -> Tensor:
    """A clip (1, frames, 1, side, side) with white cells at (frame, row, column)."""
    clip = torch.zeros(1, frames, 1, side, side)
    for frame, row, column in points:
        clip[0, frame, 0, row, column] = 1
    return clip


def white(clip: Tensor) -> list[list[int]]:
    """Where it is white: [frame, row, column]."""
    return clip[0, :, 0].nonzero().tolist()


def test_by_hand() -> None:
    # Rows 2 and 6: middle 4, spread 2, brought to 9.5 and .2 · 20 = 4, so that a row at distance d goes to 9.5 + 2d.
    # Columns 3 and 3: no spread counts as one cell, so that they go to the middle, 9.5, rounded to even.
    assert white(recentred(drawing((0, 2, 3), (1, 6, 3)))) == [[0, 6, 10], [1, 14, 10]]


def test_where_and_how_large_a_drawing_was_cannot_be_seen() -> None:
    here = drawing((0, 2, 2), (0, 4, 6), (1, 6, 2), (1, 2, 4))
    there = drawing((0, 9, 10), (0, 11, 14), (1, 13, 10), (1, 9, 12))
    twice = drawing((0, 1, 3), (0, 5, 11), (1, 9, 3), (1, 1, 7))
    assert torch.equal(recentred(here), recentred(there))
    assert torch.equal(recentred(here), recentred(twice))


def test_motion_within_a_clip_stays() -> None:
    moved = white(recentred(drawing((0, 2, 4), (1, 6, 4))))
    assert moved[0][1] < moved[1][1] and moved[0][2] == moved[1][2]


def test_every_clip_by_itself_and_the_same_again() -> None:
    draw = torch.Generator().manual_seed(0)
    clips = (torch.rand(3, 4, 1, 14, 14, generator=draw) > 0.95).float()
    alone = torch.cat([recentred(clip[None]) for clip in clips])
    assert torch.equal(recentred(clips), alone)


def test_all_have_the_same_middle_and_spread() -> None:
    draw = torch.Generator().manual_seed(0)
    clip = torch.zeros(1, 3, 1, 50, 50)
    clip[..., 5:17, 20:29] = (torch.rand(1, 3, 1, 12, 9, generator=draw) > 0.8).float()
    out = recentred(clip)
    assert out.sum() == clip.sum()  # spread out, none meets another
    at = torch.tensor(white(out)).double()[:, 1:]
    assert at.mean(0) == pytest.approx([24.5, 24.5], abs=0.5)
    assert at.std(0, correction=0) == pytest.approx([SPREAD * 50] * 2, abs=0.5)


def test_nothing_drawn_stays_nothing() -> None:
    assert not recentred(torch.zeros(2, 3, 1, 8, 8)).any()


def test_what_would_leave_the_picture_stops_at_its_border() -> None:
    # Nine cells in one place and one far away: its distance is three times the spread.
    clip = torch.zeros(1, 10, 1, 20, 20)
    clip[0, :9, 0, 10, 10] = clip[0, 9, 0, 10, 19] = 1
    assert white(recentred(clip))[-1] == [9, 10, 19]


def test_the_gradient_goes_where_the_cells_went() -> None:
    clip = drawing((0, 2, 3), (1, 6, 3)).requires_grad_()
    recentred(clip)[0, 1, 0, 14, 10].backward()
    assert clip.grad is not None and clip.grad.nonzero().tolist() == [[0, 1, 0, 6, 3]]
    assert clip.grad.sum() == 1


def test_a_share_of_the_way() -> None:
    clip = drawing((0, 2, 3), (1, 6, 3))  # to (6, 10) and (14, 10), as above
    assert white(recentred(clip, 0.5)) == [[0, 4, 6], [1, 10, 6]]
    assert torch.equal(recentred(clip, 0.0), clip)


def test_what_does_not_know_its_clips_is_not_centred() -> None:
    with pytest.raises(SfumatoError, match="how long a clip is"):
        UNet(width=4, centred=1)


def test_a_network_that_recentres_shows_its_squares_in_the_middle() -> None:
    torch.manual_seed(0)
    still = UNet(width=4, levels=2, cell=4, grey=True, size=32).eval()
    centred = UNet(width=4, levels=2, cell=4, grey=True, size=32, frames=2, frame_step=3, centred=1).eval()
    centred.load_state_dict(still.state_dict())
    assert centred.spec == ClipSpec(2, (32, 32), 3, blend=False) and still.spec == ClipSpec(None, (32, 32))
    video = torch.rand(2, 2, 3, 32, 32)
    squares = still(video)[:, :, :1, ::4, ::4]
    assert torch.equal(centred(video)[:, :, :1, ::4, ::4], recentred(squares))
