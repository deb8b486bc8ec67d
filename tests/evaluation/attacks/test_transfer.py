from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from sfumato.datasets.base import Part
from sfumato.evaluation import exam as exams
from sfumato.evaluation.attacks import ATTACKS
from sfumato.evaluation.attacks.transfer import TRANSFER
from sfumato.evaluation.exam import Examinee, asked, sit
from sfumato.training.fit import FitConfig

from .conftest import ALL_HIDDEN, CPU, ONE_BIT, Lab, Parade, Told, grey


def test_clips_that_are_left_as_they_were_leak_by_their_share(lab: Lab) -> None:
    """One clip in three is not hidden: of what the rest says nothing is known, and grey is called by one name."""
    third = Told(lambda video, person, coin: torch.where((coin < 1 / 3).view(-1, 1, 1, 1, 1), video, grey(video)))
    test = lab.dataset.clips(lab.dataset.split("test", "clip")).pixels
    share = float((test[:, 0, 0, 0, 0, 1] < 85).float().mean())
    found = lab.attack("transfer-identity-placed", third).leakage
    assert found.low <= share <= found.high
    assert found.value == pytest.approx(share, abs=0.1)


def test_it_is_the_weak_attack_that_its_note_calls_it(lab: Lab) -> None:
    """A bit that raw video does not have means nothing to who never saw it; who did, reads it."""
    assert lab.attack("transfer-identity-placed", ONE_BIT).leakage.value == pytest.approx(0, abs=0.05)
    assert lab.attack("identity-placed", ONE_BIT).leakage.value > 0.2
    assert "not private" in TRANSFER[0].approach.note(lab.dataset, 1)


def test_it_learns_from_no_anonymised_clip() -> None:
    data, exam = Parade((32, 16, 16)), ATTACKS.make("transfer-identity-frames")
    asked_for: list[str] = []

    def clips(part: Part) -> Tensor:
        asked_for.append(part)
        return data.clips(asked(exam, data, part)).pixels

    def raw(part: Part) -> Tensor:
        if part == "test":
            raise AssertionError("the answers are about anonymised clips")
        return data.clips(asked(exam, data, part)).pixels

    sit(exam, Examinee("tiny-frame", FitConfig(epochs=1, batch=16)), data, clips, raw=raw, seed=0, device=CPU)
    assert asked_for == ["val", "test"]


def test_raw_clips_are_learned_from_once_whatever_the_anonymizer(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, float]] = []
    fit = exams.fit

    def spy(model, train, *rest, **options):  # type: ignore[no-untyped-def]
        seen.append((type(model).__name__, round(float(train.pixels.float().std()))))
        return fit(model, train, *rest, **options)

    monkeypatch.setattr(exams, "fit", spy)
    few = Lab(Parade((32, 16, 16)), epochs=1)
    first = few.answers(ATTACKS.make("transfer-identity-frames"), ALL_HIDDEN)
    assert len(seen) == 1 and seen[0][1] > 0
    few.answers(ATTACKS.make("pretrained-identity-frames"), ALL_HIDDEN)
    assert seen[1:] == [("TinyFrame", 0)]  # grey: the second half of pretraining alone
    again = few.answers(ATTACKS.make("transfer-identity-frames"), ALL_HIDDEN)
    assert len(seen) == 2 and (first.test == again.test).all()  # and pretraining went on with a copy
    few.answers(ATTACKS.make("transfer-identity"), ALL_HIDDEN)
    few.answers(replace(ATTACKS.make("transfer-frame"), name="other"), ALL_HIDDEN)
    assert [name for name, _ in seen[2:]] == ["TinyVideo", "TinyFrame"]  # other questions are learned for themselves
