"""A trial from end to end, on a theatre of a minute."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from sfumato.anonymizers import load
from sfumato.claims import bench
from sfumato.claims.bench import (
    Bench,
    Plan,
    Trial,
    about,
    config_of,
    missing,
    network_of,
    open_run,
    read_trials,
)
from sfumato.claims.lanes import run_jobs
from sfumato.claims.rows import read_rows, write_rows
from sfumato.datasets import open_dataset
from sfumato.errors import SfumatoError
from sfumato.evaluation import scoring
from sfumato.evaluation.protocols.transfer_architectures import NETWORKS
from sfumato.methods import find_method
from sfumato.recognizers.vlm import SmallVLM, SmallVLMConfig, fill_prompts, save_vlm, words_of
from sfumato.training.options import load_options

SMALL = {
    "width": 4, "cell": 2, "steps": 2, "batch": 4, "audit_steps": 0, "utility": "tiny-video", "auditor": "tiny-frame",
}  # fmt: skip


@pytest.fixture(autouse=True)
def small_world(minute: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A theatre of a minute, and few resamples."""
    monkeypatch.setattr(scoring, "SAMPLES", 60)


def test_a_trial_is_trained_once_and_judged_at_every_strength(tmp_path: Path, trained: list[str]) -> None:
    plan = Plan("theatre:small", tmp_path, epochs=1, attacks=("identity-frames",), device="cpu")
    trial = Trial("mosaic", "spact", config=SMALL)
    first, moved = run_jobs(plan, [(trial, 0, [None, 1.0])])
    assert (first["trial"], first["seed"], first["strength"], moved["strength"]) == ("mosaic", 0, "", "1")
    assert first["action_raw"] == moved["action_raw"] and float(first["identity_chance"]) == 0.5
    assert trained == ["action", "identity-frames"] * 3  # raw video, f_A, f_A centred
    folders = [path for path in tmp_path.iterdir() if path.name.startswith("mosaic-0-")]
    assert len(folders) == 1 and (folders[0] / "anonymizer" / "config.json").is_file()
    (again,) = run_jobs(plan, [(trial, 0, [None])])
    assert len(trained) == 6 and again["action"] == first["action"]


def test_who_assists_leaves_nothing_but_the_row(tmp_path: Path, trained: list[str]) -> None:
    plan = Plan("theatre:small", tmp_path, epochs=1, attacks=("identity-frames",), device="cpu")
    trial, job = Trial("mosaic", "spact", config=SMALL), (0, [None])
    helper = plan.open()
    helper.assist(trial, *job)
    assert trained == ["action", "identity-frames"]  # raw video: nobody has trained f_A, and who helps does not
    plan.open().train(trial, 0)
    helper.assist(trial, *job)
    assert trained == ["action", "identity-frames"] * 2
    (row,) = plan.open().rows(trial, *job)
    assert len(trained) == 4 and row["verdict"] in ("measured", "inconclusive")


def test_a_training_took_as_long_as_it_took_whoever_finds_it_done(tmp_path: Path, trained: list[str]) -> None:
    """Neither a second strength nor another lane took .01 seconds to train what was there."""
    plan = Plan("theatre:small", tmp_path, epochs=1, attacks=("identity-frames",), device="cpu")
    trial = Trial("mosaic", "spact", config=SMALL)
    run = plan.open().train(trial, 0)  # type: ignore[attr-defined]
    told = json.loads(run.record.read_text())
    run.record.write_text(json.dumps({**told, "train_seconds": "61.5"}))
    (row,) = plan.open().rows(trial, 0, [None])
    assert float(told["train_seconds"]) > 0 and row["train_seconds"] == "61.5"
    run.record.write_text(json.dumps({k: v for k, v in told.items() if k != "train_seconds"}))
    (row,) = plan.open().rows(trial, 0, [None])
    assert row["train_seconds"] == "nan"  # it was stopped in between


def test_raw_video_beside_another_seed_is_judged_anew(tmp_path: Path, trained: list[str]) -> None:
    """Beside one raw video, judged once, three trainings would look surer than they are."""
    bench = Plan("theatre:small", tmp_path, epochs=1, attacks=("identity-frames",), device="cpu").open()
    assert isinstance(bench, Bench)
    trial = Trial("mosaic", "spact", config=SMALL)
    for seed in (0, 1, 1):
        bench.examine(load("identity"), bench.judges(trial, seed))
    assert trained == ["action", "identity-frames"] * 2
    assert bench.judges(Trial("blur", anonymizer="blur"), 0) == range(1)


