"""What latent protocols look at: raw features and what f_A makes of them, the videos of each part, the questions about them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, cast

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from sfumato.anonymizers.latent_adapter import LatentAnonymizer
from sfumato.datasets.base import Part, SplitBy
from sfumato.datasets.sample import AttributeSpec
from sfumato.errors import SfumatoError
from sfumato.evaluation.metrics import MIN_GROUPS
from sfumato.training.feature_data import FeatureSet

LONGEST = 2304  # clips of a video that f_A sees at once, as many as in training
VIEWS = 5  # evenly spaced clips of a video that are read (section 4.2)
UNTOUCHED = 0.1  # of the features' spread: f_A that moves whole clips by less hides little of them
VAL_EVERY = 5  # of so many training videos one validates, where there is no test part


class RawFeatures(LatentAnonymizer):
    """Does nothing: what the others are held against."""

    name = "identity"

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width

    def forward(self, features: Tensor, mask: Tensor | None = None) -> Tensor:
        """(B, S, D) as it came."""
        return features

    def settings(self) -> dict[str, float | int | str | bool]:
        """The constructor's arguments."""
        return {"width": self.width}


@dataclass(frozen=True)
class Subject:
    """Who is judged: a name, f_A, and the same videos before and after it."""

    name: str
    adapter: LatentAnonymizer
    raw: FeatureSet
    features: FeatureSet

    @property
    def is_raw(self) -> bool:
        """Whether nothing was done to the features."""
        return isinstance(self.adapter, RawFeatures)


class Stretch(NamedTuple):
    """Whole videos side by side: features (B, S, D), mask (B, S), and the rows of the set (n,) that mask's True are."""

    features: Tensor
    mask: Tensor
    rows: Tensor


def make_subject(name: str, adapter: LatentAnonymizer, raw: FeatureSet) -> Subject:
    """The features of every video through f_A: its clips together as it stands in a store, static clips each alone.

    >>> make_subject("my adapter", LatentAdapter(16), features).features.vectors.shape == features.vectors.shape
    True
    """
    adapter = adapter.to(raw.vectors.device).eval()
    vectors = torch.empty_like(raw.vectors)
    with torch.no_grad():
        for features, mask, rows in stretches(raw, torch.arange(len(raw.count))):
            vectors[rows, 0] = adapter(features, mask)[mask]
        for number in range(1, vectors.shape[1]):
            for rows in torch.arange(len(vectors), device=vectors.device).split(LONGEST):
                vectors[rows, number] = adapter(raw.vectors[rows, number][:, None])[:, 0]
    if not bool(vectors.isfinite().all()):
        raise SfumatoError(f"'{name}' makes features of {raw.name} that are not finite", "train it again")
    return Subject(name, adapter, raw, replace(raw, vectors=vectors))


class Moved(NamedTuple):
    """By how much f_A changes features, in the middle of all clips, relative to how far they are from their mean."""

    whole: float
    static: float  # NaN where there are no static clips


def moved(subject: Subject) -> Moved:
    """How far f_A moves whole clips, and static ones. 0: not at all; 1: as far as they are from their mean.

    >>> moved(make_subject("raw", RawFeatures(16), features))
    Moved(whole=0.0, static=0.0)
    """
    return moved_between(subject.raw.vectors, subject.features.vectors)


def moved_between(before: Tensor, after: Tensor) -> Moved:
    """The same of clips (N, per_clip, D): each one's own vector, and those of its static clips if there are any.

    >>> moved_between(torch.tensor([[[1.0]], [[-1.0]]]), torch.tensor([[[1.5]], [[-0.5]]]))
    Moved(whole=0.5, static=nan)
    """
    spread = (before - before.mean(0)).norm(dim=2).clamp(min=1e-12)
    shares = (after - before).norm(dim=2) / spread
    static = shares[:, 1:].median() if shares.shape[1] > 1 else torch.tensor(math.nan)
    return Moved(float(shares[:, 0].median()), float(static))


def moved_notes(name: str, found: Moved) -> list[str]:
    """A warning where f_A leaves video as it is, whatever it does to single frames that stand still.

    >>> moved_notes("f_A", Moved(0.5, 0.5))
    []
    """
    if found.whole >= UNTOUCHED:
        return []
    still = (
        ""
        if math.isnan(found.static)
        else f", static ones by {found.static:.3g}: what those hide says nothing about video"
    )
    return [f"{name}: whole clips pass nearly as they are, changed by {found.whole:.2g} of their spread{still}"]


def stretches(data: FeatureSet, videos: Tensor) -> Iterator[Stretch]:
    """Those videos (n,) in batches of about as long ones; one that is too long comes in several pieces.

    >>> sum(len(each.rows) for each in stretches(features, torch.arange(4))) == features.count[:4].sum()
    True
    """
    device = data.vectors.device
    pieces: list[Tensor] = []
    for video in videos.tolist():
        start, count = int(data.first[video]), int(data.count[video])
        pieces += torch.arange(start, start + count).split(LONGEST)
    pieces.sort(key=len)
    while pieces:
        size = 1
        while size < len(pieces) and (size + 1) * len(pieces[size]) <= LONGEST:
            size += 1
        some, pieces = pieces[:size], pieces[size:]
        mask = pad_sequence([torch.ones(len(p), dtype=torch.bool) for p in some], batch_first=True).to(device)
        features = pad_sequence([data.vectors[p.to(device), 0] for p in some], batch_first=True)
        yield Stretch(features, mask, torch.cat(some).to(device))


