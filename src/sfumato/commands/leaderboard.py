"""`sfumato benchmark --suite full`: every anonymizer, trained where it must be, before one judge; and the leaderboard."""

from __future__ import annotations

import hashlib
import math
import statistics
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from rich import box
from rich.table import Table

from sfumato.anonymizers import Anonymizer, parse_name, untrained
from sfumato.claims.bench import Plan, Trial, code_of, config_of, missing, read_trials
from sfumato.claims.lanes import in_lanes_order, run_tasks
from sfumato.claims.results import config_digest, name_of
from sfumato.claims.rows import Row, add_row, change_rows, read_rows
from sfumato.commands.console import err, out, say
from sfumato.commands.judge import report_problems
from sfumato.datasets import Clips, VideoDataset, open_dataset, reads_files
from sfumato.datasets.base import Part, SplitBy
from sfumato.datasets.files import FileDataset
from sfumato.errors import SfumatoError
from sfumato.evaluation.admission import without_rare
from sfumato.evaluation.material import anonymize_clips
from sfumato.evaluation.protocols.known import UTILITY, JudgeConfig, possible_exams
from sfumato.recognizers.vlm import load_vlm
from sfumato.report.leaderboard import (
    ATTACKS,
    CLIP,
    HEADINGS,
    Board,
    as_json,
    as_markdown,
    boards,
    cells,
    is_current,
    met,
    notes,
    possible,
    references,
    warnings,
    write_html,
)
from sfumato.training.device import hardware, pick_device, seeded
from sfumato.writing import to_json, write_whole

TRIALS = Path("benchmarks/trials/leaderboard.toml")
RESULTS = Path("benchmarks/results/leaderboard.csv")
PAGE = Path("docs/leaderboard.md")
DATA = "theatre:small"  # theatre has five times the clips, with six times the pixels in each: thirty times the work for every row
EPOCHS = 20
PARTS: tuple[Part, ...] = ("train", "val", "test")
SPLITS: tuple[SplitBy, ...] = ("person", "clip")
WARM_UP, LEAST, MOST, SECONDS = (
    3,
    5,
    30,
    5.0,
)  # passes before and while speed is measured; after so long five are enough


def run_leaderboard(
    data: Sequence[str], *, seeds: int, lanes: int, runs: Path, device: str, json_file: Path | None = None,
    report: Path | None = None,
) -> None:  # fmt: skip
    """Do what is missing, measure speed on the device at hand, and show what the table then holds."""
    if not TRIALS.is_file():
        raise SfumatoError(f"there is no '{TRIALS}'", "run it in a checkout of the repository")
    where, trials = pick_device(device), read_trials(TRIALS)
    plan = Plan("", runs / "leaderboard", "", "", EPOCHS, ATTACKS, str(where), lanes, seeds)
    plans = [_about_data(plan, name) for name in dict.fromkeys(data or [DATA])]  # a wrong name stops it here
    write_page(trials)
    failures: list[SfumatoError] = []
    for each in plans:
        try:
            _judge_missing(each, trials, seeds)
        except SfumatoError as error:  # what the others came to is shown all the same
            failures.append(error)
    _time_missing(trials, where)
    found = write_page(trials)
    if json_file:
        json_file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(json_file, to_json(as_json(found), indent=1))
        say(f"result: {json_file}")
    if report:
        write_html(found, report)
        say(f"report: {report}")
    for board in found:
        out.print(render(board))
    say(f"leaderboard: {PAGE}")
    if failures:
        raise failures[0]


def write_page(trials: Sequence[Trial]) -> list[Board]:
    """The page of the documentation as the results say it, and what is on it."""
    found = boards(read_rows(RESULTS), trials, EPOCHS)
    PAGE.parent.mkdir(exist_ok=True)
    write_whole(PAGE, as_markdown(found).encode())
    return found


# ---- judging ---------------------------------------------------------------------------------------------------------


def _about_data(plan: Plan, data: str) -> Plan:
    dataset = open_dataset(data)
    report_problems(dataset)
    return replace(plan, data=data, name=data_name(data, dataset))


