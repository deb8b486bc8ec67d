from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

import pytest
import torch
from torch import Tensor

from sfumato.theatre.painter import FAR, Canvas, Shapes

SIDE = 40


def shape(count: int = 1, **given: Any) -> Shapes:
    """One white disc of radius 10 in the middle of each of `count` pictures, with what is `given` instead."""
    values: dict[str, Any] = {
        "ax": 20.0, "ay": 20.0, "bx": 20.0, "by": 20.0, "w0": 0.0, "w1": 0.0, "r": 10.0, "z0": 0.0, "z1": 0.0,
        "opacity": 1.0, "fu": 0.0, "fv": 0.0, "threshold": 9.0,
    }  # fmt: skip
    colours = {"colour": given.pop("colour", (1.0, 1.0, 1.0)), "colour2": given.pop("colour2", (0.0, 0.0, 0.0))}
    patterned = [given.pop("patterned", False)]
    tensors = {k: torch.as_tensor(v).expand(count).reshape(count, 1).float() for k, v in {**values, **given}.items()}
    tensors |= {k: torch.tensor(v).expand(count, 1, 3) for k, v in colours.items()}
    return Shapes(**tensors, patterned=patterned)


def paint(*shapes: Shapes, count: int = 1, solid: bool = True) -> Canvas:
    canvas = Canvas(torch.zeros(count, SIDE, SIDE, 3))
    for one in shapes:
        canvas.paint(one, torch.arange(count), solid=solid)
    return canvas


def covered(canvas: Canvas) -> Tensor:
    """(SIDE, SIDE) bool: the pixels of the first picture that the shape owns."""
    return canvas.depth[0] > FAR / 2


def box_of(mask: Tensor) -> tuple[int, int, int, int]:
    """First and last row, first and last column."""
    rows, columns = mask.any(1).nonzero().view(-1), mask.any(0).nonzero().view(-1)
    return int(rows[0]), int(rows[-1]), int(columns[0]), int(columns[-1])


def test_a_disc_covers_pi_r_squared_around_its_centre() -> None:
    mask = covered(paint(shape()))
    assert mask.sum() == pytest.approx(math.pi * 10**2, rel=0.02)
    # Radius 10 around 20.0: pixel centres 10.5 … 29.5.
    assert box_of(mask) == (10, 29, 10, 29)


def test_a_capsule_is_a_rectangle_and_two_half_discs() -> None:
    mask = covered(paint(shape(ax=12.0, bx=28.0, r=5.0)))
    assert mask.sum() == pytest.approx(16 * 10 + math.pi * 5**2, rel=0.02)
    assert box_of(mask) == (15, 24, 7, 32)


def test_a_box_covers_exactly_its_pixels() -> None:
    # 16 long, 12 wide, corners rounded by 0.01: nearly a rectangle from (12, 14) to (28, 26).
    mask = covered(paint(shape(ay=12.0, by=28.0, w0=6.0, w1=6.0, r=0.01)))
    expected = torch.zeros(SIDE, SIDE, dtype=torch.bool)
    expected[12:28, 14:26] = True
    assert mask.equal(expected)


def test_a_tapered_limb_grows_from_one_end_to_the_other() -> None:
    mask = covered(paint(shape(ay=10.0, by=30.0, w0=2.0, w1=8.0, r=0.01)))
    widths = mask.sum(1)
    # Half-width 2 + 6·(y − 10)/20: 3.65 at the centre of row 15, 6.65 at that of row 25.
    assert widths[15] == pytest.approx(2 * 3.65, abs=1)
    assert widths[25] == pytest.approx(2 * 6.65, abs=1)


def test_edges_are_soft_and_opacity_is_a_share() -> None:
    canvas = paint(shape(r=10.0, opacity=0.25))
    lit = canvas.rgb[0, :, :, 0]
    assert lit[20, 20] == pytest.approx(0.25, rel=0.05)
    assert ((lit > 0.001) & (lit < 0.15)).any()
    assert not covered(canvas).any()  # less than half there: not solid


@pytest.mark.parametrize("near_first", [True, False])
def test_depth_decides_and_not_the_order(near_first: bool) -> None:
    near = shape(colour=(1.0, 0.0, 0.0), z0=1.0, z1=1.0, ax=16.0, bx=16.0)
    far = shape(colour=(0.0, 1.0, 0.0), ax=24.0, bx=24.0)
    rgb = paint(*([near, far] if near_first else [far, near])).rgb[0]
    assert rgb[20, 20, 0] > 0.7 and rgb[20, 20, 1] < 0.01
    assert rgb[20, 30, 1] > 0.7 and rgb[20, 30, 0] < 0.01


