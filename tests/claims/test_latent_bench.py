"""The bench of features: stores are filled once, trials are trained on them and judged beside raw features."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from sfumato.anonymizers import shelf
from sfumato.anonymizers.latent_adapter import LatentAnonymizer
from sfumato.claims import latent_bench
from sfumato.claims.bench import Trial, about, missing, same
from sfumato.claims.lanes import run_jobs
from sfumato.claims.latent_bench import LatentBench, LatentPlan
from sfumato.claims.ledger import Ledger, Table, load_ledger
from sfumato.claims.results import gather, plan_of
from sfumato.claims.rows import read_rows, write_rows
from sfumato.datasets.annotations import Annotation, add_annotations
from sfumato.datasets.feature_store import FeatureStore, FeatureWriter, Manifest
from sfumato.datasets.sample import Segment
from sfumato.errors import SfumatoError
from sfumato.evaluation import scoring
from sfumato.evaluation.latent.base import LatentProtocol, Sheet
from sfumato.recognizers import make_recognizer
from sfumato.recognizers.base import VideoRecognizer
from sfumato.recognizers.encoders import load_encoder, save_encoder
from sfumato.training.feature_data import Stored

SMALL: dict[str, Any] = {
    "layers": 1, "heads": 2, "tokens": 4, "head_width": 0.02, "batch": 32, "privacy_batch": 16, "detection_batch": 2,
    "anomaly_batch": 2, "epochs": 2,
}  # fmt: skip
WIDTH, ACTIONS = 8, ("bow", "wave")
PLAYS = {
    "detection_data": "screenplay:untrimmed?videos=4&frames=24",
    "anomaly_data": "screenplay:surveillance?videos=4&frames=24",
}


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, small_theatre: Callable[..., object]) -> None:
    """A shelf of our own, few resamples, short judges, and a theatre of 16 clips."""
    monkeypatch.setattr(shelf, "WEIGHTS", tmp_path / "weights")
    monkeypatch.setattr(scoring, "SAMPLES", 20)
    monkeypatch.setattr(latent_bench, "EPOCHS", {"detection": 1, "anomaly": 1})
    monkeypatch.setattr(latent_bench, "PARTS", ("train", "train", "val", "test"))
    small_theatre(frames=8, sizes=(8, 2, 2))


@pytest.fixture
def encoder(tmp_path: Path) -> str:
    """On the shelf, as `tiny`."""
    torch.manual_seed(0)
    network = make_recognizer("tiny-video", 3, clip=(8, 16, 16), width=0.05)
    assert isinstance(network, VideoRecognizer)
    save_encoder(network, "tiny-video", {"width": 0.05}, tmp_path / "weights" / "tiny")
    return "tiny"


def plan_for(tmp_path: Path, encoder: str = "tiny") -> LatentPlan:
    return LatentPlan("theatre:small", tmp_path / "runs", epochs=1, device="cpu", encoder=encoder, **PLAYS)


def fill(plan: LatentPlan) -> None:
    """Planted features in the plan's stores: the action in the clip's own vector, a hat in all three of them."""
    draw = torch.Generator().manual_seed(0)
    manifest = Manifest("tiny", "ab" * 32, (8, 16, 16), 1, WIDTH, 3)
    blocks = (({"person": "train", "clip": "train"}, 40), ({"clip": "val"}, 16), ({"clip": "test"}, 16),
              ({"person": "val"}, 16), ({"person": "test"}, 16))  # fmt: skip
    writer, told = FeatureWriter(plan.folder("action"), manifest), {}
    for split, many in blocks:
        for n in range(many):
            name, hat = f"{len(told)}", n // 2 % 2
            told[name] = Annotation(name, ACTIONS[n % 2], f"p{n % 4}", {"hat": ("no", "yes")[hat]}, split=split)
            rows = 0.1 * torch.randn(3, WIDTH, generator=draw)
            rows[0, n % 2] += 2
            rows[:, 4] += 2 * hat
            with writer.video(name) as clips:
                clips.add(0, rows)
    add_annotations(plan.folder("action"), told)
    for role in ("detection", "anomaly"):
        writer, told = FeatureWriter(plan.folder(role), replace(manifest, per_clip=1)), {}
        for n in range(32):
            name, strange, part = f"{n}", n % 2 == 1, ("train", "train", "val", "test")[n // 2 % 4]
            label = "fall" if strange else "bow"
            told[name] = Annotation(
                name, segments=(Segment(8, 24, label),), anomalous=strange, split={"person": part, "clip": part}
            )
            with writer.video(name) as clips:
                for place in range(6):
                    row = 0.1 * torch.randn(1, WIDTH, generator=draw)
                    row[0, int(strange)] += 2 * (1 <= place < 3)
                    clips.add(8 * place, row)
        add_annotations(plan.folder(role), told)


@pytest.fixture
def plan(tmp_path: Path, encoder: str) -> LatentPlan:
    """A plan whose stores are full: nothing is left to encode."""
    plan = plan_for(tmp_path)
    fill(plan)
    return plan


def trial(name: str = "plain", judged_by: tuple[str, ...] = ("action",), share: float = 1.0, **config: Any) -> Trial:
    return Trial(name, "splavu", config=SMALL | config, judged_by=judged_by, share=share)


def test_stores_are_filled_once(tmp_path: Path, encoder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_for(tmp_path)
    plan.prepare()
    width = load_encoder(encoder).width
    assert len(FeatureStore(plan.folder("action"))) == 16 and FeatureStore(plan.folder("action"))[0].shape == (
        1,
        3,
        width,
    )
    plays = Stored(f"features:{plan.folder('detection')}")
    assert FeatureStore(plan.folder("detection"))[0].shape == (3, 1, width)  # 24 frames, no static clips
    assert Counter(a.part("person") for a in plays.annotations.values()) == {"train": 2, "val": 1, "test": 1}
    assert {a.anomalous for a in Stored(f"features:{plan.folder('anomaly')}").annotations.values()} <= {True, False}

    def never(*_: object, **__: object) -> None:
        raise AssertionError("encoded again")

    monkeypatch.setattr("sfumato.training.extraction.encode", never)
    plan.prepare()


def test_without_the_encoder_it_says_how_to_have_one(tmp_path: Path) -> None:
    with pytest.raises(SfumatoError, match="weights/encoder is not there") as told:
        list(run_jobs(plan_for(tmp_path, "encoder"), [(trial(), 0, [None])]))
    assert "sfumato train encoder" in told.value.next_step and "\n" not in str(told.value)


def test_a_trial_is_trained_and_judged_by_the_protocols_it_names(
    plan: LatentPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LatentPlan, "prepare", lambda self: None)
    examined: list[tuple[str, str]] = []
    really = LatentBench._examine

    def examine(self: LatentBench, adapter: LatentAnonymizer, protocol: LatentProtocol, seed: int) -> Sheet:
        examined.append((adapter.name, protocol.name))
        return really(self, adapter, protocol, seed)

    monkeypatch.setattr(LatentBench, "_examine", examine)
    every = trial("all", ("action", "probe", "detection", "anomaly"), tasks="action+detection+anomaly")
    first, second = run_jobs(plan, [(every, 0, [None]), (trial(), 0, [None])])
    assert (first["trial"], first["seed"], first["judged_by"]) == ("all", 0, "action probe detection anomaly")
    assert first["encoder"] == plan.label() and first["detection_data"] == PLAYS["detection_data"]
    for name in ("action", "detection", "anomaly"):
        assert {f"{name}{end}" for end in ("", "_low", "_high", "_raw", "_chance", "_change")} <= set(first)
    assert {"static_residual", "static_raw", "whole_value", "identity_value", "residual", "speedup"} <= set(first)
    assert first["action_raw"] == second["action_raw"]
    assert examined.count(("identity", "action")) == 1  # raw features are judged once for one seed
    assert examined.count(("latent-adapter", "action")) == 2
    assert "detection" not in second and "static_residual" not in second
    assert float(first["train_seconds"]) > 0


def test_rows_that_are_there_are_not_done_again(
    plan: LatentPlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LatentPlan, "prepare", lambda self: None)
    trials = [trial(), trial("few", share=0.5)]
    assert len(missing(plan, trials, 2, [])) == 4
    rows = list(run_jobs(plan, missing(plan, trials, 1, [])))
    write_rows(tmp_path / "rows.csv", rows)
    left = missing(plan, trials, 2, read_rows(tmp_path / "rows.csv"))
    assert [(t.name, seed) for t, seed, _ in left] == [("plain", 1), ("few", 1)]
    more = replace(trials[0], judged_by=("action", "probe"))
    assert len(missing(plan, [more], 1, rows)) == 1  # a claim that asks for more is another row
    (again,) = run_jobs(plan, [(trials[0], 0, [None])])
    (record,) = plan.runs.glob("plain-0-*/run.json")
    took = float(json.loads(record.read_text())["train_seconds"])
    assert (
        again["train_seconds"] == rows[0]["train_seconds"] == f"{took:.4g}"
    )  # of the training, not of finding it done
    told = json.loads(record.read_text())
    del told["train_seconds"]  # as a run leaves it that was stopped and taken up
    record.write_text(json.dumps(told))
    (taken_up,) = run_jobs(plan, [(trials[0], 0, [None])])
    assert taken_up["train_seconds"] == taken_up["speedup"] == "nan" and taken_up["action"] == again["action"]


def test_features_of_other_weights_are_other_rows(plan: LatentPlan, tmp_path: Path) -> None:
    before, place = about(plan, trial(), 0, None), plan.folder("action")
    network = make_recognizer("tiny-video", 3, clip=(8, 16, 16), width=0.05)
    assert isinstance(network, VideoRecognizer)
    save_encoder(network, "tiny-video", {"width": 0.05}, tmp_path / "weights" / "tiny")
    assert not same(before, about(plan, trial(), 0, None)) and plan.folder("action") != place


def test_a_share_of_the_videos_is_of_every_action(plan: LatentPlan) -> None:
    bench = plan.open()
    told = [Stored(f"features:{bench._fewer(0.3, seed)}").annotations for seed in (0, 1)]
    for each in told:
        learned = [a for a in each.values() if a.part("person") == a.part("clip") == "train"]
        assert Counter(a.action for a in learned) == {"bow": 6, "wave": 6}  # of 20 each
        assert sum("val" in a.split.values() for a in each.values()) == 32
        assert not any("test" in a.split.values() for a in each.values())
    assert set(told[0]) != set(told[1])
    whole, fewer = FeatureStore(plan.folder("action")), FeatureStore(bench._fewer(0.3, 0))
    named = {video.name: number for number, video in enumerate(whole.videos)}
    assert all(torch.equal(fewer[n], whole[named[v.name]]) for n, v in enumerate(fewer.videos))


def test_how_much_faster_features_are(plan: LatentPlan) -> None:
    bench = plan.open()
    run = bench.train(trial(epochs=5), 0)
    bench.__dict__["_encoding"] = 0.5  # seconds a clip, 40 clips
    assert bench._speed(run, 10.0)["speedup"] == pytest.approx((10 + 5 * 20) / (10 + 20))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (Trial("x", "spact", judged_by=("action",)), "spact trains no anonymizer of features"),
        (Trial("x", "splavu", config=SMALL), "need a judge"),
        (Trial("x", "splavu", config=SMALL, judged_by=("acton",)), "no protocol 'acton'"),
        (Trial("x", "splavu", config=SMALL, judged_by=("bias",)), "does not tell two perceived genders"),
    ],
)
def test_a_trial_that_cannot_be_judged_says_why(
    plan: LatentPlan, wrong: Trial, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LatentPlan, "prepare", lambda self: None)
    with pytest.raises(SfumatoError, match=message):
        list(run_jobs(plan, [(wrong, 0, [None])]))


def test_a_table_with_an_encoder_is_of_features(tmp_path: Path, encoder: str) -> None:
    (tmp_path / "t.toml").write_text(
        '[[trial]]\nname = "plain"\nmethod = "splavu"\njudged_by = ["action"]\nshare = 0.5\n'
    )
    table = Table("t.toml", "theatre:small", "r.csv", encoder="tiny", **PLAYS)
    ledger, plan = Ledger((), {"latent": table}), plan_of(table, tmp_path)
    assert isinstance(plan, LatentPlan) and plan.detection_data == PLAYS["detection_data"]
    described = Trial("plain", "splavu", judged_by=("action",), share=0.5)
    row = {
        **about(plan, described, 0, None),
        "action_change": "-0.1",
        "action_change_low": "-0.2",
        "action_change_high": "0",
    }
    write_rows(tmp_path / "r.csv", [row])
    assert gather(ledger, tmp_path)["plain", "action change", "the same"].values == (-0.1,)
    (tmp_path / "weights" / "tiny" / "config.json").unlink()
    assert gather(ledger, tmp_path) == {}  # nobody knows any more whose features these were


def test_the_ledgers_own_table_is_of_features() -> None:
    assert isinstance(plan_of(load_ledger().tables["latent"], Path()), LatentPlan)
