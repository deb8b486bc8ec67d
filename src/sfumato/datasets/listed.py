"""What the papers' data sets share: files listed with labels in an annotation, found by name under one folder.

A data set is a class with the method `annotations`, which reads the set's own label files into Rows and opens no video.
Everything else is here: where the files lie, what is missing, the validation part, one folder that nothing may leave.
Options follow a question mark, as in `ucf101:PATH?split=2&frames=16&size=112&skip=2&annotations=FOLDER`; `least=80` leaves out
videos of fewer frames.
"""

from __future__ import annotations

import hashlib
import os
from abc import abstractmethod
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from sfumato.datasets.base import SplitBy
from sfumato.datasets.files import FileDataset, Row, Tags
from sfumato.datasets.intact import cut_short
from sfumato.datasets.manifest import parse_options, sampling_of, whole_number
from sfumato.datasets.prepared import check_small
from sfumato.datasets.sample import AttributeSpec, Segment
from sfumato.errors import SfumatoError
from sfumato.video.decode import SUFFIXES

OPTIONS = ("annotations", "frames", "size", "skip", "least")
VALIDATION_SHARE = 0.1


@dataclass(frozen=True)
class Annotations:
    """What a set's label files say. Of rows, `path` is as written there, and `split` may be "": in no part.

    attributes: all that are labelled; private: the names of those that are asked about (None: all).
    published: numbers to hold a copy against, by what they count ("videos", "actions", a part or parts: "train + val").
    straddling: how many groups the published split itself has on both of its sides.
    """

    rows: list[Row]
    actions: tuple[str, ...] = ()
    attributes: tuple[AttributeSpec, ...] = ()
    private: tuple[str, ...] | None = None
    published: Mapping[str, int] = field(default_factory=dict)
    straddling: int = 0

    def asked(self) -> tuple[AttributeSpec, ...]:
        """The private attributes."""
        return tuple(a for a in self.attributes if self.private is None or a.name in self.private)


class Place:
    """A user's copy of a data set: its folder, where its label files are, and the options.

    >>> Place("ucf101", "data/ucf101?split=2", ("split",)).options  # doctest: +SKIP
    {'split': '2'}
    """

    def __init__(
        self, kind: str, source: str, options: Sequence[str], get_from: str = "", suffixes: frozenset[str] | None = None
    ) -> None:
        path, self.options = parse_options(source, (*options, *OPTIONS))
        self.kind, self.get_from, self._suffixes = kind, get_from, suffixes or frozenset(SUFFIXES)
        self.root = Path(path).resolve()
        self.labels = Path(self.options.get("annotations", path)).resolve()
        # Of every option with a choice what was chosen, and what is where nothing is said; label files that were read.
        self.chosen: dict[str, str] = {}
        self.usual: dict[str, str] = {}
        self.used: dict[Path, None] = {}
        for folder in (self.root, self.labels):
            if not folder.is_dir():
                raise SfumatoError(f"there is no folder '{folder}'", f"give the folder of {kind}")

    def choice(self, name: str, known: Sequence[str]) -> str:
        """The value of an option that knows only these; the first is the default."""
        value = self.options.get(name, known[0])
        if value not in known:
            raise SfumatoError(f"{self.kind} has no {name} '{value}'", f"use one of {', '.join(known)}")
        self.chosen[name], self.usual[name] = value, known[0]
        return value

    def find(self, *patterns: str) -> list[Path]:
        """The label files of the first pattern that has any, in the folder or one folder below; often one file."""
        for pattern in patterns:
            for where in (pattern, f"*/{pattern}"):
                found = sorted(path for path in self.labels.glob(where) if path.is_file())
                if found:
                    self.used |= dict.fromkeys(found)
                    return found
        return []

    def label_files(self, *patterns: str, get_from: str = "") -> list[Path]:
        """As `find`; when there are none the error names the file and where to get it."""
        found = self.find(*patterns)
        if not found:
            raise SfumatoError(
                f"there is no '{patterns[0]}' in '{self.labels}'",
                f"get it from {get_from or self.get_from}, and put it there or say ?annotations=FOLDER",
            )
        return found

    def read(self, *patterns: str) -> tuple[Path, str]:
        """The path and the text of one label file."""
        path = self.label_files(*patterns)[0]
        return path, read_text(path)

    @cached_property
    def media(self) -> Media:
        """The files under the root, looked for once."""
        return find_media(self.root, self._suffixes)


