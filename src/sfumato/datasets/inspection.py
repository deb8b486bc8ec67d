"""A user's copy of one of the papers' data sets, held against what was published: what is missing, broken or mixed up."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from sfumato.datasets.base import Part, Progress
from sfumato.datasets.files import Row, tagged_actions
from sfumato.datasets.listed import Annotations, ListedDataset, Media
from sfumato.errors import SfumatoError


@dataclass(frozen=True)
class Count:
    """How many there are of something: as published, in the label files, and usable in this copy."""

    what: str
    published: int
    listed: int
    found: int

    @property
    def fine(self) -> bool:
        """Whether all that was published is there, and nothing more."""
        return self.published == self.listed == self.found


@dataclass
class Inspection:
    """What was found. missing, unreadable, outside: a line each; extra: files that no label file names.

    whole: how many files there should be, of a set whose names are known without a list.
    straddling: groups, files without one, and persons on both sides of the split; straddling_published: how many of them
    the publishers left.
    balance: usable clips by part and action.
    """

    data: str
    counts: list[Count] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    whole: int | None = None
    unreadable: list[str] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)
    extra: list[str] = field(default_factory=list)
    straddling: list[str] = field(default_factory=list)
    straddling_published: int = 0
    balance: dict[str, dict[str, int]] = field(default_factory=dict)

    @property
    def fine(self) -> bool:
        """Whether this is the data set that was published; files that nobody asks for do no harm."""
        broken = self.missing or self.unreadable or self.outside
        leaks = len(self.straddling) > self.straddling_published
        return not broken and not leaks and all(count.fine for count in self.counts)


def inspect_copy(dataset: type[ListedDataset], source: str, progress: Progress | None = None) -> Inspection:
    """Look at every file of a copy: its header, its length, its first frame; of folders of pictures, at every picture.

    >>> inspect_copy(UCF101Dataset, "data/ucf101").missing  # doctest: +SKIP
    ['testlist01.txt line 7: there is no file ApplyEyeMakeup/v_ApplyEyeMakeup_g02_c03.avi']
    """
    place = dataset.at(source)
    told = dataset.annotations(place)
    found = Inspection(f"{dataset.kind}:{source}", straddling_published=told.straddling)
    claimed: set[Path] = set()
    there = []
    for row in told.rows:
        wrong = dataset.locate(row, place)
        if wrong:
            (found.outside if "outside" in wrong else found.missing).append(f"{row.where}: {wrong}")
        else:
            claimed.add(row.path)
            there.append(row)
    usable = _readable(dataset, there, found, progress)
    media = place.media
    if names := dataset.every_name():
        found.whole = len(names)
        found.missing += [f"there is no file '{name}'" for name in _absent(dataset, told.rows, media)]
    found.outside += [f"'{path.relative_to(place.root)}' leads out of the data root" for path in media.outside]
    unclaimed = [path for path in media.files.values() if path not in claimed]
    found.extra = sorted(str(path.relative_to(place.root)) for path in (*unclaimed, *media.twice))
    found.counts = [
        Count(what, number, _count(what, told.rows), _count(what, usable)) for what, number in told.published.items()
    ]
    found.straddling, found.balance = straddling(told.rows, place.root), _balance(told, usable)
    return found


def _absent(dataset: type[ListedDataset], rows: Sequence[Row], media: Media) -> list[str]:
    """The names that no row has; a file that leads out of the root is there, and is told of as such."""
    there, away = {dataset.name_of(row) for row in rows}, {path.stem for path in media.outside}
    return [name for name in dataset.every_name() if name not in there and Path(name).stem not in away]


def straddling(rows: Sequence[Row], root: Path = Path()) -> list[str]:
    """The groups and the persons of which there are rows in test and in train or val, by the split that keeps people apart.

    A file of which no group is known is a group of its own; it is named from `root` on.

    >>> rows = [Row(Path("a.mp4"), f"line {n}", "wave", split={"person": part}) for n, part in enumerate(("train", "test"))]
    >>> straddling(rows)
    ['file a.mp4']
    """
    sides: dict[str, set[bool]] = defaultdict(set)
    for row in rows:
        if row.split["person"]:
            file = row.path.relative_to(root) if row.path.is_relative_to(root) else row.path
            source = f"group {row.group}" if row.group else f"file {file}"
            for name in (source, f"person {row.person}") if row.person else (source,):
                sides[name].add(row.split["person"] == "test")
    return sorted(name for name, side in sides.items() if len(side) == 2)


def _readable(
    dataset: type[ListedDataset], rows: Sequence[Row], found: Inspection, progress: Progress | None
) -> list[Row]:
    def wrong_with(row: Row) -> str:
        try:
            dataset.look_through(row)
        except SfumatoError as error:
            return error.what
        return ""

    usable = []
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for n, (row, wrong) in enumerate(zip(rows, pool.map(wrong_with, rows), strict=True), 1):
            if wrong:
                found.unreadable.append(f"{row.where}: {wrong}")
            else:
                usable.append(row)
            if progress:
                progress(n, len(rows))
    return usable


def _count(what: str, rows: Sequence[Row]) -> int:
    if what == "videos":
        return len(rows)
    if what == "actions":
        return len({action for row in rows for action in shown(row)})
    if what == "persons":
        return len({row.person for row in rows} - {""})
    parts = what.split(" + ")
    return sum(row.split["person"] in parts for row in rows)


def shown(row: Row) -> set[str]:
    """The action of a row, or all that its tags name.

    >>> shown(Row(Path("a.mp4"), "line 2", "wave"))
    {'wave'}
    """
    return {row.action} if row.action else set(tagged_actions(row))


def _balance(told: Annotations, rows: Sequence[Row]) -> dict[str, dict[str, int]]:
    parts: tuple[Part, ...] = ("train", "val", "test")
    clips = Counter((row.split["person"], action) for row in rows for action in shown(row))
    return {part: {action: clips[part, action] for action in told.actions} for part in parts}
