"""The one wrapper that runs any anonymizer over a video of any size and length, in constant memory, failing closed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import reduce
from itertools import chain, islice
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from sfumato.anonymizers.base import TOLERANCE, Anonymizer, PartialAnonymizer
from sfumato.anonymizers.detectors import Detector
from sfumato.anonymizers.storage import described
from sfumato.errors import SfumatoError
from sfumato.video.decode import Frame, probe, read_frames
from sfumato.video.encode import VideoWriter

FindPeople = Callable[[Tensor], Tensor]

# Frames are taken together up to these limits: enough to keep the cores busy, little enough to stay small.
BATCH_FRAMES = 16
BATCH_PIXELS = 2**22
# A file without one frame whose mean is as bright (0 black, 1 white) is told: two of 28×28 squares that are white are brighter.
NEARLY_BLACK = 2e-3


@dataclass(frozen=True)
class Anonymized:
    """What `anonymize_file` wrote: how many frames, how long they last, and what the user should know.

    frames_without_people: in how many the detector itself found nobody, be they covered by what was found in their
    neighbours or not; None where no detector was needed. kept_share: of the patches of a frame, on the average; None where
    the anonymizer leaves none out.
    """

    frames: int
    seconds: float
    warnings: tuple[str, ...] = ()
    frames_without_people: int | None = None
    kept_share: float | None = None


def anonymize_file(
    anonymizer: Anonymizer,
    source: str | Path,
    target: str | Path,
    *,
    audio: Literal["drop", "keep"] = "drop",
    device: str | torch.device = "cpu",
    people: FindPeople | None = None,
    progress: Callable[[int, int | None], None] | None = None,
    mask_to: str | Path | None = None,
) -> Anonymized:
    """Anonymize the video file `source` into `target`, which appears only when it is whole; its folder is made.

    The output has a constant rate, the source's average one, and the source's timing. Of a damaged source the readable
    part is anonymized and written, with a line in `warnings`: every picture in the output is anonymized all the same,
    and what is left of a broken recording is worth having. A source without one readable frame is a SfumatoError.
    An anonymizer that changes nothing is an error: what is written here may be taken for anonymized.
    A detector that found nobody in any frame is an error: either the room was empty, or everybody was missed, and only
    a person can tell. Nothing is written then.
    progress: called with (frames done, frames in all or None) after each frame.
    mask_to: a second video, of the same size and length, for what is kept (white) and what is left out (black).

    >>> anonymize_file(load("blur"), "street.mp4", "street-blurred.mp4")  # doctest: +SKIP
    Anonymized(frames=332, seconds=11.08, warnings=(), frames_without_people=None, kept_share=None)
    """
    refuse_raw(anonymizer)
    _check_places(anonymizer, Path(source), Path(target), None if mask_to is None else Path(mask_to))
    search = _search(anonymizer, people)
    info = probe(source)
    warnings: list[str] = []
    keep = audio == "keep" and info.has_audio
    if audio == "keep" and not info.has_audio:
        warnings.append(f"'{source}' has no sound to keep")
    frames = read_frames(source, fps=info.fps, warn=warnings.append)
    stream = _anonymized(anonymizer, frames, torch.device(device), search)
    size = (info.height, info.width)
    kept = brightest = 0.0  # the sum of the frames' shares, and the mean of the brightest of them
    masks = None if mask_to is None else VideoWriter(mask_to, info.fps, size)
    writer = VideoWriter(target, info.fps, size, audio_from=source if keep else None)
    with ExitStack() as files:
        # Opened first, closed last: there is no mask without its video.
        for each in (masks, writer):
            if each is not None:
                each.path.parent.mkdir(parents=True, exist_ok=True)  # not before: what is refused leaves no folder
                files.enter_context(each)
        for frame, mask in stream:
            writer.write(frame)
            brightest = max(brightest, float(frame[::4, ::4].mean()) / 255)
            if mask is not None:
                kept += float(mask.mean())
            if mask is not None and masks is not None:
                masks.write(_black_and_white(mask, size))
            if progress is not None:
                progress(writer.frames, info.frames)
        empty = None if search is None else search.empty
        if empty == writer.frames:  # raised in here, so that the writer takes the file back
            raise SfumatoError(
                f"nobody was found in any frame of '{source}', so nothing was hidden and nothing is written",
                "look at it; use an anonymizer of whole frames (blur, pixelate) if somebody is there",
            )
    if brightest < NEARLY_BLACK:
        warnings.append(f"'{target}' is nearly black from its first frame to its last: look whether it shows anything")
    share = kept / writer.frames if isinstance(anonymizer, PartialAnonymizer) else None
    return Anonymized(writer.frames, float(writer.frames / info.fps), tuple(warnings), empty, share)


def refuse_raw(anonymizer: Anonymizer) -> None:
    """Raise if what it would write is raw video to the eye.

    >>> refuse_raw(load("blur"))
    """
    if anonymizer.changes_nothing:
        advice = f"set another {anonymizer.knobs[0].name}, or " if anonymizer.knobs else ""
        raise SfumatoError(
            f"{described(anonymizer)} changes no picture that one could tell from raw video",
            f"{advice}choose another anonymizer",
        )


def _check_places(anonymizer: Anonymizer, source: Path, target: Path, mask_to: Path | None) -> None:
    """Refuse to write over the source, two videos to one place, and the mask of an anonymizer that has none."""
    for place in (target, mask_to):
        if place is not None and place.exists() and source.exists() and place.samefile(source):
            raise SfumatoError(f"'{place}' is the source itself", "name another file to write")
    if mask_to is None:
        return
    if not isinstance(anonymizer, PartialAnonymizer):
        raise SfumatoError(
            f"'{anonymizer.name}' leaves no part of the picture out, so that it has no mask",
            "leave the mask out, or use an anonymizer trained by laf or stprivacy",
        )
    if mask_to.resolve() == target.resolve():
        raise SfumatoError(f"'{mask_to}' would be both the video and its mask", "name another file for the mask")


def _black_and_white(mask: Tensor, size: tuple[int, int]) -> Frame:
    """A mask (1, h, w) of 0 and 1 as a frame of that size, without greys at its edges: uint8 (H, W, 3)."""
    large = functional.interpolate(mask[None], size, mode="nearest-exact")[0, 0]
    return (large * 255).to(torch.uint8)[..., None].expand(-1, -1, 3).cpu().contiguous().numpy()


def anonymize_stream(
    anonymizer: Anonymizer,
    frames: Iterable[Frame],
    *,
    device: str | torch.device = "cpu",
    people: FindPeople | None = None,
) -> Iterator[Frame]:
    """Anonymize frames, uint8 (H, W, 3) RGB, one for one, with a memory that does not grow with their number.

    An anonymizer of single frames gets small batches. One of clips gets windows of length·frame_step frames, each
    dealt out to frame_step interleaved clips; where its spec allows it, windows overlap by half and fade into each other.
    The last one is filled up with the last frame. Frames are resized to the anonymizer's size and back (bilinear, antialiased).
    people: float (1, T, 3, H, W) at the frames' own size to a mask (1, T, 1, H, W), for anonymizers that need one.
    A `Detector` holds its regions over the whole video; any other function sees a few frames at a time, and its masks
    are taken as they are.
    The anonymizer is put into eval mode and onto `device`, and stays so. It fails closed: an output of another shape,
    not finite or outside [0, 1] raises a SfumatoError; nothing but the anonymizer's own output is ever passed on.

    >>> blurred = list(anonymize_stream(load("blur"), read_frames("street.mp4")))  # doctest: +SKIP
    """
    stream = _anonymized(anonymizer, frames, torch.device(device), _search(anonymizer, people))
    return (frame for frame, _ in stream)


class _Search:
    """Looks for people in every frame by itself, and counts the frames in which it found nobody.

    hold: for how many frames before and after its own a region must stay hidden.
    """

    def __init__(self, people: FindPeople) -> None:
        self.find, self.hold, self.empty = people, 0, 0
        if isinstance(people, Detector):
            self.find, self.hold = people.detect, people.temporal_hold

    @torch.inference_mode()
    def __call__(self, video: Tensor) -> Tensor:
        """uint8 (T, 3, H, W) to a mask, float (T, 1, H, W)."""
        mask = self.find(video[None] / 255).float().to(video.device)
        _check("the detector's mask", mask, (1, len(video), 1, *video.shape[2:]))
        self.empty += int((mask[0] == 0).flatten(1).all(dim=1).sum())
        return mask[0]


def _search(anonymizer: Anonymizer, people: FindPeople | None) -> _Search | None:
    """The search for people, if this anonymizer needs one."""
    if not anonymizer.needs_people:
        return None
    if people is None:
        raise SfumatoError(
            f"'{anonymizer.name}' hides people and needs a detector to find them",
            "choose a detector, or an anonymizer of whole frames",
        )
    return _Search(people)


def _anonymized(
    anonymizer: Anonymizer, frames: Iterable[Frame], device: torch.device, search: _Search | None
) -> Iterator[tuple[Frame, Tensor | None]]:
    """Each frame anonymized, with its mask of 0 and 1, (1, h, w) at the anonymizer's size, where that has one."""
    iterator = iter(frames)
    first = next(iterator, None)
    if first is None:
        return
    anonymizer.to(device)
    size = first.shape[:2]
    together = max(1, min(BATCH_FRAMES, BATCH_PIXELS // (size[0] * size[1])))
    clips = _clips(chain([first], iterator), together, size, anonymizer.spec.size, device, search)
    if search is not None and search.hold:
        clips = _stacked(_held(chain.from_iterable(clips), search.hold), together)
    length = anonymizer.spec.length
    outputs = _windowed(anonymizer, clips, length) if length else (_run(anonymizer, clip) for clip in clips)
    for output in outputs:
        # Frame by frame: at full size a whole window in floats would be many times larger than its source.
        for frame in output:
            picture = resized(frame[None, :3], size)[0].clamp(0, 1)
            # Faded from one window into the next, what shines through in the least is kept.
            mask = (frame[3:] > 0).float() if len(frame) > 3 else None
            yield (picture * 255).round().to(torch.uint8).permute(1, 2, 0).cpu().numpy(), mask


def _clips(
    frames: Iterator[Frame],
    together: int,
    size: tuple[int, int],
    model_size: tuple[int, int] | None,
    device: torch.device,
    search: _Search | None,
) -> Iterator[Tensor]:
    """Frames in small batches, searched for people at their own size, then resized to the anonymizer's.

    uint8 (T, 3, H, W), a quarter of the memory of floats; with a search (T, 4, H, W), the last channel its mask.
    """
    while batch := list(islice(frames, together)):
        if any(frame.shape != (*size, 3) or frame.dtype != np.uint8 for frame in batch):
            raise SfumatoError("the frames are not all uint8 of one size", f"give every frame as {(*size, 3)}")
        video = torch.from_numpy(np.stack(batch)).to(device).permute(0, 3, 1, 2).contiguous()
        mask = None if search is None else search(video)
        if model_size is not None and model_size != size:
            video = (resized(video / 255, model_size).clamp(0, 1) * 255).round().to(torch.uint8)
            # A pixel is a person's where any of the pixels it stands for is.
            mask = None if mask is None else functional.adaptive_max_pool2d(mask, model_size)
        if mask is not None:
            # Rounded up: what is a person's in the least stays so.
            video = torch.cat([video, (mask.clamp(0, 1) * 255).ceil().to(torch.uint8)], dim=1)
        yield video


def _held(frames: Iterator[Tensor], hold: int) -> Iterator[Tensor]:
    """Frames (4, H, W), each mask joined with those of `hold` frames before and after it: what `detectors.hold` does.

    At most hold + 1 pictures and 2·hold + 1 masks are kept, whatever batches the frames came in.
    """
    pictures: deque[Tensor] = deque()
    masks: deque[Tensor] = deque()

    def give() -> Tensor:
        while len(masks) > hold + len(pictures):
            masks.popleft()
        return torch.cat([pictures.popleft(), reduce(torch.maximum, masks)])

    for frame in frames:
        pictures.append(frame[:3])
        masks.append(frame[3:].clone())  # its own memory, so that the picture can go before the mask does
        if len(pictures) > hold:
            yield give()
    while pictures:
        yield give()


def _stacked(frames: Iterator[Tensor], together: int) -> Iterator[Tensor]:
    while batch := list(islice(frames, together)):
        yield torch.stack(batch)


@torch.inference_mode()
def _run(anonymizer: Anonymizer, clip: Tensor) -> Tensor:
    """A clip as `_clips` gives it to float (T, 3, H, W) in [0, 1], checked; (T, 4, H, W) where there is a mask, the last."""
    # Set anew each time: between two batches the caller may have gone on training.
    anonymizer.eval()
    video = clip[None, :, :3] / 255
    mask = None
    if isinstance(anonymizer, PartialAnonymizer):
        output, mask = anonymizer.forward_and_mask(video)
        _check(f"the mask of '{anonymizer.name}'", mask, (1, len(clip), 1, *clip.shape[2:]))
    else:
        output = anonymizer(video, people=clip[None, :, 3:] / 255) if anonymizer.needs_people else anonymizer(video)
    _check(f"the output of '{anonymizer.name}'", output, tuple(video.shape))
    return output[0].float() if mask is None else torch.cat([output[0], mask[0]], dim=1).float()


def _windowed(anonymizer: Anonymizer, clips: Iterator[Tensor], length: int) -> Iterator[Tensor]:
    """Windows of length·step frames, where the anonymizer allows it half-overlapping and faded into each other.

    float (T, 3 or 4, H, W) as `_run` gives them, as many frames as came.
    """
    step = anonymizer.spec.frame_step
    span = length * step
    overlap = span // 2 if anonymizer.spec.blend else 0
    hop = span - overlap
    previous: Tensor | None = None
    for window, is_last in _windows(clips, span, hop):
        filled = window[torch.arange(span, device=window.device).clamp(max=len(window) - 1)]
        output = _run_phases(anonymizer, filled, step)
        if previous is not None:
            rising = (torch.arange(1, overlap + 1, device=output.device) / (overlap + 1)).view(-1, 1, 1, 1)
            output = torch.cat([torch.lerp(previous, output[:overlap], rising), output[overlap:]])
        yield output[: len(window)] if is_last else output[:hop]
        previous = output[hop:]


def _windows(clips: Iterator[Tensor], span: int, hop: int) -> Iterator[tuple[Tensor, bool]]:
    """Windows of `span` frames every `hop` frames, the last one maybe shorter, each with whether it is the last."""
    held: Tensor | None = None
    for clip in clips:
        held = clip if held is None else torch.cat([held, clip])
        # One frame more than a window is needed to know that it is not the last.
        while len(held) > span:
            yield held[:span], False
            held = held[hop:]
    if held is not None:
        yield held, True


def _run_phases(anonymizer: Anonymizer, window: Tensor, step: int) -> Tensor:
    """The interleaved clips of a window, one after the other, put back in order."""
    phases = [_run(anonymizer, window[phase::step]) for phase in range(step)]
    return torch.stack(phases, dim=1).flatten(0, 1)


def resized(video: Tensor, size: tuple[int, int]) -> Tensor:
    """(T, C, H, W) to `size`, as every video is brought to an anonymizer's size and back.

    >>> resized(torch.zeros(2, 3, 48, 64), (112, 112)).shape
    torch.Size([2, 3, 112, 112])
    """
    if tuple(video.shape[-2:]) == tuple(size):
        return video
    return functional.interpolate(video, size=size, mode="bilinear", antialias=True)


def _check(what: str, values: Tensor, expected: tuple[int, ...]) -> None:
    """Raise unless `values` has the shape and lies in [0, 1]; NaN fails every comparison and so is caught too."""
    if tuple(values.shape) != expected:
        raise SfumatoError(
            f"{what} has shape {tuple(values.shape)}, not {expected}", "stopped, so that nothing unhidden gets out"
        )
    low, high = values.aminmax()
    if not (low >= -TOLERANCE and high <= 1 + TOLERANCE):
        raise SfumatoError(
            f"{what} is not within [0, 1] ({low:g} to {high:g})", "stopped, so that nothing unhidden gets out"
        )
