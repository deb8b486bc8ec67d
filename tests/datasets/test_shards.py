"""Shards: what goes in comes out, every process gets its own, and nothing damaged or foreign is taken."""

from __future__ import annotations

import io
import json
import os
import shutil
import tarfile
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sfumato.datasets.decoding import frames_at
from sfumato.datasets.shard_writing import PlannedClip, ShardWriter, pack
from sfumato.datasets.shards import INDEX, ShardDataset, share_of
from sfumato.errors import SfumatoError

LABELS = {
    "actions": ["bow", "wave"], "persons": ["8", "9", "10"], "phrases": ["bows", "waves"],
    "labelled": {"hair": ["dark", "fair"], "hat": ["no", "yes"]}, "attributes": ["hat"], "mirror_safe": True,
}  # fmt: skip
PARTS = ("train", "val", "test")


def known(n: int) -> dict[str, Any]:
    return {
        "source": f"{n}.mp4", "recording": f"tape {n // 2}", "action": n % 2, "person": n % 3,
        "attributes": {"0": 1, "1": -1} if n == 5 else {"1": n % 2}, "split": {"person": PARTS[n % 3], "clip": "train"},
    }  # fmt: skip


def writer(source: Path, folder: Path, *, shards: int = 3, count: int = 12, **settings: Any) -> ShardWriter:
    clips = [PlannedClip(source / f"{n}.mp4", known(n)) for n in range(count)]
    return ShardWriter(folder, clips, LABELS, shards=shards, **{"short_side": 24, "fps": None, **settings})


def write(made: ShardWriter, strict: bool = False) -> tuple[tuple[int, int], list[str]]:
    told: list[str] = []
    return made.write(
        workers=1, strict=strict, tell=lambda item, why: told.append(f"{item}: {why}"), progress=lambda *_: None
    ), told


