"""Features to train on: a store (`features:DIR`), or a data set or screenplays that are put through an encoder first.

What is known about the videos is asked before anything is encoded, so that a mistake costs no hour.
"""

from __future__ import annotations

import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple, cast, get_args

import torch
from torch import Tensor

from sfumato.datasets import open_dataset
from sfumato.datasets.annotations import Annotation, add_annotations, annotate_items, read_annotations
from sfumato.datasets.base import Part, SplitBy
from sfumato.datasets.feature_store import FeatureStore, FeatureWriter, Manifest
from sfumato.datasets.manifest import parse_options
from sfumato.datasets.sample import Segment
from sfumato.datasets.theatre import TheatreDataset
from sfumato.errors import SfumatoError
from sfumato.recognizers.encoders import Encoder
from sfumato.registry import unknown_name
from sfumato.theatre.screenplay import Kind, plan
from sfumato.training.bank import training_indices, watched_indices
from sfumato.training.extraction import Clip, cut, describe, extract, extract_items, item_name
from sfumato.training.phases import Progress, Timing
from sfumato.training.run import RunFolder
from sfumato.writing import to_json

FEATURES, SCREENPLAY = "features:", "screenplay:"
WATCHED = 128  # videos a training is watched by, of each split
TOLD = 5  # rows that had to be left out
VAL_EVERY = 5  # of so many screenplays the last is watched, not learned from

Loading = Callable[[int, int], None]


class NamedEncoder(NamedTuple):
    """A frozen encoder and what it was asked for by."""

    name: str
    network: Encoder

    def manifest(self, frame_step: int = 1) -> Manifest:
        """Of the features it makes here, of every so many frames."""
        return describe(self.network, self.name, frame_step=frame_step)


@dataclass
class FeatureStage:
    """Where a method that learns from features plays: its data by name, its run folder, its seed, its device."""

    data: str
    privacy_data: str
    run: RunFolder
    seed: int
    device: torch.device
    progress: Progress = field(default_factory=Progress)
    timing: Timing = field(default_factory=Timing)
    title: str = ""
    strict: bool = False  # stop at the first bad row of somebody's own data
    loading: Loading = lambda done, total: None
    # Told how many videos a step takes, and how many there are: for counting epochs.
    counting: Callable[[int, int], None] = lambda batch, videos: None


@dataclass
class FeatureSet:
    """V videos of N clips in all. vectors: float32 (N, per_clip, D), each clip's own and then those of its static clips.

    The clips of video v are the rows first[v] … first[v] + count[v] − 1, in time order.
    """

    name: str
    manifest: Manifest
    vectors: Tensor
    count: Tensor
    annotations: list[Annotation]
    fingerprint: str = ""

    def __post_init__(self) -> None:
        self.first = self.count.cumsum(0) - self.count

    def videos(self, part: Part, by: SplitBy | None = None) -> Tensor:
        """The videos (n,) of one part of a split; without `by`, of both splits: what may be learned from."""
        kinds = (by,) if by else get_args(SplitBy)
        inside = [all(a.part(kind) == part for kind in kinds) for a in self.annotations]
        return torch.tensor(inside).nonzero()[:, 0]

    def clips(self, video: int) -> Tensor:
        """The clips of one video in time order, (S, D)."""
        start = int(self.first[video])
        return self.vectors[start : start + int(self.count[video]), 0]


class Stored:
    """`features:DIR`, a store that `sfumato features extract` made; annotations are of all its videos, stored or yet to be.

    >>> Stored("features:my-features").annotations["theatre:small/0"].action  # doctest: +SKIP
    'sit down'
    """

    def __init__(self, name: str) -> None:
        self.name, folder = name, Path(name.removeprefix(FEATURES))
        self.store = FeatureStore(folder)
        told = read_annotations(folder)
        self.annotations = {**{v.name: Annotation(v.name) for v in self.store.videos}, **told}


class Videos(ABC):
    """What must be encoded first; `annotations` of the videos are known before any feature is."""

    name: str
    annotations: dict[str, Annotation]
    problems: Sequence[str] = ()  # rows of a user's own data that had to be left out
    frame_step: int = 1

    @abstractmethod
    def extract(self, encoder: Encoder, writer: FeatureWriter, device: torch.device, loading: Loading) -> None:
        """Encode what is not in the store yet, and say there what is known about it."""


