"""Results tables: whole, and as they were written."""

from __future__ import annotations

from pathlib import Path

import pytest

from sfumato.claims.rows import checksum, read_rows, write_rows
from sfumato.errors import SfumatoError

ROWS = [{"trial": "spact", "seed": 0, "action": "0.84"}, {"trial": "vita", "seed": 1, "action": "0.92", "shown": 0.5}]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    write_rows(tmp_path / "deep" / "rows.csv", ROWS)
    return tmp_path / "deep" / "rows.csv"


def test_what_is_written_is_read_as_text(table: Path) -> None:
    assert read_rows(table) == [
        {"trial": "spact", "seed": "0", "action": "0.84", "shown": ""},
        {"trial": "vita", "seed": "1", "action": "0.92", "shown": "0.5"},
    ]
    assert read_rows(table.with_name("none.csv")) == []


@pytest.mark.parametrize(("old", "new"), [("0.92", "0.12"), ("spact,", "spact,9,"), ("vita", ""), (",0.5", ",abc")])
def test_an_edited_row_is_told_by_its_line(table: Path, old: str, new: str) -> None:
    text = table.read_text()
    line = 2 if old.startswith("spact") else 3
    table.write_text(text.replace(old, new))
    with pytest.raises(SfumatoError, match=f"line {line} of .*rows.csv' is not as it was written"):
        read_rows(table)


def test_rows_from_before_there_were_checksums_are_read(table: Path) -> None:
    table.write_text("trial,seed,action\nspact,0,0.84\n")
    (row,) = read_rows(table)
    assert row == {"trial": "spact", "seed": "0", "action": "0.84"}
    write_rows(table, [row])
    assert read_rows(table) == [row] and checksum(row) in table.read_text()


def test_a_column_more_in_the_table_changes_no_row(table: Path) -> None:
    rows = read_rows(table)
    write_rows(table, [*rows, {"trial": "mosaic", "run": "mosaic-0"}])
    assert [row["trial"] for row in read_rows(table)] == ["spact", "vita", "mosaic"]