def data_name(data: str, dataset: VideoDataset) -> str:
    """What to call it in the table: files without the way to them, but with a digest of labels, splits and how large they are.

    >>> data_name("manifest:/home/ada/signs/index.csv", dataset)
    'manifest:signs/index.csv@1f0e9c2a'
    """
    if not reads_files(data):
        return data
    kind, _, rest = data.partition(":")
    path, mark, options = rest.partition("?")
    labels = dataset.labels(torch.arange(len(dataset)))
    parts = [dataset.split(part, by) for part in PARTS for by in SPLITS]
    told: list[Any] = [each.tolist() for each in (labels.action, labels.person, labels.attributes, *parts)]
    told += [row.path.stat().st_size for row in dataset.rows] if isinstance(dataset, FileDataset) else []
    digest = hashlib.sha256(repr((dataset.shape, dataset.actions, told)).encode()).hexdigest()[:8]
    return f"{kind}:{'/'.join(Path(path).absolute().parts[-2:])}{mark}{options}@{digest}"


def _judge_missing(plan: Plan, trials: Sequence[Trial], seeds: int) -> None:
    """Train and judge what the table lacks; every row is in it as soon as it is there."""
    hindered = {trial.name: reason for trial in trials if (reason := _hindrance(trial, plan.data))}
    for name, reason in hindered.items():
        say(f"left out: {name}: {reason}", console=err, style="yellow")
    wanted = [trial for trial in trials if trial.name not in hindered]
    code = {
        method: code_of(method) for method in {trial.method for trial in wanted}
    }  # it may be edited while this runs
    settings = {trial.name: config_digest(trial) for trial in wanted}
    attackers = _possible_attackers(plan)
    there = [  # a board has one judge, and one list of attackers
        row
        for row in read_rows(RESULTS)
        if row.get("code") == code.get(row["method"])
        and row.get("config", "") == settings.get(row["trial"])
        and attackers <= met(row)
    ]
    todo = missing(plan, wanted, seeds, _counted(there, seeds, plan.device))
    # What is trained comes first: meanwhile one lane judges raw video for all.
    tasks = sorted(in_lanes_order([(plan, job) for job in todo]), key=lambda task: bool(task[1][0].anonymizer))
    total = len(tasks)
    say(
        f"{plan.name}: {total} to be judged, {sum(not job[0].anonymizer for job in todo)} of them to be trained",
        console=err,
    )
    for number, (_, row) in enumerate(run_tasks(tasks, plan.lanes), 1):
        told = {"code": code[row["method"]], "config": settings[row["trial"]]}
        add_row(RESULTS, row | told, partial(_replaced, new=row))
        write_page(trials)
        name = name_of(row["trial"], row["strength"])
        say(
            f"[{number}/{total}] {name}, seed {row['seed']}: action {row['action']}, residual {row['residual']}",
            console=err,
        )


def _possible_attackers(plan: Plan) -> set[str]:
    """Those of the plan's attackers for whom the data has labels: nobody can meet the others on it."""
    dataset, _ = without_rare(open_dataset(plan.data))  # as the judge sees it
    exams, _ = possible_exams(dataset, JudgeConfig(attacks=plan.attacks))
    return {exam.name for exam in exams if exam != UTILITY}


def _hindrance(trial: Trial, data: str) -> str:
    """Why a trial cannot be done, and what to do about it; "" where it can."""
    if not possible(trial, data):
        return "it needs to know where people are, and files come without person masks"
    return _teacher_misfit(trial, data) if trial.method else ""


def _teacher_misfit(trial: Trial, data: str) -> str:
    """Why the vision-language model that a trial learns from does not suit the data; "" where it does, or there is none."""
    vlm = str(getattr(config_of(trial), "vlm", ""))
    if not vlm or ":" in vlm:  # whether one of the Hub fits is seen when it is loaded
        return ""
    try:
        taken = load_vlm(vlm).clip
    except SfumatoError as error:
        return f"{error}; or teach one: sfumato train vlm --data {DATA}"
    shape = open_dataset(data).shape
    given = (shape.frames, shape.height, shape.width)
    told = ["×".join(map(str, clip)) for clip in (taken, given)]
    return "" if taken == given else f"its teacher '{vlm}' takes clips of {told[0]}, and these are {told[1]}"


