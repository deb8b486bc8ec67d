from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from torch import Tensor

from sfumato.datasets.base import Part
from sfumato.evaluation.attacks import ATTACKS
from sfumato.evaluation.attacks.reconstruct import Reconstruct, Undo, compared, mean_picture
from sfumato.evaluation.exam import Desk, Examinee, Memory, asked, sit
from sfumato.evaluation.metrics import psnr
from sfumato.evaluation.result import AttackResult, Score
from sfumato.objectives.ssim import ssim
from sfumato.training.fit import Fit, FitConfig

from .conftest import ALL_HIDDEN, CPU, NOTHING_HIDDEN, Lab, Parade, Told

NAME = "reconstruct-identity-placed"
NEGATIVE = Told(lambda video, person, coin: 1 - video)


def measures(found: AttackResult) -> dict[str, Score]:
    return {measure.name: measure.score for measure in found.measures}


def test_what_was_not_hidden_comes_back_as_it_was(lab: Lab) -> None:
    found = measures(lab.attack(NAME, NOTHING_HIDDEN))
    assert list(found) == ["PSNR", "SSIM"]
    assert found["PSNR"].value > 40 and found["SSIM"].value > 0.99
    assert found["PSNR"].raw == found["PSNR"].value


def test_of_what_is_gone_no_more_comes_back_than_one_paints_without_looking(lab: Lab) -> None:
    found = measures(lab.attack(NAME, ALL_HIDDEN))
    # Less may come back: a network that is trained for a moment paints the mean picture worse than who simply knows it.
    assert found["PSNR"].chance - 3 < found["PSNR"].value < found["PSNR"].chance + 0.5
    assert found["SSIM"].chance - 0.1 < found["SSIM"].value < found["SSIM"].chance + 0.05
    assert 15 < found["PSNR"].chance < 25


def test_what_is_only_disguised_is_undone(lab: Lab) -> None:
    """The negative of a picture hides nothing from who has pairs."""
    found = lab.attack(NAME, NEGATIVE)
    assert found.leakage.value == pytest.approx(1, abs=0.02)
    raw = lab.dataset.clips(lab.dataset.split("test", "clip")).pixels
    shown = float(compared(psnr, 255 - raw, raw, 16, CPU).mean())
    near = measures(found)["PSNR"]
    assert near.value > shown + 3
    assert near.low < near.value < near.high < 100


def test_at_first_it_changes_nothing() -> None:
    video = torch.rand(2, 3, 3, 20, 24)
    assert Undo(8)(video).detach() == pytest.approx(video, abs=1e-6)


def test_the_mean_picture_and_the_mean_of_a_measure_by_hand() -> None:
    pixels = torch.zeros(3, 2, 2, 3, 12, 12, dtype=torch.uint8)
    pixels[2] = 90
    pixels[0, 1, 1, :, 0, 0] = 120  # one of 12 frames
    mean = mean_picture(pixels, batch=2)
    assert mean.shape == (3, 12, 12) and mean[:, 1:, 1:].unique().tolist() == [30] and mean[0, 0, 0] == 40
    other = pixels.clone()
    other[1, 0, 0] = 255  # of 4 frames of this clip one is all wrong: 0 dB beside 100
    assert compared(psnr, pixels, other, 2, CPU).tolist() == pytest.approx([100, 75, 100])
    assert compared(ssim, pixels, pixels, 2, CPU).tolist() == pytest.approx([1, 1, 1])


def test_no_test_clip_is_touched_before_all_has_been_learned() -> None:
    data, done = Parade((32, 16, 16)), []

    @dataclass(frozen=True)
    class Watched(Reconstruct):
        def learn(self, desk: Desk) -> Fit:
            found = super().learn(desk)
            done.append(True)
            return found

    exam = replace(ATTACKS.make(NAME), approach=Watched(width=4))

    def clips(part: Part) -> Tensor:
        assert part != "test" or done, "a test clip was asked for while something was still to be learned"
        return data.clips(asked(exam, data, part)).pixels

    told: list[float] = []
    found = sit(
        exam, Examinee("tiny-video", FitConfig(epochs=1, batch=16)), data, clips, raw=clips, seed=0, device=CPU,
        report=lambda epoch, epochs, score: told.append(score),
    )  # fmt: skip
    assert len(told) == 2 and len(found.curve) == 1  # it is said how the undoing goes; the curve is the attacker's
    assert found.measures["PSNR"].shape == found.measures["SSIM"].shape == (2, 16)


def test_one_undoing_serves_all_attackers_of_an_anonymizer_and_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    data, memory, learned = Parade((32, 16, 16)), Memory(), []
    really = Reconstruct._learn_to_undo
    monkeypatch.setattr(Reconstruct, "_learn_to_undo", lambda self, desk: learned.append(1) or really(self, desk))

    def answers(name: str, seed: int = 0, kept: Memory = memory) -> np.ndarray:
        exam = ATTACKS.make(name)
        settings = FitConfig(epochs=1, batch=16, frames=1 if exam.level == "frame" else None)
        clips = {part: data.clips(asked(exam, data, part)).pixels for part in ("train", "val", "test")}
        hidden = {part: 255 - pixels for part, pixels in clips.items()}
        return sit(
            exam, Examinee(f"tiny-{exam.level}", settings), data, hidden.__getitem__, raw=clips.__getitem__, seed=seed,
            device=CPU, memory=kept,
        ).test  # fmt: skip

    answers("reconstruct-identity")
    second = answers("reconstruct-identity-frames")
    answers("reconstruct-frame")  # asks something else about the same clips
    assert len(learned) == 1
    assert np.array_equal(second, answers("reconstruct-identity-frames", kept=Memory()))  # as if it had made its own
    answers("reconstruct-identity", seed=1)
    assert len(learned) == 3
