"""`manifest:PATH/index.csv`: a user's own videos, one row each, columns taken by name.

`path` and `action` are needed; `person`, `recording` (the same for clips cut from one), `split_person` and `split_clip` (or
`split_repetition`, `split`) are used where they are there. Every other column with 2 to 20 values is a private attribute,
unless it only describes the file; who asks about an attribute by name (`about`) finds every other column.
Options follow a question mark: `manifest:index.csv?action=sign&attributes=long_hair,facial_hair&frames=16&size=112&skip=2`. With
`least=1` a video that is shorter than a clip starts again from its beginning; otherwise it is left out.
"""

from __future__ import annotations

import csv
from pathlib import Path
from urllib.parse import parse_qsl

from sfumato.datasets.base import SplitBy
from sfumato.datasets.files import FileDataset, Row, Sampling, automatic_split
from sfumato.errors import SfumatoError

_SPLIT_COLUMNS: dict[SplitBy, tuple[str, ...]] = {
    "person": ("split_person", "split"), "clip": ("split_clip", "split_repetition", "split"),
}  # fmt: skip
_DESCRIBES_THE_FILE = {
    "path",
    "action",
    "person",
    "recording",
    "frames",
    "width",
    "height",
    "fps",
    "duration",
    "repetition",
    "caption",
}
_MOST_VALUES = 20
OUTSIDE = "lies outside the folder of the table"
PUT_IT_ABOVE = (
    "paths are relative to the CSV and must lie in its folder or below: put the CSV into a folder above the videos; "
    "links that lead outside are not followed"
)
_OPTIONS = ("path", "action", "person", "attributes", "frames", "size", "skip", "least")


def parse_options(text: str, known: tuple[str, ...] = _OPTIONS) -> tuple[str, dict[str, str]]:
    """`index.csv?frames=8` → ("index.csv", {"frames": "8"}); an unknown option is refused by name.

    >>> parse_options("index.csv?frames=8")
    ('index.csv', {'frames': '8'})
    """
    path, _, query = text.partition("?")
    options = dict(parse_qsl(query, keep_blank_values=True))
    for name in options:
        if name not in known:
            raise SfumatoError(f"there is no option '{name}' in '{text}'", f"known: {', '.join(known)}")
    return path, options


def sampling_of(options: dict[str, str]) -> Sampling:
    """frames, size and skip as positive whole numbers."""
    return Sampling(**{name: whole_number(options, name) for name in ("frames", "size", "skip") if name in options})


def whole_number(options: dict[str, str], name: str) -> int:
    """The positive whole number that an option is.

    >>> whole_number({"least": "80"}, "least")
    80
    """
    if not options[name].isdecimal() or int(options[name]) < 1:
        raise SfumatoError(f"{name} = '{options[name]}' is not a positive whole number", f"write e.g. {name}=16")
    return int(options[name])


