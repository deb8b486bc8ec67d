from __future__ import annotations

from pathlib import Path

import pytest
import torch

from sfumato.datasets import open_dataset
from sfumato.datasets.files import label_rows
from sfumato.datasets.vp import ATTRIBUTES, VPHMDB51Dataset, VPUCF101Dataset
from sfumato.errors import SfumatoError

from . import copies
from .copies import REAL, SMALL, needs_real, put, put_labels


def ucf_labels(root: Path) -> dict[str, list[int]]:
    """Skin everywhere, face in Archery only; keys end in .mp4 although the files do not."""
    videos = sorted((root / "UCF-101").rglob("*.avi"))
    return {f"{p.parent.name}/{p.stem}.mp4": [1, int("Archery" in p.name), 0, 0, 0] for p in videos}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = copies.ucf101(tmp_path)
    put_labels(root / "ucf101_privacy_attribute_label.pickle", ucf_labels(root))
    return root


def test_five_attributes_come_beside_the_lists_of_ucf101(root: Path) -> None:
    data = open_dataset(f"vp-ucf101:{root}?{SMALL}&split=2", strict=True)
    assert isinstance(data, VPUCF101Dataset) and len(data) == 16
    assert [a.name for a in data.attributes] == ["skin", "face", "gender", "nudity", "relationship"]
    assert all(a.values == ("no", "yes") for a in data.attributes)
    labels = data.labels(torch.arange(16))
    assert labels.attributes[:, 0].tolist() == [1] * 16
    assert labels.attributes[:, 1].equal((labels.action == 0).long())
    assert labels.attributes[:, 2:].sum() == 0
    assert data.about(["face"]).labels(torch.tensor([0])).attributes.shape == (1, 1)


def test_hmdb51_with_a_video_that_has_no_labels(tmp_path: Path) -> None:
    copies.hmdb51(tmp_path)
    one = copies.hmdb_name("A", "clap", 0)
    put_labels(tmp_path / "hmdb51_privacy_attribute_label.pickle", {f"clap/{Path(one).stem}.mp4": [0, 1, 1, 0, 1]})
    data = open_dataset(f"vp-hmdb51:{tmp_path}?{SMALL}")
    assert isinstance(data, VPHMDB51Dataset)
    values = {
        row.path.name: v.tolist() for row, v in zip(data.rows, data.labels(torch.arange(18)).attributes, strict=True)
    }
    assert values.pop(one) == [0, 1, 1, 0, 1]
    assert all(v == [-1] * 5 for v in values.values())
    assert data.fingerprint() != data.about(["face"]).fingerprint()


def test_the_pickle_is_asked_for_by_name(root: Path) -> None:
    (root / "ucf101_privacy_attribute_label.pickle").unlink()
    with pytest.raises(SfumatoError, match=r"no 'ucf101_privacy_attribute_label\.pickle'.*STPrivacy"):
        open_dataset(f"vp-ucf101:{root}")


@pytest.mark.parametrize("row", [[1, 0], [2, 0, 0, 0, 0]])
def test_labels_of_another_kind_are_refused(root: Path, row: list[int]) -> None:
    put_labels(root / "ucf101_privacy_attribute_label.pickle", {key: row for key in ucf_labels(root)})
    with pytest.raises(SfumatoError, match="has no five yes or no"):
        open_dataset(f"vp-ucf101:{root}")


def test_a_malicious_pickle_in_its_place_executes_nothing(root: Path, tmp_path: Path) -> None:
    put(root / "ucf101_privacy_attribute_label.pickle", f"cos\nsystem\n(S'touch {tmp_path}/executed'\ntR.")
    with pytest.raises(SfumatoError, match=r"it names os\.system|it names posix\.system"):
        open_dataset(f"vp-ucf101:{root}")
    assert not (tmp_path / "executed").exists()


@needs_real
@pytest.mark.parametrize(
    ("kind", "base", "videos", "whole", "test"),
    [(VPUCF101Dataset, "ucf101", 13_320, 0.582, 0.587), (VPHMDB51Dataset, "hmdb51", 6_766, 0.584, 0.588)],
)
def test_the_published_labels_have_the_chance_that_is_known(
    tmp_path: Path, kind: type[VPUCF101Dataset], base: str, videos: int, whole: float, test: float
) -> None:
    for path in (*(REAL / base).iterdir(), *(REAL / "vp").iterdir()):
        (tmp_path / path.name).symlink_to(path)
    told = kind.annotations(kind.at(str(tmp_path)))
    assert len(told.rows) == videos
    values = label_rows(told.rows, told.actions, (), ATTRIBUTES).attributes.double()
    assert values.min() == 0 and round(values.mean().item(), 3) == whole
    tested = torch.tensor([row.split["clip"] == "test" for row in told.rows])
    assert round(values[tested].mean().item(), 3) == test
    if base == "hmdb51":
        assert [round(v, 3) for v in values.mean(0).tolist()] == [0.903, 0.620, 0.916, 0.268, 0.211]
