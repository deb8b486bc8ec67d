from __future__ import annotations

import pytest
import torch
from torch import Tensor

from sfumato.training.augment import augment


def draw(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def clips(count: int = 6, side: int = 20) -> Tensor:
    """Clips whose pixels all differ, so that any movement can be told; two equal frames each."""
    pixels = torch.randint(0, 256, (count, 1, 3, side, side), generator=draw(9), dtype=torch.uint8)
    return pixels.repeat(1, 2, 1, 1, 1)


def moved(clip: Tensor, down: int, right: int, flip: bool) -> Tensor:
    """Output row r is input row r + down, edges repeated; `flip` mirrors the columns."""
    side = clip.shape[-1]
    rows = (torch.arange(side) + down).clamp(0, side - 1)
    columns = torch.arange(side) + right
    columns = (side - 1 - columns if flip else columns).clamp(0, side - 1)
    return clip[..., rows, :][..., columns].float() / 255


def found(out: Tensor, clip: Tensor, reach: int) -> list[tuple[int, int, bool]]:
    """Which whole-pixel moves, flipped or not, explain this output."""
    steps = range(-reach, reach + 1)
    moves = [(down, right, flip) for down in steps for right in steps for flip in (False, True)]
    return [move for move in moves if out.allclose(moved(clip, *move), atol=1e-6)]


def test_shape_and_range_are_kept() -> None:
    for flip in (True, False):
        out = augment(clips(), draw(), flip=flip, light=0.5)
        assert (out.shape, out.dtype) == ((6, 2, 3, 20, 20), torch.float32)
        assert out.min() >= 0 and out.max() <= 1
    assert augment(torch.full_like(clips(), 255), draw(), flip=True).max() <= 1


def test_nothing_asked_for_nothing_done() -> None:
    out = augment(clips(), draw(), flip=False, shift=0, zoom=0, light=0)
    assert out.allclose(clips().float() / 255)


def test_clips_move_by_whole_pixels_each_for_itself() -> None:
    out = augment(clips(24), draw(), flip=False, shift=0.1, zoom=0, light=0)
    moves = []
    for one, clip in zip(out, clips(24), strict=True):
        (move,) = found(one, clip, reach=2)
        assert not move[2]
        moves.append(move[:2])
    assert len(set(moves)) > 8
    assert {abs(step) for move in moves for step in move} == {0, 1, 2}


def test_flip_mirrors_half_of_the_clips_and_whole_ones_only() -> None:
    out = augment(clips(40), draw(), flip=True, shift=0, zoom=0, light=0)
    flips = []
    for one, clip in zip(out, clips(40), strict=True):
        ((_, _, flipped),) = found(one, clip, reach=0)  # both frames alike, else nothing explains it
        flips.append(flipped)
    assert 10 <= sum(flips) <= 30


def test_all_frames_of_a_clip_move_and_are_lit_alike() -> None:
    out = augment(clips(16), draw(), flip=True)
    assert out[:, 0].equal(out[:, 1])


def test_light_is_one_factor_per_clip() -> None:
    grey = torch.full((8, 2, 3, 6, 6), 100, dtype=torch.uint8)
    out = augment(grey, draw(), flip=True, light=0.15) * 255 / 100
    factors = out.flatten(1)
    assert factors.std(1).max() < 1e-6
    assert factors[:, 0].min() >= 0.85 - 1e-6 and factors[:, 0].max() <= 1.15 + 1e-6
    assert factors[:, 0].unique().numel() == 8


def test_the_generator_alone_decides() -> None:
    one, again, other = (augment(clips(), draw(seed), flip=True) for seed in (1, 1, 2))
    assert one.equal(again)
    assert not one.equal(other)


@pytest.mark.parametrize("size", [(8, 20), (20, 8)])
def test_clips_need_not_be_square(size: tuple[int, int]) -> None:
    pixels = torch.zeros(2, 3, 3, *size, dtype=torch.uint8)
    assert augment(pixels, draw(), flip=True, shift=0.3).shape == pixels.shape


def test_zoom_takes_pixels_from_around_the_middle() -> None:
    ramp = torch.arange(8, dtype=torch.uint8).view(1, 1, 1, 8, 1).expand(1, 1, 3, 8, 8).contiguous()
    seen = [augment(ramp, draw(seed), flip=False, shift=0, zoom=0.5, light=0) * 255 for seed in range(40)]
    spans = [float(out[0, 0, 0, -1, 0] - out[0, 0, 0, 0, 0]) for out in seen]
    assert min(spans) < 5 and max(spans) == pytest.approx(7)
    for out in seen:
        column = out[0, 0, 0, :, 0].round()
        assert (column.diff() >= 0).all()
        assert ((column + column.flip(0) - 7).abs() <= 1).all()  # symmetric about the middle
