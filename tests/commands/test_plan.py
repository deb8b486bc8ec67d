"""`sfumato reproduce --dry-run`, and what its estimates are made of."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from sfumato.commands import estimate, plan
from sfumato.commands.estimate import Clip, count, game_networks, gpu_named, judge_hours, recognizer, speed
from sfumato.commands.latent_estimate import Store, latent_hours
from sfumato.commands.plan import clip_of, exams_of, planned_for, size_of, training_estimate
from sfumato.commands.published import find_recipe, read_published
from sfumato.methods import find_method
from sfumato.training.options import load_options

META = torch.device("meta")


@pytest.fixture(autouse=True, scope="module")
def counted_once() -> Iterator[None]:
    """Most plans name the same few networks, each of which takes seconds to count: here it is counted once."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (estimate, plan):
            patch.setattr(module, "recognizer", cache(recognizer))
        patch.setattr(estimate, "game_networks", cache(game_networks))
        yield


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


def test_the_measured_speed_is_the_one_on_record() -> None:
    record = json.loads((Path(__file__).parents[2] / "benchmarks/results/train_speed_h200.json").read_text())
    found = record["clip_steps_per_second_by_batch"][str(estimate.MEASURED_BATCH)]
    assert abs(found - estimate.MEASURED_CLIPS) < 0.01


def test_multiply_adds_are_counted() -> None:
    # 3×3 from 3 to 8 channels on 6×6 pixels; a bias is no multiplication.
    convolution = nn.Conv2d(3, 8, 3, padding=1, device=META)
    found = count("f_A", "convolution", convolution, torch.empty(1, 3, 6, 6, device=META))
    assert (found.work, found.parameters) == (9 * 3 * 8 * 36, 9 * 3 * 8 + 8)
    assert found.kept == 2 * 8 * 36  # bf16
    # As published: ResNet-50 has 25.6 M parameters with 1,000 classes, and 4.1 G multiply-adds at 224×224.
    resnet = recognizer("f_B", "resnet-50", 1000, Clip(1, 224))
    assert resnet.parameters == 25_557_032 and resnet.work == pytest.approx(4.09e9, rel=0.01)
    assert resnet.frames == 1 and recognizer("f_T", "r3d-18", 400, Clip(16, 112)).frames == 16


def test_the_measured_setting_takes_the_measured_time() -> None:
    clip = Clip(16, 112)
    networks = {n.role: n for n in game_networks("spact", estimate.MEASURED, clip, clip, 20, 0)}
    first, utility, budget = (networks[role].work for role in ("f_A", "f_T", "f_B"))
    # Step 1 goes forth and back through all three; step 2 through f_T and f_B alone, f_A only forth. 2×32 views, a frame each.
    step1 = 3 * (32 * (16 * first + utility) + 64 * (first + budget))
    step2 = 32 * (16 * first + 3 * utility) + 64 * (first + 3 * budget)
    assert 64 / ((step1 + step2) / speed("h200")) == pytest.approx(383.37)
    assert speed("a100") / speed("h200") == pytest.approx(312 / 989)


def test_twice_the_steps_take_twice_the_time_and_the_gpu_counts() -> None:
    recipe = read_published(find_recipe("spact-ucf101-vispr1"))
    hours = training_estimate(recipe, "h200").hours
    recipe.config["steps"] *= 2
    assert training_estimate(recipe, "h200").hours["minimax"] == pytest.approx(2 * hours["minimax"])
    assert training_estimate(recipe, "a100").hours["begin"] == pytest.approx(hours["begin"] * 989 / 312)
    network = recognizer("f'_T", "tiny-video", 2, Clip(8, 32))
    once = judge_hours([(network, 100)], 0.0, epochs=10, gpu="h200")
    assert once == pytest.approx(3 * 10 * 100 * network.work / speed("h200") / 3600)


def test_sizes_are_those_of_the_data() -> None:
    assert clip_of("vp-ucf101:ucf101?split=1&frames=8&size=224&skip=4") == Clip(8, 224)
    assert size_of("vispr:vispr?subset=1").videos == 22_167 and size_of("ucf101:ucf101").actions == 101
    memory = training_estimate(read_published(find_recipe("spact-ucf101-vispr1")), "h200").memory
    assert memory["clips"] == 9537 * 16 * 3 * 112**2 + 10_000 * 3 * 112**2