@pytest.fixture(scope="module")
def shards(videos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shards")
    assert write(writer(videos / "clips", folder)) == ((12, 0), [])
    return folder


@pytest.fixture
def copy(shards: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(shards, tmp_path / "copy"))


def opened(folder: Path, options: str = "frames=4&size=16", strict: bool = False) -> ShardDataset:
    return ShardDataset(f"{folder}?{options}", strict=strict)


def numbers(data: ShardDataset) -> list[int]:
    """Which videos its clips are of."""
    return [int(data.sample(i).source.removesuffix(".mp4")) for i in range(len(data))]


def fails(call: Callable[[], object]) -> str:
    with pytest.raises(SfumatoError) as error:
        call()
    assert error.value.next_step
    return str(error.value)


def test_pictures_are_those_of_the_video_within_what_jpeg_loses(videos: Path, shards: Path) -> None:
    data = opened(shards, "frames=12&size=24")
    for i, n in enumerate(numbers(data)):
        frames = np.stack(list(frames_at(videos / "clips" / f"{n}.mp4", 24)))  # (12, 24, 36, 3)
        packed = data.packed[i]
        about = data._about(packed)
        assert (about["height"], about["width"], packed.frames) == (24, 36, 12)
        # These greys vary over time only, so that resizing to a square changes nothing: JPEG costs 2 levels at most.
        grey = data.sample(i).clip.float().mean((-3, -2, -1))
        assert (grey - torch.from_numpy(frames).float().mean((1, 2, 3))).abs().max() < 2


def test_the_bytes_of_a_picture_come_back_exactly(videos: Path, shards: Path) -> None:
    clip = PlannedClip(videos / "clips" / "7.mp4", known(7))
    data = opened(shards)
    packed = data.packed[numbers(data).index(7)]
    stored = data._path(packed.shard).read_bytes()[packed.pixels[0] : sum(packed.pixels)]
    assert stored == b"".join(pack(clip, 24, None).pictures)


def test_a_window_is_cut_as_from_a_file(shards: Path) -> None:
    data = opened(shards)
    at = numbers(data).index(3)
    assert data.times(torch.tensor([at])).tolist() == [[1, 4, 7, 10]]
    told: list[tuple[int, int]] = []
    clips = data.clips(torch.tensor([at, 0]), progress=lambda done, total: told.append((done, total)))
    assert (clips.pixels.shape, clips.pixels.dtype, clips.people) == ((2, 1, 4, 3, 16, 16), torch.uint8, None)
    assert told == [(1, 2), (2, 2)]
    grey = clips.pixels[0, 0].float().mean((-3, -2, -1))
    assert (grey - 30 - 8 * torch.tensor([1.0, 4, 7, 10])).abs().max() < 4
    views = opened(shards, "frames=4&size=16&skip=1").clips(torch.tensor([at]), views=3).pixels[0]
    assert ((views.float().mean((-3, -2, -1))[:, 0] - 30) / 8).round().tolist() == [0, 4, 8]
    assert opened(shards, "frames=16&size=16").times(torch.tensor([0]))[0, 10:14].tolist() == [10, 11, 0, 1]


def test_names_in_older_shards_are_said_in_words(copy: Path) -> None:
    index = json.loads((copy / INDEX).read_text())
    index["labels"] |= {"actions": ["BowLow", "wave_hand"], "phrases": ["BowLow", "wave_hand"]}
    (copy / INDEX).write_text(json.dumps(index))
    data = opened(copy)
    assert (data.actions, data.phrases()) == (("BowLow", "wave_hand"), ("bow low", "wave hand"))


def test_labels_come_back(shards: Path) -> None:
    data = opened(shards)
    assert (data.actions, data.phrases(), data.persons) == (("bow", "wave"), ("bows", "waves"), ("8", "9", "10"))
    assert [a.name for a in data.attributes] == ["hat"] and [a.name for a in data.labelled()] == ["hair", "hat"]
    assert data.mirror_safe
    found = numbers(data)
    order = torch.tensor([found.index(n) for n in range(12)])
    labels = data.about(["hair", "hat"]).labels(order)
    assert labels.action.tolist() == [0, 1] * 6 and labels.person.tolist() == [0, 1, 2] * 4
    assert labels.attributes[:6].tolist() == [[0, 0], [0, 1], [0, 0], [0, 1], [0, 0], [1, -1]]
    assert data.labels(order).attributes[:6, 0].tolist() == [0, 1, 0, 1, 0, -1]
    assert sorted(found[i] for i in data.split("val", "person").tolist()) == [1, 4, 7, 10]
    assert len(data.split("val", "clip")) == 0 and len(data.split("train", "clip")) == 12
    tapes = data.recordings(order)
    assert tapes[0::2].equal(tapes[1::2]) and len(set(tapes.tolist())) == 6
    assert dict(data.sample(found.index(5)).attributes) == {}


@pytest.mark.parametrize("world", [1, 2, 3])
def test_the_shares_of_all_processes_cover_everything_exactly_once(shards: Path, world: int) -> None:
    shares = [opened(shards, f"frames=4&size=16&rank={rank}&world={world}") for rank in range(world)]
    together = [n for share in shares for n in numbers(share)]
    assert sorted(together) == list(range(12))
    assert {share.actions for share in shares} == {("bow", "wave")}
    assert len({share.fingerprint() for share in shares}) == world


@pytest.mark.parametrize("count", [1, 2, 7, 64])
def test_every_shard_belongs_to_one_process(count: int) -> None:
    for world in range(1, count + 1):
        shares = [share_of(count, rank, world) for rank in range(world)]
        assert sorted(n for share in shares for n in share) == list(range(count))
        assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_too_many_processes_and_wrong_places_are_told(shards: Path) -> None:
    assert "3 shards cannot be shared by 4 processes" in fails(lambda: opened(shards, "rank=0&world=4&size=16"))
    assert "there is no process 2 of 2" in fails(lambda: opened(shards, "rank=2&world=2&size=16"))
    assert "not a whole number" in fails(lambda: opened(shards, "rank=x&size=16"))
    assert "short side 24, not 32" in fails(lambda: opened(shards, "size=32"))
    assert "no option 'ranks'" in fails(lambda: opened(shards, "ranks=1"))


def test_shards_are_filled_evenly_and_mixed(videos: Path, tmp_path: Path) -> None:
    made = writer(videos / "clips", tmp_path, shards=5)
    sizes = [sum(clip.shard == shard for clip in made.clips) for shard in range(5)]
    assert sorted(sizes) == [2, 2, 2, 3, 3]
    assert [int(str(clip).removesuffix(".mp4")) for clip in made.clips] != list(range(12))
    assert "12 clips do not fill 13 shards" in fails(lambda: writer(videos / "clips", tmp_path, shards=13))


@pytest.mark.usefixtures("quick_processes")
def test_the_same_videos_give_the_same_bytes_in_any_number_of_processes(
    videos: Path, shards: Path, tmp_path: Path
) -> None:
    made = writer(videos / "clips", tmp_path)
    made.write(workers=2, strict=True, tell=print, progress=lambda *_: None)
    for name in sorted(path.name for path in shards.iterdir()):
        assert (tmp_path / name).read_bytes() == (shards / name).read_bytes()


def test_the_rate_can_be_changed(videos: Path, tmp_path: Path) -> None:
    write(writer(videos / "clips", tmp_path, count=3, shards=1, fps=Fraction(50)))
    assert {clip.frames for clip in opened(tmp_path).packed} == {24}


def test_any_tar_reads_a_shard(shards: Path) -> None:
    with tarfile.open(shards / "00000.tar") as tar:
        names = tar.getnames()
        about, pictures = (tar.extractfile(names[n]).read() for n in (0, 1))  # type: ignore[union-attr]
    assert len(names) == 8 and names[0].endswith(".json") and names[1] == names[0].replace(".json", ".mjpeg")
    assert pictures[:2] == b"\xff\xd8" and json.loads(about)["frames"][-1] == len(pictures)


def edit_index(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    content = json.loads((folder / INDEX).read_text())
    change(content)
    (folder / INDEX).write_text(json.dumps(content))


def flip(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def test_damage_is_found_by_checksum_when_it_would_be_shown(copy: Path) -> None:
    place = opened(copy).packed[0].pixels[0] + 700
    flip(copy / "00000.tar", place)
    data = opened(copy)
    inside = [i for i, clip in enumerate(data.packed) if clip.shard == 0]
    outside = [i for i, clip in enumerate(data.packed) if clip.shard == 1]
    assert data.clips(torch.tensor(outside)).pixels.shape[0] == 4
    assert "00000.tar' is damaged (it has another checksum)" in fails(lambda: data.clips(torch.tensor(inside)))
    assert "another checksum" in fails(lambda: data.sample(inside[0]))
    assert "another checksum" in fails(lambda: opened(copy, strict=True))


def test_shards_that_are_missing_cut_or_unfinished_are_told(copy: Path, tmp_path: Path) -> None:
    (copy / "00001.tar").write_bytes((copy / "00001.tar").read_bytes()[:-1])
    assert "00001.tar' is missing or cut short" in fails(lambda: opened(copy))
    (copy / "00001.tar").unlink()
    assert "00001.tar' is missing or cut short" in fails(lambda: opened(copy))
    edit_index(copy, lambda index: index.update(complete=False))
    assert "are not finished" in fails(lambda: opened(copy))
    assert "cannot read" in fails(lambda: opened(tmp_path / "none"))


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"version": 1}', '{"version": 1, "shards": [{"file": 3}]}'])
def test_an_index_that_is_none_is_told(tmp_path: Path, content: str) -> None:
    (tmp_path / INDEX).write_text(content)
    assert "is no index of shards" in fails(lambda: opened(tmp_path))


@pytest.mark.parametrize("kind", ["above", "absolute", "below", "a link"])
def test_a_path_that_leaves_the_folder_is_refused(copy: Path, tmp_path: Path, kind: str) -> None:
    away = tmp_path / "elsewhere.tar"
    shutil.move(copy / "00000.tar", away)
    (copy / "sub").mkdir()
    shutil.copy(away, copy / "sub" / "x.tar")
    (copy / "link.tar").symlink_to(away)
    name = {"above": "../elsewhere.tar", "absolute": str(away), "below": "sub/x.tar", "a link": "link.tar"}[kind]
    edit_index(copy, lambda index: index["shards"][0].update(file=name))
    assert "which is not in its folder" in fails(lambda: opened(copy))


def smuggle(folder: Path, *members: tarfile.TarInfo) -> None:
    """Put a tar file of these members in the place of the first shard, the index saying so."""
    path = folder / "00000.tar"
    with tarfile.open(path, "w") as tar:
        for member in members:
            tar.addfile(member, io.BytesIO(b"{}" + b" " * member.size) if member.size else None)
    edit_index(folder, lambda index: index["shards"][0].update(bytes=path.stat().st_size, clips=1))


def test_members_that_have_no_place_in_a_shard_are_refused(copy: Path) -> None:
    def member(name: str, kind: bytes = tarfile.REGTYPE) -> tarfile.TarInfo:
        made = tarfile.TarInfo(name)
        made.size, made.type, made.linkname = (2 if kind == tarfile.REGTYPE else 0), kind, "/etc/passwd"
        return made

    link = member("1.json", tarfile.SYMTYPE)
    for pair in (
        (member("../1.json"), member("../1.mjpeg")), (member("1.json"), member("2.mjpeg")), (member("1.json"),),
        (link, member("1.mjpeg")), (member("1.mjpeg"), member("1.json")), (member("1.json"), member("1.mjpeg")),
    ):  # fmt: skip
        smuggle(copy, *pair)
        assert "00000.tar' is damaged" in fails(lambda: opened(copy))


def test_a_link_to_another_member_is_refused(copy: Path) -> None:
    path = copy / "00000.tar"
    with tarfile.open(path) as tar:
        about, pictures = tar.getmembers()[:2]
        content = tar.extractfile(pictures).read()  # type: ignore[union-attr]
    link = tarfile.TarInfo("999999.json")
    link.type, link.linkname = tarfile.SYMTYPE, about.name
    pictures.name = "999999.mjpeg"
    with tarfile.open(path, "a") as tar:
        tar.addfile(link)
        tar.addfile(pictures, io.BytesIO(content))
    edit_index(copy, lambda index: index["shards"][0].update(bytes=path.stat().st_size, clips=5))
    assert "00000.tar' is damaged" in fails(lambda: opened(copy))


def test_a_picture_of_another_size_than_stated_is_not_unpacked(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = opened(copy)
    really = data._about
    monkeypatch.setattr(data, "_about", lambda clip: {**really(clip), "width": 38})
    assert "has another size than its clip" in fails(lambda: data.sample(0))
    monkeypatch.setattr(data, "_about", lambda clip: {**really(clip), "frames": [5 * n for n in range(13)]})
    assert "of '" in fails(lambda: data.sample(0))


def changed(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_ino for path in folder.glob("*.tar")}


def test_what_is_made_is_not_made_again_and_what_is_damaged_is(videos: Path, copy: Path) -> None:
    before, whole = changed(copy), (copy / "00001.tar").read_bytes()
    write(writer(videos / "clips", copy))
    assert changed(copy) == before
    flip(copy / "00001.tar", 3000)
    assert write(writer(videos / "clips", copy)) == ((12, 0), [])
    after = changed(copy)
    assert [name for name in before if before[name] != after[name]] == ["00001.tar"]
    assert (copy / "00001.tar").read_bytes() == whole


def test_a_stopped_preparation_goes_on_with_the_next_shard(videos: Path, shards: Path, tmp_path: Path) -> None:
    def stop(done: int, total: int) -> None:
        if done == 6:  # in the second shard of four clips each
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        writer(videos / "clips", tmp_path).write(workers=1, tell=print, progress=stop)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["00000.tar", INDEX]
    assert "are not finished" in fails(lambda: opened(tmp_path))
    shown: list[int] = []
    writer(videos / "clips", tmp_path).write(workers=1, tell=print, progress=lambda done, _: shown.append(done))
    assert shown == list(range(5, 13))
    assert (tmp_path / INDEX).read_bytes() == (shards / INDEX).read_bytes()


def test_a_video_that_changed_is_packed_again(videos: Path, tmp_path: Path) -> None:
    source = Path(shutil.copytree(videos / "clips", tmp_path / "clips"))
    write(writer(source, tmp_path / "out"))
    before = changed(tmp_path / "out")
    made = writer(source, tmp_path / "out")
    (shard,) = (clip.shard for clip in made.clips if str(clip) == "4.mp4")
    shutil.copy(source / "9.mp4", source / "4.mp4")
    os.utime(source / "4.mp4", ns=(1, 1))
    write(writer(source, tmp_path / "out"))
    after = changed(tmp_path / "out")
    assert [name for name in before if before[name] != after[name]] == [f"{shard:05d}.tar"]
    data = opened(tmp_path / "out")
    assert abs(data.sample(numbers(data).index(4)).clip[0].float().mean() - 98) < 4  # grey 90 + 8


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"short_side": 16}, "short_side = 24, not 16"),
        ({"fps": Fraction(25)}, "fps = None, not 25"),
        ({"shards": 2}, "shards = 3, not 2"),
    ],
)
def test_a_folder_of_other_shards_is_refused(videos: Path, copy: Path, settings: dict[str, Any], message: str) -> None:
    before = changed(copy)
    assert message in fails(lambda: write(writer(videos / "clips", copy, **settings)))
    assert changed(copy) == before


def test_a_truncated_video_is_told_once_and_left_out_or_stops(videos: Path, tmp_path: Path) -> None:
    source = Path(shutil.copytree(videos / "clips", tmp_path / "clips"))
    whole = (source / "4.mp4").read_bytes()
    (source / "4.mp4").write_bytes(whole[: -len(whole) // 8])
    (total, told) = write(writer(source, tmp_path / "out"))
    assert total == (11, 1) and len(told) == 1 and told[0].startswith("4.mp4: ") and "is damaged" in told[0]
    assert sorted(numbers(opened(tmp_path / "out"))) == [n for n in range(12) if n != 4]
    assert write(writer(source, tmp_path / "out")) == ((11, 1), [])  # known by now
    assert "is damaged" in fails(lambda: write(writer(source, tmp_path / "out"), strict=True))
    (source / "4.mp4").write_bytes(whole)
    assert write(writer(source, tmp_path / "out")) == ((12, 0), [])
    for n in range(12):
        (source / f"{n}.mp4").write_bytes(b"no video")
    assert "none of the videos" in fails(lambda: write(writer(source, tmp_path / "none")))
