"""LaF-Privacy's ablations: each changes what it says it changes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
import torch

from sfumato.methods.laf.config import LaFConfig
from sfumato.objectives.visual import LEVELS, VISUAL_KINDS
from sfumato.training.phases import Player, Timing

from ..training.toys import CPU, logged
from .laf_toys import (
    FRAMES,
    SIDE,
    make_learner,
    make_stage,
    terms_of,
)


def test_every_visual_loss_is_a_word_away() -> None:
    assert get_args(get_type_hints(LaFConfig)["visual"]) == VISUAL_KINDS
    found = {kind: terms_of(make_learner(visual=kind), "phase1")["f_A visual"] for kind in VISUAL_KINDS}
    assert found["mse+ssim"] == pytest.approx(found["mse"] + found["ssim"])
    assert found["l1+ssim"] < found["mse+ssim"] < found["ssim"] < 0


def test_every_level_of_embeddings_can_be_left_out() -> None:
    found = {
        levels: terms_of(make_learner(embeddings=levels), "phase1")["f_A action"]
        for levels in ("patch+frame+video", "frame+video", "patch + video", "patch+frame", *LEVELS)
    }
    assert all(value > 0 for value in found.values())
    whole = found["patch+frame+video"]
    assert whole == pytest.approx(found["patch"] + found["frame"] + found["video"])
    assert found["frame+video"] == pytest.approx(whole - found["patch"])
    assert found["patch + video"] == pytest.approx(whole - found["frame"])
    assert found["patch+frame"] == pytest.approx(whole - found["video"])


def test_unmasked_nothing_is_hidden_and_nothing_asked_of_a_mask() -> None:
    learner = make_learner(masked=False, temperature=LaFConfig.temperature)
    assert learner.anonymizer.scorer is None
    assert terms_of(learner, "phase2").keys() == {"f_A action"}
    assert terms_of(learner, "phase3").keys() == {"f_A action", "f_A visual"}
    assert learner.watch()["kept"] == 1


def test_a_fixed_ratio_keeps_so_many_patches_of_every_frame_and_has_its_own_loss() -> None:
    learner = make_learner(keep_ratio=0.75, mask_weight=3.0, training_mask="soft")
    video = learner.deal("phase3", 0)
    assert (learner.anonymizer.masks(video).sum(-1) == 12).all()
    with torch.no_grad():
        share = learner.anonymizer.train().render(video).mask.mean(-1)
    expected = 3 * float(((share - 0.75) ** 2).mean())
    assert expected > 1e-3
    assert terms_of(learner, "phase3")["f_A mask"] == pytest.approx(expected, rel=1e-4)
    assert learner.watch()["kept"] == 0.75
    counts = make_learner().anonymizer.masks(video).sum(-1)
    assert counts.unique().numel() > 1  # by the threshold it depends on the frame


def test_the_literal_softmax_shows_one_patchs_light_in_training_and_the_same_in_use() -> None:
    literal, plain = make_learner(training_mask="softmax"), make_learner()
    video = literal.deal("phase3", 0)
    with torch.no_grad():
        mask = literal.anonymizer.train().render(video).mask
    torch.testing.assert_close(mask.sum(-1), torch.ones(4, FRAMES))
    assert terms_of(literal, "phase3")["f_A mask"] == pytest.approx(1 / 16)
    assert literal.anonymizer.masks(video).equal(plain.anonymizer.masks(video))


def test_which_patches_count_as_kept_is_the_same_for_the_literal_softmax() -> None:
    literal = make_learner(training_mask="softmax", visual="mse", phase3_visual_weight=1.0)
    video = literal.deal("phase3", 0)
    with torch.no_grad():
        found = literal.anonymizer.train().render(video)
        kept = literal.anonymizer.spread(found.scores > 0)
        squares = ((video - found.output) ** 2 * kept).sum((1, 2, 3, 4)) / (3 * kept.sum((1, 2, 3, 4)))
    assert terms_of(literal, "phase3")["f_A visual"] == pytest.approx(-float(squares.mean()), rel=1e-5)


@pytest.mark.parametrize("phases", ["3", "1+3", "1+2+3"])
def test_the_schedule_names_its_phases(phases: str, tmp_path: Path) -> None:
    learner = make_learner(phases=phases)
    assert {name[:6] for name in learner.config.unplayed()} == {f"phase{n}" for n in "123" if n not in phases}
    assert all(hasattr(learner.config, name) for name in learner.config.unplayed())
    stage = make_stage(tmp_path / "run")
    Player(learner.phases(), learner, stage.run, CPU, timing=Timing(1, 9, 9)).play()
    played = list(dict.fromkeys(line["phase"] for line in logged(tmp_path / "run")))
    assert played == ["reconstruct", *(f"phase{number}" for number in phases.split("+"))]


def test_rates_rise_and_fall_in_each_phase_or_stand_still() -> None:
    def rates(schedule: str) -> list[float]:
        learner, found = make_learner(schedule=schedule, phase1_rate=1e-3), []
        for step in (0, 3, 9):
            learner.step(replace(learner.config.parts()[0], steps=10), step)
            found.append(learner.optimizer.param_groups[0]["lr"])
        return found

    assert rates("constant") == [1e-3] * 3
    first, top, last = rates("one-cycle")
    assert first == pytest.approx(4e-5) and top == pytest.approx(1e-3) and last < 1e-4


def test_the_papers_optimizer_is_sgd() -> None:
    optimizer = make_learner(optimizer="sgd").optimizer
    assert isinstance(optimizer, torch.optim.SGD) and optimizer.param_groups[0]["momentum"] == 0.9
    assert isinstance(make_learner().optimizer, torch.optim.AdamW)


def test_f_a_is_as_the_config_asks() -> None:
    changes: dict[str, Any] = {"embedding": 12, "depth": 2, "patch": 16, "temperature": 0.1, "training_mask": "softmax"}
    settings = make_learner(**changes).anonymizer.settings()
    assert {
        **changes,
        "frames": FRAMES,
        "size": SIDE,
        "frame_step": 2,
        "masked": True,
        "ratio": 0.0,
    }.items() <= settings.items()
