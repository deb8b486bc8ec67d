from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.nn.functional import interpolate as resized

from sfumato.anonymizers.base import Anonymizer
from sfumato.datasets.base import ClipShape, Part
from sfumato.evaluation.attacks import ATTACKS
from sfumato.evaluation.attacks.decode import SIZES, Decode, Decoder, _missed, sizes_for
from sfumato.evaluation.exam import Desk, Examinee, Memory, asked
from sfumato.evaluation.material import anonymize_clips
from sfumato.evaluation.whitening import cut, joined
from sfumato.training.fit import FitConfig

from .conftest import CPU, FRAMES, NOTHING_HIDDEN, SIDE, Lab, Parade, Told

NAME = "decode-identity-placed"
CLIP, TUBELET = (FRAMES, SIDE, SIDE), (2, 8, 8)
FAINT = 2 / 255


def in_last_bits(video: Tensor, person: Tensor, coin: Tensor) -> Tensor:
    """A coarse pattern, the same in every tubelet, and on it, within two grey levels, its mean colour in finer ones.

    No pattern has a mean, so that a tubelet is as bright as any other.
    """
    signs = torch.randn(4, 384, generator=torch.Generator().manual_seed(0)).sign()
    signs = signs - signs.mean(1, keepdim=True)
    colours = cut(video, TUBELET).unflatten(2, (3, -1)).mean(3) - 0.5
    return joined(0.5 + 0.3 * signs[0] + FAINT * colours @ signs[1:], CLIP, TUBELET)


def beside_a_key(video: Tensor, person: Tensor, coin: Tensor) -> Tensor:
    """One corner shows a random grey, the next one the mean colour with that grey added to it: neither tells alone."""
    shown, key = torch.full_like(video, 0.5), 0.3 * (coin.view(-1, 1, 1, 1, 1) - 0.5)
    colour = video.mean((1, 3, 4), keepdim=True) - 0.5
    shown[..., :8, :8] += key
    shown[..., :8, 8:] += key + 0.3 * colour
    return shown


def corner(video: Tensor, person: Tensor, coin: Tensor) -> Tensor:
    """One tubelet as it is; all else is black."""
    shown = torch.zeros_like(video)
    shown[..., :8, :8] = video[..., :8, :8]
    return shown


def turned(video: Tensor, person: Tensor, coin: Tensor) -> Tensor:
    """All of the first frame is a random grey; the second has the mean colour added to that: neither tells alone."""
    shown = torch.full_like(video, 0.5) + 0.3 * (coin.view(-1, 1, 1, 1, 1) - 0.5)
    shown[:, 1] += 0.3 * (video.mean((1, 3, 4)) - 0.5)[..., None, None]
    return shown


CODED, KEYED, CORNER, TURNED = Told(in_last_bits), Told(beside_a_key), Told(corner), Told(turned)


def desk_for(anonymizer: Anonymizer) -> Desk:
    data, exam = Parade((64, 16, 16)), ATTACKS.make(NAME)

    def source(hidden: Anonymizer) -> Callable[[Part], Tensor]:
        return lambda part: anonymize_clips(hidden, data.clips(asked(exam, data, part)), CPU)

    who = Examinee("tiny-video", FitConfig(epochs=1, batch=8))
    return Desk(exam, who, data, source(anonymizer), source(NOTHING_HIDDEN), 0, CPU, None, Memory())


def test_what_is_written_into_the_last_bits_is_read_where_others_look_past_it(lab: Lab) -> None:
    assert lab.attack("identity-placed", CODED).leakage.value < 0.5
    found = lab.attack(NAME, CODED)
    assert found.leakage.value == pytest.approx(1, abs=0.05)


def test_a_linear_code_is_decoded_before_anything_is_learnt() -> None:
    desk = desk_for(CODED)
    decoder = Decode(width=4).network(desk).eval()
    raw, shown = (clips("test")[:, 0].float() / 255 for clips in (desk.raw, desk.clips))
    mean = raw.mean((3, 4), keepdim=True)
    with torch.inference_mode():
        assert (decoder(shown).mean((3, 4), keepdim=True) - mean).abs().mean() < 0.02
        assert (shown.mean((3, 4), keepdim=True) - mean).abs().mean() > 0.1


