from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sfumato.anonymizers import load
from sfumato.anonymizers.masked_transformer import MaskedTransformer
from sfumato.errors import SfumatoError
from sfumato.methods import find_method
from sfumato.methods.laf import teacher
from sfumato.methods.laf.config import LaFConfig, Part
from sfumato.methods.laf.teacher import load_teacher, require_fit
from sfumato.methods.laf.train import LabelFree, train
from sfumato.objectives.ssim import ssim
from sfumato.recognizers.base import IMAGENET
from sfumato.recognizers.vlm import VideoEmbeddings, VideoLanguageModel, save_vlm
from sfumato.recognizers.weights import checksum
from sfumato.training.options import load_options
from sfumato.training.run import RunFolder

from ..training.toys import CPU, equal, gradient, logged, same, snapshot
from .laf_toys import (
    FRAMES,
    PHASES,
    SIDE,
    TINY,
    make_banks,
    make_clips,
    make_learner,
    make_stage,
    make_vlm,
    terms_of,
    with_terms,
)

# ---- the losses ----------------------------------------------------------------------------------------------------


def test_the_phases_have_the_papers_terms_weights_and_rates() -> None:
    found = LaFConfig(
        phase1_rate=1e-3, phase2_rate=1e-3, phase3_rate=5e-4, phase1_steps=60, phase2_steps=20, phase3_steps=40
    )
    assert found.parts() == [
        Part("phase1", 60, 1e-3, masking=False, visual_weight=1.0),
        Part("phase2", 20, 1e-3, masking=True, visual_weight=0.0),
        Part("phase3", 40, 5e-4, masking=True, visual_weight=0.5),
    ]
    assert (found.pixel_weight, found.ssim_weight, found.action_weight, found.mask_weight) == (1, 1, 1, 1)
    learner = make_learner()
    assert terms_of(learner, "phase1").keys() == {"f_A action", "f_A visual"}
    assert terms_of(learner, "phase2").keys() == {"f_A action", "f_A mask"}
    assert terms_of(learner, "phase3").keys() == {"f_A action", "f_A visual", "f_A mask"}


def test_the_terms_are_those_of_section_3_4() -> None:
    learner = make_learner(
        action_weight=0.25, mask_weight=2.0, phase3_visual_weight=0.3, pixel_weight=0.7, ssim_weight=0.4,
        training_mask="soft",
    )  # fmt: skip
    video = learner.deal("phase3", 0)
    with torch.no_grad():
        found = learner.anonymizer.train().render(video)
        kept = (
            (found.scores > 0).float().unflatten(2, (4, 4)).repeat_interleave(8, 2).repeat_interleave(8, 3)[:, :, None]
        )
        assert 0 < kept.mean() < 1
        squares = ((video - found.output) ** 2 * kept).sum((1, 2, 3, 4)) / (3 * kept.sum((1, 2, 3, 4)))
        goal, reached = learner.vlm.embed_video(video), learner.vlm.embed_video(found.output)
        expected = {
            "f_A action": 0.25 * sum(F.mse_loss(a, b) for a, b in zip(goal, reached, strict=True)),
            "f_A visual": -0.3 * (0.7 * squares.mean() + 0.4 * (1 - ssim(video, found.output).mean())),
            "f_A mask": 2.0 * torch.sigmoid(found.scores / 0.5).mean(),
        }
    assert terms_of(learner, "phase3") == pytest.approx({name: float(value) for name, value in expected.items()})


@pytest.mark.parametrize(
    ("phase", "name"),
    [("phase1", "action"), ("phase1", "visual"), ("phase2", "action"), ("phase2", "mask"), ("phase3", "action"),
     ("phase3", "visual"), ("phase3", "mask")],
)  # fmt: skip
def test_each_term_reaches_f_a_and_falls(phase: str, name: str) -> None:
    learner = make_learner(training_mask="soft")  # a hard one falls in steps
    with_terms(learner, name)
    part = PHASES[phase]
    terms_of(learner, phase)
    steep = float(gradient(learner.anonymizer).norm())
    assert steep > 0, f"{name} does not reach f_A"
    part = replace(part, rate=1e-3 / steep)  # a step of length .001 down the gradient
    before, after = (float(learner.step(part, 0)[f"f_A {name}"]) for _ in range(2))
    assert 0.5 < (before - after) / 1e-3 / steep < 1.5


