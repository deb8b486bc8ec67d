"""`sfumato data prepare`, used well and badly."""

from __future__ import annotations

import csv
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from sfumato.cli import app
from sfumato.commands.prepare import _check_kind, prepare
from sfumato.datasets import open_dataset
from sfumato.datasets.files import FileDataset
from sfumato.datasets.shards import ShardDataset
from sfumato.errors import SfumatoError
from sfumato.video import probe

from ..datasets import copies

Make = Callable[..., Path]
PARTS = ("train", "val", "test")


@pytest.fixture
def table(tmp_path: Path, make_video: Make) -> Path:
    """data/index.csv of six videos of 32×48, three of them in a folder of their own, one of them AVI's neighbour."""
    root, rows = tmp_path / "data", []
    for n in range(6):
        name = f"clips/{'a/' if n % 2 else ''}{n}.mp4"
        make_video(root / name, frames=12 + n, seed=n)
        rows.append([name, "bow" if n < 3 else "wave", f"p{n % 3}", "yes" if n % 2 else "no", f"tape{n // 2}"])
    shutil.move(root / "clips/4.mp4", root / "clips/4.mkv")
    rows[4][0] = "clips/4.mkv"
    with (root / "index.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["path", "action", "person", "hat", "recording", "split_person", "split_clip"])
        writer.writerows([*row, PARTS[n % 3], PARTS[n % 3]] for n, row in enumerate(rows))
    return root / "index.csv"


def source(table: Path) -> str:
    return f"manifest:{table}?frames=4&size=16"


def fails(*arguments: object, **options: object) -> str:
    with pytest.raises(SfumatoError) as error:
        prepare(*arguments, **{"workers": 1, **options})  # type: ignore[arg-type]
    assert error.value.next_step
    return str(error.value)


def test_small_files_with_the_same_labels(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], files: Callable[[Path], list[str]]
) -> None:
    small = tmp_path / "small"
    prepare(source(table), small, short_side=16, workers=1)
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == (f"manifest:{small / 'index.csv'}: 6 clips\n", "")
    clips = [f"clips/{name}" for name in ("0.mp4", "2.mp4", "4.mkv.mp4", "a/1.mp4", "a/3.mp4", "a/5.mp4")]
    assert files(small) == [*clips, "index.csv", "prepared.json"]
    info = probe(small / "clips" / "a" / "5.mp4")
    assert (info.height, info.width, info.fps, info.frames) == (16, 24, 25, 17)
    before, after = (open_dataset(name, strict=True) for name in (source(table), source(small / "index.csv")))
    every = torch.arange(6)
    one, other = before.labels(every), after.labels(every)
    assert all(getattr(one, what).equal(getattr(other, what)) for what in ("action", "person", "attributes"))
    assert (before.actions, before.persons, before.attributes) == (after.actions, after.persons, after.attributes)
    assert before.recordings(every).equal(after.recordings(every))
    assert all(before.split(part, "clip").equal(after.split(part, "clip")) for part in PARTS)  # type: ignore[arg-type]