def test_the_size_of_tubelets_is_chosen_on_validation() -> None:
    def chosen(anonymizer: Anonymizer) -> tuple[int, ...]:
        network = Decode(width=4).network(desk_for(anonymizer))
        assert isinstance(network, Decoder)
        return network.tubelet

    # A larger one than the corner would paint over all the black around it, and be nearer to the raw clip by that.
    assert chosen(CORNER)[1:] == (8, 8)
    assert chosen(KEYED)[1:] == (16, 16)
    # The grey that one frame has been moved by is told by the other frame alone.
    assert chosen(TURNED)[0] == 2


def test_tubelets_are_tried_as_large_as_they_have_become() -> None:
    assert sizes_for((8, 64, 64), None) == sizes_for((8, 64, 64), (64, 64)) == list(SIZES)
    assert {(1, 14, 14), (2, 14, 14), (4, 14, 14), (1, 28, 28)} <= set(sizes_for((8, 112, 112), (64, 64)))
    assert (1, 4, 6) in sizes_for((8, 32, 48), (64, 64))
    assert all(frames <= 2 for frames, _, _ in sizes_for((2, 112, 112), (64, 64)))
    assert sizes_for((8, 640, 640), (64, 64)) == list(SIZES)  # as large ones have more values than can be reckoned with


def test_what_was_made_at_another_size_is_decoded_at_it() -> None:
    """Pictures of 28×28, of squares of one colour each; the anonymizer worked at 16×16, where these have 8×8 pixels."""
    draw = torch.Generator().manual_seed(0)
    colours = torch.rand(80, FRAMES, 3, 2, 2, generator=draw).mean(1, keepdim=True).expand(-1, FRAMES, -1, -1, -1)
    signs = torch.randn(4, 384, generator=draw).sign()
    tokens = cut(resized(colours.flatten(0, 1), (16, 16), mode="nearest").unflatten(0, (80, FRAMES)), TUBELET)
    coded = joined(0.5 + 0.2 * signs[0] + 0.05 * tokens[..., ::128] @ signs[1:], (FRAMES, 16, 16), TUBELET)

    def source(video: Tensor, mode: str) -> Callable[[Part], Tensor]:
        whole = resized(video.flatten(0, 1), (28, 28), mode=mode).unflatten(0, (80, 1, FRAMES))
        pixels = (whole.clamp(0, 1) * 255).round().to(torch.uint8)
        return lambda part: pixels[:64] if part == "train" else pixels[64:]

    data = Parade()
    data.shape = ClipShape(FRAMES, 28, 28)
    who = Examinee("tiny-video", FitConfig(epochs=1, batch=8))
    clips = source(coded, "bilinear"), source(colours, "nearest")
    desk = Desk(ATTACKS.make(NAME), who, data, *clips, 0, CPU, None, Memory())

    def missed(native: tuple[int, int] | None) -> tuple[tuple[int, ...], float]:
        network = Decode(width=4).network(replace(desk, native=native))
        assert isinstance(network, Decoder)
        return network.tubelet[1:], _missed(network, desk)

    (_, blind), (side, seeing) = missed(None), missed((16, 16))
    assert side == (14, 14) and seeing < 0.5 * blind


def test_black_tubelets_stay_black_and_those_that_are_cut_short_have_their_place() -> None:
    draw = torch.Generator().manual_seed(0)
    seen, raw = torch.rand(2, 500, 384, generator=draw)
    decoder = Decoder(TUBELET, (3, 12, 20), seen, raw, width=4).eval()
    video = torch.rand(2, 3, 3, 12, 20, generator=draw)
    video[0, :2, :, :8, 8:16] = 0
    with torch.inference_mode():
        out = decoder(video)
    assert out.shape == video.shape and not out[0, :2, :, :8, 8:16].any() and out[1, :2, :, :8, 8:16].any()


def test_the_last_bits_are_read_in_full_precision_also_where_half_is_the_rule() -> None:
    draw = torch.Generator().manual_seed(0)
    seen, raw = torch.rand(2, 500, 384, generator=draw)
    decoder = Decoder(TUBELET, CLIP, seen, raw, width=4).eval()
    video = torch.rand(1, FRAMES, 3, SIDE, SIDE, generator=draw)
    with torch.inference_mode():
        whole = decoder(video)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            half = decoder(video)
    assert half.dtype == torch.float32 and half.equal(whole)


def test_where_all_is_black_there_is_nothing_to_decode() -> None:
    black = Told(lambda video, person, coin: torch.zeros_like(video))
    desk = desk_for(black)
    assert not Decode(width=4).network(desk)(desk.clips("val")[:, 0].float() / 255).any()
