"""`sfumato judge --protocol latent…`, from a store and an adapter on disk to the table, and the ways to ask it wrongly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from sfumato.anonymizers.latent_adapter import LatentAdapter
from sfumato.anonymizers.latent_storage import save_latent
from sfumato.datasets.annotations import add_annotations
from sfumato.datasets.feature_store import FeatureWriter
from sfumato.evaluation import scoring
from sfumato.evaluation.result import Result

from ..evaluation.latent.toys import MANIFEST, short


@pytest.fixture(autouse=True)
def fewer_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "SAMPLES", 40)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    data, writer = short(), FeatureWriter(tmp_path / "features", MANIFEST)
    for annotation, row in zip(data.annotations, data.vectors, strict=True):
        with writer.video(annotation.name) as rows:
            rows.add(0, row)
    add_annotations(writer.folder, {a.name: a for a in data.annotations})
    return writer.folder


def adapter(folder: Path, manifest: Any = MANIFEST) -> Path:
    torch.manual_seed(0)
    return save_latent(LatentAdapter(manifest.width, layers=1, heads=2, tokens=4), manifest, folder, title="splavu")


def test_from_a_store_and_a_folder_to_a_table(store: Path, tmp_path: Path, sfumato: Any) -> None:
    run = sfumato(
        "judge", adapter(tmp_path / "run"), "identity", "--data", f"features:{store}", "--protocol", "latent",
        "--epochs", 3, "--json", tmp_path / "r.json", "--report", tmp_path / "r.html",
    )  # fmt: skip
    assert run.code == 0
    raw, judged = Result.load(tmp_path / "r.json").lines
    assert raw.anonymizer == "identity" and judged.anonymizer.startswith("splavu@")
    assert judged.utility.value == raw.utility.value  # an adapter begins as the identity
    stored = json.loads((tmp_path / "r.json").read_text())
    assert stored["protocol"] == "latent" and stored["lines"][1]["scores"]
    assert "splavu@" in run.out and "retrieval mAP" in run.out
    assert "latent-detection left out" in run.out


def test_a_protocol_alone_and_the_list_of_them(store: Path, tmp_path: Path, sfumato: Any) -> None:
    where = ("--data", f"features:{store}", "--epochs", 1)
    assert sfumato("judge", adapter(tmp_path / "run"), *where, "--protocol", "latent-gait").code == 0
    found = sfumato("judge", tmp_path / "run", *where, "--protocol", "latent-detection")
    assert found.error.startswith(f"latent-detection left out: features:{store} tells no segments")
    listed = {row["name"] for row in json.loads(sfumato("list", "protocols", "--json").out)}
    names = ["probe", "action", "detection", "anomaly", "retrieval", "gait", "bias", "inversion", "reconstruction"]
    assert {"latent", *(f"latent-{name}" for name in names)} <= listed


def test_what_does_not_fit_is_refused(store: Path, tmp_path: Path, sfumato: Any) -> None:
    own = adapter(tmp_path / "run")
    videos = sfumato("judge", own, "--data", "theatre:small", "--protocol", "latent")
    assert videos.error.startswith("the protocol latent asks about features, and 'theatre:small' are none")
    other = type(MANIFEST)(**{**vars(MANIFEST), "weights_sha256": "cd" * 32})
    where = ("--data", f"features:{store}", "--protocol", "latent-probe")
    strange = sfumato("judge", adapter(tmp_path / "other", other), *where)
    assert "these features are of 'toy' with weights abababab, not cdcdcdcd" in strange.error
    assert "holds no anonymizer of features" in sfumato("judge", _pixels(tmp_path), *where).error
    assert "has readers of its own" in sfumato("judge", own, *where, "--attack", "frame").error


def _pixels(tmp_path: Path) -> Path:
    from sfumato.anonymizers import save, untrained

    return Path(save(untrained("unet"), tmp_path / "pixels"))
