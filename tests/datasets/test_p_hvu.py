from __future__ import annotations

from pathlib import Path

import pytest
import torch

from sfumato.commands.data import show_stats
from sfumato.commands.prepare import prepare
from sfumato.datasets import open_dataset
from sfumato.datasets.inspection import inspect_copy
from sfumato.datasets.p_hvu import PHVUDataset
from sfumato.errors import SfumatoError

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


def test_a_video_shows_several_actions(root: Path) -> None:
    data = open_dataset(f"p-hvu:{root}?{SMALL}", strict=True)
    assert data.several_actions and data.actions == ("diving", "running")
    tested = data.split("test", "person")
    labels = data.labels(tested)
    assert labels.actions is not None and labels.actions.tolist() == [[1, 1], [0, 1]]
    assert data.sample(int(tested[0])).actions == (0, 1) and data.sample(int(tested[1])).actions == (1,)
    assert data.sample(int(tested[0])).action == -1  # there is no single one


@pytest.mark.parametrize(
    ("option", "names"),
    [("object", ["object/Car", "object/ball"]), ("scene", ["scene/beach"]), ("all", None)],
)
def test_what_is_private_may_be_told(root: Path, option: str, names: list[str] | None) -> None:
    data = open_dataset(f"p-hvu:{root}?{SMALL}&private={option}")
    assert [a.name for a in data.attributes] == (names or ["object/Car", "object/ball", "scene/beach"])
    with pytest.raises(SfumatoError, match="p-hvu has no private 'event'"):
        open_dataset(f"p-hvu:{root}?{SMALL}&private=event")


def test_the_check_and_the_statistics_count_every_action_of_a_video(root: Path) -> None:
    found = inspect_copy(PHVUDataset, str(root))
    assert found.balance["test"] == {"diving": 1, "running": 2}
    assert next(count.listed for count in found.counts if count.what == "actions") == 2
    assert show_stats(f"p-hvu:{root}")["test"].actions == {"diving": 1, "running": 2}


def test_shards_keep_all_actions_of_a_video(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    out = tmp_path_factory.mktemp("shards")
    prepare(f"p-hvu:{root}", out, short_side=16, fps=None, shards=1, workers=1, strict=True)
    data, before = open_dataset(f"shards:{out}?{SMALL}"), open_dataset(f"p-hvu:{root}?{SMALL}")
    labels = [each.labels(each.split("test", "person")).actions for each in (data, before)]
    assert labels[0] is not None and sorted(labels[0].tolist()) == sorted(labels[1].tolist())  # type: ignore[union-attr]
    assert data.actions == before.actions


def test_tags_are_questions_and_objects_and_scenes_are_private(root: Path) -> None:
    data = open_dataset(f"p-hvu:{root}?{SMALL}", strict=True)
    assert isinstance(data, PHVUDataset)
    assert len(data) == 6
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
