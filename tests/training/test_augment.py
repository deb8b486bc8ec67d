from __future__ import annotations

import pytest
import torch
from torch import Tensor

from sfumato.training.augment import DRAWS, augment, distort


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


# ---- distort -----------------------------------------------------------------------------------------------------

ZOOM, MIRROR, RIGHT, DOWN, GREY, COLOUR, LIGHT, CONTRAST, ERASE, TALL, TOP, WIDE, LEFT = range(DRAWS)


def chances(count: int = 1, **columns: float) -> Tensor:
    """Draws (count, DRAWS) by which nothing happens, but for the columns given by name."""
    calm = torch.full((count, DRAWS), 0.5)
    calm[:, [ZOOM, MIRROR, ERASE]] = 1.0
    for name, value in columns.items():
        calm[:, globals()[name.upper()]] = value
    return calm


def lottery(count: int, seed: int = 0) -> Tensor:
    return torch.rand(count, DRAWS, generator=draw(seed))


def ramp(count: int = 1, side: int = 40) -> Tensor:
    """Grey clips whose brightness grows from left to right, by 4 from pixel to pixel."""
    return (20 + 4 * torch.arange(side, dtype=torch.uint8)).expand(count, 2, 3, side, side).contiguous()


def test_draws_in_the_middle_change_nothing() -> None:
    torch.testing.assert_close(distort(clips(), chances(6), flip=True), clips().float() / 255)


def test_distorted_clips_keep_shape_and_range() -> None:
    for pixels in (clips(64), torch.full_like(clips(64), 255), torch.zeros_like(clips(64))):
        out = distort(pixels, lottery(64), flip=True)
        assert (out.shape, out.dtype) == (pixels.shape, torch.float32)
        assert out.isfinite().all() and out.min() >= 0 and out.max() <= 1
    assert distort(clips()[..., :8], lottery(6), flip=True).shape == (6, 2, 3, 20, 8)


def test_distort_depends_on_its_draws_alone() -> None:
    torch.manual_seed(0)
    one = distort(clips(), lottery(6), flip=True)
    torch.manual_seed(1)
    assert one.equal(distort(clips(), lottery(6), flip=True))
    assert not one.equal(distort(clips(), lottery(6, seed=1), flip=True))


def test_every_draw_is_used() -> None:
    for column in range(DRAWS):
        start = chances(zoom=0.3, mirror=0.1, erase=0.1)
        other = start.clone()
        other[:, column] = {GREY: 0.0, MIRROR: 0.9, ERASE: 0.9}.get(column, 0.8)
        assert not distort(clips(1), start, flip=True).equal(distort(clips(1), other, flip=True)), column


def test_distort_treats_a_clip_as_one() -> None:
    out = distort(clips(64), lottery(64), flip=True)
    assert out[:, 0].equal(out[:, 1])
    # Contrast is about the mean of the whole clip: .2 and .6 lie .2 from .4, and each frame by itself would stay.
    steps = torch.tensor([51, 153], dtype=torch.uint8).view(1, 2, 1, 1, 1).expand(1, 2, 3, 4, 4)
    out = distort(steps, chances(contrast=0.0), flip=True)
    assert out[0, :, 0, 0, 0].tolist() == pytest.approx([0.22, 0.58])


def test_trap_4_distort_does_not_look_at_batch_mates() -> None:
    pixels, draws = clips(12), lottery(12)
    together = distort(pixels, draws, flip=True)
    for n in range(12):
        torch.testing.assert_close(distort(pixels[n : n + 1], draws[n : n + 1], flip=True)[0], together[n])


def test_a_crop_keeps_its_share_and_lies_anywhere_inside() -> None:
    # The ramp's brightness tells where each pixel came from: 20 + 4·column.
    for zoom, share in ((0.0, 0.6), (0.5, 0.8)):
        for right, start in ((0.0, 0.0), (0.5, (1 - share) / 2), (1.0, 1 - share)):
            out = distort(ramp(), chances(zoom=zoom, right=right), flip=False)[0, 0, 0, 7]
            came_from = (out * 255 - 20) / 4 + 0.5
            expected = 40 * start + share * (torch.arange(40) + 0.5)
            # Half a pixel at the edges repeats the edge, as there is nothing beyond.
            torch.testing.assert_close(came_from, expected.clamp(0.5, 39.5), atol=2e-3, rtol=0)
    downwards = distort(ramp().transpose(-1, -2), chances(zoom=0.0, down=1.0), flip=False)
    rightwards = distort(ramp(), chances(zoom=0.0, right=1.0), flip=False)
    torch.testing.assert_close(downwards.transpose(-1, -2), rightwards)


