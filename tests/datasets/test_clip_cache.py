"""The clip cache gives the decoder's own pixels, and never those of something else."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

import sfumato
from sfumato.datasets import clip_cache
from sfumato.datasets.clip_cache import FOLDER, READING, ClipCache, read_clip
from sfumato.errors import SfumatoError
from sfumato.video import read_clip as decode_clip

SIZE = (16, 16)
WANTED = [1, 4, 7, 10]


@pytest.fixture
def video(videos: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy2(videos / "clips" / "3.mp4", tmp_path / "a.mp4"))


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Every window that is really decoded from now on."""
    calls: list[Any] = []
    really = clip_cache.read_window

    def read(*arguments: Any) -> Tensor:
        calls.append(arguments)
        return really(*arguments)

    monkeypatch.setattr(clip_cache, "read_window", read)
    return calls


def entries(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_the_second_time_the_same_pixels_come_without_decoding(video: Path, tmp_path: Path, decoded: list[Any]) -> None:
    cache = ClipCache(tmp_path / "cache")
    first, second = (cache.read(video, torch.tensor(WANTED), SIZE) for _ in range(2))
    assert len(decoded) == 1
    assert first.equal(decode_clip(video, WANTED, SIZE)) and second.equal(first)
    assert second.dtype == torch.uint8 and second.is_contiguous()
    second.zero_()  # who gets a clip may write into it
    assert cache.read(video, WANTED, SIZE).equal(first)


def rewritten(path: Path) -> None:
    """Other content of the same size, at the same time of change but for a nanosecond."""
    stat = path.stat()
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1000))


def longer(path: Path) -> None:
    """Another size at the very same time of change."""
    stat = path.stat()
    path.write_bytes(path.read_bytes() + b"\0" * 16)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def copied_over(path: Path) -> None:
    """As `cp -p` and `rsync -t --inplace`: the same size and time of change."""
    stat = path.stat()
    path.write_bytes(path.read_bytes())
    while path.stat().st_ctime_ns == stat.st_ctime_ns:  # the file system's clock ticks every few milliseconds
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (stat.st_size, stat.st_mtime_ns)


def replaced(path: Path) -> None:
    """As `rsync -t`: another file takes the name."""
    shutil.copy2(path, path.with_name("new.mp4")).replace(path)


@pytest.mark.parametrize("change", [rewritten, longer, copied_over, replaced])
def test_a_source_that_changed_is_decoded_again_and_takes_the_old_place(
    video: Path, tmp_path: Path, decoded: list[Any], change: Callable[[Path], None]
) -> None:
    cache = ClipCache(tmp_path / "cache")
    cache.read(video, WANTED, SIZE)
    change(video)
    for _ in range(2):
        cache.read(video, WANTED, SIZE)
    assert len(decoded) == 2 and len(entries(cache.folder)) == 1


