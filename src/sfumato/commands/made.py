"""How the copies in a folder were made, so that none passes for another's: one hidden file of JSON lines per folder."""

from __future__ import annotations

import json
from pathlib import Path

from sfumato.errors import SfumatoError
from sfumato.writing import to_json

RECORD = ".sfumato.jsonl"


def remember(copy: Path, how: str) -> None:
    """Note that this file was made so. A line is added, nothing is rewritten: runs side by side do not lose each other's.

    >>> remember(Path("safe/a.mp4"), "blur (sigma=8)")  # doctest: +SKIP
    """
    with (copy.parent / RECORD).open("ab") as file:
        file.write(to_json({"name": copy.name, "bytes": copy.stat().st_size, "made_with": how}))


def recorded(copies: list[Path]) -> dict[Path, str]:
    """How each of these files was made, so far as it is known: not of one that another program has replaced since.

    >>> recorded([Path("nowhere/a.mp4")])
    {}
    """
    known = {folder: _read(folder / RECORD) for folder in {copy.parent for copy in copies}}
    found = {copy: known[copy.parent].get((copy.name, copy.stat().st_size)) for copy in copies if copy.exists()}
    return {copy: how for copy, how in found.items() if how is not None}


def refuse_others(known: dict[Path, str], how: str) -> None:
    """Raise if one of the copies was made otherwise: left as it is, it would be taken for made so.

    >>> refuse_others({Path("a.mp4"): "blur (sigma=8)"}, "blur (sigma=8)")
    """
    others = [copy for copy, other in known.items() if other != how]
    if others:
        more = f" (and {len(others) - 1} more)" if len(others) > 1 else ""
        raise SfumatoError(
            f"'{others[0]}'{more} was made otherwise, with {known[others[0]]} and not with {how}",
            "add --overwrite to replace what is there, or name another folder with -o",
        )


def _read(record: Path) -> dict[tuple[str, int], str]:
    """(name, bytes) → how, the last line about a name counts; a line that was cut short tells nothing."""
    found: dict[str, tuple[int, str]] = {}
    for line in record.read_bytes().splitlines() if record.is_file() else ():
        try:
            match json.loads(line):
                case {"name": str(name), "bytes": int(size), "made_with": str(how)}:
                    found[name] = (size, how)
        except (ValueError, RecursionError):
            continue
    return {(name, size): how for name, (size, how) in found.items()}
