"""What was found in the files of a large data set, kept for the next time it is opened.

Looking into hundreds of thousands of files takes minutes; asking for their size and time of change takes next to
nothing. An entry counts only while these are what they were, and a file that could not be read has none: it is looked
into again. The index lies in $SFUMATO_CLIP_CACHE, where that names a folder, or else in the user's cache folder.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from sfumato.datasets.clip_cache import FOLDER
from sfumato.writing import to_json, write_whole

if TYPE_CHECKING:
    from sfumato.datasets.files import Row

# One more whenever looking into the same file would find something else.
VERSION = 1
# So many files are looked into in a few seconds: an index of fewer would only litter.
FEWEST = 1000

# Of a file: size, time of change in ns, frames, frames per second.
Entry = tuple[int, int, int, float]


class ProbeIndex:
    """The index of one data set, by its name without options. Any number of processes may use it; the last to write it wins.

    >>> ProbeIndex("kinetics400:data/kinetics400", files=240_000).recall(row)  # doctest: +SKIP
    True
    """

    def __init__(self, name: str, files: int) -> None:
        self._used = files >= FEWEST
        kind, _, place = name.partition("?")[0].partition(":")
        decoder = importlib.metadata.version("av") if self._used else ""
        about = to_json([VERSION, decoder, kind, _name(Path(place))])
        self._file = index_folder() / f"{hashlib.sha256(about).hexdigest()[:40]}.json"
        self._entries = self._read() if self._used else {}
        self._states: dict[str, tuple[int, int]] = {}  # of what is about to be looked into

    def recall(self, row: Row) -> bool:
        """Put frames and rate into a row, where they are known of its file as it is now; whether they are."""
        if not self._used:
            return False
        name = _name(row.path)
        try:
            found = row.path.stat()
        except OSError:
            return False
        state = found.st_size, found.st_mtime_ns
        size, changed, frames, rate = self._entries.get(name, (-1, -1, 0, 0.0))
        if (size, changed) != state:
            self._states[name] = state
            return False
        row.frames, row.rate = frames, rate
        return True

    def add(self, rows: Sequence[Row]) -> None:
        """Keep what was found in the files of these rows, which `recall` did not know."""
        if not self._used or not rows:
            return
        for row in rows:
            if state := self._states.get(_name(row.path)):
                self._entries[_name(row.path)] = (*state, row.frames, row.rate)
        with suppress(OSError):  # nothing but time is lost
            self._file.parent.mkdir(parents=True, exist_ok=True)
            write_whole(self._file, to_json(self._entries))

    def _read(self) -> dict[str, Entry]:
        """Nothing where there is no index, or a damaged one."""
        try:
            return {
                name: (int(size), int(changed), int(frames), float(rate))
                for name, (size, changed, frames, rate) in json.loads(self._file.read_bytes()).items()
            }
        except (OSError, ValueError, TypeError, AttributeError):
            return {}


def index_folder() -> Path:
    """Where the indices of this user are."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(os.environ.get(FOLDER) or Path(cache, "sfumato")) / "probed"


def _name(path: Path) -> str:
    """Absolute; JSON cannot hold every name that a file can have."""
    return os.fsencode(os.path.abspath(path)).decode("utf-8", "backslashreplace")