Source = Stored | Videos


class Filmed(Videos):
    """A data set of videos by its name: its training clips, and those that a training is watched by.

    >>> len(Filmed("theatre:small").annotations)
    1456
    """

    def __init__(self, name: str, *, strict: bool = False) -> None:
        self.name, self.dataset = name, open_dataset(name, strict=strict)
        self.problems, self.frame_step = getattr(self.dataset, "problems", ()), self.dataset.frame_step or 1
        watched = [watched_indices(self.dataset, by, WATCHED) for by in get_args(SplitBy)]
        self.indices = torch.cat([training_indices(self.dataset), *watched]).unique()
        names = {index: item_name(self.dataset, index) for index in self.indices.tolist()}
        self.annotations = annotate_items(self.dataset, self.indices, names)

    def extract(self, encoder: Encoder, writer: FeatureWriter, device: torch.device, loading: Loading) -> None:
        """Video by video."""
        extract_items(encoder, self.dataset, self.indices, writer, device=device, progress=loading)


class Screenplays(Videos):
    """`screenplay:untrimmed` and `screenplay:surveillance`: long drawn videos, with their segments and anomalies.

    Options follow a question mark: `screenplay:untrimmed?videos=200&frames=512`. Those of another `seed` are played by people
    whom no data set shows.

    >>> Screenplays("screenplay:surveillance?videos=4").annotations["screenplay:surveillance/0/256"].anomalous
    False
    """

    def __init__(self, name: str) -> None:
        kind, options = parse_options(name.removeprefix(SCREENPLAY), ("videos", "frames", "seed"))
        if kind not in get_args(Kind):
            raise unknown_name("screenplay", kind, list(get_args(Kind)))
        self.name, self.kind = name, cast(Kind, kind)
        self.videos, self.frames = (_count(options, key, usual) for key, usual in (("videos", 200), ("frames", 256)))
        self.theatre = TheatreDataset(seed=_count(options, "seed", 0, least=0))
        self.annotations = {a.name: a for a in map(self._annotation, range(self.videos))}

    def _annotation(self, index: int) -> Annotation:
        spans, _ = plan(self.theatre.seed, index, self.frames, self.kind)
        part = "val" if index % VAL_EVERY == VAL_EVERY - 1 else "train"
        seed = f"?seed={self.theatre.seed}" if self.theatre.seed else ""
        return Annotation(
            f"{SCREENPLAY}{self.kind}{seed}/{index}/{self.frames}",
            segments=tuple(Segment(span.start, span.end, span.label) for span in spans),
            # Where nothing strange may happen nobody has to tell it from what does.
            anomalous=any(span.anomaly for span in spans) if self.kind == "surveillance" else None,
            split={by: part for by in get_args(SplitBy)},
        )

    def extract(self, encoder: Encoder, writer: FeatureWriter, device: torch.device, loading: Loading) -> None:
        """Draw what is not in the store yet and encode it."""
        add_annotations(writer.folder, self.annotations)

        def clips(index: int) -> Iterator[Clip]:
            play = self.theatre.screenplay(index, self.kind, self.frames)
            return cut(play.clip, writer.manifest.clip[0], writer.manifest.frame_step)

        for index, name in enumerate(self.annotations):
            extract(encoder, [(name, partial(clips, index))], writer, device=device)
            loading(index + 1, self.videos)


def open_source(name: str, *, strict: bool = False) -> Source:
    """What a name stands for: `features:DIR`, `screenplay:KIND`, or any data set of videos (`strict`: as `open_dataset`).

    >>> open_source("features:my-features")  # doctest: +SKIP
    """
    kinds: dict[str, type[Stored | Screenplays]] = {FEATURES: Stored, SCREENPLAY: Screenplays}
    for prefix, kind in kinds.items():
        if name.startswith(prefix):
            if name == prefix:
                raise SfumatoError(
                    f"'{name}' names nothing", f"write such as {prefix}{'DIR' if kind is Stored else 'untrimmed'}"
                )
            return kind(name)
    return Filmed(name, strict=strict)