@dataclass
class Media:
    """The files under a folder by name without suffix; `twice` have a name that is taken, `outside` lead out of it."""

    files: dict[str, Path] = field(default_factory=dict)
    twice: list[Path] = field(default_factory=list)
    outside: list[Path] = field(default_factory=list)


def find_media(root: Path, suffixes: frozenset[str]) -> Media:
    """All files with these suffixes under `root`, hidden ones left out, no link followed that leads out of it.

    >>> find_media(Path("ucf101"), frozenset({".avi"})).files["v_Archery_g01_c01"]  # doctest: +SKIP
    PosixPath('ucf101/UCF-101/Archery/v_Archery_g01_c01.avi')
    """
    media = Media()
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        linked = [Path(folder, name) for name in folders if os.path.islink(Path(folder, name))]
        media.outside += [link for link in linked if not link.resolve().is_relative_to(root)]
        for name in sorted(names):
            path = Path(folder, name)
            if path.suffix.lower() not in suffixes or name.startswith("."):
                continue
            if path.is_symlink() and not path.resolve().is_relative_to(root):
                media.outside.append(path)
            elif path.stem in media.files:
                media.twice.append(path)
            else:
                media.files[path.stem] = path
    return media


class ListedDataset(FileDataset):
    """A data set of the papers. Missing and unreadable files are left out and listed in `problems`, or stop it (`strict`)."""

    kind: str
    described: str  # one line for `sfumato list datasets`
    get_from: str  # where its label files are to be had
    options: tuple[str, ...] = ()  # beyond OPTIONS
    suffixes: frozenset[str] | None = None  # None: all that videos have
    mirror_safe = True
    split_advice = "complete the copy (`sfumato data check` says what is missing)"

    def __init__(self, source: str, *, strict: bool = False) -> None:
        self.place = self.at(source)
        # The papers start a short video again from its beginning, so that all of them count, unless somebody asks.
        self.least = whole_number({"least": "1"} | self.place.options, "least")
        sampling = sampling_of(self.place.options)
        check_small(self.place.root, sampling.size)
        self.told = self.annotations(self.place)
        linked = [path for path in self.place.media.outside if path.is_dir()]
        problems = [f"'{path}' leads out of the data root: give the folder that it leads to" for path in linked]
        rows = []
        for row in self.told.rows:
            wrong = self.locate(row, self.place)
            if wrong and strict:
                raise SfumatoError(
                    f"{row.where}: {wrong}", "complete the copy, or run without --strict to leave it out"
                )
            if wrong:
                problems.append(f"{row.where}: {wrong}")
            else:
                rows.append(row)
        asked = [a.name for a in self.told.asked()]
        super().__init__(f"{self.kind}:{source}", rows, asked, sampling, strict=strict, problems=problems)
        self.actions = self.told.actions

    @classmethod
    def at(cls, source: str) -> Place:
        """The copy that a source ("PATH?split=2") names."""
        return Place(cls.kind, source, cls.options, cls.get_from, cls.suffixes)

    @classmethod
    @abstractmethod
    def annotations(cls, place: Place) -> Annotations:
        """What the label files say; no video needs to be there, unless its name is all that is said about it."""

    @classmethod
    def names(cls, row: Row) -> tuple[str, ...]:
        """The names, without suffix, that the file of a row may have."""
        return (row.path.stem,)

    @classmethod
    def locate(cls, row: Row, place: Place) -> str:
        """Put the true path of its file into a row; else say what is wrong."""
        if row.path.is_absolute() or ".." in row.path.parts:
            return f"'{row.path}' lies outside the data root"
        found = next((place.media.files[name] for name in cls.names(row) if name in place.media.files), None)
        if found is None:
            away = {path.stem for path in place.media.outside}.intersection(cls.names(row))
            return f"'{row.path}' lies outside the data root" if away else f"there is no file '{row.path}'"
        row.path = found
        return ""

    def _specs(self) -> dict[str, AttributeSpec]:
        return {spec.name: spec for spec in self.told.attributes}

    @classmethod
    def every_name(cls) -> Sequence[str]:
        """The names of all published files, of a set that has no list of them but names them by a rule; else none."""
        return ()

    @classmethod
    def name_of(cls, row: Row) -> str:
        """Which of `every_name` a row has."""
        return row.path.name

    @classmethod
    def look_through(cls, row: Row) -> None:
        """As `look_into`, for who checks a copy: at every file, where a row has many."""
        cls.look_into(row)

    @classmethod
    def look_into(cls, row: Row) -> None:
        if cut_short(row.path):
            raise SfumatoError(f"'{row.path.name}' is cut short", "copy it again")
        super().look_into(row)

    def _values(self, row: Row) -> object:
        # Of thousands of tags a video has a few; which ones are asked about is in the whole fingerprint.
        return sorted(row.attributes.yes) if isinstance(row.attributes, Tags) else super()._values(row)

    def fingerprint(self) -> str:
        spans = [(row.segments, row.anomalies) for row in self.rows if row.segments or row.anomalies]
        about = f"{super().fingerprint()} {[a.name for a in self.attributes]} {spans}"
        return hashlib.sha256(about.encode()).hexdigest()


