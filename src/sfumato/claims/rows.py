"""Results tables: rows that are there whole or not at all, and that tell when somebody has changed them since."""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sfumato.errors import SfumatoError
from sfumato.turns import turn
from sfumato.writing import write_whole

Row = dict[str, Any]
CHECKSUM = "checksum"  # of all else in a row; the last cell, so that a line that is cut off has none


def read_rows(path: Path) -> list[Row]:
    """The rows of a results table; none where there is no table yet. One that is not as it was written is an error."""
    if not path.exists():
        return []
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows: list[Row] = list(csv.DictReader(file))
    except (UnicodeDecodeError, csv.Error):
        raise SfumatoError(f"'{path}' is no results table", "take the file back from the repository") from None
    for line, row in enumerate(rows, start=2):
        told = row.pop(CHECKSUM, None)
        if None in row or not row.get("trial") or told != checksum(row):
            raise SfumatoError(
                f"line {line} of '{path}' is not as it was written",
                "take the file back from the repository, or remove the line and run that trial again",
            )
    return rows


def add_row(path: Path, row: Row, replaces: Callable[[Row], bool] = lambda old: False) -> None:
    """One row more, instead of those that it replaces. Commands that write into one table do so one after another.

    >>> add_row(Path("results.csv"), {"trial": "spact", "seed": 0}, lambda old: old["trial"] == "spact")  # doctest: +SKIP
    """
    change_rows(path, lambda rows: [*(old for old in rows if not replaces(old)), row])


def change_rows(path: Path, change: Callable[[list[Row]], Sequence[Row]]) -> None:
    """Read a table, change it and write it, while nobody else does.

    >>> change_rows(Path("results.csv"), lambda rows: rows[1:])  # doctest: +SKIP
    """
    with turn(path):
        write_rows(path, change(read_rows(path)))


def write_rows(path: Path, rows: Sequence[Row]) -> None:
    """All of them, whole or not at all; columns in the order in which they first occur, and what they add up to."""
    text = io.StringIO()
    columns = [*dict.fromkeys(key for row in rows for key in row), CHECKSUM]
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows({**row, CHECKSUM: checksum(row)} for row in rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, text.getvalue().encode())


def checksum(row: Mapping[str, Any]) -> str:
    """Twelve digits over all cells that are not empty, as a table has them: a column that others have does not count.

    >>> checksum({"trial": "spact", "seed": 0}) == checksum({"trial": "spact", "seed": "0", "strength": None})
    True
    """
    cells = sorted((key, str(value)) for key, value in row.items() if value not in (None, ""))
    return hashlib.sha256(repr(cells).encode()).hexdigest()[:12]


def rounded(row: Row) -> Row:
    """Numbers to four digits.

    >>> rounded({"action": 0.123456, "seed": 0})
    {'action': '0.1235', 'seed': 0}
    """
    return {key: f"{value:.4g}" if isinstance(value, float) else value for key, value in row.items()}