def test_f_a_learns_to_look_different_to_mean_the_same_and_to_show_less() -> None:
    """Each in the direction the paper wants, seen in eval mode on clips it was not trained on."""

    def after(phase: str, name: str, figure: str, **changes: Any) -> tuple[float, float]:
        learner = make_learner(**changes)
        with_terms(learner, name)
        learner.masking = PHASES[phase].masking
        before = learner.watch()[figure]
        for step in range(15):
            learner.step(replace(PHASES[phase], rate=3e-3), step)
        return before, learner.watch()[figure]

    before, now = after("phase1", "visual", "L_visual")
    assert now > before + 0.1
    before, now = after("phase1", "action", "alignment")
    assert now > before
    before, now = after("phase1", "action", "L_action")
    assert now < before - 0.1
    before, now = after("phase2", "mask", "kept", temperature=0.05)
    assert now < before - 0.1


def test_what_f_a_descends_is_the_sum_of_the_terms() -> None:
    learner, apart = make_learner(), torch.zeros(())
    terms_of(learner, "phase3")
    together = gradient(learner.anonymizer)
    for name in ("action", "visual", "mask"):
        one = make_learner()
        with_terms(one, name)
        terms_of(one, "phase3")
        apart = apart + gradient(one.anonymizer)
    torch.testing.assert_close(together, apart, rtol=1e-4, atol=1e-6)


def test_reconstruction_brings_f_a_towards_the_picture() -> None:
    learner = make_learner(reconstruction_rate=3e-3)
    learner.masking = False
    before = learner.watch_reconstruction()["L1"]
    scorer = learner.anonymizer.scorer
    assert scorer is not None
    untouched = snapshot(scorer)
    for step in range(30):
        learner.reconstruction_step(step % 3)
    assert learner.watch_reconstruction()["L1"] < 0.8 * before
    assert same(scorer, untouched)


def test_no_patch_is_hidden_before_the_masking_module_comes_in() -> None:
    learner = make_learner()
    scorer = learner.anonymizer.scorer
    assert scorer is not None
    untouched = snapshot(scorer)
    for step in (lambda: learner.reconstruction_step(0), lambda: learner.step(PHASES["phase1"], 0)):
        learner.masking = True
        step()
        assert same(scorer, untouched)
        assert learner.watch()["kept"] == 1
        assert all((row > 0).any(1).all() for row in learner.strip(1)[2])  # no black patch
    learner.step(PHASES["phase2"], 0)
    assert learner.watch()["kept"] < 1 and not same(scorer, untouched)


# ---- the frozen model ----------------------------------------------------------------------------------------------


def test_not_one_bit_of_the_model_moves() -> None:
    learner = make_learner(phase1_rate=0.1, phase2_rate=0.1, phase3_rate=0.1, weight_decay=0.1)
    before, own = snapshot(learner.vlm), snapshot(learner.anonymizer)
    total = checksum(learner.vlm)
    for phase in learner.phases():
        phase.step(0)
        phase.watch()
    assert same(learner.vlm, before) and checksum(learner.vlm) == total
    assert not learner.vlm.training and all(p.grad is None and not p.requires_grad for p in learner.vlm.parameters())
    assert not same(learner.anonymizer, own)


def test_the_checksum_sees_every_bit() -> None:
    model = make_vlm()
    before = checksum(model)
    assert checksum(make_vlm()) == before
    model.mean[0] += 1e-6  # which no state dict holds
    changed = checksum(model)
    assert changed != before
    with torch.no_grad():
        model.log_scale.add_(1e-6)
    assert checksum(model) not in (before, changed)


def test_large_models_alone_compute_layers_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = str(save_vlm(make_vlm(), tmp_path / "vlm"))
    assert not load_teacher(folder).checkpointing
    monkeypatch.setattr(teacher, "LARGE", sum(weights.numel() for weights in make_vlm().parameters()))
    assert load_teacher(folder).checkpointing


class Unfitting(VideoLanguageModel):
    """Of the right size, but it leaves [CLS] among the patches, or has one for the whole clip."""

    summary = ""

    def __init__(self, level: str) -> None:
        super().__init__((FRAMES, SIDE, SIDE), 16, IMAGENET)
        self.level = level

    @property
    def scale(self) -> Tensor:
        return torch.ones(())

    def encode_video(self, pixels: Tensor) -> VideoEmbeddings:
        patches, frames = (5, FRAMES) if self.level == "patch" else (4, 1)
        return VideoEmbeddings(torch.zeros(1, FRAMES, patches, 6), torch.zeros(1, frames, 6), torch.zeros(1, 3))

    def encode_text(self, prompts: Any) -> Tensor:
        return torch.zeros(len(prompts), 3)


