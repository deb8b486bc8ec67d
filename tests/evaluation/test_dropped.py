"""What is dropped cannot be read where nothing of it is left, and is read where something is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from sfumato.anonymizers import load
from sfumato.anonymizers.tubelets import Decision, Tubelets
from sfumato.errors import SfumatoError
from sfumato.evaluation.dropped import (
    Reading,
    TubeletReader,
    _judge,
    _Swaps,
    dropped_colour,
    dropped_places,
    explained,
    read_dropped,
    swap_dropped,
    tubelet_colours,
)

CPU = torch.device("cpu")
TUBELET = (2, 4, 4)


def make(kind: type[Tubelets] = Tubelets, **settings: Any) -> Tubelets:
    """2 steps of 3×3 places, of which 4 stay in each."""
    torch.manual_seed(0)
    small = {"embedding": 16, "depth": 1, "blocks": 1, "patch": 4, "frames": 4, "size": 12, "alpha": 0.5}
    return kind(**{**small, **settings}).eval()


def clips(count: int, views: int = 1, seed: int = 0) -> Tensor:
    """Each of a colour of its own, lighter to the right, with noise: uint8 (N, views, 4, 3, 12, 12)."""
    generator = torch.Generator().manual_seed(seed)
    colour = torch.randint(40, 160, (count, 1, 1, 3, 1, 1), generator=generator)
    noise = torch.randint(0, 40, (count, views, 4, 3, 12, 12), generator=generator)
    return (colour + noise + torch.linspace(0, 50, 12).long()).to(torch.uint8)


def parts(count: int = 48, views: int = 1) -> tuple[Tensor, Tensor, Tensor]:
    return clips(count, views), clips(24, views, seed=1), clips(24, views, seed=2)


class Telltale(Tubelets):
    """Two passes, but the first kept tubelet of every step is a little lighter in the colours that the dropped ones had."""

    def forward_with(self, video: Tensor, held: Decision) -> Tensor:
        cells = self._cut(video).unflatten(3, (3, -1)).mean(-1)  # (B, L, N, 3)
        gone = (held.masks(self.places)[-1] == 0)[..., None]
        colour = (cells * gone).sum(2) / gone.sum(2)  # (B, L, 3)
        faint = self._cut(super().forward_with(video, held)).unflatten(3, (3, -1)) * 0.8
        first = held.kept[-1][..., :1] == torch.arange(self.places)
        lighter = faint + first[..., None, None] * 0.2 * colour[:, :, None, :, None]
        return self._assemble(lighter.flatten(3), video)


# Pure functions, by hand.


def test_dropped_are_those_that_the_last_block_leaves_out() -> None:
    held = Decision((torch.tensor([[[0, 1, 2], [1, 2, 3]]]), torch.tensor([[[0, 2], [1, 3]]])))
    found = dropped_places(held, (2, 2, 2))
    assert found.tolist() == [[[[False, True], [False, True]], [[True, False], [True, False]]]]


def test_swapped_are_the_pixels_of_dropped_tubelets_alone() -> None:
    video, other = torch.zeros(2, 3, 3, 4, 5), torch.rand(2, 3, 3, 4, 5) + 0.1
    dropped = torch.zeros(2, 2, 2, 2, dtype=torch.bool)  # steps of 2 frames, 2×2 places of 2×3 pixels
    dropped[0, 0, 1, 0] = dropped[1, 1, 0, 1] = True
    expected = torch.zeros_like(video)
    expected[0, :2, :, 2:, :3] = other[0, :2, :, 2:, :3]
    expected[1, 2:, :, :2, 3:] = other[1, 2:, :, :2, 3:]  # cut short in time and to the right
    assert swap_dropped(video, other, dropped, (2, 2, 3)).equal(expected)


def test_a_tubelet_that_is_cut_short_has_the_mean_of_what_there_is() -> None:
    video = torch.zeros(1, 3, 3, 4, 5)
    video[:, :2, 0, :2, :3] = 0.6  # step 0, row 0, column 0, red
    video[:, 0, 0, :2, :3] = 0.2
    video[:, 2, 2, 2:, 3:] = 0.5  # the last one, blue
    expected = torch.zeros(1, 2, 3, 2, 2)
    expected[0, 0, 0, 0, 0], expected[0, 1, 2, 1, 1] = 0.4, 0.5
    torch.testing.assert_close(tubelet_colours(video, (2, 2, 3)), expected)


def test_the_colour_of_the_dropped_in_a_step_and_in_its_quarters() -> None:
    colours = torch.zeros(1, 1, 3, 4, 4)
    colours[0, 0, 1] = torch.arange(16.0).view(4, 4)
    dropped = torch.zeros(1, 1, 4, 4, dtype=torch.bool)
    dropped[0, 0, 0, 0] = dropped[0, 0, 1, 1] = dropped[0, 0, 3, 3] = True  # 0, 5 and 15
    whole, counted = dropped_colour(colours, dropped)
    assert whole.shape == (1, 1, 3, 1, 1) and counted.all()
    torch.testing.assert_close(whole.flatten(), torch.tensor([0, 20 / 3, 0]))
    quarters, counted = dropped_colour(colours, dropped, cells=2)
    torch.testing.assert_close(quarters[0, 0, 1], torch.tensor([[2.5, 0], [0, 15]]))
    assert counted.tolist() == [[[[[True, False], [False, True]]]]]


def test_the_share_explained() -> None:
    assert explained(np.array([1.0, 2.0]), np.array([4.0, 2.0])) == 0.5
    assert explained(np.array([3.0]), np.array([2.0])) == -0.5


def test_the_reader_looks_at_what_is_to_be_seen_and_begins_with_the_mean() -> None:
    seen = torch.rand(300, 96, generator=torch.Generator().manual_seed(0))
    reader = TubeletReader(TUBELET, (2, 3, 3), seen, cells=2).eval()
    video = clips(2)[:, 0].float() / 255
    assert reader(video).shape == (2, 2, 3, 2, 2) and not reader(video).any()
    # Not all alike: what is normalised sums to nothing but rounding.
    nn.init.normal_(reader.head.weight, generator=torch.Generator().manual_seed(0))
    other = video.clone()
    other[0, 2:, :, 8:, 8:] = 0
    changes = (reader(other) - reader(video)).abs()
    assert changes[0].mean() > 1e-2 and not changes[1].any()


def test_the_reader_tells_steps_apart_and_takes_black_for_nothing() -> None:
    seen = torch.rand(300, 96, generator=torch.Generator().manual_seed(0))
    reader = TubeletReader(TUBELET, (2, 3, 3), seen).eval()
    reader.layer = nn.Identity()  # type: ignore[assignment]  # no tubelet sees another
    with torch.no_grad():
        reader.head.weight[:, : reader.norm.normalized_shape[0]] = torch.rand(reader.norm.normalized_shape)
    video = clips(1)[:, 0].float() / 255
    other = video.clone()
    other[:, 2:, :, :4, 4:8] = 0.5
    assert ((reader(other) != reader(video)).flatten(2).all(2)).tolist() == [[False, True]]
    black = reader(0 * video)
    reader.mean += 1
    assert reader(0 * video).equal(black) and not reader(video).equal(black)


# The experiment.


def test_every_clip_is_paired_with_another_and_put_into_one_other() -> None:
    swaps = _Swaps(make(), clips(7, views=3), 1, 4, CPU)
    rows, others = (torch.cat(each) for each in zip(*swaps.ring(torch.Generator().manual_seed(0)), strict=True))
    assert rows.tolist() == list(range(21)) and sorted(others.tolist()) == list(range(21))
    assert (rows % 3 == others % 3).all() and (rows // 3 != others // 3).all()
    draw, seen = torch.Generator().manual_seed(0), set()
    for _ in range(60):
        (drawn, put), *more = swaps.draw(draw)
        assert not more and len(set((drawn // 3).tolist())) == 4 and (drawn // 3 != put // 3).all()
        seen |= set(zip(drawn.tolist(), put.tolist(), strict=True))
    assert len(seen) > 150  # of 378 pairs, 240 draws


@pytest.mark.parametrize("two_pass", [False, True])
def test_with_two_passes_what_is_shown_is_the_same_bit_by_bit_whatever_is_dropped(two_pass: bool) -> None:
    swaps, rows = _Swaps(make(two_pass=two_pass), clips(12), 1, 4, CPU), torch.arange(4)
    shown, one, _ = swaps.show(rows, rows + 4)
    again, two, _ = swaps.show(rows, rows + 8)
    assert (one != two).all()
    assert shown.equal(again) == two_pass
    dropped = dropped_places(swaps.anonymizer.decide(clips(12)[:4, 0] / 255), (2, 3, 3))
    assert dropped.float().mean() == 5 / 9
    assert (tubelet_colours(shown, TUBELET).amax(2) == 0).equal(dropped)
    assert (shown * 255).round().div(255).equal(shown)  # 8 bits


def test_colours_are_those_of_the_other_clip_less_what_is_usual_there() -> None:
    given = clips(6)
    swaps, rows, others = _Swaps(make(), given, 1, 4, CPU), torch.tensor([0, 1]), torch.tensor([4, 3])
    _, colour, _ = swaps.show(rows, others)
    usual = given[:, 0].float().mean(0) / 255
    places = swaps.anonymizer.decide(given[:2, 0] / 255).masks(9)[-1] == 0
    for clip, step in ((0, 0), (1, 1)):
        rest = given[others[clip], 0] / 255 - usual
        gone = [
            rest[2 * step : 2 * step + 2, :, 4 * row : 4 * row + 4, 4 * column : 4 * column + 4].mean((0, 2, 3))
            for row, column in (divmod(place, 3) for place in places[clip, step].nonzero().flatten().tolist())
        ]
        torch.testing.assert_close(colour[clip, step].flatten(), torch.stack(gone).mean(0), atol=1e-5, rtol=0)


def test_what_is_to_be_seen_is_not_black() -> None:
    swaps = _Swaps(make(two_pass=True), clips(12), 1, 4, CPU)
    found = swaps.kept_tubelets(swaps.draw(torch.Generator().manual_seed(0)))
    assert found.shape == (12 * 2 * 4, 96) and found.amin(1).min() > 0


def test_errors_are_summed_over_the_views_of_each_clip_where_something_is_dropped() -> None:
    swaps = _Swaps(make(), clips(5, views=2), 3, 3, CPU)
    reader = TubeletReader(TUBELET, (2, 3, 3), torch.rand(300, 96), cells=3)
    nn.init.constant_(reader.head.bias, 0.25)
    missed, varied = _judge(reader, swaps, seed=0)
    pairs = zip(*swaps.ring(torch.Generator().manual_seed(0)), strict=True)
    _, colour, counted = swaps.show(*(torch.cat(each) for each in pairs))
    for found, said in ((missed, 0.25), (varied, 0.0)):
        by_hand = [
            float(sum((said - colour[row, :, channel][counted[row, :, 0]]).square().sum() for channel in range(3)))
            for row in range(10)
        ]
        assert found == pytest.approx([a + b for a, b in zip(by_hand[::2], by_hand[1::2], strict=True)], rel=1e-4)


def test_the_epoch_is_the_best_one_on_validation() -> None:
    train, val, _ = parts()
    found = read_dropped(make(two_pass=True), train, val, val, epochs=6, batch=8, device=CPU)
    assert found.value == found.validation  # which later epochs, that know the training clips by heart, do not reach


@pytest.mark.parametrize("mode", [{"two_pass": True}, {"anonymize": False}])
def test_where_nothing_is_left_nothing_is_read(mode: dict[str, Any]) -> None:
    found = read_dropped(make(**mode), *parts(), epochs=6, batch=8, seed=0, device=CPU)
    assert -0.5 < found.low <= found.value <= 0.05


def test_a_planted_leak_is_read() -> None:
    found = read_dropped(make(Telltale, two_pass=True), *parts(96), epochs=20, batch=16, device=CPU)
    assert found.value > 0.5 and found.validation > 0.5
    assert found.low <= found.value <= found.high < 1


def test_the_same_seed_reads_the_same_of_several_views_and_cells() -> None:
    anonymizer = make()

    def once() -> Reading:
        return read_dropped(anonymizer, *parts(16, views=2), epochs=1, batch=8, seed=3, device=CPU, cells=3)

    assert once() == once()


@pytest.mark.parametrize(
    ("anonymizer", "complaint"),
    [
        (load("downsample"), "'downsample' drops no tubelets: give one that stprivacy has trained"),
        (make(alpha=1.0), "with alpha = 1 nothing is dropped"),
        (make(alpha=1.0, sparsify=False), "with alpha = 1 nothing is dropped"),
    ],
)
def test_an_anonymizer_that_drops_nothing_is_refused(anonymizer: Any, complaint: str) -> None:
    with pytest.raises(SfumatoError, match=complaint):
        read_dropped(anonymizer, *parts(), device=CPU)


@pytest.mark.parametrize(
    ("test", "complaint"),
    [
        (clips(4), "4 clips are too few to swap: give 5 or more"),
        (clips(5)[:, 0], r"\(5, 4, 3, 12, 12\) of torch.uint8 are no stored clips"),
        (clips(5) / 255, "of torch.float32 are no stored clips"),
        (clips(5)[..., :8], "made for 4 frames of 12×12, not 4 of 12×8"),
    ],
)
def test_clips_that_do_not_fit_are_refused(test: Tensor, complaint: str) -> None:
    with pytest.raises(SfumatoError, match=complaint):
        read_dropped(make(), clips(8), clips(8), test, epochs=1, device=CPU)
