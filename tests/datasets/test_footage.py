"""Own footage: recordings cut into pieces that do not overlap, later ones to test; and labels beside it."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from sfumato.datasets import footage
from sfumato.datasets.files import Sampling
from sfumato.datasets.footage import (
    LabelledFootage,
    Piece,
    Recordings,
    content_digest,
    footage_files,
    sampled,
    spread,
)
from sfumato.errors import SfumatoError

from .conftest import write_video

FOUR = Sampling(frames=3, size=32)  # 12 frames: four pieces of three


@pytest.fixture
def clips(videos: Path) -> Path:
    return videos / "clips"


def opened(clips: Path, count: int = 12, **options: Any) -> Recordings:
    return Recordings(clips, footage_files(clips)[:count], FOUR, **options)


def test_a_recording_is_cut_into_pieces_in_time_that_do_not_overlap(clips: Path) -> None:
    data = opened(clips)
    assert len(data) == 4 * 12 and len(data.persons) == 12
    first = [i for i, row in enumerate(data.rows) if row.person == "0.mp4"]
    frames = [data._frames_of(data.rows[i], 1)[0].tolist() for i in first]
    assert frames == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]]
    assert [data.rows[i].split["clip"] for i in first] == ["train", "train", "val", "test"]
    # The videos grow brighter by 8 from frame to frame: what is decoded is what was asked for.
    light = data.clips(torch.tensor(first)).pixels.float().mean((1, 3, 4, 5))
    assert (light - torch.tensor(frames) * 8).abs().max() < 4


def test_clips_come_in_the_order_asked_for(clips: Path) -> None:
    data = opened(clips)
    order = torch.tensor([47, 0, 21, 46])
    one_by_one = torch.cat([data.clips(index[None]).pixels for index in order])
    told: list[tuple[int, int]] = []
    together = data.clips(order, progress=lambda done, total: told.append((done, total))).pixels
    assert torch.equal(together, one_by_one)
    assert told[-1] == (4, 4)


def test_at_most_eight_pieces_and_at_least_four(clips: Path) -> None:
    assert len(Recordings(clips, footage_files(clips), Sampling(frames=1, size=32))) == 8 * 12
    with pytest.raises(SfumatoError, match="12 frames, 16 are needed for 4 clips"):
        Recordings(clips, footage_files(clips), Sampling(frames=4, size=32))
    with pytest.raises(SfumatoError, match="12 frames, 20 are needed"):
        Recordings(clips, footage_files(clips), Sampling(frames=3, size=32, skip=2))


def test_strangers_are_whole_recordings_where_there_are_enough(clips: Path, tmp_path: Path) -> None:
    few = opened(clips)
    assert len(few.split("train", "person")) == len(few)  # 12 are too few for five and five and five
    for n in range(12, 20):
        shutil.copy(clips / "0.mp4", tmp_path / f"{n}.mp4")
    for file in footage_files(clips):
        shutil.copy(file, tmp_path / file.name)
    data = opened(tmp_path, 20)
    people = {p: set(data.labels(data.split(p, "person")).person.tolist()) for p in ("train", "val", "test")}
    assert [len(people[p]) for p in ("train", "val", "test")] == [10, 5, 5]
    assert len(set.union(*people.values())) == 20


def test_the_earlier_half_of_a_recording_is_another_one_than_the_later(clips: Path) -> None:
    data = opened(clips)
    halves = data.recordings(torch.arange(len(data))).view(12, 4)
    assert (halves[:, 0] == halves[:, 1]).all() and (halves[:, 2] == halves[:, 3]).all()
    assert len(halves.unique()) == 24


def test_files_cut_from_one_recording_are_one(clips: Path) -> None:
    files = {(clips / f"{n}.mp4").resolve(): "monday" for n in (0, 1)}
    data = opened(clips, groups=files)
    assert len(data.persons) == 11
    mine = [row.split["clip"] for row in data.rows if row.person == "monday"]
    assert mine == ["train"] * 4 + ["val"] * 2 + ["test"] * 2


def test_of_a_long_recording_the_beginning_is_used(clips: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(footage, "LONGEST", 8 / 25)
    data = Recordings(clips, footage_files(clips), Sampling(frames=2, size=32))
    ends = [row.start + row.frames for row in data.rows if isinstance(row, Piece)]
    assert max(ends) == 8


def test_a_file_that_holds_less_than_its_header_says_is_cut_anew(clips: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sfumato.datasets.files.count_frames", lambda path: 24)

    def look(row: Any) -> None:
        row.frames, row.rate = 24, 25.0

    monkeypatch.setattr(Recordings, "look_into", staticmethod(look))
    data = Recordings(clips, [clips / "0.mp4"], Sampling(frames=2, size=32))
    assert len(data) == 8
    with pytest.raises(SfumatoError, match="take it out of the footage"):
        data.clips(torch.arange(8))  # eight pieces of two would need 16 frames
    shorter = Recordings(clips, [clips / "0.mp4"], Sampling(frames=1, size=32))
    assert shorter.clips(torch.arange(8)).pixels.shape[0] == 8
    assert shorter.rows[-1].frames == 2 and "12 readable frames" in shorter.problems[0]


def test_a_folder_without_videos_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SfumatoError, match="no video in"):
        footage_files(tmp_path)
    with pytest.raises(SfumatoError, match="there is no folder"):
        footage_files(tmp_path / "nowhere")


def test_the_same_sample_whatever_lies_beside(clips: Path) -> None:
    files = footage_files(clips)
    chosen = sampled(files, clips, 5)
    assert len(chosen) == 5 and chosen == [file for file in files if file in chosen]
    assert sampled([file for file in files if file in chosen], clips, 3) == sampled(files, clips, 3)
    assert sampled(files, clips, 99) == files


def test_the_digest_is_of_names_and_bytes_not_of_the_place(tmp_path: Path) -> None:
    for place in ("a", "b"):
        (tmp_path / place).mkdir()
        (tmp_path / place / "1.mp4").write_bytes(b"one")
        (tmp_path / place / "2.mp4").write_bytes(b"two")

    def digest(place: str) -> str:
        return content_digest(sorted((tmp_path / place).iterdir()), tmp_path / place)

    same = digest("a")
    assert digest("b") == same
    (tmp_path / "b" / "2.mp4").write_bytes(b"twO")
    assert digest("b") != same
    (tmp_path / "a" / "2.mp4").rename(tmp_path / "a" / "3.mp4")
    assert digest("a") != same


@pytest.mark.parametrize(
    ("count", "fewest", "parts"),
    [(8, 1, [4, 2, 2]), (3, 1, [1, 1, 1]), (2, 1, [2, 0, 0]), (14, 5, [14, 0, 0]), (16, 5, [6, 5, 5])],
)
def test_parts_are_quarters(count: int, fewest: int, parts: list[int]) -> None:
    found = list(spread([str(n) for n in range(count)] * 2, fewest).values())
    assert [found.count(part) for part in ("train", "val", "test")] == parts


def write_labels(path: Path, rows: list[dict[str, Any]]) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)
    return path


def rows(**more: Any) -> list[dict[str, Any]]:
    return [{"path": f"clips/{n}.mp4", **{k: v(n) for k, v in more.items()}} for n in range(12)]


def labelled(videos: Path, table: Path, most: int = 99) -> LabelledFootage:
    return LabelledFootage(videos / "clips", table, FOUR, most=most)


def test_only_the_path_is_needed_and_what_is_empty_is_unknown(videos: Path) -> None:
    table = write_labels(videos / "only.csv", rows(hat=lambda n: "" if n == 0 else "yn"[n % 2]))
    data = labelled(videos, table)
    assert (data.actions, data.persons, len(data)) == ((), (), 12)
    assert [spec.name for spec in data.attributes] == ["hat"]
    assert data.labels(torch.arange(12)).attributes[:3, 0].tolist() == [-1, 0, 1]
    assert len(labelled(videos, table, most=5)) == 5


def test_every_person_is_in_all_parts_by_clip_and_in_one_by_person(videos: Path) -> None:
    data = labelled(videos, write_labels(videos / "who.csv", rows(person=lambda n: n % 3)))
    for part in ("train", "val", "test"):
        assert set(data.labels(data.split(part, "clip")).person.tolist()) == {0, 1, 2}
        assert len(set(data.labels(data.split(part, "person")).person.tolist())) == 1


def test_a_recording_stays_in_one_part(videos: Path) -> None:
    data = labelled(
        videos, write_labels(videos / "tapes.csv", rows(person=lambda n: n % 2, recording=lambda n: n // 4))
    )
    parts = [data.rows[n].split["clip"] for n in range(12)]
    for tape in range(3):
        for who in (0, 1):
            assert len({parts[n] for n in range(12) if n // 4 == tape and n % 2 == who}) == 1
    assert data.groups()[(videos / "clips" / "5.mp4").resolve()] == "1"


def test_splits_of_the_table_are_kept(videos: Path) -> None:
    told = ["train"] * 4 + ["val"] * 4 + ["test"] * 4
    data = labelled(
        videos, write_labels(videos / "split.csv", rows(person=lambda n: n % 2, split_clip=told.__getitem__))
    )
    assert [row.split["clip"] for row in data.rows] == told


def test_what_does_not_lie_in_the_footage_is_left_out(videos: Path) -> None:
    write_video(videos / "outside.mp4", grey=0)
    bad = [
        {"path": "outside.mp4"},
        {"path": "../x.mp4"},
        {"path": "clips/99.mp4"},
        {"path": "clips/0.mp4"},
        {"path": ""},
    ]
    data = labelled(videos, write_labels(videos / "bad.csv", rows() + bad))
    assert len(data) == 12
    assert data.problems == [
        "bad.csv line 14: 'outside.mp4' does not lie in the footage",
        "bad.csv line 15: '../x.mp4' does not lie in the footage",
        "bad.csv line 16: there is no file 'clips/99.mp4'",
        "bad.csv line 17: 'clips/0.mp4' is listed twice",
        "bad.csv line 18: no value for 'path'",
    ]
    with pytest.raises(SfumatoError, match="has no usable video"):
        labelled(videos, write_labels(videos / "none.csv", bad[:3]))
    with pytest.raises(SfumatoError, match="has no column 'path'"):
        labelled(videos, write_labels(videos / "file.csv", [{"file": "clips/0.mp4"}]))