@pytest.mark.parametrize(
    ("vlm", "complaint"),
    [
        (lambda: make_vlm((8, 32, 32)), "takes 8 frames of 32×32, and the clips of toy have 4 of 32×32"),
        (lambda: make_vlm((4, 64, 48)), "takes 4 frames of 64×48, and the clips of toy have 4 of 32×32"),
        (lambda: Unfitting("patch"), r"patch embeddings of one clip are \(1, 4, 5, 6\), not \(1, 4, 4, 6\)"),
        (lambda: Unfitting("frame"), r"frame embeddings of one clip are \(1, 1, 6\), not \(1, 4, 6\)"),
    ],
)
def test_a_model_that_does_not_fit_is_refused_with_the_shapes(vlm: Any, complaint: str) -> None:
    with pytest.raises(SfumatoError, match=complaint) as error:
        LabelFree(LaFConfig(**TINY), vlm(), make_banks(), seed=0, device=CPU)
    assert "\n" not in str(error.value)
    require_fit(make_vlm(), make_clips(1, 0), CPU)


# ---- a whole training ----------------------------------------------------------------------------------------------


@pytest.fixture
def vlm(tmp_path: Path) -> str:
    return str(save_vlm(make_vlm(), tmp_path / "vlm"))


def test_a_training_reads_no_label_and_leaves_an_anonymizer(tmp_path: Path, vlm: str) -> None:
    with pytest.raises(AssertionError, match="labels"):
        make_banks().action.actions  # noqa: B018 - the lock works
    result = train(LaFConfig(**TINY, vlm=vlm), make_stage(tmp_path / "run", vlm))
    assert result["audit"] == [] and result["watched"].keys() == {
        "L1", "L_visual", "L_action", "alignment", "kept", "action",
    }  # fmt: skip
    assert result["watched"]["action"] is None  # nobody here knows
    reconstructed = [
        line for line in logged(tmp_path / "run") if line["phase"] == "reconstruct" and line["kind"] == "watch"
    ]
    assert result["reconstruction"] == reconstructed[-1]["L1"]
    assert RunFolder(tmp_path / "run").read_result() == result
    assert not (tmp_path / "run" / "checkpoint.pt").exists()
    assert train(LaFConfig(**TINY, vlm=vlm), make_stage(tmp_path / "run", vlm)) == result  # finished is finished
    anonymizer = load(str(tmp_path / "run" / "anonymizer"))
    assert isinstance(anonymizer, MaskedTransformer) and anonymizer.title == "laf"
    video = make_banks().watch_action.pixels.float() / 255
    output = anonymizer(video)
    assert output.shape == video.shape and output.min() >= 0 and output.max() <= 1
    torch.testing.assert_close(anonymizer(video[2:3]), output[2:3])  # whoever else is in the batch
    assert float((output > 0).any(2).float().mean()) == pytest.approx(result["watched"]["kept"])


@pytest.mark.parametrize(
    ("optimizer", "stops"), [("adamw", ["reconstruct", "phase1", "phase2", "phase3"]), ("sgd", ["phase2"])]
)
def test_a_resumed_training_ends_as_one_that_was_never_stopped(
    optimizer: Any, stops: list[str], tmp_path: Path, vlm: str
) -> None:
    config = LaFConfig(**TINY, vlm=vlm, optimizer=optimizer)
    whole = train(config, make_stage(tmp_path / "whole", vlm))
    for stopped_in in stops:
        folder, where = tmp_path / stopped_in, list[str]()

        def stop(done: int, latest: dict[str, float], wanted: str = stopped_in, where: list[str] = where) -> None:
            if where[-1] == wanted and done == 3:  # a step after the last checkpoint
                raise Stop

        cut = make_stage(folder, vlm)
        cut.progress.phase = partial(note, where)
        cut.progress.step = stop
        with pytest.raises(Stop):
            train(config, cut)
        assert train(config, make_stage(folder, vlm)) == whole
        first, second = (load(str(path / "anonymizer")).state_dict() for path in (tmp_path / "whole", folder))
        assert equal(first, second)
        assert logged(tmp_path / "whole") == logged(folder)


def note(where: list[str], name: str, steps: int, done: int, batches: int) -> None:
    where.append(name)


class Stop(Exception):
    """Something ended a training in the middle."""