def test_the_judges_networks_are_those_of_the_recipe() -> None:
    (judge,) = read_published(find_recipe("penalty-vphmdb-vispr1-b03")).judge
    action, attack = exams_of(judge)
    assert (action.network.name, action.inputs) == ("i3d-r50", 3570)
    assert (attack.network.name, attack.inputs) == ("resnet-50", 2 * 3570)  # two frames of a clip at a time
    zero_shot = read_published(find_recipe("laf-unmasked")).judge[0]
    assert [exam.network.name for exam in exams_of(zero_shot)] == ["vit-b"]  # who reads the action is not trained


@pytest.mark.parametrize(
    "name",
    [
        "stprivacy-vp-ucf101",
        "tedspad-ucf101-vispr1-i3d",
        "laf-vp-hmdb51-xclip",
        "splavu-task-ar",
        "splavu-mlp-3",
        "spact-no-fb",
    ],
)
def test_every_kind_of_method_is_counted(name: str) -> None:
    recipe = read_published(find_recipe(name))
    found = training_estimate(recipe, "h200")
    assert all(hours >= 0 for hours in found.hours.values()) and sum(found.hours.values()) > 0
    assert all(n.parameters > 0 and n.work > 0 for n in found.networks)
    config = load_options(find_method(recipe.method).config, settings=recipe.settings())
    budgets = [n.name for n in found.networks if n.role == "f_B"]
    assert budgets == (list(config.networks()) if getattr(config, "budget_update", "none") != "none" else [])


def test_the_published_size_of_the_adapter_is_counted() -> None:
    (adapter,) = training_estimate(read_published(find_recipe("splavu-k400-videomae")), "h200").networks
    assert adapter.parameters + 768 * 400 + 400 == pytest.approx(14.6e6, rel=0.01)  # Table 16, with the K400 head


def test_the_gpu_is_the_one_that_is_named_or_there(monkeypatch: pytest.MonkeyPatch) -> None:
    assert gpu_named("v100") == "v100" and gpu_named("auto") == "h200"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "NVIDIA A100-SXM4-80GB")
    assert gpu_named("auto") == gpu_named("cuda:0") == "a100" and gpu_named("cpu") == "h200"


@pytest.mark.parametrize("device", ["auto", "cpu", "cuda"])
def test_a_plan_says_where_it_is_not_for_the_device_here(
    device: str, monkeypatch: pytest.MonkeyPatch, sfumato: Any
) -> None:
    monkeypatch.setattr("sfumato.commands.plan.hardware", lambda where: f"some {where.type}")
    shown = sfumato("reproduce", "baselines-vp-hmdb51", "--dry-run", "--device", device).out.splitlines()
    assert shown[1].startswith("planned for one H200 (141 GB), but the device here is another (some cpu): ")
    assert shown[1].endswith("--device NAME plans for h100, a100, l40s, a5000, 4090, v100, t4")


def test_a_plan_is_for_the_gpu_here_where_its_speed_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr("sfumato.commands.plan.hardware", lambda where: f"NVIDIA A100-SXM4-80GB on {where.type}")
    assert planned_for("cuda:0", "a100") == planned_for("auto", "a100") == "planned for one A100 (80 GB), the GPU here"
    assert "but the device here is another (NVIDIA A100-SXM4-80GB on cpu)" in planned_for("cpu", "h200")
    monkeypatch.setattr("sfumato.commands.plan.hardware", lambda where: "an unknown GPU")
    assert "but the device here is another (an unknown GPU)" in planned_for("auto", "h200")
    assert planned_for("a100", "a100") == "planned for one A100 (80 GB)"


