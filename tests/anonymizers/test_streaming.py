from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import count
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from sfumato.anonymizers import load, streaming
from sfumato.anonymizers.base import Anonymizer, ClipSpec, PartialAnonymizer
from sfumato.anonymizers.detectors import Detector, hold
from sfumato.anonymizers.streaming import anonymize_file, anonymize_stream
from sfumato.errors import SfumatoError
from sfumato.video import VideoWriter, probe, read_frames

HEIGHT, WIDTH = 32, 48


class Custom(Anonymizer):
    """An anonymizer made of any function, that keeps the clips it was given."""

    name = "custom"
    summary = "for tests"

    def __init__(self, function: Callable[[Tensor], Tensor], spec: ClipSpec | None = None) -> None:
        super().__init__()
        self.function = function
        self.spec = spec or ClipSpec()
        self.seen: list[Tensor] = []

    def forward(self, video: Tensor) -> Tensor:
        self.seen.append(video)
        return self.function(video)


class Hide(Anonymizer):
    """Blackens the people region."""

    name = "hide"
    summary = "for tests"
    needs_people = True

    def __init__(self, spec: ClipSpec | None = None) -> None:
        super().__init__()
        self.spec = spec or ClipSpec()

    def forward(self, video: Tensor, people: Tensor | None = None) -> Tensor:
        assert people is not None
        return video * (people == 0)


class Partial(PartialAnonymizer):
    """Shows what the mask, a function of the clip, keeps."""

    name = "partial"
    summary = "for tests"

    def __init__(self, mask: Callable[[Tensor], Tensor], spec: ClipSpec | None = None) -> None:
        super().__init__()
        self.mask, self.spec = mask, spec or ClipSpec()

    def forward(self, video: Tensor) -> Tensor:
        return self.forward_and_mask(video)[0]

    def forward_and_mask(self, video: Tensor) -> tuple[Tensor, Tensor]:
        mask = self.mask(video)
        return video * mask[:, :, :1], mask


def numbered(count: int) -> list[np.ndarray]:
    """Frames of one grey each that is the frame's number."""
    return [np.full((HEIGHT, WIDTH, 3), number, np.uint8) for number in range(count)]


def numbers(frames: list[np.ndarray]) -> list[int]:
    return [int(frame[0, 0, 0]) for frame in frames]


def video_file(path: Path, count: int = 20, fps: int = 10, size: tuple[int, int] = (HEIGHT, WIDTH)) -> Path:
    with VideoWriter(path, fps, size) as writer:
        for number in range(count):
            writer.write(np.full((*size, 3), 20 + 10 * (number % 20), np.uint8))
    return path


@pytest.mark.parametrize("count", [1, 7, 16, 40])
def test_single_frames_go_through_one_for_one(count: int) -> None:
    inverse = Custom(lambda video: 1 - video)
    frames = list(anonymize_stream(inverse, numbered(count)))
    assert numbers(frames) == [255 - number for number in range(count)]
    assert all(frame.shape == (HEIGHT, WIDTH, 3) and frame.dtype == np.uint8 for frame in frames)
    assert all(clip.shape[0] == 1 and clip.shape[1] <= 16 for clip in inverse.seen)


def test_no_frames_give_none() -> None:
    assert list(anonymize_stream(Custom(lambda video: video), [])) == []


@pytest.mark.parametrize("count", [1, 3, 7, 8, 9, 12, 13, 40, 41])
@pytest.mark.parametrize(("length", "step"), [(1, 1), (4, 1), (5, 1), (4, 2), (3, 3)])
def test_windows_give_back_as_many_frames_in_order(count: int, length: int, step: int) -> None:
    raw = Custom(lambda video: video, ClipSpec(length=length, frame_step=step))
    assert numbers(list(anonymize_stream(raw, numbered(count)))) == list(range(count))
    assert all(clip.shape[:2] == (1, length) for clip in raw.seen)


