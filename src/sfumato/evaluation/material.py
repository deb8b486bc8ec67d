"""The clips of a data set, loaded once and anonymised once per anonymizer, as 8-bit pixels.

8 bits because that is what an attacker gets: whatever an anonymizer hides below one grey level is gone in the file.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from sfumato.anonymizers.base import Anonymizer
from sfumato.anonymizers.streaming import resized
from sfumato.datasets.base import Clips, Part, Progress, VideoDataset
from sfumato.errors import SfumatoError
from sfumato.training.room import home_of, reserve

_PARTS: tuple[Part, ...] = ("train", "val", "test")
# So many times the clips are held at most: raw, anonymised, and the parts of an exam.
HELD = 3
AT_ONCE = 256  # clips that are loaded where not all are


class Material:
    """All clips that any exam needs; `rows(indices)` says where in `clips` those of the data set are.

    They are held on the device if it has room for them and for what becomes of them, else in the host's memory, else in a
    file in `folder`; whoever needs some there brings them to the device.
    """

    def __init__(
        self, dataset: VideoDataset, *, views: int, device: torch.device, folder: Path, progress: Progress | None = None
    ) -> None:
        splits = torch.cat([dataset.split(part, by) for by in ("person", "clip") for part in _PARTS])
        indices, shape = splits.unique(), dataset.shape
        size = 3 * len(indices) * views * shape.frames * shape.height * shape.width
        self.folder, self.home = folder, home_of(HELD * size, device)
        if self.home == device:
            self.clips = dataset.clips(indices, views=views, device=device, progress=progress)
        else:
            # A part after another, so that each lies in one piece: none is to be copied here.
            indices = torch.tensor(list(dict.fromkeys(splits.tolist())))
            self.clips = self._load(dataset, indices, views, device, progress)
        self.row = torch.full((int(indices.max()) + 1,), -1)
        self.row[indices] = torch.arange(len(indices))

    def _load(
        self, dataset: VideoDataset, indices: Tensor, views: int, device: torch.device, progress: Progress | None
    ) -> Clips:
        pixels, people = torch.empty(0), []
        for start in range(0, len(indices), AT_ONCE):
            some = dataset.clips(indices[start : start + AT_ONCE], views=views, device=device)
            if not start:
                pixels = reserve((len(indices), *some.pixels.shape[1:]), self.home, self.folder)
            pixels[start : start + AT_ONCE] = some.pixels
            people += [] if some.people is None else [some.people.cpu()]
            if progress:
                progress(min(start + AT_ONCE, len(indices)), len(indices))
        return Clips(pixels, torch.cat(people) if people else None)

    def rows(self, indices: Tensor) -> Tensor:
        """Indices (N,) of the data set → rows (N,) of `clips`, on the device where the pixels are."""
        return self.row[indices].to(self.clips.pixels.device)

    def part(self, pixels: Tensor, indices: Tensor) -> Tensor:
        """Of pixels in the order of `clips` those of the data set's clips (N,); where they lie in one piece, not a copy."""
        rows = self.rows(indices)
        first = int(rows[0]) if len(rows) else 0
        if rows.equal(torch.arange(first, first + len(rows), device=rows.device)):
            return pixels[first : first + len(rows)]
        if self.home is None:
            return torch.index_select(pixels, 0, rows, out=self.reserve(len(rows)))
        return pixels[rows]

    def reserve(self, count: int) -> Tensor:
        """Room for so many clips, beside those that are held."""
        return reserve((count, *self.clips.pixels.shape[1:]), self.home, self.folder)


@torch.inference_mode()
def anonymize_clips(
    anonymizer: Anonymizer, clips: Clips, device: torch.device, *, batch: int = 16, progress: Progress | None = None,
    into: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Every clip through the anonymizer in eval mode: uint8 (N, views, T, 3, H, W) → the same shape, in `into` if given.

    Output outside [0, 1] or not finite is an error: a judge must not see what a deployed anonymizer would not write.
    """
    if anonymizer.needs_people and clips.people is None:
        raise SfumatoError(
            f"'{anonymizer.name}' needs to know where people are, and this data set has no person masks",
            "judge it on theatre, or choose another anonymizer",
        )
    anonymizer = anonymizer.to(device).eval()
    whole = torch.empty_like(clips.pixels) if into is None else into
    views, done = clips.pixels.flatten(0, 1), whole.flatten(0, 1)
    masks = clips.people.flatten(0, 1) if clips.people is not None and anonymizer.needs_people else None
    for start in range(0, len(views), batch):
        video = views[start : start + batch].to(device).float() / 255
        extra = {"people": masks[start : start + batch].to(device).float()} if masks is not None else {}
        out = _at_its_size(anonymizer, video, extra)
        if out.shape != video.shape or not bool(((out >= -1e-3) & (out <= 1 + 1e-3)).all()):
            raise SfumatoError(
                f"'{anonymizer.name}' gave an output of another shape or outside [0, 1]", "mend it first"
            )
        done[start : start + batch] = (out.clamp(0, 1) * 255).round().to(torch.uint8).to(done.device)
        if progress:
            progress(min(start + batch, len(views)), len(views))
    return whole


def _at_its_size(anonymizer: Anonymizer, video: Tensor, extra: dict[str, Tensor]) -> Tensor:
    """Brought to the size it was made for and back, as a video is when it is anonymized."""
    size, asked = (video.shape[-2], video.shape[-1]), anonymizer.spec.size
    if asked is None or asked == size:
        return anonymizer(video, **extra)
    there = resized(video.flatten(0, 1), asked).clamp(0, 1).unflatten(0, video.shape[:2])
    # Whoever has a size of its own is a network, and none of these is told where people are.
    back = resized(anonymizer(there).flatten(0, 1), size).clamp(0, 1)
    return back.unflatten(0, video.shape[:2])
