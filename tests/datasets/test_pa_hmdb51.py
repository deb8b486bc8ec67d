from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
import torch

from sfumato.datasets import open_dataset
from sfumato.datasets.pa_hmdb51 import STRADDLING, PAHMDB51Dataset
from sfumato.errors import SfumatoError

from . import copies
from .copies import REAL, hmdb_name, needs_real, pa_attributes, put

FIRST, SECOND = hmdb_name("A", "clap", 0), hmdb_name("G", "wave", 1)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two of HMDB51's videos, of 8 frames, are labelled: one with a face that turns away, one with two people."""
    copies.hmdb51(tmp_path)
    face = [[0, 4, 2], [5, 5, 0], [6, 6, 0]]
    clap = {FIRST: pa_attributes(8, face=face, skin_color=3)}
    wave = {SECOND: pa_attributes(8, gender=[1, 2], skin_color=[2, 3], relationship=1)}
    for action, told in (("clap", clap), ("wave", wave)):
        put(tmp_path / "PrivacyAttributes" / f"{action}.json", json.dumps(told))
    return tmp_path


def opened(root: Path, options: str = "") -> PAHMDB51Dataset:
    data = open_dataset(f"pa-hmdb51:{root}?frames=8&size=16{options}", strict=True)
    assert isinstance(data, PAHMDB51Dataset)
    return data


def index(data: PAHMDB51Dataset, name: str) -> int:
    return [row.path.name for row in data.rows].index(name)


def values(data: PAHMDB51Dataset, name: str) -> dict[str, str]:
    sample = data.sample(index(data, name))
    return {a.name: a.values[sample.attributes[a.name]] for a in data.attributes}


def test_the_labelled_videos_are_test_and_the_rest_is_training_without_labels(root: Path) -> None:
    data = opened(root)
    assert {data.rows[i].path.name for i in data.split("test", "person").tolist()} == {FIRST, SECOND}
    assert Counter(row.split["clip"] for row in data.rows).keys() == {"train", "val", "test"} and len(data) == 18
    labels = data.labels(data.split("train", "clip")).attributes
    assert labels.shape[1] == 5 and bool((labels == -1).all())


def test_a_video_has_the_value_shown_longest_and_people_side_by_side_are_several(root: Path) -> None:
    data = opened(root)
    assert values(data, FIRST) == {
        "skin_color": "black", "face": "visible", "gender": "not to tell", "nudity": "none", "relationship": "not to tell",
    }  # fmt: skip
    assert values(data, SECOND) == {
        "skin_color": "several", "face": "hidden", "gender": "several", "nudity": "none", "relationship": "to tell",
    }  # fmt: skip


def test_every_frame_has_its_own_value_and_ends_are_inclusive(root: Path) -> None:
    data = opened(root).about(["relationship", "face"])
    assert isinstance(data, PAHMDB51Dataset)
    frames = data.frame_attributes(torch.tensor([index(data, FIRST), index(data, SECOND)]))
    assert frames.shape == (2, 8, 2)
    assert frames[0, :, 1].tolist() == [2, 2, 2, 2, 2, 0, 0, -1]  # nobody says what frame 7 shows
    assert frames[1, :, 0].tolist() == [1] * 8
    unlabelled = data.frame_attributes(data.split("train", "clip")[:1])
    assert bool((unlabelled == -1).all())


def test_a_clip_is_labelled_at_the_frames_it_is_made_of(root: Path) -> None:
    data = open_dataset(f"pa-hmdb51:{root}?frames=2&size=16&skip=4")
    assert isinstance(data, PAHMDB51Dataset)
    one = torch.tensor([index(data, FIRST)])
    assert data.times(one).tolist() == [[1, 5]]
    assert data.frame_attributes(one)[0, :, 1].tolist() == [2, 0]


def test_a_random_split_is_of_the_labelled_videos_only(root: Path) -> None:
    many = {hmdb_name(film, "clap", n): pa_attributes(8) for film in "ABCDE" for n in (0, 1)}
    put(root / "PrivacyAttributes" / "clap.json", json.dumps(many))
    (root / "PrivacyAttributes" / "wave.json").unlink()
    told = PAHMDB51Dataset.annotations(PAHMDB51Dataset.at(f"{root}?split=random"))
    parts = Counter(row.split["clip"] for row in told.rows)
    assert sum(parts.values()) == 10 and parts["train"] + parts["val"] == 6 and parts["val"] == 2
    films = {row.group: {r.split["clip"] for r in told.rows if r.group == row.group} for row in told.rows}
    assert all(len(part) == 1 for part in films.values())


def test_files_of_another_kind_are_refused_by_name(root: Path) -> None:
    for content in ("no json", "[]", json.dumps({FIRST: {}}), json.dumps({FIRST: pa_attributes(8, face=7)})):
        put(root / "PrivacyAttributes" / "clap.json", content)
        with pytest.raises(SfumatoError, match=r"clap\.json' is not in PA-HMDB51's format"):
            opened(root)


def test_either_kind_of_label_file_is_asked_for(root: Path) -> None:
    for path in (root / "testTrainMulti_7030_splits").iterdir():
        path.unlink()
    with pytest.raises(SfumatoError, match=r"_test_split1\.txt'.*serre-lab"):
        opened(root)
    for path in (root / "PrivacyAttributes").iterdir():
        path.unlink()
    with pytest.raises(SfumatoError, match=r"no 'PrivacyAttributes/\*\.json'.*VITA-Group"):
        opened(root)


@needs_real
def test_the_published_labels_have_the_published_numbers(tmp_path: Path) -> None:
    for path in (*(REAL / "hmdb51").iterdir(), *(REAL / "pa-hmdb51").iterdir()):
        (tmp_path / path.name).symlink_to(path)
    told = PAHMDB51Dataset.annotations(PAHMDB51Dataset.at(str(tmp_path)))
    parts = Counter(row.split["clip"] for row in told.rows)
    assert (len(told.rows), parts["test"], len(told.actions)) == (6_766, 515, 51)
    assert told.straddling == STRADDLING
    random = PAHMDB51Dataset.annotations(PAHMDB51Dataset.at(f"{tmp_path}?split=random"))
    assert Counter(row.split["clip"] for row in random.rows)["test"] == 206  # 40% of 515
    assert all(all(row.attributes.values()) for row in random.rows)
