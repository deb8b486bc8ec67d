from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import torch

from sfumato.datasets import open_dataset
from sfumato.datasets.hmdb51 import STRADDLING, HMDB51Dataset, source_of
from sfumato.datasets.inspection import straddling
from sfumato.errors import SfumatoError

from . import copies
from .copies import REAL, SMALL, needs_real


def test_lists_are_read_as_they_are_published(tmp_path: Path) -> None:
    data = open_dataset(f"hmdb51:{copies.hmdb51(tmp_path)}?{SMALL}", strict=True)
    assert isinstance(data, HMDB51Dataset)
    assert (len(data), data.actions) == (18, ("clap", "wave"))
    assert Counter(row.split["person"] for row in data.rows) == {"train": 8, "val": 4, "test": 4, "": 2}
    assert {data.rows[i].group for i in data.split("test", "clip").tolist()} == {"A", "E"}
    train, val = ({data.rows[i].group for i in data.split(part, "clip").tolist()} for part in ("train", "val"))
    assert not train & val and "Z" not in train | val
    labels = data.labels(torch.arange(18))
    assert all(
        data.actions[a] == row.path.parent.name for a, row in zip(labels.action.tolist(), data.rows, strict=True)
    )
    assert data.clips(torch.tensor([3])).pixels.shape == (1, 1, 4, 3, 16, 16)


@pytest.mark.parametrize("line", ["a_clap_0.avi", "a_clap_0.avi 3", "a b 1"])
def test_a_line_of_another_kind_is_refused_by_place(tmp_path: Path, line: str) -> None:
    path = copies.hmdb51(tmp_path) / "testTrainMulti_7030_splits" / "clap_test_split1.txt"
    path.write_text(f"{line}\n")
    with pytest.raises(SfumatoError, match=r"clap_test_split1\.txt line 1"):
        open_dataset(f"hmdb51:{tmp_path}")


def test_a_split_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SfumatoError, match=r"no '\*_test_split3\.txt'.*get it from serre-lab"):
        open_dataset(f"hmdb51:{copies.hmdb51(tmp_path)}?split=3")


def test_a_clip_is_of_the_film_before_its_class() -> None:
    assert source_of("A_wave_to_me_wave_f_cm_np1_ba_bad_1.avi", "wave") == "A"
    assert source_of("April_09_brush_hair_u_nm_np1_ba_goo_0.avi", "brush_hair") == "April_09"


@needs_real
@pytest.mark.parametrize("split", STRADDLING)
def test_the_published_lists_have_the_published_numbers(tmp_path: Path, split: str) -> None:
    told = HMDB51Dataset.annotations(HMDB51Dataset.at(f"{tmp_path}?split={split}&annotations={REAL / 'hmdb51'}"))
    parts = Counter(row.split["clip"] for row in told.rows)
    assert len(told.rows) == 6_766 and len(told.actions) == 51
    assert (parts["train"] + parts["val"], parts["test"], parts[""]) == (3570, 1530, 1666)
    assert len(straddling(told.rows)) == STRADDLING[split] == told.straddling
    groups = [{row.group for row in told.rows if row.split["clip"] == part} for part in ("train", "val")]
    assert not groups[0] & groups[1]
    share = Counter(row.action for row in told.rows if row.split["clip"] == "val")
    assert min(share[action] for action in told.actions) >= 7 and max(share.values()) <= 14  # of 70
