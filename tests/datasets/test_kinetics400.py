from __future__ import annotations

from pathlib import Path

import pytest
import torch

from sfumato.datasets import open_dataset
from sfumato.datasets.kinetics400 import Kinetics400Dataset
from sfumato.errors import SfumatoError

from .copies import SMALL, put, video


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two labels; six videos of each to train, one to validate; one was saved under its bare id."""
    for part, count in (("train", 6), ("validate", 1)):
        lines = ["label,youtube_id,time_start,time_end,split,is_cc"]
        for label in ("air drumming", "abseiling"):
            for n in range(count):
                identity = f"-_{label[1]}{part[0]}{n}_x"
                lines.append(f"{label},{identity},{n},{n + 10},{part},0")
                name = f"{identity}_{n:06d}_{n + 10:06d}" if n else identity
                put(tmp_path / f"{part}" / label / f"{name}.mp4", video(container="mp4"))
        put(tmp_path / f"{part}.csv", "\n".join(lines) + "\n")
    return tmp_path


def test_the_validation_list_is_the_test_part_and_val_is_carved_out_of_training(root: Path) -> None:
    data = open_dataset(f"kinetics400:{root}?{SMALL}", strict=True)
    assert isinstance(data, Kinetics400Dataset)
    assert (len(data), data.actions) == (14, ("abseiling", "air drumming"))
    assert [len(data.split(part, "clip")) for part in ("train", "val", "test")] == [10, 2, 2]  # type: ignore[arg-type]
    assert all("validate" in data.rows[i].path.parts for i in data.split("test", "person").tolist())
    actions = data.labels(torch.arange(14)).action.tolist()
    assert all(data.actions[a] in row.path.parts for a, row in zip(actions, data.rows, strict=True))


def test_a_video_that_is_gone_is_named_by_its_line(root: Path) -> None:
    next((root / "train" / "abseiling").iterdir()).unlink()
    (problem,) = open_dataset(f"kinetics400:{root}?{SMALL}").problems  # type: ignore[attr-defined]
    assert problem.startswith("train.csv line ") and "there is no file" in problem


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("label,time_start,time_end\n", "has no column 'youtube_id'"),
        ("label,youtube_id,time_start,time_end\na,b,x,2\n", "is no time in seconds"),
    ],
)
def test_lists_of_another_kind_are_refused(root: Path, content: str, message: str) -> None:
    put(root / "train.csv", content)
    with pytest.raises(SfumatoError, match=message):
        open_dataset(f"kinetics400:{root}")
