"""Features of videos, once and for all: clips through a frozen encoder into a store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from sfumato.datasets.annotations import add_annotations, annotate_items
from sfumato.datasets.base import VideoDataset
from sfumato.datasets.feature_store import FeatureWriter, Manifest
from sfumato.errors import SfumatoError
from sfumato.recognizers.encoders import Encoder, static_clips
from sfumato.training.device import autocast
from sfumato.video import read_frames

Clip = tuple[int, Tensor]  # the number of its first frame, and uint8 (T, 3, H, W)
Source = Iterable[tuple[str, Callable[[], Iterator[Clip]]]]  # a video's name, and how to get its clips


def describe(encoder: Encoder, name: str, *, frame_step: int = 1, static: int = 2) -> Manifest:
    """The manifest of features of that encoder, called `name`, with so many static clips beside each clip.

    >>> describe(load_encoder("videomae-base"), "videomae-base").per_clip  # doctest: +SKIP
    3
    """
    return Manifest(name, encoder.fingerprint(), encoder.clip, frame_step, encoder.width, 1 + static)


def extract(
    encoder: Encoder, source: Source, writer: FeatureWriter, *, device: torch.device, batch: int = 8,
    progress: Callable[[str, int], None] = lambda video, clips: None,
) -> int:  # fmt: skip
    """Every video that is not in the store yet, or not whole any more, clip after clip; how many were added.

    A video that was cut off goes on after its last stored clip. progress: after every batch, the video and its clips so far.
    """
    added = 0
    for name, clips in source:
        if name in writer.done:
            continue
        with writer.video(name) as rows:
            # Decoding cannot begin in the middle, encoding, which takes the time, can.
            rest = islice(clips(), rows.clips, None)
            while some := list(islice(rest, batch)):
                starts, pixels = zip(*some, strict=True)
                for start, row in zip(
                    starts, encode(encoder, torch.stack(pixels), writer.manifest, device), strict=True
                ):
                    rows.add(start, row)
                progress(name, rows.clips)
        added += 1
    return added


@torch.inference_mode()
def encode(encoder: Encoder, clips: Tensor, manifest: Manifest, device: torch.device) -> Tensor:
    """uint8 (B, T, 3, H, W) to (B, per_clip, D): each clip's features, then those of some of its frames as static clips."""
    video = clips.to(device).float() / 255
    frames = video.shape[1]
    chosen = static_frames(frames, manifest.per_clip - 1)
    seen = [video, *(static_clips(video[:, frame], frames) for frame in chosen)]
    with autocast(device):
        return torch.stack([encoder(each).float() for each in seen], 1).cpu()


def static_frames(frames: int, count: int) -> list[int]:
    """Which frames of a clip stand for it as static clips: `count` of them, as far apart as can be.

    >>> static_frames(16, 2)
    [0, 15]
    """
    if count == 1:
        return [frames // 2]
    return [round(i * (frames - 1) / (count - 1)) for i in range(count)]


def clips_of_file(path: Path, length: int, step: int, strict: bool = False) -> Iterator[Clip]:
    """All clips of a video file that do not overlap; the last one is filled up with the last frame. Damage: as `read_frames`."""
    pictures = (
        torch.from_numpy(np.ascontiguousarray(frame)).permute(2, 0, 1) for frame in read_frames(path, strict=strict)
    )
    return cut(pictures, length, step)


def cut(video: Iterable[Tensor], length: int, step: int) -> Iterator[Clip]:
    """Frames, uint8 (3, H, W) each, as clips side by side, of every `step`-th frame; the last is filled up with its last.

    >>> [start for start, _ in cut(torch.zeros(20, 3, 8, 8), length=4, step=2)]
    [0, 8, 16]
    """
    frames: list[Tensor] = []
    start = 0
    for number, frame in enumerate(video):
        if number % step:
            continue
        frames.append(frame)
        if len(frames) == length:
            yield start, torch.stack(frames)
            frames, start = [], number + step
    if frames:
        yield start, torch.stack([*frames, *[frames[-1]] * (length - len(frames))])


def files(paths: Iterable[Path], manifest: Manifest, strict: bool = False) -> Source:
    """Video files by their names; damage in one ends it (`strict`), or what can be read of it is taken."""
    for path in paths:
        yield str(path), partial(clips_of_file, path, manifest.clip[0], manifest.frame_step, strict)


def extract_items(
    encoder: Encoder, dataset: VideoDataset, indices: Tensor, writer: FeatureWriter, *, device: torch.device, batch: int = 32,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> int:  # fmt: skip
    """The videos of a data set that are not in the store yet, by the numbers of their clips; how many were added.

    All clips of a video that do not overlap, or the one clip where there is nothing else. What the data set says of the
    videos goes with them: who trains on the features needs no video any more.
    """
    _require_fit(encoder, dataset, writer.manifest)
    names = {index: item_name(dataset, index) for index in indices.tolist()}
    add_annotations(writer.folder, annotate_items(dataset, indices, names))
    missing = [index for index, name in names.items() if name not in writer.done]
    if dataset.from_videos:
        for done, index in enumerate(missing, 1):
            source = [(names[index], partial(_clips_of_item, dataset, index, writer.manifest))]
            extract(encoder, source, writer, device=device, batch=batch)
            progress(done, len(missing))
        return len(missing)
    for first in range(0, len(missing), batch):
        some = missing[first : first + batch]
        pixels = dataset.clips(torch.tensor(some), device=device).pixels[:, 0]
        for index, row in zip(some, encode(encoder, pixels, writer.manifest, device), strict=True):
            with writer.video(names[index]) as rows:
                if not rows.clips:  # it may have been cut off after its only clip
                    rows.add(0, row)
        progress(first + len(some), len(missing))
    return len(missing)


def first_clips(dataset: VideoDataset, indices: Tensor, manifest: Manifest) -> Tensor:
    """The first clip that a store has of each of those videos, uint8 (n, T, 3, H, W).

    >>> first_clips(open_dataset("theatre:small"), torch.tensor([0]), manifest).shape  # doctest: +SKIP
    torch.Size([1, 8, 3, 64, 64])
    """
    if not dataset.from_videos:
        return dataset.clips(indices).pixels[:, 0]
    return torch.stack([next(_clips_of_item(dataset, index, manifest))[1] for index in indices.tolist()])


def _clips_of_item(dataset: VideoDataset, index: int, manifest: Manifest) -> Iterator[Clip]:
    return cut(dataset.frames(index), manifest.clip[0], manifest.frame_step)


def _require_fit(encoder: Encoder, dataset: VideoDataset, manifest: Manifest) -> None:
    """Refuse a data set whose clips are cut otherwise than the store's."""
    if dataset.shape.frames != encoder.clip[0]:
        raise SfumatoError(
            f"the clips of {dataset.name} have {dataset.shape.frames} frames, and the encoder takes {encoder.clip[0]}",
            "choose another encoder or other clips (such as manifest:index.csv?frames=16)",
        )
    if dataset.frame_step not in (None, manifest.frame_step):
        raise SfumatoError(
            f"the clips of {dataset.name} have every {dataset.frame_step}. frame, and those of the store every "
            f"{manifest.frame_step}.",
            "give --frame-step the same number as skip",
        )


def item_name(dataset: VideoDataset, index: int) -> str:
    """What a data set's clip of that number is called in a store."""
    return f"{dataset.name}/{index}"
