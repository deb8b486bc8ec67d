"""The small vision-language model learns from drawn clips and captions; what is held out it is never shown or told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from sfumato.datasets import theatre
from sfumato.datasets.theatre import TheatreDataset
from sfumato.errors import SfumatoError
from sfumato.recognizers.vlm import SmallVLM, fill_prompts, load_vlm
from sfumato.theatre.choreography import Motion, Tracks, actions
from sfumato.theatre.compositions import HELD_OUT, compositions, held_out, rehearsed
from sfumato.theatre.script import Script
from sfumato.theatre.show import Footage
from sfumato.theatre.wording import sentences
from sfumato.training import captions
from sfumato.training.captions import CaptionConfig, CaptionTraining, Rehearsal, train_captions, weights_folder
from sfumato.training.phases import Timing
from sfumato.training.run import RunFolder

from .toys import CPU, logged

TINY = CaptionConfig(
    width=16, depth=1, temporal_depth=1, text_width=16, text_depth=1, embedding=16, batch=6, steps=6, rate=3e-3
)


@pytest.fixture(autouse=True)
def minute(monkeypatch: pytest.MonkeyPatch, drawn_once: None) -> None:
    """Clips of 4×32×32, few of them to be watched by."""
    for name in ("small", "small-unseen"):
        small = replace(theatre.PRESETS[name], side=32, frames=4, cast=(2, 1, 1), sizes=(16, 8, 16))
        monkeypatch.setitem(theatre.PRESETS, name, small)
    monkeypatch.setattr(captions, "WATCHED", 8)


@pytest.fixture
def four_motions(monkeypatch: pytest.MonkeyPatch) -> tuple[Motion, ...]:
    """A repertoire that can be told apart at a glance."""
    names = ("jumping jack", "lie down", "hug", "pick up")
    found = tuple(motion for motion in actions() if motion.name in names)
    monkeypatch.setattr(captions, "rehearsed", lambda: found)
    return found


def open_run(folder: Path, resume: bool = False) -> RunFolder:
    return RunFolder.open(folder, {"method": "vlm", "config": {}, "seed": 0}, resume=resume)


def learn(folder: Path, config: CaptionConfig = TINY, resume: bool = False, **timing: int) -> dict[str, Any]:
    often = Timing(**{"log": 1, "watch": 3, "save": 2, **timing})
    return train_captions(config, "theatre:small", open_run(folder, resume), seed=0, device=CPU, timing=often)


def test_whole_actions_are_held_out_and_every_motion_that_equals_one() -> None:
    known, secret = rehearsed(), held_out()
    assert len(secret) == len(HELD_OUT) >= 6
    # All tempos and repetitions of an action go with it, and nothing else does.
    stays = [c.motion for c in compositions() if c.words[:3] not in HELD_OUT]
    assert len(stays) == len(compositions()) - 6 * len(HELD_OUT)
    assert known == (*actions(), *stays)
    # By what is seen, not by names: no pose that a held-out action reaches for is reached for in training.
    shown, hidden = Tracks(known), Tracks([c.motion for c in secret])
    reached = (shown.way[:, :, None] + shown.loop[:, None]).flatten(0, 2)
    assert torch.cdist(reached, hidden.loop[:, 2]).min() > 0.05


def test_a_composed_motion_under_another_name_is_held_out_too(monkeypatch: pytest.MonkeyPatch) -> None:
    from sfumato.theatre import compositions as module

    twin = replace(held_out()[0].motion, name="signal", caption="gives a signal", repeats=1, span=0.3)
    monkeypatch.setattr(module, "actions", lambda: (*actions(), twin))
    assert twin not in rehearsed.__wrapped__() and len(rehearsed.__wrapped__()) == len(rehearsed())


def test_what_is_described_at_test_time_is_never_said_in_training_but_each_word_is() -> None:
    rehearsal = Rehearsal(TheatreDataset("small-unseen"), 40, seed=0, device=CPU)
    every = {sentence for said in rehearsal.said for sentence in said}
    secret = {s for c in compositions() if c.words[:3] in HELD_OUT for s in sentences(c.motion.caption)}
    assert len(secret) == len(HELD_OUT) * (3 * (6 + 3 + 3 + 1))
    assert not every & secret
    drawn: set[str] = set()
    for step in range(60):
        motion = rehearsal.rounds.rows(step)
        drawn |= set(rehearsal.captions(motion, step))
    assert drawn <= every and not drawn & secret and len(drawn) > 300
    words = rehearsal.words()
    assert set(captions.words_of(secret)) <= set(words)
    prompts = fill_prompts(captions.TEMPLATE, TheatreDataset("small-unseen").phrases())
    assert set(prompts) <= secret and len(prompts) == len(HELD_OUT)


def test_every_motion_is_shown_sooner_or_later_and_no_clip_or_person_twice(
    four_motions: tuple[Motion, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers: list[Tensor] = []
    write = captions.write

    def noted(seed: int, index: Tensor, person: Tensor, *rest: Any) -> Script:
        numbers.append(torch.stack([index, person]))
        return write(seed, index, person, *rest)

    monkeypatch.setattr(captions, "write", noted)
    data = TheatreDataset("small-unseen")
    rehearsal = Rehearsal(data, 4, seed=0, device=CPU)
    steps = [rehearsal.draw(step) for step in range(3)]
    for clips, motion in steps:
        assert clips.shape == (4, 4, 3, 32, 32) and clips.dtype == torch.uint8
        assert sorted(motion.tolist()) == [0, 1, 2, 3]
    written = torch.cat(numbers, dim=1)  # the clips' numbers, and whom they show
    assert written.shape == (2, 12) and all(len(row.unique()) == 12 for row in written)
    again, motion = Rehearsal(data, 4, seed=0, device=CPU).draw(2)
    assert again.equal(steps[2][0]) and motion.equal(steps[2][1])
    assert not Rehearsal(data, 4, seed=1, device=CPU).draw(2)[0].equal(again)
    # The first clip's person has the number of a person in the data sets, but is of another world.
    assert numbers[0][1, 0] == 0 and rehearsal.world != data.seed


def test_clips_drawn_ahead_are_those_of_their_step() -> None:
    data = TheatreDataset("small-unseen")
    one, several = (Rehearsal(data, 4, seed=0, device=CPU) for _ in range(2))
    several.ahead = 3
    for step in (0, 1, 5, 4, 6):
        for ours, theirs in zip(several.draw(step), one.draw(step), strict=True):
            assert ours.equal(theirs)


def test_captions_tell_what_the_clips_show(four_motions: tuple[Motion, ...]) -> None:
    rehearsal = Rehearsal(TheatreDataset("small-unseen"), 4, seed=0, device=CPU)
    motion = torch.tensor([2, 0, 2])
    ways = [rehearsal.captions(motion, step) for step in range(40)]
    for said in ways:
        assert said[0] == said[2] != said[1]
        assert said[0].endswith(four_motions[2].caption) and said[1].endswith(four_motions[0].caption)
    assert {said[0].split()[0] for said in ways} == {"a", "someone", "somebody"}


class Walls:
    """In the place of the show: a wall, of another colour for every motion, at another brightness for every clip."""

    def draw(self, script: Script) -> Footage:
        shades = torch.tensor([[200, 30, 30], [30, 200, 30], [30, 30, 200], [120, 120, 120]])[script.motion]
        light = 0.6 + 0.4 * torch.rand(len(shades), generator=torch.Generator().manual_seed(int(script.index[0])))
        clips = (shades * light[:, None]).to(torch.uint8)[:, None, :, None, None].expand(-1, 4, 3, 32, 32)
        return Footage(clips, clips[:, :, :1])


def test_the_loss_falls_and_the_motions_are_told_apart(
    four_motions: tuple[Motion, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(captions, "Show", lambda *_: Walls())
    training = CaptionTraining(replace(TINY, batch=16, steps=60), "theatre:small", seed=0, device=CPU)
    losses = [float(training.step(number)["L_align"]) for number in range(60)]
    # Of 16 clips four show the same and are called the same: log 4 = 1.39 is the least there is.
    assert sum(losses[:5]) / 5 > 2.4 and sum(losses[-5:]) / 5 < 1.5
    shown = [said[0] for said in training.rehearsal.said]
    assert training.answers(training.seen_clips, shown).equal(training.seen_motions)


def test_the_rate_rises_and_falls(four_motions: tuple[Motion, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(captions, "Show", lambda *_: Walls())
    training = CaptionTraining(replace(TINY, steps=10, rate=1e-3), "theatre:small", seed=0, device=CPU)
    rates = []
    for number in (0, 3, 9):
        training.step(number)
        rates.append(training.optimizer.param_groups[0]["lr"])
    assert rates[:2] == pytest.approx([4e-5, 1e-3]) and rates[2] < 1e-4


def test_resumed_is_as_if_never_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = learn(tmp_path / "whole")
    really: Callable[..., Any] = CaptionTraining.step

    def breaks(self: CaptionTraining, number: int) -> Any:
        if number == 5:
            raise RuntimeError("power cut")
        return really(self, number)

    monkeypatch.setattr(CaptionTraining, "step", breaks)
    with pytest.raises(RuntimeError, match="power cut"):
        learn(tmp_path / "cut")
    assert not weights_folder(open_run(tmp_path / "cut", resume=True)).exists()
    monkeypatch.setattr(CaptionTraining, "step", really)
    assert learn(tmp_path / "cut", resume=True) == whole
    assert logged(tmp_path / "cut") == logged(tmp_path / "whole")
    one, other = (load_vlm(tmp_path / name / "vlm").state_dict() for name in ("whole", "cut"))
    assert all(value.equal(other[name]) for name, value in one.items())
    learnt = [line["step"] for line in logged(tmp_path / "whole") if line["kind"] == "watch"]
    assert learnt == [3, 6] and not RunFolder(tmp_path / "whole").checkpoint.exists()
    assert learn(tmp_path / "whole", resume=True) == whole  # finished is finished


def test_the_saved_model_answers_as_the_trained_one_did(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[SmallVLM] = []
    save = captions.save_vlm
    monkeypatch.setattr(captions, "save_vlm", lambda model, folder: (kept.append(model), save(model, folder)))
    result = learn(tmp_path / "run")
    loaded, data = load_vlm(weights_folder(RunFolder(tmp_path / "run"))), TheatreDataset("small-unseen")
    indices = data.split("test", "person")
    video = data.clips(indices).pixels[:, 0].float() / 255
    prompts = fill_prompts("a person {}", data.phrases())
    with torch.no_grad():
        logits = loaded.zero_shot(video, prompts)
        assert logits.equal(kept[0].zero_shot(video, prompts))
    right = (logits.argmax(1) == data.labels(indices).action).float()
    found = result["examined"]
    assert (found["top1"], found["clips"], found["chance"]) == (pytest.approx(right.mean().item()), 16, 1 / 8)
    assert list(found["each"]) == list(data.phrases())
    assert sum(found["each"].values()) / 8 == pytest.approx(found["top1"])  # as many clips of each
    assert loaded.frozen and loaded.clip == (4, 32, 32)


def test_other_data_has_no_captions(tmp_path: Path) -> None:
    with pytest.raises(SfumatoError, match="captions are not drawn for 'theatre:novel': use theatre or theatre:small"):
        train_captions(TINY, "theatre:novel", open_run(tmp_path / "run"), seed=0, device=CPU)
