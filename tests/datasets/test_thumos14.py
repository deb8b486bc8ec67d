from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from sfumato.commands.prepare import prepare
from sfumato.datasets import Segment, open_dataset
from sfumato.datasets.thumos14 import PUBLISHED, THUMOS14Dataset, read_spans
from sfumato.errors import SfumatoError

from . import copies
from .copies import REAL, SMALL, needs_real


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return copies.thumos14(tmp_path)


def opened(root: Path) -> THUMOS14Dataset:
    data = open_dataset(f"thumos14:{root}?{SMALL}", strict=True)
    assert isinstance(data, THUMOS14Dataset)
    return data


def segments(data: THUMOS14Dataset) -> dict[str, tuple[Segment, ...]]:
    samples = [data.sample(i) for i in range(len(data))]
    return {Path(sample.source).stem: sample.segments for sample in samples}


def test_seconds_become_frames_at_the_rate_of_the_file(root: Path) -> None:
    found = segments(opened(root))
    # 10 frames a second: .2 to .7 s; 1.5 s to behind the end of the 20 frames; what begins there is dropped.
    assert found["video_test_0000004"] == (Segment(2, 7, "Diving"), Segment(15, 20, "Diving"))
    # 25 frames a second: .3 to .6 s are the frames 7.5 to 15.
    assert found["video_validation_0000003"] == (Segment(8, 15, "CliffDiving"), Segment(8, 15, "Diving"))


def test_one_learns_from_validation_and_a_video_is_what_it_shows_longest(root: Path) -> None:
    data = opened(root)
    assert data.actions == ("CliffDiving", "Diving", "GolfSwing")
    actions = {row.path.stem: row.action for row in data.rows}
    assert actions["video_validation_0000002"] == "GolfSwing"  # .4 s against .2 s
    assert actions["video_validation_0000003"] == "CliffDiving"  # as long as Diving, and the rarer
    tested = {data.rows[i].path.stem for i in data.split("test", "person").tolist()}
    assert tested == {"video_test_0000004", "video_test_0000005"}
    val = [data.rows[i].action for i in data.split("val", "clip").tolist()]
    assert sorted(val) == ["CliffDiving", "GolfSwing"] and len(data.split("train", "clip")) == 2


def test_the_fingerprint_changes_with_a_segment(root: Path) -> None:
    before = opened(root).fingerprint()
    path = root / "thumos14.json"
    path.write_text(path.read_text().replace("0.2, 0.7", "0.2, 0.6"))
    assert opened(root).fingerprint() != before


def test_a_database_around_it_and_other_letters_are_the_same(root: Path) -> None:
    before = segments(opened(root))
    told = json.loads((root / "thumos14.json").read_text())
    for about in told.values():
        about["subset"] = about["subset"].title()
    (root / "thumos14.json").write_text(json.dumps({"version": "1", "database": told}))
    assert segments(opened(root)) == before


@pytest.mark.parametrize(
    ("old", "new"),
    [('"subset": "test"', '"subset": "training"'), ("0.2, 0.7", "0.7, 0.7"), ("[0.2, 0.7]", "[0.2]"), ("{", "")],
)
def test_another_format_is_refused(root: Path, old: str, new: str) -> None:
    path = root / "thumos14.json"
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(SfumatoError, match="not in THUMOS14's format"):
        opened(root)


@needs_real
def test_the_published_file_has_the_published_numbers(tmp_path: Path) -> None:
    place = THUMOS14Dataset.at(f"{tmp_path}?annotations={REAL / 'thumos14'}")
    told = THUMOS14Dataset.annotations(place)
    parts = Counter(row.split["person"] for row in told.rows)
    assert len(told.rows) == PUBLISHED["videos"] and len(told.actions) == 20
    assert (parts["train"] + parts["val"], parts["test"]) == (200, 212) and 20 <= parts["val"] <= 40
    assert {row.action for row in told.rows} == set(told.actions)
    spans = read_spans(place)
    assert sum(len(each) for _, each in spans.values()) == 6365
    assert spans["video_test_0000896"][1][0].start == 18.6 and len(spans["video_test_0000896"][1]) == 7


def test_shards_keep_the_segments_also_at_another_rate(
    root: Path, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    beside = tmp_path_factory.mktemp("beside")
    prepare(f"thumos14:{root}?{SMALL}", beside / "shards", short_side=16, fps=50, shards=1, workers=1)
    packed = open_dataset(f"shards:{beside / 'shards'}?{SMALL}")
    found = {Path(sample.source).stem: sample.segments for sample in map(packed.sample, range(len(packed)))}
    # Five times as many frames, and twice as many.
    assert found["video_test_0000004"] == (Segment(10, 35, "Diving"), Segment(75, 100, "Diving"))
    assert found["video_validation_0000003"] == (Segment(16, 30, "CliffDiving"), Segment(16, 30, "Diving"))
    assert packed.course(0).anomalous is None
    assert capsys.readouterr().err == ""
    prepare(f"thumos14:{root}?{SMALL}", beside / "files", short_side=16, workers=1)
    assert "index.csv cannot say when what happens" in capsys.readouterr().err