def test_clips_take_every_nth_frame_and_the_tail_repeats_the_last() -> None:
    raw = Custom(lambda video: video, ClipSpec(length=3, frame_step=2))
    list(anonymize_stream(raw, numbered(8)))
    clips = [(255 * clip[0, :, 0, 0, 0]).round().int().tolist() for clip in raw.seen]
    # Windows of 6 frames every 3: 0 to 5, then 3 to 7 filled up with 7.
    assert clips == [[0, 2, 4], [1, 3, 5], [3, 5, 7], [4, 6, 7]]


def test_windows_fade_into_each_other_worked_by_hand() -> None:
    # The n-th window of 4 frames is all n/10; they overlap by 2 frames, where the new one weighs 1/3, then 2/3.
    outputs = iter([0.0, 0.3, 0.6])
    counter = Custom(lambda video: torch.full_like(video, next(outputs)), ClipSpec(length=4))
    greys = [float(frame[0, 0, 0]) / 255 for frame in anonymize_stream(counter, numbered(8))]
    assert greys == pytest.approx([0, 0, 0.1, 0.2, 0.4, 0.5, 0.6, 0.6], abs=0.003)


def test_windows_that_must_not_blend_stand_side_by_side() -> None:
    outputs = iter([0.0, 0.3, 0.6])
    counter = Custom(lambda video: torch.full_like(video, next(outputs)), ClipSpec(length=4, blend=False))
    greys = [float(frame[0, 0, 0]) / 255 for frame in anonymize_stream(counter, numbered(10))]
    assert greys == pytest.approx([0, 0, 0, 0, 0.3, 0.3, 0.3, 0.3, 0.6, 0.6], abs=0.003)


def test_frames_are_resized_to_the_anonymizer_and_back() -> None:
    wave = (127 + 100 * np.sin(np.arange(WIDTH) / 6)).astype(np.uint8)
    frame = np.broadcast_to(wave[None, :, None], (HEIGHT, WIDTH, 3)).copy()
    for length in (None, 4):
        small = Custom(lambda video: video, ClipSpec(length=length, size=(24, 24)))
        (output,) = anonymize_stream(small, [frame])
        assert small.seen[0].shape[-2:] == (24, 24)
        assert output.shape == frame.shape
        assert np.abs(output.astype(int) - frame.astype(int)).mean() < 4


def endless(pulled: list[int]) -> Iterator[np.ndarray]:
    """White frames for ever; `pulled` gets the number of each that is asked for."""
    for number in count(1):
        pulled.append(number)
        yield np.full((HEIGHT, WIDTH, 3), 255, np.uint8)


@pytest.mark.parametrize("spec", [ClipSpec(), ClipSpec(length=8, frame_step=2)])
def test_frames_are_pulled_as_they_are_needed(spec: ClipSpec) -> None:
    """Constant memory: never is the reader far ahead of what has been given out."""
    pulled: list[int] = []
    stream = anonymize_stream(Custom(lambda video: video, spec), endless(pulled))
    for given in range(1, 200):
        next(stream)
        assert len(pulled) - given <= 16 + 16 + 16


def test_trap_9_an_anonymizer_left_in_train_mode_runs_in_eval_mode() -> None:
    anonymizer = Custom(nn.Dropout(0.5))
    anonymizer.train()
    frames = [np.full((HEIGHT, WIDTH, 3), 90, np.uint8)] * 40
    stream = anonymize_stream(anonymizer, frames)
    for number, frame in enumerate(stream):
        assert (frame == 90).all()
        if number == 5:
            anonymizer.train()  # and it stays so, whatever happens between two frames
    assert all(clip.is_inference() for clip in anonymizer.seen)


