"""The clips a method trains on, as 8-bit pixels, on the device if they fit there, with what is known about them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sfumato.datasets.base import Progress, SplitBy, VideoDataset
from sfumato.errors import SfumatoError
from sfumato.training.room import CPU, home_of

BESIDE = 1.5  # times the clips: networks and what a step keeps need room too


@dataclass
class Bank:
    """N videos. pixels: uint8 (N, T, 3, H, W); times: (N, T) on the CPU, the number of each frame in its
    source video.

    actions: (N,), or (N, number of actions) in {0, 1} where a clip may show several; what people look like and, last, who
    they are as questions: answers (N, Q) with `heads` possible values each, -1 unknown.
    """

    name: str
    pixels: Tensor
    times: Tensor
    actions: Tensor
    answers: Tensor
    heads: tuple[int, ...]
    mirror_safe: bool
    asks_who: bool = False

    def questions(self, which: str) -> tuple[int, ...]:
        """The columns of `answers` that are about "attributes", "identity" or "both"."""
        every = tuple(range(len(self.heads)))
        who = every[-1:] if self.asks_who else ()
        return {"attributes": every[: len(every) - len(who)], "identity": who, "both": every}[which]

    def take(self, rows: Tensor, frames: Tensor | None = None) -> Tensor:
        """Those clips (n,), or one frame of each, on the device where `rows` are: uint8 (n, T, 3, H, W) or (n, 3, H, W)."""
        where = self.pixels.device
        places = (rows.to(where),) if frames is None else (rows.to(where), frames.to(where))
        return self.pixels[places].to(rows.device)

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


def trained_people(dataset: VideoDataset) -> Tensor:
    """The persons (P,) in the training clips, in order: the only ones an f_B can learn to name."""
    people = dataset.labels(training_indices(dataset)).person.unique()
    return people[people >= 0]


def _numbered(persons: Tensor, people: Tensor) -> Tensor:
    """Persons (N,) as places in `people`; -1 for who is not among them."""
    place = torch.searchsorted(people, persons).clamp(max=len(people) - 1)
    return torch.where(people[place] == persons, place, -1)


def watched_indices(dataset: VideoDataset, by: SplitBy, limit: int, *, labels: bool = True) -> Tensor:
    """Up to `limit` validation clips to watch a training by, spread over the part.

    By "person": of new people, for the action. By "clip": of people who were trained on, for f_B, which may know them;
    without labels nobody knows who is who.
    """
    indices = dataset.split("val", by)
    if by == "clip" and labels:
        known, people = trained_people(dataset), dataset.labels(indices).person
        indices = indices[torch.isin(people, known) | (people < 0)]
        if not len(indices):
            raise SfumatoError(
                f"{dataset.name} has no validation clips of people it trains on",
                "mark other clips of them 'val' in split_clip",
            )
    return indices[torch.linspace(0, len(indices) - 1, min(limit, len(indices))).round().long()]


def frame_step(times: Tensor) -> int:
    """How many frames of the source video lie between two frames of a clip, of most clips; times: (N, T).

    >>> frame_step(torch.tensor([[0, 3, 6], [1, 4, 7]]))
    3
    """
    return max(1, int(times.diff(dim=1).flatten().median()))


def require_same_length(first: Bank, second: Bank) -> None:
    """Refuse two banks whose clips differ in frames, for an f_A that sees whole clips."""
    lengths = {bank.name: bank.pixels.shape[1] for bank in (first, second)}
    if len(set(lengths.values())) > 1:
        told = " and ".join(f"{name} {length}" for name, length in lengths.items())
        raise SfumatoError(f"f_A sees whole clips, and {told} frames differ", "give both data sets the same frames")


def load_bank(
    dataset: VideoDataset,
    indices: Tensor,
    *,
    device: torch.device,
    labels: bool = True,
    progress: Progress | None = None,
) -> Bank:
    """Those clips with their labels; or without, and then nobody looks at any. Too many for the device stay on the CPU.

    >>> load_bank(data, training_indices(data), device=torch.device("cpu")).pixels.shape  # of theatre:small
    torch.Size([1200, 8, 3, 64, 64])
    """
    shape = dataset.shape
    size = 3 * len(indices) * shape.frames * shape.height * shape.width
    home = home_of(BESIDE * size, device) or CPU
    pixels = dataset.clips(indices, device=home, progress=progress).pixels[:, 0]
    if not labels:
        unknown = torch.full((len(indices), 1), -1, device=device)
        return Bank(
            dataset.name, pixels, dataset.times(indices), unknown[:, 0], unknown[:, :0], (), dataset.mirror_safe
        )
    known = dataset.labels(indices)
    answers, heads = known.attributes, tuple(len(attribute.values) for attribute in dataset.attributes)
    people = trained_people(dataset)
    if len(people) > 1:  # with one person there is no question who it is
        who = _numbered(known.person, people)
        answers, heads = torch.cat([answers, who[:, None]], 1), (*heads, len(people))
    return Bank(
        dataset.name, pixels, dataset.times(indices),
        (known.action if known.actions is None else known.actions).to(device), answers.to(device), heads,
        dataset.mirror_safe, len(people) > 1,
    )  # fmt: skip
