"""A video encoder learns to name drawn motions, and is loaded as any other encoder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from sfumato.datasets import theatre
from sfumato.errors import SfumatoError
from sfumato.recognizers.encoders import load_encoder
from sfumato.theatre.choreography import Motion, actions
from sfumato.training import captions, motions
from sfumato.training.motions import EncoderConfig, MotionTraining, encoder_folder, train_encoder
from sfumato.training.phases import Timing
from sfumato.training.run import RunFolder

from .toys import CPU, logged

TINY = EncoderConfig(width=0.5, batch=6, steps=6)


@pytest.fixture(autouse=True)
def minute(monkeypatch: pytest.MonkeyPatch, drawn_once: None) -> None:
    small = replace(theatre.PRESETS["small"], side=32, frames=4, cast=(2, 1, 1), sizes=(16, 8, 16))
    monkeypatch.setitem(theatre.PRESETS, "small", small)
    monkeypatch.setattr(motions, "WATCHED", 8)
    monkeypatch.setattr(motions, "EXAMINED", 16)


@pytest.fixture
def four_motions(monkeypatch: pytest.MonkeyPatch) -> tuple[Motion, ...]:
    """A repertoire that can be told apart at a glance."""
    found = tuple(motion for motion in actions() if motion.name in ("jumping jack", "lie down", "hug", "pick up"))
    monkeypatch.setattr(captions, "rehearsed", lambda: found)
    return found


def learn(folder: Path, config: EncoderConfig = TINY, resume: bool = False, **timing: int) -> dict[str, Any]:
    run = RunFolder.open(folder, {"method": "encoder", "config": {}, "seed": 0}, resume=resume)
    often = Timing(**{"log": 1, "watch": 3, "save": 2, **timing})
    return train_encoder(config, "theatre:small", run, seed=0, device=CPU, timing=often)


def test_it_learns_to_tell_motions_apart(tmp_path: Path, four_motions: tuple[Motion, ...]) -> None:
    found = learn(tmp_path / "run", replace(TINY, width=1.0, batch=16, steps=30, rate=3e-3))
    losses = [row["L_motion"] for row in logged(tmp_path / "run") if row["kind"] == "step"]
    assert sum(losses[-10:]) < 0.7 * sum(losses[:10])
    assert found["examined"]["chance"] == 1 / len(four_motions) and found["examined"]["top1"] > 0.4


def test_what_is_trained_is_an_encoder(tmp_path: Path, four_motions: tuple[Motion, ...]) -> None:
    learn(tmp_path / "run")
    folder = encoder_folder(RunFolder(tmp_path / "run"))
    encoder = load_encoder(str(folder))
    assert (encoder.width, encoder.clip) == (96, (4, 32, 32))
    video = torch.rand(2, 4, 3, 32, 32)
    assert encoder(video).shape == (2, 96)
    assert torch.equal(encoder(video), load_encoder(str(folder))(video))
    (folder / "model.safetensors").write_bytes(b"something else")
    with pytest.raises(SfumatoError, match="is not the file"):
        load_encoder(str(folder))
    (folder / "config.json").write_text('{"encoder": 3}')
    with pytest.raises(SfumatoError, match="does not describe an encoder"):
        load_encoder(str(folder))


def test_features_are_those_of_the_trained_network(tmp_path: Path, four_motions: tuple[Motion, ...]) -> None:
    training = MotionTraining(TINY, "theatre:small", seed=0, device=CPU)
    for step in range(3):
        training.step(step)
    folder = motions.save_encoder(training.model, "tiny-video", {"width": 0.5}, tmp_path)
    video = torch.rand(2, 4, 3, 32, 32)
    assert torch.equal(load_encoder(str(folder))(video), training.model.eval().features(video))


def test_resumed_it_ends_the_same(
    tmp_path: Path, four_motions: tuple[Motion, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = learn(tmp_path / "whole")
    really, steps = MotionTraining.step, []

    def step(self: MotionTraining, number: int) -> dict[str, torch.Tensor]:
        steps.append(number)
        if len(steps) == 4:
            raise KeyboardInterrupt
        return really(self, number)

    monkeypatch.setattr(MotionTraining, "step", step)
    with pytest.raises(KeyboardInterrupt):
        learn(tmp_path / "cut")
    assert learn(tmp_path / "cut", resume=True) == whole
    ends = [encoder_folder(RunFolder(tmp_path / name)) / "model.safetensors" for name in ("whole", "cut")]
    assert ends[0].read_bytes() == ends[1].read_bytes()


def test_what_it_cannot_learn_from_is_refused() -> None:
    with pytest.raises(SfumatoError, match="motions are not drawn for 'folder:x'"):
        MotionTraining(TINY, "folder:x", seed=0, device=CPU)
    with pytest.raises(SfumatoError, match="looks at frames"):
        EncoderConfig(recognizer="tiny-frame")
