from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sfumato.datasets import open_dataset
from sfumato.datasets.celebv_hq import PRIVATE, CelebVHQDataset
from sfumato.datasets.inspection import straddling
from sfumato.errors import SfumatoError

from . import copies
from .copies import SMALL


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return copies.celebv_hq(tmp_path)


def opened(root: Path) -> CelebVHQDataset:
    data = open_dataset(f"celebv-hq:{root}?{SMALL}", strict=True)
    assert isinstance(data, CelebVHQDataset)
    return data


def test_expression_and_the_five_private_attributes(root: Path) -> None:
    data = opened(root)
    assert len(data) == 20 and len(data.actions) == 8
    assert {a.name for a in data.attributes} == set(PRIVATE) and len(data.labelled()) == 6
    found = {}
    for index in range(len(data)):
        sample = data.sample(index)
        found[Path(sample.source).stem] = (data.actions[sample.action], dict(sample.attributes))
    told = {"male": 1, "young": 1, "rosy_cheeks": 0, "brown_hair": 0, "pointy_nose": 1}
    assert found["-id_3_0"] == ("neutral", told)
    # 1.5 s happy, twice .5 s sad.
    assert found["-id_4_1"] == ("happy", {**told, "male": 0, "pointy_nose": 0, "brown_hair": 1})


def test_sixty_percent_are_to_train_and_clips_of_one_video_stay_together(root: Path) -> None:
    data = opened(root)
    sizes = [len(data.split(part, "person")) for part in ("train", "val", "test")]  # type: ignore[arg-type]
    assert sizes == [10, 2, 8]
    assert straddling(data.rows) == []
    groups = [{data.rows[i].group for i in data.split(part, "clip").tolist()} for part in ("train", "val", "test")]  # type: ignore[arg-type]
    assert [len(group) for group in groups] == [5, 1, 4]


def test_sadness_is_sad(root: Path) -> None:
    change(root, lambda told: told["clips"]["-id_0_0"]["attributes"]["emotion"].update(labels="sadness"))
    assert next(row.action for row in opened(root).rows if row.path.stem == "-id_0_0") == "sad"


def change(root: Path, how: Any) -> None:
    path = root / "celebvhq_info.json"
    told = json.loads(path.read_text())
    how(told)
    path.write_text(json.dumps(told))


@pytest.mark.parametrize(
    "how",
    [
        lambda told: told["clips"]["-id_0_0"]["attributes"]["emotion"].update(labels="bored"),
        lambda told: told["clips"]["-id_0_0"]["attributes"]["emotion"].update(labels=[]),
        lambda told: told["clips"]["-id_0_0"]["attributes"]["appearance"].pop(),
        lambda told: told["clips"]["-id_0_0"]["attributes"].update(appearance=[2] * 6),
        lambda told: told.pop("meta_info"),
    ],
)
def test_another_format_is_refused(root: Path, how: Any) -> None:
    change(root, how)
    with pytest.raises(SfumatoError, match="not in CelebV-HQ's format"):
        opened(root)


def test_a_missing_attribute_is_named(root: Path) -> None:
    change(root, lambda told: told["meta_info"]["appearance_mapping"].__setitem__(1, "Female"))
    with pytest.raises(SfumatoError, match="has no attribute 'male'"):
        opened(root)
