"""What data sets of video files share: rows checked when opened, clips decoded when asked for."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from sfumato.datasets.base import Clips, ClipShape, Labels, Part, Progress, SplitBy, VideoDataset
from sfumato.datasets.clip_cache import read_clip
from sfumato.datasets.probed import ProbeIndex
from sfumato.datasets.sample import AttributeSpec, Sample, Segment
from sfumato.errors import SfumatoError
from sfumato.video import clip_indices, count_frames, probe, read_frames

ACTION_TAG = "action/"  # how the tag of an action begins, where a video has several


class Tags(Mapping[str, str]):
    """Of a vocabulary, "yes" for those names that a video has and "no" for all others: thousands of names cost nothing.

    >>> Tags(("ball", "car"), {"car"})["ball"]
    'no'
    """

    __slots__ = ("names", "yes")

    def __init__(self, names: Sequence[str], yes: Set[str]) -> None:
        self.names, self.yes = names, yes

    def __getitem__(self, name: str) -> str:
        return "yes" if name in self.yes else "no"

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


@dataclass(slots=True)
class Row:
    """One video file and what is known about it. `where` names its place in the list, for messages.

    attributes: the same names in every row, private or not; an empty value is an unknown one. group: what it was cut
    from (a recording, a film), where that is known: one group belongs into one part of a split. segments, anomalies: of
    an untrimmed video, in its frames. frames, rate (per second): known once the file was looked into.
    """

    path: Path
    where: str
    action: str
    person: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict)
    split: dict[SplitBy, str] = field(default_factory=dict)
    frames: int = 0
    group: str = ""
    rate: float = 0.0
    segments: tuple[Segment, ...] = ()
    anomalies: tuple[Segment, ...] = ()


@dataclass(frozen=True)
class Sampling:
    """How clips are cut out of files: `frames` of them, every `skip`-th (None: spread over the video), `size` pixels."""

    frames: int = 16
    size: int = 112
    skip: int | None = None


def automatic_split(key: str) -> Part:
    """The part a key (a person, a path) falls into, by its own hash: 70 / 15 / 15, the same on every machine.

    >>> automatic_split("person 3") in ("train", "val", "test")
    True
    """
    share = int.from_bytes(hashlib.sha256(key.encode()).digest()[:4], "big") / 2**32
    return "train" if share < 0.70 else "val" if share < 0.85 else "test"


def label_rows(
    rows: Sequence[Row], actions: Sequence[str], persons: Sequence[str], attributes: Sequence[AttributeSpec],
    several: bool = False,
) -> Labels:  # fmt: skip
    """What those rows say, as indices into the names given; -1 where they say nothing.

    several: a row has actions among its tags.

    >>> label_rows([Row(Path("a.mp4"), "line 2", "wave")], ["bow", "wave"], [], []).action
    tensor([1])
    """
    action, person = ({name: i for i, name in enumerate(names)} for names in (actions, persons))
    column = {spec.name: i for i, spec in enumerate(attributes)}
    codes = [{value: i for i, value in enumerate(spec.values)} for spec in attributes]
    values = torch.full((len(rows), len(attributes)), -1)
    for n, row in enumerate(rows):
        if isinstance(row.attributes, Tags):
            values[n] = 0
            values[n, [column[name] for name in row.attributes.yes if name in column]] = 1
        elif attributes:
            told = [code.get(row.attributes[a.name], -1) for a, code in zip(attributes, codes, strict=True)]
            values[n] = torch.tensor(told)
    return Labels(
        torch.tensor([action.get(row.action, -1) for row in rows], dtype=torch.int64),
        torch.tensor([person.get(row.person, -1) for row in rows], dtype=torch.int64),
        values,
        _shown(rows, action) if several else None,
    )


def _shown(rows: Sequence[Row], place: Mapping[str, int]) -> Tensor:
    """Which of the actions each row's tags name, (N, actions) in {0, 1}."""
    found = torch.zeros(len(rows), len(place), dtype=torch.int64)
    for n, row in enumerate(rows):
        found[n, [place[name] for name in tagged_actions(row) if name in place]] = 1
    return found