@pytest.mark.parametrize("part", ["st_size", "st_mtime_ns", "st_ctime_ns", "st_ino"])
def test_every_part_of_a_files_state_counts(
    part: str, video: Path, tmp_path: Path, decoded: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    cache, really = ClipCache(tmp_path / "cache"), Path.stat
    cache.read(video, WANTED, SIZE)

    def stat(path: Path, **options: Any) -> Any:
        found = really(path, **options)
        told = {name: getattr(found, name) for name in dir(found) if name.startswith("st_")}
        return SimpleNamespace(**{**told, part: told[part] + 1}) if path == video else found

    monkeypatch.setattr(Path, "stat", stat)
    cache.read(video, WANTED, SIZE)
    assert len(decoded) == 2


def test_other_content_gives_other_pixels(video: Path, videos: Path, tmp_path: Path) -> None:
    cache = ClipCache(tmp_path / "cache")
    before = cache.read(video, WANTED, SIZE)
    shutil.copy(videos / "clips" / "9.mp4", video)
    os.utime(video, ns=(1, 1))
    assert cache.read(video, WANTED, SIZE).equal(decode_clip(videos / "clips" / "9.mp4", WANTED, SIZE))
    assert not cache.read(video, WANTED, SIZE).equal(before)


OTHER: dict[str, dict[str, Any]] = {
    "frames": {"indices": [1, 4, 7, 11]}, "order": {"indices": [4, 1, 7, 10]}, "size": {"size": (16, 24)},
    "short side": {"size": 16}, "fps": {"fps": Fraction(25)}, "other fps": {"fps": Fraction(24)},
}  # fmt: skip


@pytest.mark.parametrize("what", OTHER)
def test_every_part_of_the_request_is_part_of_the_key(
    video: Path, tmp_path: Path, decoded: list[Any], what: str
) -> None:
    cache = ClipCache(tmp_path / "cache")
    asked: dict[str, Any] = {"indices": WANTED, "size": SIZE, "fps": None}
    cache.read(video, **asked)
    other = cache.read(video, **{**asked, **OTHER[what]})
    assert len(decoded) == 2
    assert cache.read(video, **{**asked, **OTHER[what]}).equal(other) and len(decoded) == 2


def test_another_path_or_decoder_is_another_key(
    video: Path, tmp_path: Path, decoded: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = ClipCache(tmp_path / "cache")
    cache.read(video, WANTED, SIZE)
    cache.read(Path(shutil.copy2(video, tmp_path / "b.mp4")), WANTED, SIZE)
    assert len(decoded) == 2
    with monkeypatch.context() as patch:
        patch.setattr(clip_cache, "_decoder", lambda: "99.0")
        cache.read(video, WANTED, SIZE)
    assert len(decoded) == 3
    cache.read(video, WANTED, SIZE)
    assert len(decoded) == 3


def test_what_other_code_has_read_is_read_again_and_takes_the_old_place(
    video: Path, tmp_path: Path, decoded: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = ClipCache(tmp_path / "cache")
    cache.read(video, WANTED, SIZE)
    asked: list[str] = []
    monkeypatch.setattr(clip_cache, "source_digest", lambda *patterns: asked.extend(patterns) or "other code")
    for _ in range(2):
        cache.read(video, WANTED, SIZE)
    assert len(decoded) == 2 and len(entries(cache.folder)) == 1
    assert set(asked) == set(READING)


def test_all_code_that_makes_pixels_is_looked_at() -> None:
    package = Path(sfumato.__file__).parent
    inside = {file for pattern in READING for file in package.glob(pattern)}
    assert {package / "datasets" / "clip_cache.py", package / "video" / "decode.py"} <= inside
    used = {name for file in inside for name in re.findall(r"^ *from (sfumato[.\w]*) import", file.read_text(), re.M)}
    assert {"sfumato.video", "sfumato.datasets.decoding"} <= used
    for name in used - {"sfumato.errors", "sfumato.registry", "sfumato.writing"}:  # which touch no pixel
        place = package.parent.joinpath(*name.split("."))
        assert {place.with_suffix(".py"), place / "__init__.py"} & inside, name


def flipped(content: bytes, at: int) -> bytes:
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]


def reshaped(content: bytes) -> bytes:
    line, pixels = content.split(b"\n", 1)
    header = json.loads(line)
    header["shape"] = [2, 6, 16, 16]
    return json.dumps(header).encode() + b"\n" + pixels


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "a flipped bit": lambda content: flipped(content, len(content) - 100), "cut short": lambda content: content[:-1],
    "too long": lambda content: content + b"\0", "empty": lambda content: b"", "only pixels": lambda c: c[-3072:],
    "no header": lambda content: b"[]\n" + content, "another shape": reshaped, "not JSON": lambda c: flipped(c, 0),
}  # fmt: skip


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_corrupt_entry_is_found_out_and_made_anew(video: Path, tmp_path: Path, decoded: list[Any], kind: str) -> None:
    cache = ClipCache(tmp_path / "cache")
    right = cache.read(video, WANTED, SIZE)
    (entry,) = entries(cache.folder)
    whole = entry.read_bytes()
    entry.write_bytes(DAMAGE[kind](whole))
    assert cache.read(video, WANTED, SIZE).equal(right) and len(decoded) == 2
    assert entry.read_bytes() == whole
    cache.read(video, WANTED, SIZE)
    assert len(decoded) == 2


def test_a_source_that_changes_while_it_is_read_is_not_kept(
    video: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    really = clip_cache.read_window

    def read(*arguments: Any) -> Tensor:
        pixels = really(*arguments)
        rewritten(video)
        return pixels

    monkeypatch.setattr(clip_cache, "read_window", read)
    ClipCache(tmp_path / "cache").read(video, WANTED, SIZE)
    assert not (tmp_path / "cache").exists()


def test_what_cannot_be_decoded_says_so_and_leaves_nothing(video: Path, tmp_path: Path) -> None:
    cache = ClipCache(tmp_path / "cache")
    video.write_bytes(video.read_bytes()[: -video.stat().st_size // 8])  # truncated: its last frames are gone
    with pytest.raises(SfumatoError, match="readable frames, not 12"):
        cache.read(video, [0, 11], SIZE)
    assert cache.read(video, [0, 1], SIZE).equal(decode_clip(video, [0, 1], SIZE))
    with pytest.raises(SfumatoError, match="there is no file"):
        cache.read(tmp_path / "none.mp4", [0], SIZE)
    assert len(entries(cache.folder)) == 1


def test_a_cache_that_cannot_be_written_to_is_told_and_the_clip_comes(video: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    with pytest.warns(UserWarning, match="cannot be written to"):
        pixels = ClipCache(tmp_path / "cache").read(video, WANTED, SIZE)
    assert pixels.equal(decode_clip(video, WANTED, SIZE))


def test_the_environment_turns_it_on(
    video: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, decoded: list[Any]
) -> None:
    monkeypatch.delenv(FOLDER, raising=False)
    assert read_clip(video, WANTED, SIZE).equal(decode_clip(video, WANTED, SIZE)) and len(decoded) == 1
    monkeypatch.setenv(FOLDER, str(tmp_path / "cache"))
    for _ in range(3):
        assert read_clip(video, WANTED, SIZE).equal(decode_clip(video, WANTED, SIZE))
    assert len(decoded) == 2 and len(entries(tmp_path / "cache")) == 1


FILL = """
import sys
from pathlib import Path
from sfumato.datasets.clip_cache import ClipCache
cache, videos = ClipCache(sys.argv[1]), sorted(Path(sys.argv[2]).glob("*.mp4"))
print("ready", flush=True)
sys.stdin.readline()
for _ in range(3):
    for path in videos:
        for step in (1, 2):
            print(cache.read(path, range(0, 12, step), (16, 16)).sum().item())
"""


def test_two_processes_fill_it_at_once(videos: Path, tmp_path: Path) -> None:
    folder, source = tmp_path / "cache", videos / "clips"
    command = [sys.executable, "-c", FILL, str(folder), str(source)]
    both = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    for process in both:
        assert process.stdout and process.stdout.readline() == "ready\n"
    for process in both:
        assert process.stdin
        process.stdin.write("go\n")
        process.stdin.flush()
    answers = [process.communicate(timeout=60)[0].split() for process in both]
    assert all(process.returncode == 0 for process in both)
    right = [
        str(int(decode_clip(path, range(0, 12, step), SIZE).sum()))
        for path in sorted(source.glob("*.mp4"))
        for step in (1, 2)
    ]
    assert answers == [right * 3] * 2
    assert len(entries(folder)) == len(right) and all(path.suffix == ".clip" for path in entries(folder))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # nothing is written any more
        (folder).chmod(0o500)
        for path in sorted(source.glob("*.mp4")):
            ClipCache(folder).read(path, range(12), SIZE)
        (folder).chmod(0o700)
