from __future__ import annotations

from pathlib import Path

import pytest
import torch

from sfumato.datasets import open_dataset
from sfumato.datasets.ucf101 import PUBLISHED, UCF101Dataset
from sfumato.errors import SfumatoError

from . import copies
from .copies import REAL, SMALL, needs_real


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return copies.ucf101(tmp_path)


def names(data: UCF101Dataset, part: str) -> set[str]:
    return {data.rows[i].path.stem for i in data.split(part, "person").tolist()}  # type: ignore[arg-type]


def opened(root: Path, options: str = "") -> UCF101Dataset:
    data = open_dataset(f"ucf101:{root}?{SMALL}{options}", strict=True)
    assert isinstance(data, UCF101Dataset)
    return data


def test_lists_and_classes_are_read_as_they_are_published(root: Path) -> None:
    data = opened(root)
    assert (len(data), data.actions, data.persons, data.attributes) == (16, ("Archery", "BabyCrawling"), (), ())
    assert data.phrases() == ("archery", "baby crawling")  # what is asked of who understands sentences
    assert names(data, "test") == {f"v_{c}_g01_c0{n}" for c in copies.UCF_CLASSES for n in (1, 2)}
    actions = data.labels(torch.arange(16)).action
    for row, action in zip(data.rows, actions.tolist(), strict=True):
        assert f"v_{data.actions[action]}_" in row.path.name
    assert data.mirror_safe


def test_validation_is_whole_groups_of_training(root: Path) -> None:
    data = opened(root)
    val, train = names(data, "val"), names(data, "train")
    assert len(val) == 4 and len(train) == 8  # one of three groups per class
    assert not {name[:-4] for name in val} & {name[:-4] for name in train}


def test_the_second_split_tests_other_groups(root: Path) -> None:
    assert {name[-7:-4] for name in names(opened(root, "&split=2"), "test")} == {"g02"}
    with pytest.raises(SfumatoError, match=r"no 'trainlist03\.txt'"):
        opened(root, "&split=3")


@pytest.mark.parametrize("line", ["Archery/v_Archery_g02_c01.avi", "Archery/v_Archery_g02_c01.avi 9", "x.avi 0"])
def test_a_training_line_without_a_class_is_refused(root: Path, line: str) -> None:
    (root / "ucfTrainTestlist" / "trainlist01.txt").write_text(f"\n{line}\n")
    with pytest.raises(SfumatoError, match=r"trainlist01\.txt line 2: .* names no class"):
        opened(root)


def test_classes_that_are_not_numbered_are_refused(root: Path) -> None:
    (root / "ucfTrainTestlist" / "classInd.txt").write_text("Archery\n")
    with pytest.raises(SfumatoError, match="not a list of numbered classes"):
        opened(root)


@needs_real
@pytest.mark.parametrize("split", PUBLISHED)
def test_the_published_lists_have_the_published_numbers(tmp_path: Path, split: str) -> None:
    told = UCF101Dataset.annotations(UCF101Dataset.at(f"{tmp_path}?split={split}&annotations={REAL / 'ucf101'}"))
    parts = [row.split["clip"] for row in told.rows]
    assert len(parts) == 13_320 and len(told.actions) == 101
    assert (len(parts) - parts.count("test"), parts.count("test")) == PUBLISHED[split]
    assert 0.1 <= parts.count("val") / PUBLISHED[split][0] < 0.14
    assert told.actions[0] == "ApplyEyeMakeup" and told.rows[0].action == "ApplyEyeMakeup"
    for one, other in (("train", "val"), ("train", "test"), ("val", "test")):
        groups = [{row.group for row in told.rows if row.split["clip"] == part} for part in (one, other)]
        assert groups[0] and groups[1] and not groups[0] & groups[1]