def tagged_actions(row: Row) -> frozenset[str]:
    """The actions among a row's tags.

    >>> tagged_actions(Row(Path("a.mp4"), "line 2", "", attributes=Tags(("action/dive", "ball"), {"action/dive", "ball"})))
    frozenset({'dive'})
    """
    tags = row.attributes.yes if isinstance(row.attributes, Tags) else ()
    return frozenset(tag.removeprefix(ACTION_TAG) for tag in tags if tag.startswith(ACTION_TAG))


class FileDataset(VideoDataset):
    """Rows of files as a data set. Bad rows are left out and listed in `problems`; `strict` stops at the first."""

    from_videos = True
    mirror_safe = False  # nobody knows what left and right mean in somebody's own videos
    split_advice = "mark some rows '{part}' in the column split_{by}"
    rows_advice = "mend the rows and run again"
    least: int | None = (
        None  # frames; shorter videos are left out, longer ones start again where a clip is longer still
    )

    def __init__(
        self, name: str, rows: Sequence[Row], attributes: Sequence[str], sampling: Sampling, *, strict: bool,
        problems: list[str],
    ) -> None:  # fmt: skip
        self.name, self.sampling, self.problems, self.strict = name, sampling, problems, strict
        self.summary = f"{len(rows)} video files"
        self.shape, self.frame_step = ClipShape(sampling.frames, sampling.size, sampling.size), sampling.skip
        self.rows = self._usable(rows, strict)
        if not self.rows:
            first = f" (first: {problems[0]})" if problems else ""
            others = problems if len(problems) > 1 else ()
            raise SfumatoError(f"{name} has no usable video{first}", self.rows_advice, left_out=others)
        self.actions = tuple(sorted({r.action for r in self.rows} - {""}))
        self.persons = tuple(sorted({r.person for r in self.rows} - {""}, key=_natural))
        self._labelled = self._specs()
        self.attributes = tuple(self._labelled[a] for a in dict.fromkeys(attributes) if a in self._labelled)
        self._check_splits()

    def _specs(self) -> dict[str, AttributeSpec]:
        """Every attribute with the values that occur; one that is the same everywhere tells nothing."""
        values = {a: tuple(sorted({r.attributes[a] for r in self.rows} - {""})) for a in self.rows[0].attributes}
        return {a: AttributeSpec(a, v) for a, v in values.items() if len(v) > 1}

    def _usable(self, rows: Sequence[Row], strict: bool) -> list[Row]:
        """Those whose file can be read and is long enough."""
        index = ProbeIndex(self.name, len(rows))
        unseen = [row for row in rows if not index.recall(row)]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            wrong = {id(row): error for row, error in zip(unseen, pool.map(self._wrong_with, unseen), strict=True)}
        index.add([row for row in unseen if not wrong[id(row)]])
        errors = [wrong.get(id(row)) or self._too_short(row) for row in rows]
        for row, error in zip(rows, errors, strict=True):
            if error and strict:
                raise SfumatoError(f"{row.where}: {error.what}", error.next_step or "mend it, or run without --strict")
            if error:
                self.problems.append(f"{row.where}: {error}")
        return [row for row, error in zip(rows, errors, strict=True) if error is None]

    @classmethod
    def look_into(cls, row: Row) -> None:
        """Find the file's frames and rate, or raise what is wrong with it; the header tells, one frame is decoded."""
        info = probe(row.path)
        row.frames, row.rate = info.frames or count_frames(row.path), float(info.fps)

    def _wrong_with(self, row: Row) -> SfumatoError | None:
        try:
            self.look_into(row)
        except SfumatoError as error:
            return error
        return None

    def _too_short(self, row: Row) -> SfumatoError | None:
        if self.least:  # a short video starts again from its beginning, unless it is shorter than that
            few = f"'{row.path.name}' has {row.frames} frames, fewer than least={self.least}"
            return SfumatoError(few) if row.frames < self.least else None
        needed = (self.sampling.frames - 1) * (self.sampling.skip or 1) + 1
        if row.frames >= needed:
            return None
        return SfumatoError(
            f"'{row.path.name}' has {row.frames} frames, {needed} are asked for", "ask for fewer frames"
        )

    def _check_splits(self) -> None:
        for by in ("person", "clip"):
            for part in ("train", "val", "test"):
                if not len(self.split(part, by)):
                    raise SfumatoError(
                        f"{self.name} has no {part} clips in its split by {by}",
                        f"{self.split_advice.format(part=part, by=by)}, or give more videos",
                        left_out=self.problems,
                    )

    def __len__(self) -> int:
        return len(self.rows)

    def split(self, part: Part, by: SplitBy) -> Tensor:
        return torch.tensor([i for i, row in enumerate(self.rows) if row.split[by] == part], dtype=torch.int64)

    def labels(self, indices: Tensor) -> Labels:
        rows = [self.rows[i] for i in indices.tolist()]
        return label_rows(rows, self.actions, self.persons, self.attributes, self.several_actions)

    def labelled(self) -> tuple[AttributeSpec, ...]:
        return tuple(self._labelled.values())

    def _frames_of(self, row: Row, views: int) -> Tensor:
        """Which frames of a file its clips are made of, (views, T)."""
        s = self.sampling
        skip = s.skip or max(1, row.frames // s.frames)
        return clip_indices(row.frames, s.frames, skip, "uniform", clips=views)

    def times(self, indices: Tensor) -> Tensor:
        return torch.stack([self._frames_of(self.rows[i], 1)[0] for i in indices.tolist()])

    def _clip(self, row: Row, views: int) -> Tensor:
        """uint8 (views, T, 3, H, W) of one file."""
        s = self.sampling

        def read() -> Tensor:
            pixels = read_clip(row.path, self._frames_of(row, views).flatten(), (s.size, s.size))
            return pixels.view(views, s.frames, *pixels.shape[1:])

        try:
            return read()
        except SfumatoError as error:  # the header promised more than the file holds: count what can really be read
            if self.strict:
                raise SfumatoError(f"{row.where}: {error.what}", "copy it again, or run without --strict") from error
            self.problems.append(f"{row.where}: {error.what}")
            row.frames = sum(1 for _ in read_frames(row.path, warn=lambda _: None))
            return read()

    def clips(
        self, indices: Tensor, *, views: int = 1, device: torch.device | str = "cpu", progress: Progress | None = None
    ) -> Clips:
        s = self.sampling
        pixels = torch.empty(len(indices), views, s.frames, 3, s.size, s.size, dtype=torch.uint8, device=device)
        # Decoding releases Python's lock, and a file's decoder alone does not fill all cores.
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for n, clip in enumerate(pool.map(lambda i: self._clip(self.rows[i], views), indices.tolist())):
                pixels[n] = clip.to(device)
                if progress:
                    progress(n + 1, len(indices))
        return Clips(pixels, None)

    def frames(self, index: int) -> Iterator[Tensor]:
        row, size = self.rows[index], self.sampling.size

        def note(damage: str) -> None:
            self.problems.append(f"{row.where}: {damage}")

        for picture in read_frames(row.path, size=(size, size), strict=self.strict, warn=note):
            yield torch.from_numpy(picture).permute(2, 0, 1)

    def recordings(self, indices: Tensor) -> Tensor:
        first: dict[str, int] = {}
        every = [first.setdefault(row.group, i) if row.group else i for i, row in enumerate(self.rows)]
        return torch.tensor(every, dtype=torch.int64)[indices]

    def fingerprint(self) -> str:
        def told(row: Row) -> tuple[object, ...]:
            file, values = row.path.stat(), self._values(row)
            return str(row.path), file.st_size, file.st_mtime_ns, row.action, row.person, values, row.split, row.group

        about = (self.sampling, [told(row) for row in self.rows])
        return hashlib.sha256(repr(about).encode()).hexdigest()

    def _values(self, row: Row) -> object:
        """What a row says about the private attributes, for the fingerprint."""
        return {a.name: row.attributes[a.name] for a in self.attributes}

    def sample(self, index: int) -> Sample:
        row, labels = self.rows[index], self.labels(torch.tensor([index]))
        named = {a.name: int(v) for a, v in zip(self.attributes, labels.attributes[0], strict=True) if v >= 0}
        return Sample(
            self._clip(row, 1)[0], int(labels.action), int(labels.person), str(row.path), named,
            segments=row.segments, anomalies=row.anomalies,
            actions=() if labels.actions is None else tuple(labels.actions[0].nonzero()[:, 0].tolist()),
        )  # fmt: skip


def _natural(text: str) -> tuple[int, str]:
    """Numbers by value, then words: 2 before 10."""
    return (int(text), "") if text.isdecimal() else (10**9, text)