def test_the_plan_on_the_screen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sfumato: Any, files: Any) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ucf101").mkdir()
    run = sfumato("reproduce", "spact-ucf101-vispr1", "--data-root", ".", "--dry-run", "--device", "t4")
    assert run.code == 0, run.err
    assert run.out.splitlines()[1] == "planned for one T4 (16 GB)"
    assert re.search(r"data +folder +folder there +get it from", run.out)
    looked = "what is in a folder was not looked at: `sfumato data check NAME:PATH` looks into it"
    assert run.out.splitlines().count(looked) == 1
    assert re.search(r"ucf101 +ucf101 +yes", run.out)
    assert re.search(r"vispr +vispr +missing +tribhuvanesh.github.io/vpa", run.out)
    assert "step 1: train spact (reconstruction_steps 1000, opponent_steps 1000, steps 4000): " in run.out
    assert "step 2: judge for Table 1 on ucf101 + vispr (cross-dataset, 20 epochs, 5 views): " in run.out
    assert re.search(r"f_T +r3d-18 +33\.2 M +43\.14 G", run.out)
    assert "on one T4 (16 GB): an estimate, from counted multiply-adds and one measured speed" in run.out
    assert "that is more memory than one T4 has" in run.out
    assert not files(tmp_path)


@pytest.mark.parametrize(
    ("name", "gpu", "steps", "total"),
    [
        # 35,666 videos of five views, and the same anonymized.
        ("baselines-celebv-hq", "h200", ["clips 214.7 GB beside the GPU"], "clips of 215 GB do not fit there: they are held"),
        ("spact-p-hvu", "h200", ["clips 147.6 GB beside the GPU", "clips 1572.9 GB beside the GPU"], "clips of 1573 GB"),
        ("spact-ucf101-vispr1", "h200", ["clips 6.1 GB,", "clips 88.5 GB\n"], ""),  # in two sets, one after the other
        ("spact-ucf101-vispr1", "a100", ["clips 6.1 GB,", "clips 88.5 GB beside the GPU"], "clips of 80 GB"),
    ],
)  # fmt: skip
def test_a_plan_says_which_clips_are_held_beside_the_gpu(
    name: str, gpu: str, steps: list[str], total: str, sfumato: Any
) -> None:
    shown = sfumato("reproduce", name, "--dry-run", "--device", gpu).out
    assert all(step in shown for step in steps)
    assert total in shown if total else "do not fit" not in shown
    assert "that is more memory than" not in shown


def test_the_plan_says_what_is_left_out_and_starts_counting_at_one(sfumato: Any) -> None:
    shown = sfumato("reproduce", "splavu-raw-videos", "--dry-run").out
    assert "cannot be run here yet: splavu encodes every clip once" in shown
    left = sfumato("reproduce", "tedspad-ucf101-vispr1-i3d", "--dry-run").out
    assert "judge for Table 1: left out, no protocol here judges detection in anonymized videos yet" in left
    untrained = sfumato("reproduce", "baselines-vp-hmdb51", "--dry-run").out
    assert "step 1: judge for Table 1 on vp-hmdb51" in untrained and "train " not in untrained


def test_a_plan_of_features_names_every_store_and_counts_what_is_asked_twice_once(sfumato: Any) -> None:
    shown = sfumato("reproduce", "splavu-vp-hmdb51", "--dry-run").out
    assert "data check" not in shown  # which knows no features
    assert re.search(r"vp-hmdb51 +DATA/videomae-b/vp-hmdb51 +missing +`sfumato features extract`", shown)
    # 5,100 videos of about six clips, three vectors of 768 numbers each, raw and anonymized: .56 GB.
    assert re.search(r"step 3: judge for Table 2 on vp-hmdb51 \(latent-probe\): [1-9]\d* min, features 0\.6 GB", shown)
    assert "step 5: judge for Table 8 on vp-hmdb51 (latent-probe): 0 min" in shown
    brought = sfumato("reproduce", "splavu-k400-i3d", "--dry-run").out
    assert "to be brought: features of the Inception I3D" in brought
    assert re.search(r"thumos14 +DATA/i3d/thumos14 +missing +to be brought", brought)


def test_every_judgement_of_features_has_an_estimate() -> None:
    adapter = training_estimate(read_published(find_recipe("splavu-task-ar")), "h200").networks[0]
    recipes = [read_published(path) for path in find_recipe("splavu-task-ar").parent.glob("splavu-*.toml")]
    asked = {(judge.protocol, judge.data) for recipe in recipes for judge in recipe.judge if not judge.not_yet}
    assert {protocol for protocol, _ in asked} >= {"latent-probe", "latent-anomaly", "latent-inversion", "latent-gap"}
    for protocol, data in asked:
        size = size_of(data)
        store = Store(size.train, size.videos, size.clips, size.actions)
        assert 0 < latent_hours(protocol, store, adapter, "h200") < 24
