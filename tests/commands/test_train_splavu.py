"""`sfumato train splavu`: from features and from videos, and asked wrongly."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from sfumato.anonymizers.latent_storage import load_latent
from sfumato.datasets import theatre
from sfumato.datasets.feature_store import FeatureStore
from sfumato.recognizers import make_recognizer
from sfumato.training.run import RunFolder

TINY: dict[str, Any] = {
    "layers": 1, "heads": 2, "tokens": 4, "head_width": 0.01, "batch": 8, "privacy_batch": 8, "detection_batch": 2,
    "anomaly_batch": 2, "epochs": 4,
}  # fmt: skip


def tiny(**changes: Any) -> list[str]:
    return [word for key, value in {**TINY, **changes}.items() for word in ("--set", f"{key}={value}")]


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small_theatre: Callable[..., object]) -> Path:
    """An empty working folder on a machine without a GPU, with a theatre of 16 clips."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    small_theatre(frames=16, sizes=(8, 4, 4))
    monkeypatch.setitem(theatre.PRESETS, "", replace(theatre.PRESETS[""], side=16))
    return tmp_path


@pytest.fixture
def encoder(tmp_path: Path) -> str:
    torch.manual_seed(0)
    recognizer = make_recognizer("tiny-video", 3, clip=(16, 112, 112))
    torch.save(recognizer.state_dict(), tmp_path / "weights.pt")
    return f"tiny-video:{tmp_path / 'weights.pt'}"


def test_features_are_extracted_and_trained_on(encoder: str, sfumato: Any) -> None:
    plays = "screenplay:surveillance?videos=4&frames=48"
    assert sfumato("features", "extract", "theatre:small", "--encoder", encoder, "-o", "short").code == 0
    assert sfumato("features", "extract", plays, "--encoder", encoder, "-o", "long").code == 0
    assert FeatureStore("long")[0].shape == (3, 3, 192)
    data = ["--data", "features:short"]
    more = {"detection_data": "features:long", "anomaly_data": "features:long"}
    run = sfumato("train", "splavu", *data, *tiny(tasks="action+detection+anomaly", **more))
    assert run.code == 0, run.err
    shown = run.out.splitlines()
    assert shown[0] == "anonymizer: runs/splavu/anonymizer"
    assert shown[1].startswith(f"for features of '{encoder}', 192 wide; ") and shown[1].endswith(
        "M parameters were trained"
    )
    assert shown[2].startswith("action on new people, by the head it was trained with: ")
    assert (
        shown[3].startswith("static clips that find the other one of their video: ") and "by guessing 14%" in shown[3]
    )
    assert shown[4:] == [
        "What an attacker reads from these features has not been asked: no number here is a judgement.",
        "It was made on drawn people: about real video it has shown nothing.",
    ]
    assert "anonymize 4/4, epoch 4.0: f_A AR " in run.err and ", f_A LC " in run.err and ", f_A B " in run.err
    adapter, made_for = load_latent("runs/splavu/anonymizer")
    assert adapter.width == made_for.width == 192 and made_for.encoder == encoder
    assert sfumato("train", "splavu", *data, *tiny(tasks="action+detection+anomaly", **more), "--resume").code == 0


def test_videos_are_encoded_into_the_run_folder(encoder: str, sfumato: Any) -> None:
    run = sfumato("train", "splavu", "--data", "theatre:small", *tiny(encoder=encoder), "--out", "run")
    assert run.code == 0, run.err
    (stored,) = Path("run/features").iterdir()
    assert len(FeatureStore(stored)) == 8 + 4 + 4
    assert json.loads(Path("run/result.json").read_text())["features"]["encoder"] == encoder
    assert RunFolder(Path("run")).about()["data"] == "theatre:small"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["splavu"], "theatre:small are videos, and no encoder is named: add --set encoder="),
        (["splavu", "--data", "features:nowhere"], "cannot read 'nowhere/manifest.json': name a folder"),
        (["splavu", "--set", "tasks=detection"], "tell no segments: give other data by detection_data"),
        (["spact", "--data", "features:short"], "'features:short' are features, and this method learns from videos"),
    ],
)
def test_a_mistake_is_one_line_and_leaves_nothing(arguments: list[str], complaint: str, sfumato: Any) -> None:
    assert complaint in sfumato("train", *arguments).error
    assert not Path("runs").exists()
