"""One bit about everybody, planted where one kind of attacker looks, and right as often as is said: the known answers of the
plain attackers, and that every file of attacks has its own somewhere here."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from sfumato.evaluation import attacks
from sfumato.evaluation.attacks import ATTACKS
from sfumato.evaluation.attacks.architectures import ARCHITECTURES, OTHERS
from sfumato.evaluation.attacks.variants import EVERYDAY
from sfumato.evaluation.metrics import average_precision
from sfumato.evaluation.protocols.known import EVERY_ATTACK
from sfumato.evaluation.result import Score

from .conftest import ALL_HIDDEN, NOTHING_HIDDEN, PEOPLE, Lab, Parade, Told, grey

RIGHT = 0.9  # so often the planted bit is the person's own, else its opposite


def bit(person: Tensor, coin: Tensor) -> Tensor:
    return (person % 2 == 1) ^ (coin > RIGHT)


def planted(show: Callable[[Tensor, Tensor], None]) -> Told:
    """All grey, but for what `show(video, bit)` paints into it; bit: (B, 1, 1, 1, 1) of 0 and 1."""

    def tell(video: Tensor, person: Tensor, coin: Tensor) -> Tensor:
        shown = grey(video)
        show(shown, bit(person, coin).view(-1, 1, 1, 1, 1).float())
        return shown

    return Told(tell)


def light(video: Tensor, bit: Tensor) -> None:
    """Every frame is brighter."""
    video += 0.3 * bit


def order(video: Tensor, bit: Tensor) -> None:
    """A bright frame and a dark one, this way round or that: no single frame tells which."""
    video[:, :1] += 0.3 * bit
    video[:, 1:] += 0.3 * (1 - bit)


def side(video: Tensor, bit: Tensor) -> None:
    """A bright stripe at the left or at the right edge: nothing to whoever learns from mirrored pictures."""
    video[..., :3] += 0.5 * bit
    video[..., -3:] += 0.5 * (1 - bit)


BITS = {"light": planted(light), "order": planted(order), "side": planted(side)}
# Who is meant to find it. Whoever sees the whole clip in its place finds them all.
MEANT = {
    "frame": "light", "identity-frames": "light", "video": "order", "identity": "order", "video-placed": "side",
    "identity-placed": "side", "reconstruct-frame": "light", "decode-frame": "light", "decode-identity-frames": "light",
}  # fmt: skip
# All other ways of going about the plain attacks. Who learned from raw video alone has never seen such a bit (test_transfer.py),
# and it does not move (test_gait.py).
WAYS = {
    f"{way}-{exam.name}": MEANT[exam.name]
    for way in ("patient", "pretrained", "reconstruct", "decode", "aggregate")
    for exam in EVERYDAY
    if f"{way}-{exam.name}" not in MEANT
}


@pytest.fixture(scope="module")
def lab() -> Lab:
    return Lab(Parade((64, 24, 120)), epochs=8)


def expected(lab: Lab, attributes: bool) -> float:
    """The leakage of whoever reads the bit, and nothing else, of every test clip."""
    clips = lab.dataset.split("test", "clip")
    person = lab.dataset.labels(clips).person
    told = bit(person, lab.dataset.clips(clips).pixels[:, 0, 0, 0, 0, 1] / 255)
    odd = person % 2 == 1
    if attributes:
        reached = average_precision(told.numpy().astype(float), odd.numpy())
        return (reached - 0.5) / 0.5
    # Two of the four people have each bit: who reads it rightly is right about the person every second time.
    return (float((told == odd).float().mean()) / 2 - 1 / PEOPLE) / (1 - 1 / PEOPLE)


def relative(share: float, score: Score) -> float:
    """That share of the way from chance to always right, of the way to what the attacker reads of raw video."""
    return share * (1 - score.chance) / (score.raw - score.chance)


NAMES = [*MEANT, *(pytest.param(name, marks=pytest.mark.nightly) for name in WAYS)]


@pytest.mark.parametrize("name", NAMES)
def test_who_hides_nothing_leaks_everything_and_who_hides_all_nothing(name: str, lab: Lab) -> None:
    raw = lab.attack(name, NOTHING_HIDDEN)
    assert raw.score.value > 0.9 and (raw.leakage.value, raw.leakage.verdict) == (1, "measured")
    assert len(raw.curve[0]) == lab.epochs  # and how it learned is kept
    hidden = lab.attack(name, ALL_HIDDEN).leakage
    assert hidden.verdict == "measured" and abs(hidden.value) < 0.1
    assert hidden.low - 1e-9 <= 0 <= hidden.high + 1e-9


@pytest.mark.parametrize("name", NAMES)
def test_a_planted_bit_leaks_as_much_as_it_is_right(name: str, lab: Lab) -> None:
    found = lab.attack(name, BITS[{**MEANT, **WAYS}[name]])
    rate = relative(expected(lab, ATTACKS.make(name).target == "attributes"), found.score)
    assert found.leakage.low <= rate <= found.leakage.high
    assert found.leakage.value == pytest.approx(rate, abs=0.06) and found.leakage.low > 0


def test_who_looks_at_single_frames_does_not_find_what_is_in_their_order(lab: Lab) -> None:
    assert lab.attack("identity-frames", BITS["order"]).leakage.value < expected(lab, False) / 2


@pytest.mark.parametrize(
    ("name", "clips"),
    [("identity-vit-s", 64), pytest.param("identity-frames-resnet-50", 128, marks=pytest.mark.nightly)],
)
def test_other_networks_find_it_too(name: str, clips: int) -> None:
    lab = Lab(Parade((clips, 16, 80)), epochs=8)
    assert lab.attack(name, NOTHING_HIDDEN).score.value > 0.8
    hidden, found = lab.attack(name, ALL_HIDDEN).leakage, lab.attack(name, BITS["light"])
    assert abs(hidden.value) < 0.1 and hidden.low - 1e-9 <= 0 <= hidden.high + 1e-9
    assert found.leakage.value == pytest.approx(relative(expected(lab, False), found.score), abs=0.06)
    assert found.leakage.low > 0


def test_other_networks_sit_the_same_exams() -> None:
    for exam in ARCHITECTURES:
        plain = ATTACKS.make(exam.name.removesuffix(f"-{exam.recognizer}"))
        assert exam.recognizer in OTHERS[exam.level]
        assert (exam.target, exam.level, exam.by, exam.approach) == (
            plain.target,
            plain.level,
            plain.by,
            plain.approach,
        )


def test_every_file_of_attacks_has_its_known_answers() -> None:
    answered = {
        "frame", "video", "identity", "architectures",  # here
        "patient", "transfer", "pretrained", "reconstruct", "decode", "reid",  # test_known_answers.py
        "aggregate", "ensemble", "gait", "face",  # in the file of the same name
    }  # fmt: skip
    there = {module.name for module in pkgutil.iter_modules(attacks.__path__)}
    assert there - {"variants"} == answered  # which makes attackers, and is none
    # Everybody whom a judgement asks by itself has answers of its own, by day.
    assert {*EVERY_ATTACK} <= {*MEANT}


def test_the_coin_is_tossed_as_often_as_is_said() -> None:
    person, coin = torch.arange(4000) % 4, torch.rand(4000, generator=torch.Generator().manual_seed(0))
    share = np.mean((bit(person, coin) == (person % 2 == 1)).numpy())
    assert share == pytest.approx(RIGHT, abs=0.03)
