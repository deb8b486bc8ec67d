from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

from sfumato.datasets import open_dataset
from sfumato.datasets.files import label_rows
from sfumato.datasets.vispr import SUBSETS, VISPRDataset
from sfumato.errors import SfumatoError

from . import copies
from .copies import REAL, needs_real, picture, put


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return copies.vispr(tmp_path)


def opened(root: Path, options: str = "", strict: bool = False) -> VISPRDataset:
    data = open_dataset(f"vispr:{root}?size=16{options}", strict=strict)
    assert isinstance(data, VISPRDataset)
    return data


def test_pictures_are_clips_of_one_frame_with_the_seven_attributes_of_a_subset(root: Path) -> None:
    data = opened(root, strict=True)
    assert (len(data), data.actions, data.shape.frames) == (12, (), 1)
    assert [a.name for a in data.attributes] == ["a4_gender", "a17_color"]  # of VISPR1, those that this copy knows
    assert [a.name for a in opened(root, "&subset=2").attributes] == ["a11_tattoo"]
    assert [len(data.split(part, "clip")) for part in ("train", "val", "test")] == [4, 4, 4]  # type: ignore[arg-type]
    labels = data.labels(data.split("test", "person"))
    assert labels.attributes.tolist() == [[0, 0], [1, 0], [0, 0], [1, 0]]
    assert labels.action.tolist() == [-1] * 4
    clips = data.clips(torch.tensor([0, 3]))
    assert clips.pixels.shape == (2, 1, 1, 3, 16, 16)
    assert (clips.pixels.float().mean((1, 2, 3, 4, 5)) - torch.tensor([0.0, 60])).abs().max() < 2


def test_a_static_clip_is_one_picture_held(root: Path) -> None:
    clip = opened(root, "&frames=5").clips(torch.tensor([2]), views=2).pixels
    assert clip.shape == (1, 2, 5, 3, 16, 16)
    assert clip.eq(clip[:, :1, :1]).all()


@pytest.mark.parametrize("what", ["cut", "no picture", "empty", "missing"])
def test_a_bad_picture_is_reported_once_and_skipped_or_stops(root: Path, what: str) -> None:
    path = root / "images" / "val2017" / "2017_12.jpg"
    content = {"cut": picture()[:-200], "no picture": b"text" * 9, "empty": b""}.get(what)
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    data = opened(root)
    assert len(data) == 11
    data.clips(torch.arange(11))
    (problem,) = data.problems
    assert problem.startswith("val2017.txt line 3: ") and "2017_12.jpg" in problem
    with pytest.raises(SfumatoError, match=r"val2017\.txt line 3"):
        opened(root, strict=True)


def test_a_picture_with_bytes_after_its_end_is_a_picture(root: Path) -> None:
    put(root / "images" / "val2017" / "2017_12.jpg", picture() + b"written by a phone")
    assert len(opened(root, strict=True)) == 12


def test_a_list_that_leaves_the_root_is_refused(root: Path) -> None:
    put(root.parent / "secret.json", json.dumps({"labels": ["a4_gender"]}))
    with (root / "train2017.txt").open("a") as file:
        file.write("../secret.json\n")
    data = opened(root)
    assert len(data) == 12 and data.problems == ["train2017.txt line 5: '../secret.json' lies outside the data root"]


def test_without_json_files_the_pickles_do_for_the_first_subset(root: Path) -> None:
    for path in (root / "annotations").rglob("*.json"):
        path.unlink()
    with pytest.raises(SfumatoError, match=r"no 'train_labels\.pkl'.*SPAct"):
        opened(root)
    for number, part in ((0, "train"), (2, "test")):
        table = {f"2017_{number}{n}": np.eye(7)[n] for n in range(4)}
        put(root / f"{part}_labels.pkl", pickle.dumps(table, protocol=4))
    data = opened(root, strict=True)
    assert tuple(a.name for a in data.attributes) == SUBSETS["1"]
    assert data.labels(data.split("test", "clip")).attributes.tolist() == np.eye(7)[:4].tolist()
    assert data.labels(data.split("val", "clip")).attributes.unique().tolist() == [-1]
    with pytest.raises(SfumatoError, match="only VISPR1"):
        opened(root, "&subset=2")


def test_the_subsets_share_nothing() -> None:
    assert [len(set(names)) for names in SUBSETS.values()] == [7, 7]
    assert not set(SUBSETS["1"]) & set(SUBSETS["2"])


def test_a_json_file_of_another_kind_is_refused_by_name(root: Path) -> None:
    put(root / "annotations" / "test2017" / "2017_21.json", "{}")
    with pytest.raises(SfumatoError, match=r"2017_21\.json' is not in VISPR's format"):
        opened(root)


@needs_real
def test_the_published_labels_have_the_published_numbers_and_chance(tmp_path: Path) -> None:
    told = VISPRDataset.annotations(VISPRDataset.at(f"{tmp_path}?annotations={REAL / 'vispr'}"))
    parts = [row.split["clip"] for row in told.rows]
    assert [parts.count(part) for part in ("train", "val", "test")] == [10_000, 4_167, 8_000]
    tested = [row for row in told.rows if row.split["clip"] == "test"]
    values = label_rows(tested, (), (), told.asked()).attributes.double()
    assert values.shape == (8_000, 7) and round(values.mean().item(), 3) == 0.248
    known = {line.split("\t")[1] for line in (REAL / "vispr" / "attributes.tsv").read_text().splitlines()[1:]}
    assert len(known) == 68 and {name for names in SUBSETS.values() for name in names} <= known
