"""The clips of a data set, loaded once and anonymised once per anonymizer, as 8-bit pixels.

8 bits because that is what an attacker gets: whatever an anonymizer hides below one grey level is gone in the file.
"""

from __future__ import annotations

import torch
from torch import Tensor

from sfumato.anonymizers.base import Anonymizer
from sfumato.anonymizers.streaming import resized
from sfumato.datasets.base import Clips, Part, Progress, VideoDataset
from sfumato.errors import SfumatoError

_PARTS: tuple[Part, ...] = ("train", "val", "test")


class Material:
    """All clips that any exam needs; `rows(indices)` says where in `clips` those of the data set are."""

    def __init__(
        self, dataset: VideoDataset, *, views: int, device: torch.device, progress: Progress | None = None
    ) -> None:
        splits = [dataset.split(part, by) for by in ("person", "clip") for part in _PARTS]
        indices = torch.cat(splits).unique()
        self.row = torch.full((int(indices.max()) + 1,), -1)
        self.row[indices] = torch.arange(len(indices))
        self.clips = dataset.clips(indices, views=views, device=device, progress=progress)

    def rows(self, indices: Tensor) -> Tensor:
        """Indices (N,) of the data set → rows (N,) of `clips`, on the device where the pixels are."""
        return self.row[indices].to(self.clips.pixels.device)


@torch.inference_mode()
def anonymize_clips(
    anonymizer: Anonymizer, clips: Clips, device: torch.device, *, batch: int = 16, progress: Progress | None = None
) -> Tensor:
    """Every clip through the anonymizer in eval mode: uint8 (N, views, T, 3, H, W) → the same shape.

    Output outside [0, 1] or not finite is an error: a judge must not see what a deployed anonymizer would not write.
    """
    if anonymizer.needs_people and clips.people is None:
        raise SfumatoError(
            f"'{anonymizer.name}' needs to know where people are, and this data set has no person masks",
            "judge it on theatre, or choose another anonymizer",
        )
    anonymizer = anonymizer.to(device).eval()
    views, done = clips.pixels.flatten(0, 1), torch.empty_like(clips.pixels).flatten(0, 1)
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
    return done.view_as(clips.pixels)


def _at_its_size(anonymizer: Anonymizer, video: Tensor, extra: dict[str, Tensor]) -> Tensor:
    """Brought to the size it was made for and back, as a video is when it is anonymized."""
    size, asked = (video.shape[-2], video.shape[-1]), anonymizer.spec.size
    if asked is None or asked == size:
        return anonymizer(video, **extra)
    there = resized(video.flatten(0, 1), asked).clamp(0, 1).unflatten(0, video.shape[:2])
    # Whoever has a size of its own is a network, and none of these is told where people are.
    back = resized(anonymizer(there).flatten(0, 1), size).clamp(0, 1)
    return back.unflatten(0, video.shape[:2])
