"""Results tables: whole, and as they were written."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from sfumato.claims.rows import Row, add_row, change_rows, read_rows, write_rows
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


@pytest.mark.parametrize("cut", [",0.92", "1,", "0.5,"])
def test_a_line_that_is_cut_off_or_has_lost_its_checksum_is_no_row(table: Path, cut: str) -> None:
    text = table.read_text()
    table.write_text(text[: text.index(cut, text.index("vita")) + len(cut)] + "\n")
    with pytest.raises(SfumatoError, match=r"line 3 of .*rows\.csv' is not as it was written"):
        read_rows(table)


def test_what_is_no_table_is_told_in_one_line(table: Path) -> None:
    table.write_bytes(b"trial,seed\n\xff\xfe,0\n")
    with pytest.raises(SfumatoError, match=r"rows\.csv' is no results table"):
        read_rows(table)


def test_a_row_more_replaces_those_it_is_newer_than(table: Path) -> None:
    add_row(table, {"trial": "vita", "seed": 1, "action": "0.95"}, lambda old: old["trial"] == "vita")
    add_row(table, {"trial": "spact", "seed": 1})
    assert [(row["trial"], row["seed"], row["action"]) for row in read_rows(table)] == [
        ("spact", "0", "0.84"), ("vita", "1", "0.95"), ("spact", "1", ""),
    ]  # fmt: skip


def test_who_changes_a_table_waits_for_who_is_at_it(table: Path) -> None:
    def slowly(rows: list[Row]) -> list[Row]:
        other.start()
        other.join(timeout=0.2)
        assert other.is_alive()
        return [*rows, {"trial": "slow"}]

    other = threading.Thread(target=add_row, args=(table, {"trial": "other"}))
    change_rows(table, slowly)
    other.join()
    assert [row["trial"] for row in read_rows(table)] == ["spact", "vita", "slow", "other"]


def test_a_column_more_in_the_table_changes_no_row(table: Path) -> None:
    rows = read_rows(table)
    write_rows(table, [*rows, {"trial": "mosaic", "run": "mosaic-0"}])
    assert [row["trial"] for row in read_rows(table)] == ["spact", "vita", "mosaic"]
