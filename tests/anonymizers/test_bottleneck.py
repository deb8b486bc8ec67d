"""What the output of a learned anonymizer can carry."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from sfumato.anonymizers.bottleneck import Bottleneck
from sfumato.errors import SfumatoError


def noise(*shape: int, seed: int = 0) -> Tensor:
    return 2 * torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def test_without_limits_it_is_a_sigmoid() -> None:
    logits = noise(2, 3, 5, 7)
    assert torch.equal(Bottleneck()(logits), logits.sigmoid())


def test_levels_by_hand() -> None:
    # sigmoid(ln(p / (1 - p))) = p: .1 → 0, .3 and .6 → .5, .8 → 1
    logits = torch.tensor([0.1, 0.3, 0.6, 0.8]).logit().view(1, 1, 1, 4)
    picture = Bottleneck(levels=3, grey=True)(logits)
    assert picture[0, 0, 0].tolist() == [0, 0.5, 0.5, 1]


@pytest.mark.parametrize("levels", [2, 3, 4, 7, 256])
def test_values_are_exactly_the_levels(levels: int) -> None:
    values = Bottleneck(levels)(noise(2, 3, 40, 40)).unique()
    allowed = torch.arange(levels) / (levels - 1)
    assert torch.isin(values, allowed).all()
    assert values[0] == 0 and values[-1] == 1


@pytest.mark.parametrize("cell", [1, 3])
@pytest.mark.parametrize("grey", [False, True])
def test_rounding_leaves_the_gradient_of_no_rounding(cell: int, grey: bool) -> None:
    gradients = []
    weights = noise(2, 3, 7, 8, seed=1)
    for levels in (0, 4):
        narrow = Bottleneck(levels, cell, grey)
        logits = noise(2, narrow.channels, 7, 8).requires_grad_()
        (narrow(logits) * weights).sum().backward()
        assert logits.grad is not None
        gradients.append(logits.grad)
    assert torch.equal(*gradients)
    assert (gradients[0] != 0).all()


def test_cells_by_hand_also_where_the_border_cuts_them() -> None:
    logits = torch.tensor([[0.0, 2.0, -1.0], [4.0, 6.0, 3.0], [1.0, 3.0, 5.0]]).view(1, 1, 3, 3)
    means = torch.tensor([[3.0, 3.0, 1.0], [3.0, 3.0, 1.0], [2.0, 2.0, 5.0]])
    torch.testing.assert_close(Bottleneck(cell=2, grey=True)(logits)[0, 0], means.sigmoid())


@pytest.mark.parametrize(("height", "width"), [(24, 16), (21, 19), (3, 5), (1, 1)])
def test_every_cell_is_one_value(height: int, width: int) -> None:
    picture = Bottleneck(cell=8)(noise(2, 3, height, width))
    assert picture.shape == (2, 3, height, width)
    for top in range(0, height, 8):
        for left in range(0, width, 8):
            square = picture[..., top : top + 8, left : left + 8].flatten(2)
            assert torch.equal(square, square[..., :1].expand_as(square))


def test_grey_is_one_value_for_three_colours() -> None:
    assert (Bottleneck(grey=True).channels, Bottleneck().channels) == (1, 3)
    picture = Bottleneck(grey=True)(noise(2, 1, 6, 6))
    assert picture.shape == (2, 3, 6, 6)
    assert torch.equal(picture, picture[:, :1].expand(-1, 3, -1, -1))
    colours = Bottleneck()(noise(2, 3, 6, 6))
    assert not torch.equal(colours[:, 0], colours[:, 1])


def test_bits_by_hand() -> None:
    assert Bottleneck(levels=2, cell=8, grey=True).bits(112, 112) == 14 * 14
    assert Bottleneck(levels=4, cell=8).bits(20, 9) == 3 * 2 * 3 * 2  # cells, colours, log2 of 4
    assert Bottleneck(cell=8, grey=True).bits(112, 112) == math.inf


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"levels": 1}, "levels = 1 leaves"),
        ({"levels": -2}, "levels = -2"),
        ({"cell": 0}, "cell = 0 is no size"),
    ],
)
def test_what_cannot_be_shown_is_refused(settings: dict[str, Any], complaint: str) -> None:
    with pytest.raises(SfumatoError, match=complaint):
        Bottleneck(**settings)
