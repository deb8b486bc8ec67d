from __future__ import annotations

import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
import torch
from torch.nn import functional

from sfumato.errors import SfumatoError
from sfumato.video import count_frames, find_videos, probe, read_clip, read_frames

from .odd_videos import HEIGHT, WIDTH, corners, cut, fixtures, greys, make, numbers, tone


def close(picture: np.ndarray, expected: np.ndarray, tolerance: int = 12) -> bool:
    """Equal but for coding; the middle of each quarter is compared, since colour bleeds at the seams."""
    height, width = expected.shape[:2]
    points = [(height * i // 4, width * j // 4) for i in (1, 3) for j in (1, 3)]
    return picture.shape == expected.shape and all(
        np.abs(picture[point].astype(int) - expected[point].astype(int)).max() <= tolerance for point in points
    )


def noise(count: int) -> list[np.ndarray]:
    """Frames that do not compress, so that each takes its part of the file."""
    return list(np.random.default_rng(0).integers(0, 255, (count, HEIGHT, WIDTH, 3), dtype=np.uint8))


def test_trap_2_a_red_frame_is_read_red(tmp_path: Path) -> None:
    red = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    red[..., 0] = 255
    path = make(tmp_path / "red.mp4", [red] * 3)
    frame = next(read_frames(path))
    assert frame[..., 0].min() > 240
    assert frame[..., 1:].max() < 15
    clip = read_clip(path, [0])
    assert clip[0, 0].min() > 240
    assert clip[0, 1:].max() < 15


def test_probe_tells_what_the_file_is(tmp_path: Path) -> None:
    info = probe(make(tmp_path / "a.mp4", greys(6), rate=12, sound=True))
    assert (info.width, info.height, info.fps, info.frames, info.has_audio) == (WIDTH, HEIGHT, 12, 6, True)
    assert info.duration == pytest.approx(0.5)


def test_frames_come_in_order(tmp_path: Path) -> None:
    path = make(tmp_path / "a.mp4", greys(20))
    frames = list(read_frames(path))
    assert numbers(frames) == list(range(20))
    assert all(frame.dtype == np.uint8 and frame.shape == (HEIGHT, WIDTH, 3) for frame in frames)


@pytest.mark.parametrize(
    ("rotation", "upright"),
    [
        ((90, False, False), np.rot90(corners())),
        ((-90, False, False), np.rot90(corners(), -1)),
        ((180, False, False), np.rot90(corners(), 2)),
        ((0, True, False), corners()[:, ::-1]),
        ((0, False, True), corners()[::-1]),
        ((90, True, False), np.rot90(corners())[:, ::-1]),  # first the turn, then the mirror
    ],
)
def test_rotation_and_mirror_metadata_are_applied(
    tmp_path: Path, rotation: tuple[float, bool, bool], upright: np.ndarray
) -> None:
    path = make(tmp_path / "turned.mp4", [corners()] * 2, rotation=rotation)
    info = probe(path)
    assert (info.height, info.width) == upright.shape[:2]
    assert close(next(read_frames(path)), upright)
    assert close(read_clip(path, [0])[0].permute(1, 2, 0).numpy(), upright)
    small = corners(24, 32) if upright.shape[0] == HEIGHT else np.rot90(corners(24, 32))
    assert read_clip(path, [0], size=small.shape[:2]).shape == (1, 3, *small.shape[:2])


@pytest.mark.parametrize(
    ("name", "codec", "pixels"),
    [("a.mkv", "ffv1", "yuv420p10le"), ("b.mp4", "libx264", "yuv420p10le"), ("c.mkv", "ffv1", "gray10le")],
)
def test_ten_bits_become_eight(tmp_path: Path, name: str, codec: str, pixels: str) -> None:
    path = make(tmp_path / name, greys(4), codec=codec, pixels=pixels)
    frames = list(read_frames(path))
    assert frames[0].dtype == np.uint8
    assert numbers(frames) == [0, 1, 2, 3]


def test_odd_sizes(tmp_path: Path) -> None:
    path = make(tmp_path / "odd.mkv", [corners(37, 51)] * 2, codec="ffv1", pixels="yuv420p")
    assert (probe(path).height, probe(path).width) == (37, 51)
    assert close(next(read_frames(path)), corners(37, 51))


def test_pixels_become_square(tmp_path: Path) -> None:
    path = make(tmp_path / "wide.mp4", [corners(48, 60)] * 2, aspect=Fraction(4, 3))
    assert (probe(path).height, probe(path).width) == (48, 80)
    assert close(next(read_frames(path)), corners(48, 80))


def test_variable_rate_keeps_its_timing(tmp_path: Path) -> None:
    # At 10 frames per second: 0 at tick 0, 1 at 1, 2 held from 2 to 4, 3 and 4 both at tick 5 (the later one stays), 5.
    path = make(tmp_path / "v.mkv", greys(6), times=[0, 100, 200, 490, 510, 600])
    assert numbers(list(read_frames(path, fps=Fraction(10))))[:7] == [0, 1, 2, 2, 2, 4, 5]
    assert numbers(list(read_frames(path))) == [0, 1, 2, 3, 4, 5]


def test_constant_rate_stays_as_it_is(tmp_path: Path) -> None:
    path = make(tmp_path / "c.mkv", greys(20), rate=24)
    assert numbers(list(read_frames(path, fps=probe(path).fps))) == list(range(20))


def test_a_jump_in_time_stamps_is_not_held_for_hours(tmp_path: Path) -> None:
    path = make(tmp_path / "jump.mkv", greys(4), times=[0, 100, 10_000_000, 10_000_100])
    assert numbers(list(read_frames(path, fps=Fraction(10))))[:4] == [0, 1, 2, 3]


def test_missing_duration(tmp_path: Path) -> None:
    live = make(tmp_path / "live.mkv", greys(8), container_options={"live": "1"})
    info = probe(live)
    assert info.duration is None
    assert info.frames is None
    assert numbers(list(read_frames(live, strict=True))) == list(range(8))
    assert count_frames(live) == 8


def test_a_cut_file_gives_what_is_left_and_one_warning(tmp_path: Path) -> None:
    path = cut(make(tmp_path / "cut.mkv", noise(40), rate=10, codec="mpeg4"), 0.5)
    lines: list[str] = []
    frames = list(read_frames(path, warn=lines.append))
    assert 5 < len(frames) < 35
    assert len(lines) == 1
    assert "damaged" in lines[0]
    with pytest.raises(SfumatoError, match="damaged"):
        list(read_frames(path, strict=True))


def test_a_cut_mp4_whose_index_comes_first(tmp_path: Path) -> None:
    path = make(tmp_path / "cut.mp4", noise(40), rate=10, container_options={"movflags": "faststart"})
    cut(path, 0.7)
    with pytest.warns(UserWarning, match="damaged"):
        assert 0 < len(list(read_frames(path))) < 40


def test_a_cut_avi_is_told_by_the_frames_its_header_counts(tmp_path: Path) -> None:
    path = make(tmp_path / "cut.avi", noise(40), rate=10, codec="mpeg4")
    whole: list[str] = []
    assert len(list(read_frames(path, strict=True, warn=whole.append))) == 40 and not whole
    cut(path, 0.5)
    lines: list[str] = []
    assert 10 < len(list(read_frames(path, warn=lines.append))) < 30
    (line,) = lines
    assert "is damaged (it ends after" in line and line.endswith("of 4.0 s)")
    with pytest.raises(SfumatoError, match="damaged"):
        list(read_frames(path, strict=True))


def test_an_avi_that_holds_pictures_has_fewer_than_it_counts_and_is_whole(tmp_path: Path) -> None:
    held = [100 * number for number in (*range(10), *range(20, 30))]  # a second without new pictures
    path = make(tmp_path / "held.avi", greys(20), rate=10, codec="mpeg4", times=held)
    assert len(list(read_frames(path, strict=True))) == 20


def test_real_avi_cut_in_half(tmp_path: Path) -> None:
    path = tmp_path / "half.avi"
    path.write_bytes((fixtures() / "v_SoccerJuggling_g23_c01.avi").read_bytes()[:250_000])
    with pytest.warns(UserWarning, match=r"it ends after 4\.0 of 8\.0 s"):
        assert len(list(read_frames(path))) == 121


def test_damage_in_the_middle_is_skipped(tmp_path: Path) -> None:
    path = make(tmp_path / "hole.mp4", noise(30), codec="mjpeg", pixels="yuvj420p")
    with av.open(str(path)) as container:
        packets = [(packet.pos, packet.size) for packet in container.demux() if packet.size]
    data = bytearray(path.read_bytes())
    position, size = packets[14]
    data[position : position + size] = bytes(size)
    path.write_bytes(data)
    lines: list[str] = []
    assert len(list(read_frames(path, warn=lines.append))) == 29
    assert len(list(read_frames(path, fps=Fraction(30), warn=lines.append))) == 30  # the frame before is held
    assert lines == [f"'{path}' is damaged (1 unreadable piece left out)"] * 2


def test_a_whole_file_gives_no_warning(tmp_path: Path) -> None:
    path = make(tmp_path / "a.mkv", greys(20), rate=5, sound=True)
    assert len(list(read_frames(path, strict=True))) == 20


def test_what_is_no_video_is_one_clear_line(tmp_path: Path) -> None:
    garbage, empty, song = tmp_path / "g.mp4", tmp_path / "e.mp4", tmp_path / "song.mp4"
    garbage.write_bytes(np.random.default_rng(0).bytes(4000))
    empty.touch()
    with av.open(str(song), "w") as container:
        track = container.add_stream("aac", rate=48_000, layout="mono")
        container.mux([*track.encode(tone(0.2)), *track.encode(None)])
    headless = cut(make(tmp_path / "h.mp4", greys(20)), 0.5)
    for path, words in [
        (garbage, "cannot be read"),
        (empty, "cannot be read"),
        (headless, "cannot be read"),
        (song, "no video stream"),
        (tmp_path, "is a folder"),
        (tmp_path / "none.mp4", "no file"),
    ]:
        with pytest.raises(SfumatoError, match=words):
            probe(path)
        with pytest.raises(SfumatoError, match=words):
            next(read_frames(path))
        with pytest.raises(SfumatoError, match=words):
            read_clip(path, [0])


def test_a_colon_in_the_name_is_no_protocol(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    make(Path("a.mp4"), greys(3)).rename("concat:12:30.mp4")
    assert count_frames("concat:12:30.mp4") == 3


def test_read_clip_takes_the_named_frames_in_the_order_asked(tmp_path: Path) -> None:
    path = make(tmp_path / "a.mp4", greys(20))
    clip = read_clip(path, torch.tensor([4, 2, 2, 9]))
    assert clip.dtype == torch.uint8
    assert clip.shape == (4, 3, HEIGHT, WIDTH)
    assert clip.is_contiguous()
    assert numbers([frame.numpy() for frame in clip]) == [4, 2, 2, 9]


def test_read_clip_resizes_with_antialiasing(tmp_path: Path) -> None:
    fine = np.indices((HEIGHT, WIDTH)).sum(0)[..., None].repeat(3, -1) % 2 * 255
    path = make(tmp_path / "a.mkv", [fine.astype(np.uint8)], codec="ffv1", pixels="yuv444p")
    small = read_clip(path, [0], size=(12, 16)).float()
    expected = functional.interpolate(
        torch.from_numpy(fine).permute(2, 0, 1)[None].float(), (12, 16), mode="bilinear", antialias=True
    )
    assert small.shape == (1, 3, 12, 16)
    assert (small - expected).abs().max() < 6


def test_read_clip_forgives_headers_but_not_wishes(tmp_path: Path) -> None:
    path = make(tmp_path / "a.mp4", greys(5))
    assert numbers([frame.numpy() for frame in read_clip(path, [3, 4, 5, 6])]) == [3, 4, 4, 4]
    with pytest.raises(SfumatoError, match="has 5 readable frames, not 8"):
        read_clip(path, [7])
    with pytest.raises(SfumatoError, match="from 0 on"):
        read_clip(path, [-1])


def test_find_videos(tmp_path: Path) -> None:
    for name in ("b.mp4", "sub/a.MOV", "note.txt", ".b.partial-1.mp4", ".hidden/c.mp4", "odd[1].mp4"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert find_videos(tmp_path) == [tmp_path / "b.mp4", tmp_path / "odd[1].mp4", tmp_path / "sub/a.MOV"]
    assert find_videos(f"{tmp_path}/*.mp4") == [tmp_path / "b.mp4", tmp_path / "odd[1].mp4"]
    assert find_videos(tmp_path / "odd[1].mp4") == [tmp_path / "odd[1].mp4"]
    assert find_videos(tmp_path / "note.txt") == [tmp_path / "note.txt"]
    (tmp_path / "empty").mkdir()
    for nothing, words in [("empty", "no video in"), ("*.avi", "no video in"), ("gone.mp4", "no file")]:
        with pytest.raises(SfumatoError, match=words):
            find_videos(tmp_path / nothing)


def test_the_room_opens_without_a_decoder() -> None:
    code = "import sys, sfumato.video, sfumato.anonymizers.streaming; sys.exit('av' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_real_clips_all_decode() -> None:
    clips = find_videos(fixtures())
    assert len(clips) == 9
    for path in clips:
        info = probe(path)
        count = 0
        for frame in read_frames(path, strict=True):
            assert frame.shape == (info.height, info.width, 3)
            count += 1
        assert info.frames is not None
        assert info.frames - 1 <= count <= info.frames


def test_real_clip_with_metadata_that_is_not_utf_8() -> None:
    path = next(path for path in find_videos(fixtures()) if "Turnk_r_Pippi" in path.name)
    with pytest.raises(UnicodeDecodeError):
        av.open(str(path))
    assert read_clip(path, [0, 40, 82], size=(56, 56)).float().std() > 10