class ManifestDataset(FileDataset):
    """The data set of a CSV file.

    >>> ManifestDataset("clips/index.csv").actions  # doctest: +SKIP
    ('bow', 'wave')
    """

    def __init__(self, source: str, *, strict: bool = False) -> None:
        path, options = parse_options(source)
        self.table = Path(path)
        self.least = whole_number(options, "least") if "least" in options else None
        header, lines = _read(self.table)
        names = {what: options.get(what, what) for what in ("path", "action", "person")}
        for what in ("path", "action"):
            if names[what] not in header:
                raise SfumatoError(
                    f"'{self.table}' has no column '{names[what]}'",
                    f"its columns are {', '.join(header)}; rename one, or say ?{what}=COLUMN",
                )
        free = _free_columns(header, names)
        attributes = _attribute_columns(header, lines, free, options.get("attributes"), self.table)
        kept = list(dict.fromkeys([*free, *attributes]))
        problems: list[str] = []
        rows = []
        for number, line in lines:
            row = self._row(number, line, names, attributes, kept, header, problems, strict)
            if row:
                rows.append(row)
        if problems and problems[0].endswith(OUTSIDE):
            self.rows_advice = PUT_IT_ABOVE
        super().__init__(f"manifest:{source}", rows, attributes, sampling_of(options), strict=strict, problems=problems)

    def _row(
        self, number: int, line: dict[str, str], names: dict[str, str], attributes: list[str], kept: list[str],
        header: list[str], problems: list[str], strict: bool,
    ) -> Row | None:  # fmt: skip
        where = f"{self.table.name} line {number}"
        root = self.table.parent.resolve()
        try:
            file = (root / line.get(names["path"], "")).resolve()
            there = file.is_file()
        except (OSError, ValueError):  # a name no file can have: too long, or with a NUL in it
            file, there = root, False
        missing = [c for c in (names["path"], names["action"], *attributes) if not line.get(c)]
        wrong = ""
        if missing:
            wrong = f"no value for '{missing[0]}'"
        elif not file.is_relative_to(root):
            wrong = f"'{line[names['path']]}' {OUTSIDE}"
        elif not there:
            wrong = f"there is no file '{line[names['path']]}'"
        splits = {by: _split_of(line, by, header, names) for by in _SPLIT_COLUMNS}
        unknown = [s for s in splits.values() if s not in ("train", "val", "test")]
        if not wrong and unknown:
            wrong = f"split '{unknown[0]}' is none of train, val, test"
        if wrong and strict:
            advice = (
                PUT_IT_ABOVE if wrong.endswith(OUTSIDE) else "mend the row, or run without --strict to leave it out"
            )
            raise SfumatoError(f"{where}: {wrong}", advice)
        if wrong:
            problems.append(f"{where}: {wrong}")
            return None
        told = {column: line.get(column, "") for column in kept}
        person, recording = line.get(names["person"], ""), line.get("recording", "")
        return Row(file, where, line[names["action"]], person, told, splits, group=recording)


def _read(table: Path) -> tuple[list[str], list[tuple[int, dict[str, str]]]]:
    try:
        with table.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            header = list(reader.fieldnames or [])
            lines = [(reader.line_num, {k: (v or "").strip() for k, v in row.items() if k}) for row in reader]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise SfumatoError(
            f"cannot read the table '{table}' ({reason})", "give a CSV file with a header line"
        ) from None
    if not lines:
        raise SfumatoError(f"'{table}' has no rows", "give a CSV file with a header line and one row per video")
    return header, lines


def _free_columns(header: list[str], names: dict[str, str]) -> list[str]:
    """The columns that may be attributes: those that have no other meaning."""
    taken = _DESCRIBES_THE_FILE | set(names.values())
    return [c for c in header if c and c not in taken and not c.startswith("split")]


def _attribute_columns(
    header: list[str], lines: list[tuple[int, dict[str, str]]], free: list[str], asked: str | None, table: Path
) -> list[str]:
    """The columns asked for, or those that look like attributes."""
    if asked is not None:
        chosen = [c for c in asked.split(",") if c]
        for column in chosen:
            if column not in header:
                raise SfumatoError(f"'{table}' has no column '{column}'", f"its columns are {', '.join(header)}")
        return chosen
    # A column that is mostly empty is a remark, not a label; one that is nearly full has rows to be mended.
    filled = {c: [line[c] for _, line in lines if line.get(c)] for c in free}
    return [c for c in free if 2 <= len(set(filled[c])) <= _MOST_VALUES and len(filled[c]) >= 0.9 * len(lines)]


def _split_of(line: dict[str, str], by: SplitBy, header: list[str], names: dict[str, str]) -> str:
    """The part a row belongs to: by its column, else by the hash of its person, recording or path."""
    for column in _SPLIT_COLUMNS[by]:
        if column in header:
            return line.get(column, "")
    person = line.get(names["person"], "") if by == "person" else ""
    return automatic_split(person or line.get("recording", "") or line.get(names["path"], ""))
