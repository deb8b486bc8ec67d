"""The leaderboard: rows of a results table, several seeds of a trial in one line, as Markdown, JSON and one HTML page."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sfumato.anonymizers import load
from sfumato.claims.bench import Plan, Trial, about, same
from sfumato.claims.results import config_digest, name_of, reach, set_alike
from sfumato.claims.rows import Row
from sfumato.claims.verdict import Evidence, Interval, interval_of
from sfumato.datasets import reads_files
from sfumato.errors import counted
from sfumato.evaluation.attacks import attacks_named
from sfumato.evaluation.effort import QUICK_ATTACKS
from sfumato.evaluation.metrics import leakage_removed, nhv, pareto_front, utility_kept
from sfumato.evaluation.result import Leakage, Score
from sfumato.report import table
from sfumato.report.pages import styled, write_page
from sfumato.report.plots import Point
from sfumato.report.zoomable import zoomable_svg

COMMAND = "sfumato benchmark --suite full --seeds 3 --lanes 4 --device cuda"
# Those that are the strongest most often, at full length, and who undoes or decodes first what was repainted.
ATTACKS = (*QUICK_ATTACKS, "reconstruct-frame", "decode-frame")
TARGETS = ("identity", "attributes")
CLIP = (16, 112, 112)  # frames, height, width: what speed is measured with
HEADINGS = (
    "anonymizer", "action top-1 ↑", "identity top-1 ↓", "attributes cMAP ↓", "residual leakage ↓", "strongest attacker",
    "NHV ↑", "frames/s, CPU ↑", "frames/s, GPU ↑", "parameters", "seeds",
)  # fmt: skip


@dataclass(frozen=True)
class Entry:
    """One anonymizer at one strength: means over seeds. A target that was not attacked is None, a missing speed NaN."""

    name: str
    method: str
    seeds: int
    action: Score
    identity: Score | None
    attributes: Score | None
    residual: Leakage
    attackers: str
    unmet: tuple[str, ...]  # the attackers on the list that it has not met, though they could have attacked it
    nhv: float  # NaN where more may leak than was found
    fps_cpu: float
    fps_gpu: float
    parameters: int

    @property
    def kept(self) -> tuple[float, float, float]:
        """Utility kept, with its interval; NaN where raw video itself is not recognized."""
        a = self.action
        value, low, high = (utility_kept(x, a.chance, a.raw) for x in (a.value, a.low, a.high))
        return value, low, high

    @property
    def removed(self) -> tuple[float, float, float]:
        """Leakage removed, with its interval."""
        leak = self.residual
        return leakage_removed(leak.value), leakage_removed(leak.high), leakage_removed(leak.low)

    @property
    def bounded(self) -> bool:
        """Whether its leakage is a lower bound: an attacker is missing, or did not reach its floor on raw video."""
        return bool(self.unmet) or self.residual.verdict != "measured"


@dataclass(frozen=True)
class Board:
    """All that was measured on one data set by one judge, the best trade-off first, what has not met all attackers last."""

    data: str
    models: str
    epochs: int
    entries: tuple[Entry, ...]
    hardware: tuple[str, ...]
    speeds: tuple[str, ...]  # what frames per second were measured on
    seeds: tuple[int, ...]
    commits: tuple[str, ...]
    attackers: tuple[str, ...]  # those that all of its lines have met
    waiting: tuple[str, ...]  # trials of the file that are not there yet


def boards(rows: Sequence[Row], trials: Sequence[Trial], epochs: int) -> list[Board]:
    """A board for every data set and judge in the table. Of a trial that is described otherwise now nothing counts.

    >>> boards(read_rows(results), read_trials(trials), epochs=20)[0].entries[0].name
    'mosaic'
    """
    known = {trial.name: trial for trial in trials}
    found: dict[tuple[str, str], dict[str, list[Row]]] = {}
    for row in rows:
        if row["trial"] in known and is_current(row, known[row["trial"]], epochs):
            group = found.setdefault((row["data"], row["judge_models"]), {})
            group.setdefault(name_of(row["trial"], row["strength"]), []).append(row)
    return [_board(data, models, epochs, group, trials) for (data, models), group in found.items()]


def is_current(row: Row, trial: Trial, epochs: int) -> bool:
    """Whether a row is of that trial as it is described and set now, at one of its strengths, by a judge of so many epochs."""
    strength = float(row["strength"]) if row.get("strength") else None
    plan = Plan(row["data"], Path(), epochs=epochs, judge_seeds=int(row.get("judge_seeds") or 1))
    described = strength in (None, *trial.strengths) and same(row, about(plan, trial, int(row["seed"]), strength))
    return described and set_alike(row, config_digest(trial))


def met(row: Row) -> frozenset[str]:
    """The attackers that a row has met; none where it does not tell, as rows from before that was told.

    >>> sorted(met({"attackers": "video-placed+frame"}))
    ['frame', 'video-placed']
    """
    return frozenset(filter(None, (row.get("attackers") or "").split("+")))


def possible(trial: Trial, data: str) -> bool:
    """Whether that data has what the trial needs: files come without person masks.

    >>> possible(Trial("black", anonymizer="blacken-people"), "manifest:index.csv")
    False
    """
    return not (trial.anonymizer and reads_files(data) and load(trial.anonymizer).needs_people)


def _board(data: str, models: str, epochs: int, group: dict[str, list[Row]], trials: Sequence[Trial]) -> Board:
    counting = {name: _fullest(each) for name, each in group.items()}
    rows = [row for each in counting.values() for row in each]
    entries = [_entry(name, each) for name, each in counting.items()]
    wanted = [name_of(t.name, at) for t in trials if possible(t, data) for at in ("", *t.strengths)]
    return Board(
        data, models, epochs, tuple(sorted(entries, key=_rank)),
        hardware=_distinct(rows, "hardware"), speeds=_distinct(rows, "fps_cpu_on", "fps_gpu_on"),
        seeds=tuple(sorted({seed for row in rows for seed in _seeds(row)})), commits=_distinct(rows, "commit"),
        attackers=_in_all(rows),
        waiting=tuple(name for name in wanted if name not in group),
    )  # fmt: skip


def _fullest(rows: Sequence[Row]) -> list[Row]:
    """The rows of a line that met the most attackers, those on the list first: what met fewer would make the mean too good."""
    most = max(map(met, rows), key=lambda names: (len(names.intersection(ATTACKS)), len(names)))
    return [row for row in rows if met(row) == most]


def _rank(entry: Entry) -> tuple[bool, bool, float]:
    """Who has met all attackers first, what is inconclusive after what is not, then the best trade-off."""
    worth = entry.kept[0] * entry.removed[0]  # the NHV, also where it must not be told
    return bool(entry.unmet), entry.residual.verdict != "measured", -worth if math.isfinite(worth) else math.inf


def _seeds(row: Row) -> Iterable[int]:
    """Of the training; of the judge where nothing is trained."""
    return range(int(row["judge_seeds"])) if row.get("judge_seeds") else (int(row["seed"]),)


def _distinct(rows: Sequence[Row], *columns: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(row[name] for name in columns for row in rows if row.get(name)))


def _in_all(rows: Sequence[Row]) -> tuple[str, ...]:
    """The attackers that every row has met, in the order of the first."""
    everywhere = frozenset.intersection(*map(met, rows))
    return tuple(name for name in (rows[0].get("attackers") or "").split("+") if name in everywhere)


def _entry(name: str, rows: Sequence[Row]) -> Entry:
    action = _score(rows, "action", "action")
    targets = {target: _score(rows, target, f"{target}_value") for target in TARGETS}
    leaks = {target: _mean(rows, f"{target}_residual") for target in TARGETS}
    attacked = [target for target in TARGETS if math.isfinite(leaks[target])]
    worst = max(attacked, key=lambda target: leaks[target]) if attacked else ""
    residual = _interval(rows, "residual", "residual")
    exams = [exam for name in ATTACKS for exam in attacks_named(name) if targets.get(exam.target)]
    unmet = tuple(exam.name for exam in exams if exam.name not in met(rows[0]))  # `_fullest`: the others met the same
    sure = all(row["verdict"] == "measured" for row in rows)
    assert action is not None  # every judgement has the action
    kept = utility_kept(action.value, action.chance, action.raw)
    decided = sure and not unmet and math.isfinite(kept) and math.isfinite(residual.value)
    return Entry(
        name, rows[0]["method"], len({seed for row in rows for seed in _seeds(row)}), action, **targets,
        residual=Leakage(residual.value, residual.low, residual.high, "measured" if sure else "inconclusive"),
        attackers=", ".join(_distinct(rows, f"{worst}_attackers")) if worst else "", unmet=unmet,
        nhv=nhv([(kept, leakage_removed(residual.value))]) if decided else math.nan,
        fps_cpu=_number(rows[0].get("fps_cpu")), fps_gpu=_number(rows[0].get("fps_gpu")),
        parameters=int(rows[0]["parameters"]),
    )  # fmt: skip


def _score(rows: Sequence[Row], begin: str, column: str) -> Score | None:
    found = _interval(rows, begin, column)
    if not math.isfinite(found.value):
        return None
    low, high = max(0.0, found.low), min(1.0, found.high)  # few seeds give intervals wider than a score can be
    return Score(found.value, low, high, _mean(rows, f"{begin}_chance"), _mean(rows, f"{begin}_raw"))


def _interval(rows: Sequence[Row], begin: str, column: str) -> Interval:
    """Over clips alone where there is one training, else over clips and seeds."""
    values = [_number(row.get(column)) for row in rows]
    ends = [(_number(row.get(f"{begin}_low")), _number(row.get(f"{begin}_high"))) for row in rows]
    if len(rows) == 1 or not all(map(math.isfinite, values)):
        return Interval(sum(values) / len(values), *ends[0], len(rows))
    reaches = [reach(value, *both) for value, both in zip(values, ends, strict=True)]
    below, above = (statistics.fmean(side) for side in zip(*reaches, strict=True))
    return interval_of(Evidence(tuple(values), below, above))


def _mean(rows: Sequence[Row], column: str) -> float:
    return sum(_number(row.get(column)) for row in rows) / len(rows)


def _number(text: Any) -> float:
    return float(text) if text not in (None, "") else math.nan


# ---- how it is shown -------------------------------------------------------------------------------------------------


def cells(entry: Entry) -> tuple[str, ...]:
    """A line of the table, in the order of HEADINGS.

    >>> cells(entry)[:2]
    ('blur', '77.0 [72.3–81.0]')
    """
    leak = table.with_interval(entry.residual.value, entry.residual.low, entry.residual.high)
    bound = "≥ " if entry.bounded and leak != table.NOTHING else ""
    return (
        entry.name, *(_percent(score) for score in (entry.action, entry.identity, entry.attributes)), bound + leak,
        entry.attackers or table.NOTHING, table.plain(entry.nhv), _speed(entry.fps_cpu), _speed(entry.fps_gpu),
        f"{entry.parameters / 1e6:.2f} M" if entry.parameters else table.NOTHING, str(entry.seeds),
    )  # fmt: skip


def references(board: Board) -> list[tuple[str, ...]]:
    """What guessing reads and what raw video gives away, the mean over what stood beside each entry.

    All others stand between these two lines.
    """
    scores = [[s for entry in board.entries if (s := getattr(entry, name))] for name in ("action", *TARGETS)]
    lines: tuple[tuple[str, Callable[[Score], float], str], ...] = (
        ("chance", lambda score: score.chance, "0.0"),
        ("raw video", lambda score: score.raw, "100"),
    )

    def mean(found: Sequence[Score], of: Callable[[Score], float]) -> str:
        return table.percent(statistics.fmean(map(of, found))) if found else table.NOTHING

    return [(name, *(mean(s, of) for s in scores), leak, *[""] * (len(HEADINGS) - 5)) for name, of, leak in lines]


def _percent(score: Score | None) -> str:
    return table.with_interval(score.value, score.low, score.high) if score else table.NOTHING


def _speed(fps: float) -> str:
    return f"{fps:,.0f}" if math.isfinite(fps) else ""


def warnings(board: Board) -> list[str]:
    """What must be read before the table: how many of its lines have not met which attackers on the list.

    >>> warnings(boards(rows, trials, 20)[0])
    []
    """
    behind = [entry for entry in board.entries if entry.unmet]
    unmet = dict.fromkeys(name for entry in behind for name in entry.unmet)
    told = (
        f"Lines that have not met every attacker on the list: {len(behind)} of {len(board.entries)} (unmet: {', '.join(unmet)}). "
        "Their leakage is a lower bound (≥), so that they have no NHV and their order means little: what repaints pictures may "
        "leak far more (see src/sfumato/methods/stprivacy/README.md). The same command judges them again."
    )
    return [told] if behind else []


def notes(board: Board) -> list[str]:
    """Where the numbers of a board come from, and what is not in it."""
    seeds = ", ".join(map(str, board.seeds))
    found = [
        f"Judged on {' and '.join(board.hardware)} by {board.models} models, {counted(board.epochs, 'epoch')} each; "
        f"seeds {seeds}; commit {', '.join(board.commits)}. Attackers: {', '.join(board.attackers) or 'not told'}.",
    ]
    if board.speeds:
        clip = "×".join(map(str, CLIP))
        found.append(
            f"Frames per second: one clip of {clip} at a time, 8 bits in and out, on {' and '.join(board.speeds)}."
        )
    if any(entry.residual.verdict != "measured" for entry in board.entries):
        found.append("≥: an attacker did not reach its floor on raw video, so that more may leak.")
    if board.waiting:
        found.append(f"Not measured yet: {', '.join(board.waiting)}.")
    return found


INTRODUCTION = (
    "Every anonymizer before the same judge: from anonymized video fresh recognizers learn the action, and fresh attackers "
    "who it is and what they look like. In percent, with 95% intervals over test clips and, where there are several, seeds. "
    "Residual leakage is the share of the way from chance to raw video that the strongest attacker still goes, on the worse of "
    "both targets. NHV, which the table is sorted by, is utility kept times leakage removed (its reference point: nothing kept, "
    "nothing removed). Only a line that has met every attacker on the list has one; what others leak is a lower bound (≥), and "
    "they stand last."
)
MADE_BY = (
    "Made by `sfumato benchmark --suite full` from `benchmarks/results/leaderboard.csv`; what is trained and judged is in "
    "`benchmarks/trials/leaderboard.toml`. Finished trainings and judgements are kept: the same command goes on."
)


def as_markdown(found: Sequence[Board]) -> str:
    """The leaderboard as a page of the documentation."""
    lines = ["# Leaderboard", "", INTRODUCTION, "", MADE_BY, ""]
    if not found:
        lines += [f"Nothing has been measured yet: `{COMMAND}` does it, on a GPU, and writes this page.", ""]
    for board in found:
        rows = [*references(board), *map(cells, board.entries)]
        lines += [f"## {board.data}, {board.models} judge", ""]
        lines += [line for warning in warnings(board) for line in (f"**{warning}**", "")]
        lines += [_markdown(HEADINGS), "|" + "---|" * len(HEADINGS), *map(_markdown, rows), ""]
        lines += [line for note in notes(board) for line in (note, "")]
    return "\n".join(lines)


def _markdown(row: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"


def as_json(found: Sequence[Board]) -> list[dict[str, Any]]:
    """Plain JSON; what is undefined or was not measured is null."""
    return [asdict(board) for board in found]


def write_html(found: Sequence[Board], path: Path) -> None:
    """One page with every table and a plot to zoom into, that asks nothing of the network.

    >>> write_html(boards(rows, trials, 20), Path("leaderboard.html"))
    """
    from markupsafe import Markup

    shown = [
        {
            "board": b,
            "rows": [*references(b), *map(cells, b.entries)],
            "warnings": warnings(b),
            "notes": notes(b),
            "svg": Markup(_plot(b)),
        }
        for b in found
    ]
    about = {"headings": HEADINGS, "introduction": INTRODUCTION, "command": COMMAND}
    write_page(styled("leaderboard.html", boards=shown, **about), path)


def _plot(board: Board) -> str:
    """The trade-off of those entries whose action can be told; the front is of those alone that have met every attacker.

    "" where there is nothing to draw.
    """
    shown = [e for e in board.entries if math.isfinite(e.kept[0]) and math.isfinite(e.removed[0])]
    shown.sort(key=lambda entry: entry.bounded)  # so that the front's numbers are those of all points
    points = [Point(e.name, e.kept, e.removed, e.bounded) for e in shown]
    known = [(p.kept[0], p.removed[0]) for p in points if not p.bounded]
    front = pareto_front(known) if known else ()
    return zoomable_svg(points, [int(index) for index in front]) if points else ""