class Rows(NamedTuple):
    """What is read of n videos: features (N, D), and of which of the videos each is, (N,)."""

    features: Tensor
    owner: Tensor
    videos: int


def whole_rows(data: FeatureSet, videos: Tensor) -> Rows:
    """Up to five evenly spaced clips of each of those videos (n,).

    >>> whole_rows(features, torch.tensor([3, 5])).videos
    2
    """
    clips, owner = _spread(data, videos)
    return Rows(data.vectors[clips, 0], owner, len(videos))


def static_rows(data: FeatureSet, videos: Tensor) -> Rows:
    """The static clips of the same clips: single frames that stand still.

    >>> len(static_rows(features, torch.tensor([3])).owner)  # of a video of one clip
    2
    """
    clips, owner = _spread(data, videos)
    static = data.manifest.per_clip - 1
    return Rows(data.vectors[clips, 1:].flatten(0, 1), owner.repeat_interleave(static), len(videos))


def video_means(data: FeatureSet, videos: Tensor) -> Tensor:
    """One vector for each of those videos (n,), of length 1: the mean of its clips, (n, D) in float64 on the CPU.

    >>> video_means(features, torch.tensor([3, 5])).norm(dim=1)
    tensor([1., 1.], dtype=torch.float64)
    """
    rows = whole_rows(data, videos)
    total = torch.zeros(rows.videos, rows.features.shape[1], dtype=torch.float64)
    total.index_add_(0, rows.owner.cpu(), rows.features.cpu().double())
    return torch.nn.functional.normalize(total, dim=1)


def _spread(data: FeatureSet, videos: Tensor) -> tuple[Tensor, Tensor]:
    chosen, owner = [], []
    for place, video in enumerate(videos.tolist()):
        count = int(data.count[video])
        views = torch.linspace(0, count - 1, min(VIEWS, count)).round().long()
        chosen.append(int(data.first[video]) + views)
        owner.append(torch.full_like(views, place))
    nothing = torch.zeros(0, dtype=torch.long)
    device = data.vectors.device
    return torch.cat([nothing, *chosen]).to(device), torch.cat([nothing, *owner]).to(device)


@dataclass(frozen=True)
class Parts:
    """The videos that are learned from, chosen by and asked about, (n,) each."""

    train: Tensor
    val: Tensor
    test: Tensor
    note: str = ""

    def of(self, part: Part) -> Tensor:
        """Those of one part."""
        return cast(Tensor, getattr(self, part))

    def lacks(self) -> str:
        """Which part is too small for an interval; "" if none is."""
        for part in ("train", "val", "test"):
            if len(self.of(part)) < MIN_GROUPS:
                return f"has {len(self.of(part))} {part} videos for it, {MIN_GROUPS} are needed"
        return ""


def parts_of(data: FeatureSet, useful: Sequence[bool], by: SplitBy) -> Parts:
    """The useful videos of each part of a split. Where none is to test by, those that validate do, and every fifth
    training video validates.

    >>> parts_of(features, [bool(a.action) for a in features.annotations], "person").test
    tensor([4, 9])
    """
    keep = torch.tensor(list(useful), dtype=torch.bool)
    train, val, test = (videos[keep[videos]] for videos in (data.videos(p, by) for p in ("train", "val", "test")))
    if len(test) or not len(val):
        return Parts(train, val, test)
    held = torch.arange(len(train)) % VAL_EVERY == VAL_EVERY - 1
    return Parts(train[~held], train[held], val, "no test part: the validation videos are tested on")


def person_numbers(data: FeatureSet) -> np.ndarray:
    """Who is in each video, (V,), people in the order of their names; −1: it is not told.

    >>> person_numbers(features)[:3]
    array([0, 0, 1])
    """
    told = [a.person for a in data.annotations]
    place = {person: number for number, person in enumerate(sorted(set(told) - {""}))}
    return np.array([place.get(person, -1) for person in told])


class Question(NamedTuple):
    """What may be asked: answers (V, Q), -1 unknown, how many values each of Q questions has, and their names."""

    labels: Tensor
    heads: tuple[int, ...]
    specs: tuple[AttributeSpec, ...]


def ask(told: Sequence[str], learned: Tensor, name: str) -> Question:
    """One question whose answers are those that the learned videos (n,) give; "" is unknown.

    >>> ask(["wave", "", "bow", "jump"], torch.tensor([0, 2]), "action").labels[:, 0]
    tensor([ 1, -1,  0, -1])
    """
    values = sorted({told[video] for video in learned.tolist()} - {""})
    place = {value: number for number, value in enumerate(values)}
    labels = torch.tensor([[place.get(value, -1)] for value in told]).view(-1, 1)
    return Question(labels, (len(values),), (AttributeSpec(name, tuple(values)),))


def ask_attributes(data: FeatureSet, learned: Tensor) -> Question:
    """A question for each private attribute that differs among the learned videos (n,).

    >>> [spec.name for spec in ask_attributes(features, torch.arange(4)).specs]
    ['hat']
    """
    names = sorted({name for video in learned.tolist() for name in data.annotations[video].attributes})
    each = [ask([a.attributes.get(name, "") for a in data.annotations], learned, name) for name in names]
    asked = [question for question in each if question.heads[0] > 1]  # what is the same everywhere tells nothing
    if not asked:
        return Question(torch.empty(len(data.annotations), 0, dtype=torch.long), (), ())
    labels, heads, specs = zip(*asked, strict=True)
    return Question(torch.cat(labels, 1), tuple(h[0] for h in heads), tuple(s[0] for s in specs))
