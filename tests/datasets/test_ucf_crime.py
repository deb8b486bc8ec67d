from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from sfumato.commands.prepare import prepare
from sfumato.datasets import Segment, open_dataset
from sfumato.datasets.ucf_crime import ACTIONS, UCFCrimeDataset
from sfumato.errors import SfumatoError

from . import copies
from .copies import REAL, SMALL, needs_real


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return copies.ucf_crime(tmp_path)


def opened(root: Path) -> UCFCrimeDataset:
    data = open_dataset(f"ucf-crime:{root}?{SMALL}", strict=True)
    assert isinstance(data, UCFCrimeDataset)
    return data


def test_anomalies_are_the_frames_from_the_first_to_the_last_one(root: Path) -> None:
    data = opened(root)
    samples = [data.sample(i) for i in data.split("test", "person").tolist()]
    found = {Path(sample.source).stem: (data.actions[sample.action], sample.anomalies) for sample in samples}
    assert found == {
        "Abuse028_x264": ("Abuse", (Segment(4, 8, "Abuse"),)),
        "Arson011_x264": ("Arson", (Segment(0, 2, "Arson"), Segment(14, 20, "Arson"))),  # the video has 20 frames
        "Normal_Videos_003_x264": ("Normal", ()),
    }


def test_of_training_videos_it_is_known_what_happens_not_when(root: Path) -> None:
    data = opened(root)
    assert data.actions == ACTIONS and len(data) == 11
    learned = [*data.split("train", "clip").tolist(), *data.split("val", "clip").tolist()]
    assert Counter(data.rows[i].action for i in learned) == {"Abuse": 2, "Arson": 2, "Normal": 4}
    assert all(data.rows[i].anomalies == () for i in learned)
    # A tenth of every class, at least one: of the two of a crime one.
    assert Counter(data.rows[i].action for i in data.split("val", "person").tolist()) == {
        "Abuse": 1, "Arson": 1, "Normal": 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    "line",
    ["a.mp4  Abuse  5  8", "a.mp4  Flying  5  8  -1  -1", "a.mp4  Abuse  8  5  -1  -1", "a.mp4  Abuse  0  5  -1  -1",
     "a.mp4  Abuse  5  -1  -1  -1", "a.mp4  Abuse  5  x  -1  -1"],
)  # fmt: skip
def test_a_test_line_that_says_something_else_is_refused(root: Path, line: str) -> None:
    (root / "Temporal_Anomaly_Annotation.txt").write_text(f"\n{line}\n")
    with pytest.raises(SfumatoError, match=r"Temporal_Anomaly_Annotation\.txt line 2: 'a\.mp4 "):
        opened(root)


def test_a_training_line_outside_the_classes_is_refused(root: Path) -> None:
    (root / "Anomaly_Train.txt").write_text("Flying/a.mp4\n")
    with pytest.raises(SfumatoError, match=r"Anomaly_Train\.txt line 1: 'Flying/a\.mp4' is in no folder"):
        opened(root)


@needs_real
def test_the_published_lists_have_the_published_numbers(tmp_path: Path) -> None:
    told = UCFCrimeDataset.annotations(UCFCrimeDataset.at(f"{tmp_path}?annotations={REAL / 'ucf-crime'}"))
    parts = Counter((row.split["person"] == "test", row.action == "Normal") for row in told.rows)
    assert parts == {(False, False): 810, (False, True): 800, (True, False): 140, (True, True): 150}
    assert {row.action for row in told.rows} == set(ACTIONS)
    spans = [row.anomalies for row in told.rows if row.split["person"] == "test"]
    assert Counter(map(len, spans)) == {0: 150, 1: 124, 2: 16}
    assert all((row.action == "Normal") == (not row.anomalies) for row in told.rows if row.split["person"] == "test")
    assert len({row.path.stem for row in told.rows}) == 1900


def test_shards_keep_what_is_known_of_whole_videos(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    beside = tmp_path_factory.mktemp("beside")
    data = opened(root)
    prepare(data.name, beside / "shards", short_side=16, shards=2, workers=1)
    packed = open_dataset(f"shards:{beside / 'shards'}?{SMALL}")
    before, after = (
        {Path(each.sample(i).source).stem: (each.course(i), each.sample(i).anomalies) for i in range(len(each))}
        for each in (data, packed)
    )
    assert len(before) == 11 and after == before
    assert before["Abuse001_x264"][0] == (None, True) and before["Normal_Videos_003_x264"][0] == ((), False)
