"""Features of a rehearsal: extracted from generated videos, where these are written, by the encoder of all."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from sfumato.commands.miniatures import FILMED, write_miniature
from sfumato.datasets import open_dataset
from sfumato.datasets.annotations import read_annotations
from sfumato.datasets.feature_store import FeatureStore
from sfumato.recognizers.encoders import load_encoder
from sfumato.training.extraction import encode, first_clips


@pytest.mark.parametrize(("data", "clips"), [("vp-hmdb51", 2), ("vispr", 1)])
def test_features_are_those_of_the_generated_videos(data: str, clips: int, tmp_path: Path) -> None:
    write_miniature(f"features:videomae-b/{data}", tmp_path)
    store = FeatureStore(tmp_path / "videomae-b" / data)
    source = store.videos[0].name.rpartition("/")[0]
    assert source.startswith(FILMED[data].partition(":")[0]) and "&frames=16&size=32" in source
    dataset, encoder = open_dataset(source, strict=True), load_encoder(str(tmp_path / "encoder"))
    assert len(store) == len(dataset) and store[3].shape == (clips, 3, 16)
    seen = encode(encoder, first_clips(dataset, torch.tensor([3]), store.manifest), store.manifest, torch.device("cpu"))
    assert torch.allclose(store[3][0], seen[0], atol=1e-5)
    told = read_annotations(store.folder)
    assert {a.part("clip") for a in told.values()} == {"train", "val", "test"}
    assert all(a.attributes for a in told.values())


def test_features_that_are_drawn_count_as_of_the_same_encoder(tmp_path: Path) -> None:
    for data in ("vispr", "ucf-crime"):
        write_miniature(f"features:videomae-b/{data}", tmp_path)
    extracted, drawn = (FeatureStore(tmp_path / "videomae-b" / data) for data in ("vispr", "ucf-crime"))
    assert extracted.manifest == drawn.manifest and drawn.videos[0].name == "video 0"