def test_the_output_of_a_batch_norm_does_not_depend_on_the_mode_it_came_in() -> None:
    torch.manual_seed(0)
    norm = nn.BatchNorm2d(3)
    anonymizer = Custom(lambda video: norm(video[0])[None].clamp(0, 1))
    anonymizer.norm = norm
    frames = list(np.random.default_rng(0).integers(0, 255, (3, HEIGHT, WIDTH, 3), dtype=np.uint8))
    first = [frame.copy() for frame in anonymize_stream(anonymizer.train(), frames)]
    second = list(anonymize_stream(anonymizer.eval(), frames))
    assert all(np.array_equal(one, other) for one, other in zip(first, second, strict=True))
    assert norm.running_mean is not None
    assert torch.equal(norm.running_mean, torch.zeros(3))


def spoiled(video: Tensor, value: float) -> Tensor:
    output = video.clone()
    output[0, -1, 0, 0, 0] = value
    return output


@pytest.mark.parametrize("length", [None, 4])
@pytest.mark.parametrize(
    "function",
    [
        lambda video: video[..., :-1],
        lambda video: video[:, :1],
        lambda video: video[0],
        lambda video: spoiled(video, float("nan")),
        lambda video: spoiled(video, float("inf")),
        lambda video: spoiled(video, -0.01),
        lambda video: spoiled(video, 1.01),
    ],
)
def test_a_bad_output_fails_closed(function: Callable[[Tensor], Tensor], length: int | None) -> None:
    with pytest.raises(SfumatoError, match=r"output of 'custom'.*nothing unhidden gets out"):
        list(anonymize_stream(Custom(function, ClipSpec(length=length)), numbered(6)))


def test_a_rounding_error_is_forgiven_and_cut_off() -> None:
    (frame,) = anonymize_stream(Custom(lambda video: torch.full_like(video, 1.0005)), numbered(1))
    assert (frame == 255).all()


def test_frames_of_two_sizes_are_refused() -> None:
    with pytest.raises(SfumatoError, match="one size"):
        list(anonymize_stream(Custom(lambda video: video), [*numbered(2), np.zeros((8, 8, 3), np.uint8)]))