def test_shards_with_the_same_labels(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "shards"
    prepare(source(table), folder, short_side=16, shards=2, workers=1)
    assert capsys.readouterr().out == f"shards:{folder}: 6 clips\n"
    before, after = open_dataset(source(table)), ShardDataset(f"{folder}?frames=4&size=16", strict=True)
    names = [after.sample(i).source for i in range(6)]
    assert sorted(names) == ["0.mp4", "2.mp4", "4.mkv", "a/1.mp4", "a/3.mp4", "a/5.mp4"]
    order = torch.tensor([names.index(f"{'a/' if n % 2 else ''}{n}.{'mkv' if n == 4 else 'mp4'}") for n in range(6)])
    one, other = before.labels(torch.arange(6)), after.labels(order)
    assert one.action.equal(other.action) and one.person.equal(other.person) and one.attributes.equal(other.attributes)
    assert (before.actions, before.persons, before.attributes) == (after.actions, after.persons, after.attributes)
    for part in PARTS:
        here = {names[i] for i in after.split(part, "person").tolist()}  # type: ignore[arg-type]
        there = {before.sample(i).source for i in before.split(part, "person").tolist()}  # type: ignore[arg-type]
        assert here == {Path(path).relative_to(table.parent / "clips").as_posix() for path in there}
    assert str(tmp_path) not in (folder / "index.json").read_text()
    assert not any(str(tmp_path).encode() in path.read_bytes() for path in folder.glob("*.tar"))
    tapes = after.recordings(order)
    assert tapes[0::2].equal(tapes[1::2]) and len(set(tapes.tolist())) == 3
    # 12 frames of noise that moves: the pictures are the same ones, within what two resizings and JPEG cost.
    difference = before.clips(torch.arange(6)).pixels.float() - after.clips(order).pixels.float()
    assert difference.abs().mean() < 12 and after.clips(order).pixels.float().std() > 10


def test_a_second_run_makes_only_what_is_missing(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = tmp_path / "small"
    prepare(source(table), small, short_side=16, workers=1)
    clips = sorted(small.rglob("*.mp4"))
    before = [path.stat().st_ino for path in clips]
    clips[0].unlink()
    os.utime(table.parent / "clips" / "2.mp4", (10_000, 10_000))
    capsys.readouterr()
    prepare(source(table), small, short_side=16, workers=1)
    assert capsys.readouterr().out.endswith(": 6 clips\n")
    again = [path for path, node in zip(clips, before, strict=True) if path.stat().st_mtime == 10_000]
    assert [path.name for path in again] == ["2.mp4"] and clips[0].is_file()
    assert [path.stat().st_ino for path in clips][2:] == before[2:]
    assert "short_side = 16, not 24" in fails(source(table), small, short_side=24)
    assert "fps = None, not 10" in fails(source(table), small, short_side=16, fps=10)


def test_the_rate_can_be_changed(table: Path, tmp_path: Path) -> None:
    prepare(source(table), tmp_path / "small", short_side=16, fps=50, workers=1)
    info = probe(tmp_path / "small" / "clips" / "0.mp4")
    assert (info.fps, info.frames) == (50, 24)


@pytest.mark.parametrize("shards", [None, 1])
def test_a_damaged_video_is_told_once_and_left_out_or_stops(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], shards: int | None
) -> None:
    path = table.parent / "clips" / "a" / "1.mp4"
    path.write_bytes(path.read_bytes()[: -path.stat().st_size // 8])
    assert "is damaged" in fails(source(table), tmp_path / "strict", short_side=16, shards=shards, strict=True)
    capsys.readouterr()
    prepare(source(table), tmp_path / "out", short_side=16, shards=shards, workers=1)
    shown = capsys.readouterr()
    assert shown.out.endswith(": 5 clips, 1 left out\n")
    (line,) = shown.err.splitlines()
    assert line.startswith(f"left out: '{path}' is damaged")
    assert not list((tmp_path / "out").rglob("*1.mp4")) and not list((tmp_path / "out").rglob(".*"))


def test_places_and_sources_that_do_not_work_are_told_in_one_line(table: Path, tmp_path: Path) -> None:
    before = table.read_bytes()
    for place in (table.parent, table.parent / "clips", tmp_path):
        assert "is where the videos are" in fails(source(table), place)
    for part in PARTS:
        (tmp_path / "folder" / part / "bow").mkdir(parents=True)
        shutil.copy(table.parent / "clips" / "a" / "5.mp4", tmp_path / "folder" / part / "bow")
    assert "is where the videos are" in fails(str(tmp_path / "folder"), tmp_path / "folder" / "small")
    assert table.read_bytes() == before
    assert "is a file" in fails(source(table), table.parent / "clips" / "0.mp4")
    assert "theatre:small is not made of video files" in fails("theatre:small", tmp_path / "out")
    assert "there is no data set 'thaetre'" in fails("thaetre", tmp_path / "out")
    assert "6 clips do not fill 7 shards" in fails(source(table), tmp_path / "out", shards=7)
    assert "cannot read the table" in fails(str(tmp_path / "none.csv"), tmp_path / "out")
    # Without options the name of a table ends in .csv too; its videos are too short for the usual clips.
    assert "has no train clips" in fails(f"manifest:{table}", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_as_a_command(table: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    prepared = ["data", "prepare", source(table), "-o", str(out), "--short-side", "16", "--workers", "1"]
    done = CliRunner().invoke(app, [*prepared, "--shards", "2"])
    assert done.exit_code == 0 and len(list(out.glob("*.tar"))) == 2, done.output
    assert open_dataset(f"shards:{out}?frames=4&size=16").clips(torch.arange(2)).pixels.shape == (2, 1, 4, 3, 16, 16)
    assert CliRunner().invoke(app, [*prepared, "--shards", "0"]).exit_code == 2


def test_videos_that_are_shorter_than_a_clip_stay_in(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, small = f"ucf101:{copies.ucf101(tmp_path / 'ucf101')}?frames=16&size=16", tmp_path / "small"
    prepare(data, small, short_side=16, workers=1)
    name = capsys.readouterr().out.split(": ")[0]
    assert name == f"manifest:{small / 'index.csv'}?least=1"
    before, after = (open_dataset(one, strict=True) for one in (data, f"{name}&frames=16&size=16"))
    every = torch.arange(len(before))
    assert len(before) == len(after) and before.times(every).equal(after.times(every))  # 8 frames, twice
    with pytest.raises(SfumatoError, match=r"no usable video .* has 8 frames, 16 are asked for"):
        open_dataset(f"manifest:{small / 'index.csv'}?frames=16&size=16")
    with pytest.raises(SfumatoError, match="has 8 frames, fewer than least=9"):
        open_dataset(f"manifest:{small / 'index.csv'}?frames=16&size=16&least=9", strict=True)


def test_what_does_not_fit_into_a_table_is_refused_before_anything_is_made(tmp_path: Path, table: Path) -> None:
    pictures = f"vispr:{copies.vispr(tmp_path / 'vispr')}?size=16"
    assert "is made of pictures" in fails(pictures, tmp_path / "out")
    assert "is made of pictures" in fails(
        f"casia-b:{copies.casia_b(tmp_path / 'casia')}?{copies.SMALL}", tmp_path / "out"
    )
    crimes = open_dataset(source(table))
    assert isinstance(crimes, FileDataset)
    crimes.rows[0].action = ""
    with pytest.raises(SfumatoError, match="several actions, or none: give --shards"):
        _check_kind(crimes, None)
    _check_kind(crimes, 1)
    assert not (tmp_path / "out").exists()
