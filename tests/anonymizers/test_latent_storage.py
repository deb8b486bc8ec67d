"""Adapters into a folder and back, with whose features they are for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from sfumato.anonymizers import shelf
from sfumato.anonymizers.latent_adapter import LatentAdapter
from sfumato.anonymizers.latent_storage import find_latent, load_latent, save_latent
from sfumato.datasets.feature_store import Manifest
from sfumato.errors import SfumatoError

WHOSE = Manifest("toy", "ab" * 32, (4, 8, 8), 2, width=16, per_clip=3)


def made(folder: Path) -> LatentAdapter:
    torch.manual_seed(0)
    adapter = LatentAdapter(16, layers=2, heads=2, attend="video", feed_forward=False)
    with torch.no_grad():
        for parameter in adapter.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    save_latent(adapter, WHOSE, folder, "splavu")
    return adapter.eval()


def test_it_comes_back_as_it_was(tmp_path: Path) -> None:
    adapter, clips = made(tmp_path), torch.rand(2, 3, 16)
    found, made_for = load_latent(tmp_path)
    assert made_for == WHOSE and not found.training and found.settings() == adapter.settings()
    assert torch.equal(found(clips), adapter(clips)) and not torch.equal(found(clips), clips)
    with pytest.raises(SfumatoError, match="these features are of 'toy' with weights abababab, not cdcdcdcd"):
        made_for.require("cd" * 32, 16)


def test_one_that_comes_with_the_project_goes_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shelf, "WEIGHTS", tmp_path / "weights")
    made(tmp_path / "weights" / "fog")
    assert load_latent("fog")[1] == WHOSE and find_latent("fog") == tmp_path / "weights" / "fog"
    monkeypatch.chdir(tmp_path)
    made(tmp_path / "fog")
    assert find_latent("fog") == Path("fog")  # a folder is meant before the shelf
    with pytest.raises(
        SfumatoError, match=r"no anonymizer of features 'fogg': did you mean 'fog'\? known: fog, a folder"
    ):
        load_latent("fogg")


def test_what_is_not_whole_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SfumatoError, match="cannot read"):
        load_latent(tmp_path / "nowhere")
    made(tmp_path)
    config, weights = tmp_path / "config.json", tmp_path / "model.safetensors"
    content = json.loads(config.read_text())
    weights.write_bytes(weights.read_bytes()[:-1] + b"x")
    with pytest.raises(SfumatoError, match="is not the file that"):
        load_latent(tmp_path)
    for changed, complaint in (
        ({**content, "latent_anonymizer": "unet"}, "holds no anonymizer of features"),
        ({**content, "settings": {"widht": 3}}, "is of another version"),
        ({**content, "features": {"width": 16}}, "is of another version"),
    ):
        config.write_text(json.dumps(changed))
        with pytest.raises(SfumatoError, match=complaint):
            load_latent(tmp_path)
    config.write_text("{")
    with pytest.raises(SfumatoError, match="is not valid JSON"):
        load_latent(tmp_path)