def test_what_needs_no_training_is_judged_by_as_many_judges_as_are_asked_for(
    tmp_path: Path, trained: list[str]
) -> None:
    plan = Plan("theatre:small", tmp_path, epochs=1, attacks=("identity-frames",), device="cpu", judge_seeds=2)
    trial = Trial("small", anonymizer="downsample", strengths=(2.0, 16.0))
    todo = missing(plan, [trial], 3, [])
    assert todo == [(trial, 0, [None, 2.0, 16.0])]  # no training, no seeds of one
    (row,) = run_jobs(plan, [(trial, 0, [16.0])])
    assert trained == ["action", "identity-frames"] * 4  # two judges, and raw video
    assert (row["method"], row["settings"], row["strength"], row["judge_seeds"]) == ("", "downsample", "16", 2)
    assert (row["network"], row["parameters"], row["judge_models"]) == ("downsample:factor=16", 0, "tiny")
    assert row["verdict"] in ("measured", "inconclusive") and float(row["action_chance"]) == 0.5
    assert row["train_seconds"] is None and "shown" not in row
    write_rows(tmp_path / "rows.csv", [row])
    assert missing(plan, [trial], 1, read_rows(tmp_path / "rows.csv")) == [(trial, 0, [None, 2.0])]


def test_a_vision_language_model_reads_the_action_untrained(tmp_path: Path, trained: list[str]) -> None:
    torch.manual_seed(0)
    words = words_of(fill_prompts("a person {}", open_dataset("theatre:small").phrases()))
    config = SmallVLMConfig(
        (2, 16, 16), words, width=16, depth=1, temporal_depth=1, text_width=8, text_depth=1, embedding=8
    )
    model = save_vlm(SmallVLM(config), tmp_path / "vlm")
    plan = Plan("theatre:small", tmp_path, epochs=1, attacks=("reconstruct-frame",), device="cpu", vlm=str(model))
    trial = Trial("laf", "laf", config={
        "vlm": str(model), "embedding": 8, "depth": 1, "patch": 8, "batch": 4, "reconstruction_steps": 1,
        "phase1_steps": 1, "phase2_steps": 1, "phase3_steps": 1,
    })  # fmt: skip
    (row,) = run_jobs(plan, [(trial, 0, [None])])
    assert trained == ["reconstruct-frame"] * 2  # nobody learns the action
    assert row["vlm"].startswith(f"{model}@") and 0 < float(row["psnr_low"]) <= float(row["psnr_high"])
    assert int(row["trained_parameters"]) == int(row["parameters"]) > 0  # f_A and nothing else
    assert missing(plan, [trial], 1, [row]) == []
    assert missing(replace(plan, vlm=""), [trial], 1, [{**row, "vlm": ""}]) == []
    with pytest.raises(SfumatoError, match="there is no folder 'nowhere'"):
        list(run_jobs(replace(plan, vlm="nowhere"), [(trial, 0, [None])]))


def test_against_scenes_and_objects_nobody_asks_who_it_is(tmp_path: Path, trained: list[str]) -> None:
    """Trained and judged by labels of more than two values: eight scenes, six objects."""
    plan = Plan("theatre:small-scenes", tmp_path, epochs=1, attacks=("frame",), device="cpu", protocol="ospar")
    trial = Trial("scenes", "stprivacy", config={
        "embedding": 24, "utility": "tiny-video", "budget_models": "tiny-video", "auditor": "tiny-frame", "batch": 4,
        "privacy_batch": 4, "initialisation_steps": 1, "opponent_steps": 1, "steps": 1, "audit_steps": 1,
        "budget_labels": "attributes",
    })  # fmt: skip
    (row,) = run_jobs(plan, [(trial, 0, [None])])
    assert trained == ["action", "frame"] * 2 and row["protocol"] == "ospar"
    assert row["attributes_attackers"] == "frame" and row["identity_value"] is None and "readers" not in row
    # Who gives every value the same score has one over their number: a mean of about 1/8 and 1/6.
    assert 0.1 < float(row["attributes_chance"]) < 0.2
    assert missing(plan, [trial], 1, [row]) == []
    # By the known protocol it is another row, and rows from before there was a column are of that one.
    old = {key: value for key, value in row.items() if key != "protocol"}
    assert missing(plan, [trial], 1, [old]) and not missing(replace(plan, protocol=""), [trial], 1, [old])


