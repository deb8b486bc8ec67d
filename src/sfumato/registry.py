"""Things asked for by name: an unknown name is answered with the known ones and the nearest match."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from sfumato.errors import SfumatoError

T = TypeVar("T")


@dataclass(frozen=True)
class Entry(Generic[T]):
    """A name, one line about it, and what makes the thing."""

    name: str
    summary: str
    make: Callable[..., T]


class Registry(Generic[T]):
    """An ordered table from name to maker.

    >>> shapes = Registry[str]("shape")
    >>> shapes.add("circle", "round", lambda: "()")
    >>> shapes.make("circle")
    '()'
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._entries: dict[str, Entry[T]] = {}

    def add(self, name: str, summary: str, make: Callable[..., T]) -> None:
        """Register `make` under `name`; a second use of a name is a programming error."""
        if name in self._entries:
            raise ValueError(f"{self.kind} {name!r} is registered twice")
        self._entries[name] = Entry(name, summary, make)

    def __iter__(self) -> Iterator[Entry[T]]:
        return iter(self._entries.values())

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    def names(self) -> list[str]:
        """All names, in the order they were added."""
        return list(self._entries)

    def find(self, name: str) -> Entry[T]:
        """The entry of that name, or a SfumatoError that helps."""
        if name not in self._entries:
            raise unknown_name(self.kind, name, self.names())
        return self._entries[name]

    def make(self, name: str, **arguments: Any) -> T:
        """The thing of that name, made with these arguments."""
        return self.find(name).make(**arguments)


MANY = 20  # names that are more than a reader looks through
LISTED = ("anonymizer", "data set", "recognizer", "attack", "protocol", "method")  # what `sfumato list` tells


def unknown_name(kind: str, name: str, known: list[str]) -> SfumatoError:
    """The error for a name nobody knows: the nearest match first, then all names; of many the nearest, and where to read all.

    >>> str(unknown_name("shape", "circel", ["circle", "square"]))
    "there is no shape 'circel': did you mean 'circle'? known: circle, square"
    """
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    guess = f"did you mean '{near[0]}'? " if near else ""
    told = f"known: {', '.join(known)}"
    if len(known) > MANY and kind in LISTED:
        nearest = difflib.get_close_matches(name, known, n=3, cutoff=0)
        told = f"nearest: {', '.join(nearest)}; all {len(known)}: sfumato list {kind.replace(' ', '')}s"
    return SfumatoError(f"there is no {kind} '{name}'", f"{guess}{told}")