def check(source: Source, encoder: NamedEncoder | None) -> None:
    """Refuse videos that nobody can encode, and features that are unfinished or somebody else's, before anybody waits for them.

    >>> check(open_source("theatre:small"), None)  # doctest: +SKIP
    """
    if isinstance(source, Stored):
        _require_whole(source.name, source.store, source.annotations)
        if encoder is not None:
            require(source.name, source.store.manifest, encoder.network.fingerprint(), encoder.network.width)
    elif encoder is None:
        raise SfumatoError(
            f"{source.name} are videos, and no encoder is named",
            "add --set encoder=FOLDER_OR_ID or encoder=NAME:WEIGHTS, or give --data features:DIR",
        )


def fetch(
    source: Source, encoder: NamedEncoder | None, folder: Path, device: torch.device, loading: Loading
) -> FeatureSet:
    """All features of a source on the device; videos are encoded into `folder`, as far as they are not there yet.

    >>> fetch(open_source("features:my-features"), None, Path("unused"), CPU, print).vectors.shape  # doctest: +SKIP
    """
    check(source, encoder)
    if isinstance(source, Stored):
        return read_features(source.name, source.store, source.annotations, device, loading)
    assert encoder is not None
    source.extract(encoder.network, FeatureWriter(folder, encoder.manifest(source.frame_step)), device, loading)
    return read_features(source.name, FeatureStore(folder), source.annotations, device, loading)


def tell_problems(source: Source, note: Callable[[str], None]) -> None:
    """The first few rows that were left out, and how many more.

    >>> tell_problems(open_source("theatre:small"), print)
    """
    problems = source.problems if isinstance(source, Videos) else ()
    for line in problems[:TOLD]:
        note(f"left out: {line}")
    if len(problems) > TOLD:
        note(f"… and {len(problems) - TOLD} more")


def own_folder(run: RunFolder, name: str) -> Path:
    """Where a run keeps the features that it had to encode itself.

    >>> own_folder(RunFolder(Path("runs/splavu")), "theatre:small").name
    'theatre-small-58748f'
    """
    readable = re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-")[-40:]
    return run.path / "features" / f"{readable}-{hashlib.sha256(name.encode()).hexdigest()[:6]}"


def read_features(
    name: str, store: FeatureStore, annotations: dict[str, Annotation], device: torch.device, loading: Loading
) -> FeatureSet:
    """Every video of a store that is annotated; damaged and unfinished ones are refused by name."""
    _require_whole(name, store, annotations)
    numbers = [number for number, video in enumerate(store.videos) if video.name in annotations]
    rows = []
    for done, number in enumerate(numbers, 1):
        rows.append(store[number].clone())
        if done % 100 == 0 or done == len(numbers):
            loading(done, len(numbers))
    kept = [annotations[store.videos[number].name] for number in numbers]
    digest = hashlib.sha256(to_json(asdict(store.manifest)))
    for number, annotation in zip(numbers, kept, strict=True):
        digest.update(f"{store.videos[number].sha256} {annotation}\n".encode())
    count = torch.tensor([len(each) for each in rows])
    return FeatureSet(name, store.manifest, torch.cat(rows).to(device), count, kept, digest.hexdigest())


def _require_whole(name: str, store: FeatureStore, annotations: dict[str, Annotation]) -> None:
    """Refuse a store that was not extracted to the end: who trains on half of the videos should know it."""
    stored = {video.name for video in store.videos}
    if missing := [video for video in annotations if video not in stored]:
        others = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise SfumatoError(
            f"{name} is unfinished: '{missing[0]}'{others} of {len(annotations)} annotated videos are not stored",
            "run `sfumato features extract` to the end, or correct annotations.jsonl",
        )


def require(name: str, manifest: Manifest, weights_sha256: str, width: int) -> None:
    """Refuse features of another encoder or width than the others, by the name of where they come from."""
    try:
        manifest.require(weights_sha256, width)
    except SfumatoError as error:
        raise SfumatoError(f"{name}: {error.what}", error.next_step) from None


def _count(options: dict[str, str], key: str, usual: int, least: int = 1) -> int:
    given = options.get(key, str(usual))
    if not given.isdecimal() or int(given) < least:
        kind = "positive whole" if least else "whole"
        raise SfumatoError(f"{key} = '{given}' is not a {kind} number", f"write e.g. {key}={usual}")
    return int(given)
