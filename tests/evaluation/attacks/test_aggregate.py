from __future__ import annotations

from math import comb

import numpy as np
import pytest
import torch
from torch import Tensor

from sfumato.datasets.base import Labels
from sfumato.datasets.sample import AttributeSpec
from sfumato.evaluation.attacks.aggregate import AGGREGATE, LEAST, pooled
from sfumato.evaluation.exam import Desk, Examinee, Memory
from sfumato.training.fit import FitConfig

from .conftest import CPU, Lab, Parade, Told, with_bit

CLIPS = 9  # of a recording
RIGHT = 0.7  # of the clips show the person's own bit, the others its opposite
UNSURE = Told(lambda video, person, coin: with_bit(video, (person % 2 == 1) ^ (coin > RIGHT)))


def test_a_weak_hint_adds_up_over_a_recording() -> None:
    """Of nine witnesses who are right in 70% of the cases, most are in 90%."""
    most = sum(comb(CLIPS, k) * RIGHT**k * (1 - RIGHT) ** (CLIPS - k) for k in range(5, CLIPS + 1))
    lab = Lab(Parade((8 * CLIPS, 4 * CLIPS, 80 * CLIPS), recording=CLIPS))
    found = lab.attack("aggregate-identity-placed", UNSURE).leakage
    # The bit halves four people: who reads it rightly is right about the person every second time.
    single, whole = ((share / 2 - 0.25) / 0.75 for share in (RIGHT, most))
    assert found.low <= whole <= found.high
    assert found.value == pytest.approx(whole, abs=0.08) and found.value > single + 0.05


class Shares(torch.nn.Module):
    """A recognizer that says what the first pixels of a window say, in percent."""

    def forward(self, video: Tensor) -> Tensor:
        return (video[:, 0, 0, 0, :5] * 2.55).clamp(min=1e-30).log()


def test_windows_of_a_video_and_clips_of_a_recording_are_averaged_as_logarithms(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = Parade((6, 6, 6), recording=3)
    monkeypatch.setattr(Parade, "attributes", (AttributeSpec("odd"), AttributeSpec("size", ("s", "m", "l"))))
    pixels = torch.zeros(6, 2, 2, 3, 16, 16, dtype=torch.uint8)
    said = [[[50, 50, 20, 20, 60], [80, 20, 20, 20, 60]]] * 3 + [[[90, 10, 50, 25, 25]] * 2] * 3
    pixels[:, :, :, 0, 0, :5] = torch.tensor(said, dtype=torch.uint8)[:, :, None]
    exam = next(exam for exam in AGGREGATE if exam.name == "aggregate-video")
    truth = torch.tensor([[0, 2]] * 3 + [[0, 0]] * 3)
    monkeypatch.setattr(data, "labels", lambda indices: Labels(indices, indices, truth))
    desk = Desk(exam, Examinee("", FitConfig()), data, lambda _: pixels, lambda _: pixels, 0, CPU, None, Memory())
    found = exam.approach.answer(desk, Shares(), "test").probabilities
    assert found[:3] == pytest.approx(np.array([[2 / 3, 1 / 3, 0.2, 0.2, 0.6]] * 3))  # not the mean, .65
    assert found[3:] == pytest.approx(np.array([[0.9, 0.1, 0.5, 0.25, 0.25]] * 3))
    # The epoch is chosen by the same answers, whatever single windows say.
    assert exam.approach.choice(desk, Shares())(torch.empty(0), desk.labels("val")) == 1


def test_the_answer_about_a_recording_worked_by_hand() -> None:
    shares = torch.tensor([
        [[0.5, 0.5, 0.2, 0.2, 0.6], [0.8, 0.2, 0.2, 0.2, 0.6]],
        [[0.9, 0.1, 1.0, 0.0, 0.0], [0.9, 0.1, 1.0, 0.0, 0.0]],
        [[0.1, 0.9, 0.2, 0.2, 0.6], [0.1, 0.9, 0.2, 0.2, 0.6]],
    ])  # fmt: skip
    found = pooled(shares, torch.tensor([7, 3, 3]), (2, 3))
    assert found[0].tolist() == pytest.approx([2 / 3, 1 / 3, 0.2, 0.2, 0.6])  # √(.5·.8) : √(.5·.2) = 2 : 1
    assert found[1].tolist() == found[2].tolist()
    assert found[1, :2].tolist() == pytest.approx([0.5, 0.5])  # .9·.1 : .1·.9
    # A window that gives an answer no chance at all does not rule it out: √(1·.2) : √(LEAST·.2) : √(LEAST·.6)
    ways = np.sqrt([0.2, LEAST * 0.2, LEAST * 0.6])
    assert found[1, 2:].tolist() == pytest.approx((ways / ways.sum()).tolist())


def test_it_says_when_there_is_nothing_to_average() -> None:
    approach = AGGREGATE[0].approach
    assert "nothing to average" in approach.note(Parade(), 1)
    assert approach.note(Parade(), 3) == approach.note(Parade(recording=2), 1) == ""
