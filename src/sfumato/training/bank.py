"""The clips a method trains on, held on the device as 8-bit pixels, with what is known about them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sfumato.datasets.base import Progress, SplitBy, VideoDataset
from sfumato.errors import SfumatoError


@dataclass
class Bank:
    """N videos. pixels: uint8 (N, T, 3, H, W); times: (N, T) on the CPU, the number of each frame in its
    source video.

    actions: (N,); what people look like and, last, who they are as questions: answers (N, Q) with `heads` possible values
    each, -1 unknown.
    """

    name: str
    pixels: Tensor
    times: Tensor
    actions: Tensor
    answers: Tensor
    heads: tuple[int, ...]
    mirror_safe: bool

    def __len__(self) -> int:
        return len(self.pixels)


def training_indices(dataset: VideoDataset) -> Tensor:
    """The clips (N,) a method may learn from: those that are training clips in *both* splits.

    The action is judged on new people and attackers on other clips of known people; an anonymizer that had seen either
    would be judged on what it was made on.
    """
    by_person, by_clip = dataset.split("train", "person"), dataset.split("train", "clip")
    both = by_person[torch.isin(by_person, by_clip)]
    if not len(both):
        raise SfumatoError(
            f"no clip of {dataset.name} is in the training part of both its splits",
            "mark some rows 'train' in split_person and in split_clip",
        )
    return both


def watched_indices(dataset: VideoDataset, by: SplitBy, limit: int) -> Tensor:
    """Up to `limit` validation clips to watch a training by, spread over the part.

    By "person": of new people, for the action. By "clip": of people who were trained on, for f_B, which may know them.
    """
    indices = dataset.split("val", by)
    if by == "clip":
        known = dataset.labels(training_indices(dataset)).person.unique()
        indices = indices[torch.isin(dataset.labels(indices).person, known)]
        if not len(indices):
            raise SfumatoError(
                f"{dataset.name} has no validation clips of people it trains on",
                "mark other clips of them 'val' in split_clip",
            )
    return indices[torch.linspace(0, len(indices) - 1, min(limit, len(indices))).round().long()]


def load_bank(
    dataset: VideoDataset, indices: Tensor, *, device: torch.device, progress: Progress | None = None
) -> Bank:
    """Those clips on the device.

    >>> load_bank(data, training_indices(data), device=torch.device("cpu")).pixels.shape  # of theatre:small
    torch.Size([1200, 8, 3, 64, 64])
    """
    pixels = dataset.clips(indices, device=device, progress=progress).pixels[:, 0]
    labels = dataset.labels(indices)
    answers, heads = labels.attributes, tuple(len(attribute.values) for attribute in dataset.attributes)
    if len(dataset.persons) > 1:  # with one person there is no question who it is
        answers, heads = torch.cat([answers, labels.person[:, None]], 1), (*heads, len(dataset.persons))
    return Bank(
        dataset.name, pixels, dataset.times(indices), labels.action.to(device), answers.to(device), heads,
        dataset.mirror_safe,
    )  # fmt: skip
