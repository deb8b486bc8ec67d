from __future__ import annotations

import pytest
import torch

from sfumato.errors import SfumatoError
from sfumato.video import Box, clip_indices, crop_boxes, random_crop_box


def test_centre_is_the_middle_worked_by_hand() -> None:
    # 4 frames at skip 2 span 7 of 20 frames; 13 are left over, 6 of them before.
    assert clip_indices(20, 4, 2).tolist() == [[6, 8, 10, 12]]


def test_uniform_goes_from_the_first_that_fits_to_the_last() -> None:
    clips = clip_indices(30, 4, 2, mode="uniform", clips=5)
    # 23 starts beyond the first, in quarters: 0, 5.75, 11.5, 17.25, 23.
    assert clips[:, 0].tolist() == [0, 6, 12, 17, 23]
    assert clips[-1].tolist() == [23, 25, 27, 29]
    assert clip_indices(20, 4, 2, mode="uniform").tolist() == [[6, 8, 10, 12]]


def test_random_covers_every_start_and_follows_its_generator() -> None:
    draw = clip_indices(10, 3, 2, mode="random", clips=500, generator=torch.Generator().manual_seed(1))
    assert sorted(set(draw[:, 0].tolist())) == [0, 1, 2, 3, 4, 5]
    again = clip_indices(10, 3, 2, mode="random", clips=500, generator=torch.Generator().manual_seed(1))
    assert torch.equal(draw, again)
    assert draw.dtype == torch.int64


def test_a_short_video_starts_again() -> None:
    for mode in ("centre", "random", "uniform"):
        assert clip_indices(3, 4, 2, mode=mode, clips=2).tolist() == [[0, 2, 1, 0]] * 2  # type: ignore[arg-type]


def test_a_short_video_can_be_an_error_with_the_numbers() -> None:
    with pytest.raises(SfumatoError, match="4 frames at skip 2 need 7 frames, the video has 6"):
        clip_indices(6, 4, 2, short="error")
    assert clip_indices(7, 4, 2, short="error").tolist() == [[0, 2, 4, 6]]


def test_nonsense_is_refused() -> None:
    with pytest.raises(SfumatoError, match="skip = 0"):
        clip_indices(6, 4, 0)
    with pytest.raises(SfumatoError, match="did you mean 'centre'"):
        clip_indices(6, 4, 1, mode="center")  # type: ignore[arg-type]


def test_crops_run_along_the_longer_side() -> None:
    assert crop_boxes(100, 200, 0.8) == (Box(10, 20, 80, 160),)
    assert crop_boxes(100, 200, 0.8, crops=3) == tuple(Box(10, left, 80, 160) for left in (0, 20, 40))
    assert crop_boxes(200, 100, 0.8, crops=5) == tuple(Box(top, 10, 160, 80) for top in (0, 10, 20, 30, 40))
    for bad in (0.0, 1.2):
        with pytest.raises(SfumatoError, match="crop factor"):
            crop_boxes(10, 10, bad)


def test_a_box_cuts() -> None:
    video = torch.arange(2 * 3 * 4 * 5).reshape(2, 3, 4, 5)
    assert torch.equal(Box(1, 2, 2, 3).cut(video), video[:, :, 1:3, 2:5])


def test_random_crops_stay_inside_and_vary() -> None:
    generator = torch.Generator().manual_seed(0)
    boxes = [random_crop_box(50, 80, generator=generator) for _ in range(200)]
    assert all(box.top + box.height <= 50 and box.left + box.width <= 80 for box in boxes)
    assert all(30 <= box.height <= 50 and 48 <= box.width <= 80 for box in boxes)
    assert min(box.height for box in boxes) < 34
    assert max(box.height for box in boxes) > 46
    assert len({(box.top, box.left) for box in boxes}) > 50
    with pytest.raises(SfumatoError, match="out of range"):
        random_crop_box(50, 80, low=0.9, high=0.5)