def test_the_mirror_image_of_the_same_crop() -> None:
    plain, mirrored = (distort(clips(), chances(6, zoom=0.2, right=0.1, mirror=m), flip=True) for m in (0.9, 0.1))
    torch.testing.assert_close(mirrored, plain.flip(-1), atol=1e-5, rtol=0)


def test_where_left_and_right_matter_nothing_is_mirrored() -> None:
    def rising(flip: bool) -> Tensor:
        calm = lottery(400)
        calm[:, ERASE] = 1.0
        return distort(ramp(400), calm, flip=flip)[:, 0, 0, 0].diff(dim=1).mean(1) > 0

    assert rising(flip=False).all()
    assert rising(flip=True).float().mean().item() == pytest.approx(0.5, abs=0.08)


def test_grey_comes_in_one_clip_of_ten_and_keeps_the_brightness() -> None:
    red = torch.tensor([200, 40, 120], dtype=torch.uint8).view(3, 1, 1).expand(2000, 1, 3, 4, 4).contiguous()
    draws = lottery(2000)
    draws[:, ERASE] = 1.0
    out = distort(red, draws, flip=True)
    grey = out.std(2).amax((1, 2, 3)) < 1e-6
    assert grey.float().mean().item() == pytest.approx(0.1, abs=0.02)
    one = distort(red[:1], chances(grey=0.05), flip=True)
    assert one.flatten().tolist() == pytest.approx([(0.299 * 200 + 0.587 * 40 + 0.114 * 120) / 255] * 48)


def test_light_contrast_and_colour_worked_by_hand() -> None:
    # Two pixels: (.8, .2, .2) and black.
    pixels = torch.zeros(1, 1, 3, 1, 2, dtype=torch.uint8)
    pixels[..., 0] = torch.tensor([204, 51, 51], dtype=torch.uint8).view(3, 1)
    red, green, mean = 0.8, 0.2, (0.8 + 0.2 + 0.2) / 6
    lit = distort(pixels, chances(light=0.0), flip=False)
    assert lit[0, 0, :, 0, 0].tolist() == pytest.approx([0.9 * red, 0.9 * green, 0.9 * green])
    flat = distort(pixels, chances(contrast=0.0), flip=False)
    assert flat[0, 0, :, 0, 0].tolist() == pytest.approx([mean + 0.9 * (x - mean) for x in (red, green, green)])
    assert flat[0, 0, :, 0, 1].tolist() == pytest.approx([0.1 * mean] * 3)
    bright = 0.299 * red + 0.701 * green
    pale = distort(pixels, chances(colour=0.0), flip=False)
    assert pale[0, 0, :, 0, 0].tolist() == pytest.approx([bright + 0.9 * (x - bright) for x in (red, green, green)])


def test_no_change_of_light_contrast_or_colour_exceeds_a_tenth() -> None:
    pixels = torch.full((500, 1, 3, 2, 2), 100, dtype=torch.uint8)
    draws = lottery(500)
    draws[:, ERASE] = 1.0
    gain = distort(pixels, draws, flip=True).flatten(1) * 255 / 100  # on one grey, contrast and colour change nothing
    assert gain.std(1).max() < 1e-6
    assert 0.9 - 1e-6 <= gain.min() < 0.91 and 1.09 < gain.max() <= 1.1 + 1e-6


def test_one_rectangle_is_erased_in_one_clip_of_four() -> None:
    white = torch.full((2000, 2, 3, 20, 20), 255, dtype=torch.uint8)
    erased = distort(white, lottery(2000), flip=True) == 0
    assert erased.equal(erased[:, :1, :1].expand_as(erased))  # in every frame and colour alike
    erased = erased[:, 0, 0]
    hit = erased.flatten(1).any(1)
    assert hit.float().mean().item() == pytest.approx(0.25, abs=0.03)
    rows, columns = erased[hit].any(2), erased[hit].any(1)
    assert erased[hit].equal(rows[:, :, None] & columns[:, None, :])
    for side in (rows, columns):
        lengths = side.sum(1)
        assert (lengths >= 3).all() and (lengths <= 10).all()  # .15 to .5 of 20
        assert lengths.unique().numel() == 8
        starts = side.long().argmax(1)
        assert starts.min() == 0 and (starts + lengths).max() == 20
        assert all(side[n, starts[n] : starts[n] + lengths[n]].all() for n in range(len(side)))


def test_autocast_does_not_move_a_pixel() -> None:
    pixels, draws = clips(8, side=112), lottery(8)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cast = distort(pixels, draws, flip=True)
    assert cast.dtype == torch.float32
    assert cast.equal(distort(pixels, draws, flip=True))