def test_another_model_under_the_same_name_does_not_go_on(tmp_path: Path, vlm: str) -> None:
    stage = make_stage(tmp_path / "run", vlm)

    def stop(done: int, latest: dict[str, float]) -> None:
        raise Stop

    stage.progress.step = stop
    with pytest.raises(Stop):
        train(LaFConfig(**TINY, vlm=vlm), stage)
    other = make_vlm()
    nn.init.zeros_(other.time)
    save_vlm(other, vlm)
    with pytest.raises(SfumatoError, match="the weights of the vision-language model are not those"):
        train(LaFConfig(**TINY, vlm=vlm), make_stage(tmp_path / "run", vlm))


def test_a_strip_shows_before_what_is_kept_and_after() -> None:
    before, kept, after = make_learner().strip(count=1)
    assert before.shape == kept.shape == after.shape == (FRAMES, 3, SIDE, SIDE)
    assert before.equal(make_banks().watch_action.pixels[0])
    assert kept[kept > 0].equal(before[kept > 0]) and not kept.equal(before)
    assert ((after == 0).all(1) == (kept == 0).all(1)).all()


# ---- what is refused -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        (["visual=l2"], "visual = 'l2' does not fit: use one of mse+ssim, ssim, mse, l1+ssim"),
        (["embeddings=vid"], "embeddings = 'vid' does not fit: join some of patch, frame, video by +, each once"),
        (["embeddings=video+video"], "embeddings = 'video+video' does not fit"),
        (["embeddings="], "embeddings = '' does not fit"),
        (["phases=2+1"], "phases = '2+1' does not fit: use one of 1+2+3, 1+3, 3"),
        (["masked=false", "keep_ratio=.5"], "masked = false leaves nothing for keep_ratio to do"),
        (["masked=false", "training_mask=soft"], "masked = false leaves nothing for training_mask to do"),
        (["masked=false", "temperature=.1"], "masked = false leaves nothing for temperature to do"),
        (["masked=false", "mask_weight=2"], "masked = false leaves nothing for mask_weight to do"),
        (["visual=mse", "ssim_weight=.5"], "visual = mse leaves nothing for ssim_weight to do: leave one of them out"),
        (["visual=ssim", "pixel_weight=0"], "visual = ssim leaves nothing for pixel_weight to do"),
        (["visual=mse", "pixel_weight=0"], "visual = mse counts for nothing with pixel_weight 0: give it a weight"),
        (["visual=ssim", "ssim_weight=0"], "visual = ssim counts for nothing with ssim_weight 0"),
        (
            ["pixel_weight=0", "ssim_weight=0"],
            "visual = mse+ssim counts for nothing with pixel_weight and ssim_weight 0",
        ),
        (["keep_ratio=1.5"], "keep_ratio (α) = '1.5' does not fit"),
        (["temperature=0"], "temperature (τ) = '0' does not fit"),
        (["mask_weight=-1"], "mask_weight (λ_mask) = '-1' does not fit"),
        (["phase1_steps=0"], "phase1_steps = '0' does not fit"),
    ],
)
def test_wrong_settings_are_refused_in_one_line(settings: list[str], complaint: str) -> None:
    with pytest.raises(SfumatoError) as error:
        load_options(LaFConfig, settings=settings)
    assert str(error.value).startswith(complaint) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    "settings",
    [["pixel_weight=0"], ["ssim_weight=0"], ["visual=l1+ssim", "pixel_weight=.5"], ["masked=false", "mask_weight=1"]],
)
def test_settings_that_do_something_are_taken(settings: list[str]) -> None:
    assert load_options(LaFConfig, settings=settings)


def test_a_training_needs_a_model_and_takes_one_data_set(tmp_path: Path, vlm: str) -> None:
    with pytest.raises(SfumatoError, match="no vision-language model is named: add --set vlm="):
        train(LaFConfig(**TINY), make_stage(tmp_path / "run"))
    two = make_stage(tmp_path / "two", vlm)
    two.banks = replace(two.banks, privacy=make_clips(4, 1))
    with pytest.raises(
        SfumatoError, match="laf learns without labels, and from one data set: leave --privacy-data out"
    ):
        train(LaFConfig(**TINY, vlm=vlm), two)


def test_frames_that_are_not_square_are_refused() -> None:
    banks, wide = make_banks(), make_vlm((FRAMES, SIDE, 2 * SIDE))
    pixels = banks.action.pixels.repeat_interleave(2, -1)
    banks.action.pixels = pixels
    with pytest.raises(SfumatoError, match="f_A takes square frames, and those of toy are 32×64"):
        LabelFree(LaFConfig(**TINY), wide, banks, seed=0, device=CPU)


def test_it_is_found_by_name() -> None:
    assert find_method("laf").config is LaFConfig