def test_other_networks_read_and_attack_where_that_is_asked(
    tmp_path: Path, trained: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(NETWORKS, "video", ("r3d-18",))
    monkeypatch.setitem(NETWORKS, "frame", ("resnet-18", "resnet-50"))
    plan = Plan(
        "theatre:small", tmp_path, epochs=1, attacks=("identity-frames",), device="cpu",
        protocol="transfer-architectures",
    )  # fmt: skip
    (row,) = run_jobs(plan, [(Trial("same", anonymizer="identity"), 0, [None])])
    assert trained == ["action", "action-r3d-18", "identity-frames-resnet-18", "identity-frames-resnet-50"]
    assert row["protocol"] == "transfer-architectures" and row["readers"] in (0, 1, 2)
    wrong = replace(plan, protocol="transfer-architecture")
    with pytest.raises(SfumatoError, match="did you mean 'transfer-architectures'"):
        list(run_jobs(wrong, [(Trial("same", anonymizer="identity"), 0, [None])]))


def test_a_training_is_shared_where_all_its_settings_are_the_same(tmp_path: Path) -> None:
    plan, kind = Plan("theatre:small", tmp_path), find_method("spact").config

    def folder(trial: Trial, seed: int = 0) -> Path:
        return open_run(plan, trial, seed, load_options(kind, settings=trial.settings()), plan.data).path

    first = folder(Trial("mosaic", "spact", config=SMALL))
    assert folder(Trial("before others", "spact", config=SMALL, training="mosaic")) == first
    assert folder(Trial("before others", "spact", config=SMALL)) != first
    assert folder(Trial("before others", "spact", config=SMALL | {"steps": 3}, training="mosaic")) != first
    assert folder(Trial("before others", "spact", config=SMALL, training="mosaic"), seed=1) != first


def test_other_clips_or_other_code_are_another_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan, trial = Plan("theatre:small", tmp_path), Trial("mosaic", "spact", config=SMALL)

    def folder(clips: str) -> Path:
        return open_run(plan, trial, 0, config_of(trial), plan.data, clips).path

    assert folder("as they were") == folder("as they were") != folder("edited since")
    before = folder("as they were")
    monkeypatch.setattr(bench, "code_of", lambda method: "edited since")
    assert folder("as they were") != before


def test_a_strength_of_one_is_found_again(tmp_path: Path) -> None:
    (tmp_path / "t.toml").write_text('[[trial]]\nname = "a"\nmethod = "spact"\nstrengths = [1.0, 0.25]\n')
    plan, (trial,) = Plan("theatre:small", tmp_path), read_trials(tmp_path / "t.toml")
    write_rows(tmp_path / "rows.csv", [about(plan, trial, 0, at) for at in (None, 1.0, 0.25)])
    assert missing(plan, [trial], 1, read_rows(tmp_path / "rows.csv")) == []


def test_a_trial_is_of_a_method_or_of_an_anonymizer() -> None:
    for wrong in ({}, {"method": "spact", "anonymizer": "blur"}):
        with pytest.raises(SfumatoError, match="name a method or an anonymizer"):
            Trial("mixed", **wrong)


def test_a_trial_that_cannot_be_done_is_told_after_the_others(tmp_path: Path) -> None:
    plan = Plan("theatre:small", tmp_path, epochs=1, attacks=("identity-frames",), device="cpu")
    jobs = run_jobs(
        plan, [(Trial("wrong", anonymizer="blurr"), 0, [None]), (Trial("x", anonymizer="identity"), 0, [None])]
    )
    assert next(jobs)["trial"] == "x"
    with pytest.raises(
        SfumatoError, match=r"1 of 2 trials could not be done \(first: wrong, seed 0: there is no anonymizer"
    ):
        next(jobs)


def test_a_network_is_named_by_what_makes_it_again() -> None:
    assert network_of(load("blur")) == "blur" and network_of(load("blur", strength=2.5)) == "blur:sigma=2.5"
