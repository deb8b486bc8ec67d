from __future__ import annotations

import pytest
import torch
from torch import Tensor

from sfumato.datasets.base import Clips, ClipShape, Progress
from sfumato.evaluation.attacks.gait import movement

from .conftest import ALL_HIDDEN, NOTHING_HIDDEN, ONE_BIT, PEOPLE, SIDE, Lab, Parade, Told, grey

LONG = 6


class Dancers(Parade):
    """A square of a colour of its own goes over a grey floor, from anywhere; who it is shows in how it goes alone.

    Two people go sideways, two go down; two of them by one pixel a frame, two by three. The first pixel tells whoever
    knows it the person, and never changes.
    """

    name, shape = "dancers", ClipShape(LONG, SIDE, SIDE)

    def clips(
        self, indices: Tensor, *, views: int = 1, device: torch.device | str = "cpu", progress: Progress | None = None
    ) -> Clips:
        draw = torch.Generator().manual_seed(5)
        starts = torch.randint(0, SIDE, (len(self), 2), generator=draw)
        colours = torch.randint(160, 256, (len(self), 3), generator=draw)
        pixels = torch.full((len(indices), 1, LONG, 3, SIDE, SIDE), 60, dtype=torch.uint8)
        for n, (index, person) in enumerate(zip(indices.tolist(), self.labels(indices).person.tolist(), strict=True)):
            step, down = (1, 3)[person % PEOPLE // 2], person % 2 == 1
            for t in range(LONG):
                y, x = starts[index] + torch.tensor([step * t * down, step * t * (not down)])
                rows, columns = (y + torch.arange(4)) % SIDE, (x + torch.arange(4)) % SIDE
                pixels[n, 0, t, :, rows[:, None], columns] = colours[index, :, None, None].to(torch.uint8)
            pixels[n, ..., 0, 0] = 20 * person
        return Clips(pixels.to(device), None)


@pytest.fixture(scope="module")
def stage() -> Lab:
    return Lab(Dancers((64, 16, 60)), epochs=9)


def faint(video: Tensor) -> Tensor:
    """The same movement, hardly to be seen, and all colours gone."""
    return 0.5 + 0.06 * (video.mean(2, keepdim=True).expand_as(video) - 0.5)


def blinking(video: Tensor, bit: Tensor) -> Tensor:
    """All grey, but for a corner that goes on and off where the bit is set."""
    shown = grey(video)
    shown[:, ::2, :, -4:, -4:] += 0.5 * bit.view(-1, 1, 1, 1, 1).float()
    return shown


def test_movement_worked_by_hand() -> None:
    pixels = torch.full((1, 1, 3, 3, 2, 2), 100, dtype=torch.uint8)
    pixels[0, 0, 1, 2, 0, 0] = 180  # one colour of one pixel, for one frame
    pixels[0, 0, 2, :, 1, 1] = 110  # less than a quarter of that
    found = movement(pixels)
    assert found.shape == pixels.shape and found.dtype == torch.uint8
    assert found.unique().tolist() == [0, 255]
    for t in range(3):  # it comes and goes; the last frame repeats the one before
        assert (found[0, 0, t, :, 0, 0] == 255).all() and found[0, 0, t].sum() == 3 * 255
    # As faint as that, and without anything stronger in the clip, it counts; a few grey levels never do.
    pixels[0, 0, 1] = 100
    assert (movement(pixels)[0, 0, 1, :, 1, 1] == 255).all()
    pixels[0, 0, 2] = 104
    assert not movement(pixels).any()
    assert not movement(pixels[:, :, :1]).any()


def test_looks_do_not_help() -> None:
    """People who differ in colour alone, and who stand still, cannot be told apart by gait."""
    found = Lab(Parade((32, 16, 60)), epochs=2).attack("gait-identity-placed", NOTHING_HIDDEN)
    assert found.leakage.verdict == "inconclusive" and found.score.low <= 0.25 <= found.score.high
    pixels = Parade().clips(torch.arange(8)).pixels
    assert torch.equal(movement(pixels[:, :, :1].expand_as(pixels)), torch.zeros_like(pixels))


def test_people_are_known_by_how_they_move_also_where_it_is_faint(stage: Lab) -> None:
    raw = stage.attack("gait-identity", NOTHING_HIDDEN)
    assert raw.score.value > 0.9 and (raw.leakage.value, raw.leakage.verdict) == (1, "measured")
    shadow = stage.attack("gait-identity", FAINT)
    assert shadow.leakage.value > 0.85
    hidden = stage.attack("gait-identity", ALL_HIDDEN).leakage
    assert abs(hidden.value) < 0.1 and hidden.low - 1e-9 <= 0 <= hidden.high + 1e-9


def test_one_bit_of_movement_about_four_people_is_found_and_counted(stage: Lab) -> None:
    """Who reads it is right once in two instead of once in four: 1/3 of the way to always."""
    found = stage.attack("gait-identity", BLINKING)
    reached = (0.5 - 0.25) / (found.score.raw - 0.25)
    assert found.leakage.value == pytest.approx(reached, abs=0.03) and found.leakage.low > 0
    # The same bit in a picture that stands still is nothing to whoever looks at movement.
    assert abs(stage.attack("gait-identity", ONE_BIT).leakage.value) < 0.1


FAINT = Told(lambda video, person, coin: faint(video))
BLINKING = Told(lambda video, person, coin: blinking(video, person % 2))