def left_half(video: Tensor) -> Tensor:
    mask = torch.zeros_like(video[:, :, :1])
    mask[..., : video.shape[-1] // 2] = 1
    return mask


@pytest.mark.parametrize("spec", [ClipSpec(), ClipSpec(length=4), ClipSpec(length=2, size=(16, 20), frame_step=2)])
def test_people_are_found_at_the_frames_own_size_and_hidden(spec: ClipSpec) -> None:
    sizes: set[tuple[int, ...]] = set()

    def detector(video: Tensor) -> Tensor:
        assert 0 <= video.min() <= video.max() <= 1
        sizes.add((*video.shape[:1], *video.shape[2:]))
        return left_half(video)

    white = [np.full((HEIGHT, WIDTH, 3), 255, np.uint8)] * 21
    frames = list(anonymize_stream(Hide(spec), white, people=detector))
    assert len(frames) == 21
    assert sizes == {(1, 3, HEIGHT, WIDTH)}
    for frame in frames:
        assert frame[:, : WIDTH // 2 - 4].max() == 0
        assert frame[:, WIDTH // 2 + 4 :].min() == 255


def test_a_single_pixel_of_a_person_survives_the_resize_of_the_mask() -> None:
    def dot(video: Tensor) -> Tensor:
        mask = torch.zeros_like(video[:, :, :1])
        mask[..., 17, 21] = 0.001  # a person's in the least is a person's
        return mask

    white = [np.full((HEIGHT, WIDTH, 3), 255, np.uint8)]
    (frame,) = anonymize_stream(Hide(ClipSpec(size=(8, 12))), white, people=dot)
    assert frame[17, 21].max() < 100


def flicker(frames: Tensor) -> list[Tensor]:
    """A person in two frames of seven, at a place that wanders with the frame's grey."""
    found = []
    for number in (255 * frames[:, 0, 0, 0]).round().int().tolist():
        box = [number % 40, number % 24, number % 40 + 5, number % 24 + 6]
        found.append(torch.tensor([box] if number % 7 in (1, 2) else [], dtype=torch.float32).reshape(-1, 4))
    return found


@pytest.mark.parametrize("together", [1, 2, 16])
@pytest.mark.parametrize("temporal_hold", [0, 1, 5, 30])
@pytest.mark.parametrize("length", [None, 4])
@pytest.mark.parametrize("frames", [1, 3, 40])
def test_regions_are_held_over_the_whole_video_whatever_the_batches(
    monkeypatch: pytest.MonkeyPatch, together: int, temporal_hold: int, length: int | None, frames: int
) -> None:
    monkeypatch.setattr(streaming, "BATCH_FRAMES", together)
    detector = Detector(flicker, margin=0.0, temporal_hold=temporal_hold)
    video = np.stack(numbered(frames + 1)[1:])
    whole = torch.from_numpy(video).permute(0, 3, 1, 2)[None] / 255
    held = hold(detector.detect(whole), temporal_hold)[0, :, 0].numpy()
    assert held.any()
    output = np.stack(list(anonymize_stream(Hide(ClipSpec(length=length)), video, people=detector)))
    assert np.array_equal(output, video * (held == 0)[..., None])


def test_a_region_is_held_at_the_anonymizers_own_size_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "BATCH_FRAMES", 2)

    def only_in_the_fifth(frames: Tensor) -> list[Tensor]:
        return [torch.tensor([[0.0, 0.0, 24.0, 32.0]] if frame.max() == 1 else []).reshape(-1, 4) for frame in frames]

    frames = [np.full((HEIGHT, WIDTH, 3), 255 if number == 4 else 200, np.uint8) for number in range(9)]
    detector = Detector(only_in_the_fifth, margin=0.0, temporal_hold=3)
    output = list(anonymize_stream(Hide(ClipSpec(size=(16, 24))), frames, people=detector))
    assert [int(frame[:, :20].max()) for frame in output] == [200, 0, 0, 0, 0, 0, 0, 0, 200]
    assert all(frame[:, 28:].min() >= 200 for frame in output)


def test_a_plain_functions_masks_are_taken_as_they_are() -> None:
    def every_second(video: Tensor) -> Tensor:
        return left_half(video) * ((255 * video[:, :, :1, :1, :1]).round() % 2)

    frames = [frame + 100 for frame in numbered(40)]
    output = list(anonymize_stream(Hide(), frames, people=every_second))
    assert numbers(output) == [0 if number % 2 else number for number in range(100, 140)]


@pytest.mark.parametrize("together", [1, 2, 16])
def test_holding_reads_ahead_by_no_more_than_the_hold(monkeypatch: pytest.MonkeyPatch, together: int) -> None:
    monkeypatch.setattr(streaming, "BATCH_FRAMES", together)
    pulled: list[int] = []
    stream = anonymize_stream(Hide(), endless(pulled), people=Detector(flicker, margin=0.0, temporal_hold=5))
    for given in range(1, 200):
        next(stream)
        # A batch that was searched, a batch that was hidden, and the frames between that wait for their neighbours.
        assert len(pulled) - given <= 2 * together + 5


def test_without_a_detector_nothing_starts() -> None:
    with pytest.raises(SfumatoError, match="needs a detector"):
        anonymize_stream(Hide(), numbered(3))


@pytest.mark.parametrize(
    "detector",
    [
        lambda video: left_half(video)[..., :-1],
        lambda video: left_half(video)[:, :, 0],
        lambda video: left_half(video) * float("nan"),
    ],
)
def test_a_bad_mask_fails_closed(detector: Callable[[Tensor], Tensor]) -> None:
    with pytest.raises(SfumatoError, match="detector's mask"):
        list(anonymize_stream(Hide(), numbered(3), people=detector))


def test_a_file_becomes_an_anonymized_file(tmp_path: Path) -> None:
    source = video_file(tmp_path / "in.mp4")
    steps: list[tuple[int, int | None]] = []
    done = anonymize_file(
        Custom(lambda video: 1 - video),
        source,
        tmp_path / "out.mp4",
        progress=lambda done, total: steps.append((done, total)),
    )
    assert (done.frames, done.seconds, done.warnings) == (20, 2.0, ())
    assert steps == [(number, 20) for number in range(1, 21)]
    assert probe(tmp_path / "out.mp4").fps == Fraction(10)
    for before, after in zip(read_frames(source), read_frames(tmp_path / "out.mp4"), strict=True):
        assert abs(255 - float(before.mean()) - float(after.mean())) < 3


@pytest.mark.parametrize("temporal_hold", [0, 5])
def test_frames_without_people_are_counted_by_what_was_found_not_by_what_was_held(
    tmp_path: Path, temporal_hold: int
) -> None:
    def boxes(frames: Tensor) -> list[Tensor]:
        return [torch.tensor([[0.0, 0.0, 9.0, 9.0]] if frame.mean() > 0.5 else []).reshape(-1, 4) for frame in frames]

    detector = Detector(boxes, margin=0.0, temporal_hold=temporal_hold)
    source = video_file(tmp_path / "in.mp4")  # greys 20 to 210 by tens: 11 are up to 120
    done = anonymize_file(Hide(), source, tmp_path / "out.mp4", people=detector)
    assert (done.frames, done.frames_without_people, done.warnings) == (20, 11, ())


def test_a_video_in_which_nobody_was_found_is_not_written(tmp_path: Path) -> None:
    source = video_file(tmp_path / "in.mp4")
    with pytest.raises(SfumatoError, match="nobody was found in any frame"):
        anonymize_file(Hide(), source, tmp_path / "out.mp4", people=lambda video: 0 * left_half(video))
    assert [file.name for file in tmp_path.iterdir()] == ["in.mp4"]


def test_an_anonymizer_of_whole_frames_counts_no_people(tmp_path: Path) -> None:
    files = video_file(tmp_path / "in.mp4"), tmp_path / "out.mp4"
    assert anonymize_file(Custom(lambda video: video), *files, people=left_half).frames_without_people is None


def test_a_file_of_odd_size_goes_through(tmp_path: Path) -> None:
    source = video_file(tmp_path / "in.mp4", size=(33, 47))
    raw = Custom(lambda video: video, ClipSpec(8, (16, 16), 2))
    assert anonymize_file(raw, source, tmp_path / "out.mp4").frames == 20


def test_the_source_is_never_written_over(tmp_path: Path) -> None:
    source = video_file(tmp_path / "in.mp4")
    (tmp_path / "link.mp4").symlink_to(source)
    before = source.read_bytes()
    for target in (source, tmp_path / "link.mp4", tmp_path / "." / "in.mp4"):
        with pytest.raises(SfumatoError, match="is the source itself"):
            anonymize_file(Custom(lambda video: video), source, target)
    assert source.read_bytes() == before


@pytest.mark.parametrize(
    "anonymizer", [Hide(), Custom(lambda video: video * float("nan")), Custom(lambda video: video[:, :1])]
)
def test_a_failure_leaves_no_file(tmp_path: Path, anonymizer: Anonymizer) -> None:
    source = video_file(tmp_path / "in.mp4")
    with pytest.raises(SfumatoError):
        anonymize_file(anonymizer, source, tmp_path / "out.mp4")
    assert os.listdir(tmp_path) == ["in.mp4"]


def test_the_readable_part_of_a_cut_file_is_written_with_a_warning(tmp_path: Path) -> None:
    source = video_file(tmp_path / "in.mkv", count=400)
    source.write_bytes(source.read_bytes()[: source.stat().st_size // 2])
    done = anonymize_file(Custom(lambda video: 1 - video), source, tmp_path / "out.mp4")
    assert 0 < done.frames < 400
    assert len(list(read_frames(tmp_path / "out.mp4"))) == done.frames
    assert len(done.warnings) == 1
    assert "damaged" in done.warnings[0]


def test_an_unreadable_file_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    source = tmp_path / "in.mp4"
    source.write_bytes(b"not a video")
    with pytest.raises(SfumatoError, match="cannot be read"):
        anonymize_file(Custom(lambda video: video), source, tmp_path / "out.mp4")
    assert os.listdir(tmp_path) == ["in.mp4"]


@pytest.mark.parametrize("weak", ["identity", "pixelate:block=1", "downsample:factor=1", "blur:sigma=0.1"])
def test_raw_video_is_never_written(tmp_path: Path, weak: str) -> None:
    source = video_file(tmp_path / "in.mp4", count=2)
    with pytest.raises(SfumatoError, match="changes no picture that one could tell from raw video"):
        anonymize_file(load(weak), source, tmp_path / "out.mp4")
    assert os.listdir(tmp_path) == ["in.mp4"]


@pytest.mark.parametrize(("white", "told"), [(0, True), (1, True), (4, False), (16, False)])
def test_a_copy_that_is_nearly_black_is_told(tmp_path: Path, white: int, told: bool) -> None:
    """A mosaic of 28×28 squares, of which so many are white."""

    def mosaic(video: Tensor) -> Tensor:
        squares = torch.zeros(28 * 28).index_fill(0, torch.arange(white) + 400, 1.0).view(28, 28)
        shown = torch.zeros_like(video)
        shown[:, -1] = squares.repeat_interleave(4, 0).repeat_interleave(4, 1)  # a hand is seen late, and is enough
        return shown

    source = video_file(tmp_path / "in.mp4", count=3, size=(112, 112))
    done = anonymize_file(Custom(mosaic), source, tmp_path / "out.mp4")
    assert ["nearly black" in warning for warning in done.warnings] == [True] * told


def test_sound_that_is_not_there_cannot_be_kept(tmp_path: Path) -> None:
    source = video_file(tmp_path / "in.mp4", count=3)
    done = anonymize_file(Custom(lambda video: video), source, tmp_path / "out.mp4", audio="keep")
    assert done.warnings == (f"'{source}' has no sound to keep",)


def more_columns(video: Tensor) -> Tensor:
    """Of frame n of a `video_file`, whose grey is 20 + 10·n, the first n columns of 20."""
    grey = 255 * video.mean((2, 3, 4), keepdim=True)
    return (torch.arange(20) < ((grey - 20) / 10).round()).expand(*video.shape[:2], 1, 4, 20).float()


def test_the_mask_is_written_frame_by_frame_and_the_kept_share_is_its_mean(tmp_path: Path) -> None:
    # Windows of 6 frames, each dealt out to two clips; the last has 2 frames of its own.
    anonymizer = Partial(more_columns, ClipSpec(length=3, size=(4, 20), frame_step=2, blend=False))
    source, target, mask = video_file(tmp_path / "in.mp4"), tmp_path / "out.mp4", tmp_path / "mask.mp4"
    done = anonymize_file(anonymizer, source, target, mask_to=mask)
    assert done.kept_share == pytest.approx(sum(range(20)) / 20 / 20)
    one, other = probe(target), probe(mask)
    assert (one.width, one.height, one.frames, one.fps) == (other.width, other.height, other.frames, other.fps)
    for number, (frame, kept) in enumerate(zip(read_frames(target), read_frames(mask), strict=True)):
        edge = WIDTH * number / 20
        white = np.arange(WIDTH) + 0.5 < edge
        near = np.abs(np.arange(WIDTH) + 0.5 - edge) < 3  # where the picture is faded, and the codec smears
        assert (np.where(white[:, None], 255 - kept, kept)[:, ~near] < 40).all()
        assert (frame[:, ~white & ~near] < 12).all() and (frame[:, white & ~near] > 12).all()


def test_the_mask_has_no_greys_however_few_patches_there_are(tmp_path: Path) -> None:
    source, mask = video_file(tmp_path / "in.mp4", count=2), tmp_path / "mask.mp4"
    anonymize_file(Partial(left_half, ClipSpec(size=(2, 2))), source, tmp_path / "out.mp4", mask_to=mask)
    for frame in read_frames(mask):
        assert frame[:, : WIDTH // 2 - 2].min() > 240 and frame[:, WIDTH // 2 + 2 :].max() < 15


def test_without_a_mask_to_write_the_kept_share_is_told_all_the_same(tmp_path: Path) -> None:
    source = video_file(tmp_path / "in.mp4", count=5)
    assert anonymize_file(Partial(left_half), source, tmp_path / "out.mp4").kept_share == 0.5
    assert anonymize_file(Custom(lambda video: video), source, tmp_path / "raw.mp4").kept_share is None
    assert sorted(os.listdir(tmp_path)) == ["in.mp4", "out.mp4", "raw.mp4"]


def test_of_two_windows_that_fade_what_either_keeps_is_kept(tmp_path: Path) -> None:
    shares = iter([0.0, 1.0])  # windows of frames 0 to 3 and 2 to 5
    anonymizer = Partial(lambda video: torch.full_like(video[:, :, :1], next(shares)), ClipSpec(length=4))
    done = anonymize_file(anonymizer, video_file(tmp_path / "in.mp4", count=6), tmp_path / "out.mp4")
    assert done.kept_share == pytest.approx(4 / 6)


@pytest.mark.parametrize(
    "mask",
    [lambda video: video[:, :, :2], lambda video: video[:, :, :1] * float("nan"), lambda video: 2 + left_half(video)],
)
def test_a_mask_that_is_none_fails_closed(tmp_path: Path, mask: Callable[[Tensor], Tensor]) -> None:
    source = video_file(tmp_path / "in.mp4")
    with pytest.raises(SfumatoError, match=r"mask of 'partial'.*nothing unhidden gets out"):
        anonymize_file(Partial(mask), source, tmp_path / "out.mp4", mask_to=tmp_path / "mask.mp4")
    assert os.listdir(tmp_path) == ["in.mp4"]


def test_there_is_no_mask_without_its_video(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, finish = video_file(tmp_path / "in.mp4"), VideoWriter._finish

    def fail(writer: VideoWriter) -> None:
        if writer.path.name == "out.mp4":
            raise OSError(errno.ENOSPC, "no room")
        finish(writer)

    monkeypatch.setattr(VideoWriter, "_finish", fail)
    with pytest.raises(SfumatoError, match="no space left"):
        anonymize_file(Partial(left_half), source, tmp_path / "out.mp4", mask_to=tmp_path / "mask.mp4")
    assert os.listdir(tmp_path) == ["in.mp4"]


@pytest.mark.parametrize(
    ("anonymizer", "mask", "complaint"),
    [
        (Custom(lambda video: video), "mask.mp4", "'custom' leaves no part of the picture out"),
        (Partial(left_half), "in.mp4", "is the source itself"),
        (Partial(left_half), "./out.mp4", "both the video and its mask"),
        (Partial(left_half), "mask.avi", "cannot be written"),
    ],
)
def test_masks_that_cannot_be_written(tmp_path: Path, anonymizer: Anonymizer, mask: str, complaint: str) -> None:
    source = video_file(tmp_path / "in.mp4", count=2)
    before = source.read_bytes()
    with pytest.raises(SfumatoError, match=complaint):
        anonymize_file(anonymizer, source, tmp_path / "out.mp4", mask_to=tmp_path / mask)
    assert os.listdir(tmp_path) == ["in.mp4"] and source.read_bytes() == before
