from __future__ import annotations

from pathlib import Path

import pytest
import torch

from sfumato.datasets import open_dataset
from sfumato.datasets.p_hvu import PHVUDataset

from .copies import SMALL, put, video

TAGS = {"running": "action", "diving": "action", "ball": "object", "Car": "object", "beach": "scene", "party": "event"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Four videos to train, two to test that have all three kinds of tags, and one each that has not."""
    put(tmp_path / "HVU_Tags_Categories_V1.0.csv", "Tag,Category\n" + "".join(f"{t},{c}\n" for t, c in TAGS.items()))
    header = "Tags,youtube_id,time_start,time_end\n"
    train = ["running|ball|beach"] * 2 + ["diving|ball|Car|beach|party"] * 2 + ["running|ball|party"]
    test = ["running|diving|Car|beach", "running|ball|beach", "beach"]
    for part, lines in (("Train", train), ("Val", test)):
        put(
            tmp_path / f"HVU_{part}_V1.0.csv",
            header + "".join(f"{t},id{part}{n},{n}.0,1{n}.0\n" for n, t in enumerate(lines)),
        )
        for n in range(len(lines)):
            times = f"{10 * n:06d}_{10 * (10 + n):06d}" if n % 2 else f"{n:06d}_{10 + n:06d}"  # tenths, or seconds
            put(tmp_path / part / f"id{part}{n}_{times}.mp4", video(container="mp4"))
    return tmp_path


def test_tags_are_questions_and_objects_and_scenes_are_private(root: Path) -> None:
    data = open_dataset(f"p-hvu:{root}?{SMALL}", strict=True)
    assert isinstance(data, PHVUDataset)
    assert (len(data), data.actions) == (6, ())
    assert [a.name for a in data.attributes] == ["object/Car", "object/ball", "scene/beach"]
    assert [a.name for a in data.labelled()][:2] == ["action/diving", "action/running"]
    tested = data.split("test", "person")
    assert data.labels(tested).attributes.tolist() == [[1, 0, 1], [0, 1, 1]]
    actions = data.about(["action/diving", "action/running"])
    assert actions.labels(tested).attributes.tolist() == [[1, 1], [0, 1]]
    assert data.labels(tested).action.tolist() == [-1, -1]
    assert [len(data.split(part, "clip")) for part in ("train", "val", "test")] == [3, 1, 2]  # type: ignore[arg-type]
    assert dict(data.sample(int(tested[0])).attributes) == {"object/Car": 1, "object/ball": 0, "scene/beach": 1}
    assert data.clips(torch.tensor([5])).pixels.shape == (1, 1, 4, 3, 16, 16)


def test_the_fingerprint_knows_which_tags_are_asked_about_and_changes_with_them(root: Path) -> None:
    data = open_dataset(f"p-hvu:{root}?{SMALL}")
    fingerprints = {data.fingerprint(), open_dataset(f"p-hvu:{root}?{SMALL}").fingerprint()}
    assert len(fingerprints) == 1
    fingerprints.add(data.about(["object/Car"]).fingerprint())
    path = root / "HVU_Val_V1.0.csv"
    path.write_text(path.read_text().replace("running|ball|beach", "running|ball|Car|beach"))
    fingerprints.add(open_dataset(f"p-hvu:{root}?{SMALL}").fingerprint())
    assert len(fingerprints) == 3