def _counted(rows: Sequence[Row], seeds: int, device: str) -> list[Row]:
    """The rows that need not be done again.

    What the networks of a GPU have judged a laptop's need not judge, but the other way round; and more seeds of the judge
    than are asked for are enough.
    """
    strong = [row for row in rows if device == "cpu" or row["judge_models"] == "standard"]
    return [
        {**row, "judge_seeds": min(seeds, int(row["judge_seeds"]))} if row.get("judge_seeds") else row for row in strong
    ]


def _replaced(old: Row, new: Row) -> bool:
    """Of a trial, seed and strength on some data the table has one row, the last; but a laptop's replaces no GPU's."""
    weaker = old["judge_models"] == "standard" != new["judge_models"]
    return not weaker and all(old[key] == str(new[key]) for key in ("trial", "data", "judged_on", "seed", "strength"))


# ---- speed -----------------------------------------------------------------------------------------------------------


def _time_missing(trials: Sequence[Trial], device: torch.device) -> None:
    """Frames per second of every network in the table that has none for this kind of device yet."""
    column = "fps_cpu" if device.type == "cpu" else "fps_gpu"
    known = {trial.name: trial for trial in trials}
    rows = read_rows(RESULTS)
    current = [row for row in rows if row["trial"] in known and is_current(row, known[row["trial"]], EPOCHS)]
    for network in dict.fromkeys(row["network"] for row in current if not row.get(column)):
        name, settings = parse_name(network)
        fps = frames_per_second(untrained(name, **settings), device)  # weights make no network faster
        change_rows(
            RESULTS, partial(_timed, network=network, told={column: f"{fps:.4g}", f"{column}_on": hardware(device)})
        )


def _timed(rows: Sequence[Row], network: str, told: Row) -> list[Row]:
    return [row | told if row["network"] == network else row for row in rows]


def frames_per_second(anonymizer: Anonymizer, device: torch.device) -> float:
    """How fast clips of 16×112×112 are anonymized one at a time, 8 bits in and out: the median after a warm-up.

    They are brought to the anonymizer's own size and back, and cut to its own length, as a video is.

    >>> frames_per_second(load("blur"), torch.device("cpu"))  # doctest: +SKIP
    1312.5
    """
    frames, height, width = CLIP
    length = anonymizer.spec.length or frames
    count = math.ceil(frames / length)
    pixels = torch.randint(256, (count, 1, length, 3, height, width), generator=seeded(0)).to(torch.uint8)
    people = torch.zeros(count, 1, length, 1, height, width, dtype=torch.uint8)
    people[..., height // 4 :, width // 3 : -width // 3] = 1  # somebody who stands in the middle
    clips = Clips(pixels.to(device), people.to(device))
    took: list[float] = []
    while len(took) < WARM_UP + LEAST or (len(took) < WARM_UP + MOST and sum(took) < SECONDS):
        started = time.perf_counter()
        anonymize_clips(anonymizer, clips, device, batch=count)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        took.append(time.perf_counter() - started)
    return count * length / statistics.median(took[WARM_UP:])


def render(board: Board) -> Table:
    """A board on the console: what fits there; the page has the rest."""
    narrow = [n for n, heading in enumerate(HEADINGS) if heading not in ("strongest attacker", "parameters", "seeds")]
    table = Table(
        box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), title=f"{board.data}, {board.models} judge",
        caption="\n".join([*warnings(board), *notes(board)]), caption_justify="left",
    )  # fmt: skip
    for n in narrow:
        table.add_column(HEADINGS[n], justify="left" if n == 0 else "right", overflow="fold")
    for line in (*references(board), *map(cells, board.entries)):
        table.add_row(*(line[n].replace(" [", "\n[") for n in narrow))  # the interval below its value
    return table