def test_depth_runs_along_a_shape() -> None:
    # A bar that comes nearer to the right hides the disc of depth 0 there, and only there.
    bar = shape(ax=8.0, bx=32.0, r=3.0, z0=-1.0, z1=1.0, colour=(1.0, 0.0, 0.0))
    rgb = paint(shape(colour=(0.0, 1.0, 0.0), r=12.0), bar).rgb[0]
    assert rgb[20, 12, 1] > 0.7 and rgb[20, 12, 0] < 0.01
    assert rgb[20, 28, 0] > 0.7 and rgb[20, 28, 1] < 0.01


def test_a_shadow_tints_without_hiding() -> None:
    canvas = paint(shape(), solid=False)
    assert canvas.rgb.max() > 0.7
    assert not covered(canvas).any()


@pytest.mark.parametrize(("x", "y"), [(0.0, 20.0), (40.0, 20.0), (20.0, 0.0), (20.0, 40.0)])
def test_a_disc_on_the_border_is_cut_in_half(x: float, y: float) -> None:
    mask = covered(paint(shape(ax=x, bx=x, ay=y, by=y)))
    assert mask.sum() == pytest.approx(math.pi * 10**2 / 2, rel=0.03)
    assert mask[int(min(y, SIDE - 1)), int(min(x, SIDE - 1))]


def test_what_is_outside_leaves_no_trace_and_what_is_larger_than_the_picture_fills_it() -> None:
    assert not paint(shape(ax=-30.0, bx=-30.0)).rgb.any()
    assert covered(paint(shape(r=100.0))).all()


def test_a_pattern_shows_the_second_colour_in_stripes() -> None:
    hoops = shape(
        ay=4.0, by=36.0, w0=12.0, w1=12.0, r=0.5, patterned=True, fu=2 * math.pi / 8, threshold=1.0,
        colour=(1.0, 0.0, 0.0), colour2=(0.0, 0.0, 1.0),
    )  # fmt: skip
    column = paint(hoops).rgb[0, 6:34, 20]
    blue = column[:, 2] > column[:, 0]
    # cos(2πu/8) + cos(0) > 1 for half of every 8 pixels.
    assert blue.float().mean() == pytest.approx(0.5, abs=0.1)
    assert (blue[1:] != blue[:-1]).sum() >= 6


def test_shapes_go_into_the_pictures_they_are_meant_for() -> None:
    canvas = Canvas(torch.zeros(3, SIDE, SIDE, 3))
    canvas.paint(shape(2, ax=torch.tensor([10.0, 30.0]), bx=torch.tensor([10.0, 30.0]), r=4.0), torch.tensor([2, 0]))
    assert canvas.rgb[2, 20, 10].min() > 0.7 and not canvas.rgb[2, :, 20:].any()
    assert canvas.rgb[0, 20, 30].min() > 0.7 and not canvas.rgb[0, :, :20].any()
    assert not canvas.rgb[1].any()


def test_drawing_many_at_once_changes_nothing() -> None:
    """From 80 pictures on, rows are sorted into groups with a box of their own: every pixel must stay the same."""
    count = 200
    generator = torch.Generator().manual_seed(0)

    def draw(low: float, high: float) -> Tensor:
        return low + (high - low) * torch.rand(count, generator=generator)

    many = shape(
        count, ax=draw(-5, 45), ay=draw(-5, 45), bx=draw(-5, 45), by=draw(-5, 45), w0=draw(0, 8), w1=draw(0, 8),
        r=draw(0.5, 9), z0=draw(-1, 1), z1=draw(-1, 1), opacity=(draw(0, 1) > 0.3).float(), patterned=True,
        fu=draw(0, 1), fv=draw(0, 1), threshold=draw(0, 1),
    )  # fmt: skip
    together = paint(many, count=count)
    tensors = [f.name for f in fields(Shapes) if f.name != "patterned"]
    for n in range(0, count, 7):
        one = Shapes(**{name: getattr(many, name)[n : n + 1] for name in tensors}, patterned=many.patterned)
        assert paint(one).pixels[0].allclose(together.pixels[n], atol=1e-5)