def read_text(path: Path) -> str:
    """A label file's text, or a SfumatoError."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise SfumatoError(f"cannot read '{path}' ({error})", "get the file again") from None


def both(part: str) -> dict[SplitBy, str]:
    """One split that serves for people and for clips.

    >>> both("test")
    {'person': 'test', 'clip': 'test'}
    """
    return {"person": part, "clip": part}


def shuffled(names: Sequence[str]) -> list[str]:
    """In an order that has nothing to do with the names, the same on every machine.

    >>> shuffled(["a", "b", "c"])
    ['c', 'b', 'a']
    """
    return sorted(set(names), key=lambda name: hashlib.sha256(name.encode()).digest())


def within(segments: Iterable[Segment], frames: int) -> tuple[Segment, ...]:
    """Those parts of segments that lie in a video of so many frames.

    >>> within([Segment(2, 9, "dive"), Segment(8, 9, "dive")], frames=6)
    (Segment(start=2, end=6, label='dive'),)
    """
    return tuple(Segment(s.start, min(s.end, frames), s.label) for s in segments if s.start < min(s.end, frames))


def own_group(row: Row) -> str:
    """What a row was cut from; where that is not known it is a group of its own."""
    return row.group or str(row.path)


def hold_out(
    rows: Sequence[Row], share: float = VALIDATION_SHARE, by: Sequence[SplitBy] = ("person", "clip"),
    group_of: Callable[[Row], str] = own_group,
) -> None:  # fmt: skip
    """Move whole groups from train to val of the splits `by`, until every action has `share` of its training clips there.

    No group is in both; an action loses twice its share at most, half of its clips if its groups are that large.
    """
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row.split[by[0]] == "train":
            groups[group_of(row)].append(row)
    total = Counter(row.action for members in groups.values() for row in members)
    moved: Counter[str] = Counter()
    for most in (2 * share, 0.5):
        for group in shuffled([name for name, members in groups.items() if members[0].split[by[0]] == "train"]):
            clips = Counter(row.action for row in groups[group])
            lacking = any(moved[action] < share * total[action] for action in clips)
            if lacking and all(moved[action] + n <= most * total[action] for action, n in clips.items()):
                moved += clips
                for row in groups[group]:
                    row.split = {**row.split, **dict.fromkeys(by, "val")}
