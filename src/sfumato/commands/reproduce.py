"""`sfumato reproduce`: a published experiment from its recipe, ours beside the paper's numbers, chance beside both."""

from __future__ import annotations

import hashlib
import json
import math
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from rich.table import Table

from sfumato.anonymizers import load
from sfumato.anonymizers.base import Anonymizer
from sfumato.commands.console import err, monitored, out, say
from sfumato.commands.judge import report_problems, telling_once
from sfumato.commands.judge_latent import is_latent, judge_latent
from sfumato.commands.measured import Found, measure, measure_latent
from sfumato.commands.places import check_places
from sfumato.commands.plan import show_plan
from sfumato.commands.published import (
    CHANCE,
    RAW,
    TRAINED,
    Judgement,
    PublishedRecipe,
    data_label,
    find_recipe,
    folder_of,
    read_published,
    require_data,
    under,
)
from sfumato.commands.rehearsal import rehearsed
from sfumato.commands.train import train_method
from sfumato.datasets import open_dataset
from sfumato.errors import SfumatoError
from sfumato.evaluation.latent import ALL
from sfumato.evaluation.latent import PROTOCOLS as LATENT
from sfumato.evaluation.protocols import PROTOCOLS
from sfumato.evaluation.protocols.known import RAW as IDENTITY
from sfumato.evaluation.protocols.known import JudgeConfig, Watch
from sfumato.evaluation.provenance import commit, versions
from sfumato.evaluation.result import Line, Result
from sfumato.methods import find_method
from sfumato.training.device import hardware, pick_device
from sfumato.training.options import load_options
from sfumato.writing import to_json, write_whole

SCHEMA = "sfumato-reproduction/1"
EPOCHS = 20  # of the judge's networks, where a recipe says nothing
SMOKE = "a rehearsal on generated files, with tiny networks and two steps: no number of it means anything"


@dataclass(frozen=True)
class Compared:
    """One published number and ours, in the paper's unit; NaN where there is none. `low`, `high`: our 95% interval.

    by: the network that was asked.
    """

    table: str
    data: str
    by: str
    row: str
    metric: str
    paper: float
    paper_raw: float
    ours: float = math.nan
    low: float = math.nan
    high: float = math.nan
    ours_raw: float = math.nan
    chance: float = math.nan


def reproduce(
    name: str, *, data_root: Path | None, device: str = "auto", folder: Path = Path("runs/reproduce"),
    strict: bool = False, json_file: Path | None = None, dry_run: bool = False, smoke: bool = False,
) -> list[Compared]:  # fmt: skip
    """Train, judge and compare as the recipe says, or show the plan, or rehearse it. `strict`: as `open_dataset`."""
    recipe = read_published(find_recipe(name))
    if recipe.method:  # settings that do not fit are told before anything else is
        load_options(find_method(recipe.method).config, settings=recipe.settings())
    if dry_run:
        show_plan(recipe, data_root or Path("DATA"), device)
        return []
    check_places(json_file)
    if smoke:
        with tempfile.TemporaryDirectory(prefix="sfumato-") as place:
            compared = _rehearse(recipe, Path(place))
    else:
        if recipe.not_yet:
            raise SfumatoError(f"'{recipe.name}' cannot be run here yet", recipe.not_yet)
        if data_root is None:
            raise SfumatoError("no data root is named", "add --data-root DIR; --dry-run says what belongs there")
        require_data(recipe, data_root)
        compared = run_recipe(recipe, data_root, folder, device, strict=strict)
    show(recipe, compared, smoke)
    if json_file:
        _write(recipe, compared, json_file, device="cpu" if smoke else device, smoke=smoke)
        say(f"result: {json_file}")
    return compared


def _rehearse(recipe: PublishedRecipe, place: Path) -> list[Compared]:
    """All steps in small, or of a recipe that cannot be run, what can be."""
    small = rehearsed(recipe, place / "data")
    if not recipe.not_yet:
        return run_recipe(small, place / "data", place / "runs", "cpu", tiny=True)
    for name in small.data_names():
        if not name.startswith("features:"):
            open_dataset(under(name, place / "data"), strict=True)
    return [row for judge in small.judge for row in compare(judge, None)]


@telling_once()  # data is opened for the training and for every judgement
def run_recipe(
    recipe: PublishedRecipe, root: Path, folder: Path, device: str, *, strict: bool = False, tiny: bool = False
) -> list[Compared]:
    """Train where there is something to train, judge, compare. Finished trainings are found in `folder` and not repeated."""
    trained = _train(recipe, root, folder, device, strict) if recipe.method else None
    names = [TRAINED] if trained else list(recipe.anonymizers)
    compared = []
    # Several tables may print the same judgement.
    judged: dict[tuple[str, str, int, int], Result] = {}
    for judge in recipe.judge:
        if judge.not_yet:
            say(f"{judge.published.table}: not judged, {judge.not_yet}", console=err)
            compared += compare(judge, None)
        elif is_latent(judge.protocol):
            assert trained is not None  # what else would make of features something else
            key = judge.protocol, judge.data, judge.epochs, judge.seeds
            if key not in judged:
                judged[key] = judge_latent(
                    [str(trained)], under(judge.data, root), protocol=judge.protocol, seeds=judge.seeds,
                    models="tiny" if tiny else "standard", epochs=judge.epochs or None, device=pick_device(device),
                )  # fmt: skip
            compared += compare(judge, judged[key], names)
        else:
            anonymizers = [load(str(trained))] if trained else [load(name) for name in names]
            result = judge_recipe(judge, anonymizers, root, folder, device, strict=strict, tiny=tiny)
            compared += compare(judge, result, names)
    return compared


def training_folder(recipe: PublishedRecipe, root: Path, folder: Path) -> Path:
    """Where the training of a recipe lies: recipes that train the same share it.

    >>> training_folder(PublishedRecipe("a", "SPAct", "spact"), Path("data"), Path("runs")).name
    'spact-bbfc6464'
    """
    about = json.dumps([recipe.method, recipe.data, recipe.config, str(root)], sort_keys=True)
    return folder / f"{recipe.method}-{hashlib.sha256(about.encode()).hexdigest()[:8]}"


def _train(recipe: PublishedRecipe, root: Path, folder: Path, device: str, strict: bool) -> Path:
    """The folder of the trained f_A."""
    place = training_folder(recipe, root, folder)
    names = {role: under(name, root) for role, name in recipe.data.items()}
    more = [f"{role}_data={names[role]}" for role in ("detection", "anomaly") if role in names]
    run = train_method(
        recipe.method, names["action"], privacy_data=names.get("privacy"), published=[*recipe.settings(), *more],
        folder=place, resume=(place / "run.json").exists(), strict=strict, device=device,
    )  # fmt: skip
    return run.anonymizer


def judge_recipe(
    judge: Judgement, anonymizers: Sequence[Anonymizer], root: Path, folder: Path, device: str, *, strict: bool = False,
    tiny: bool = False,
) -> Result:  # fmt: skip
    """One judgement of videos: raw first, then the anonymizers in their order."""
    where = pick_device(device)
    names = [under(name, root) for name in (judge.data, judge.privacy_data) if name]
    datasets = [open_dataset(name, strict=strict) for name in names]
    for dataset in datasets:
        report_problems(dataset)
    config = JudgeConfig(
        models="tiny" if tiny else "standard", video_model=judge.video_model, frame_model=judge.frame_model,
        epochs=judge.epochs or EPOCHS, seeds=judge.seeds, views=judge.views, crop=judge.crop, crops=judge.crops,
        attacks=judge.attacks, vlm=judge.vlm, prompts=judge.prompts,
    )  # fmt: skip
    make = PROTOCOLS.find(judge.protocol).make
    more: dict[str, Any] = {"privacy": datasets[1]} if len(datasets) > 1 else {}
    kept = folder / "judge" / "-".join(folder_of(name, root).name for name in (judge.data, judge.privacy_data) if name)
    with monitored() as monitor:
        watch = Watch(monitor.total, monitor.done, monitor.status)
        protocol = make(datasets[0], config, device=where, folder=kept, watch=watch, **more)
        result = protocol.judge(anonymizers, load(IDENTITY))
    for dataset in datasets:  # what only decoding has shown
        report_problems(dataset)
    return result


def compare(judge: Judgement, result: Result | None, names: list[str] | None = None) -> list[Compared]:
    """Every published number of a judgement, with ours where there is one; `names` are those of the lines after raw."""
    published = judge.published
    lines = dict(zip([RAW, *(names or [])], result.lines, strict=True)) if result else {}
    compared = []
    for row, numbers in published.rows.items():
        for metric, paper in numbers.items():
            told = Compared(
                published.table, " + ".join(data_label(n) for n in (judge.data, judge.privacy_data) if n),
                _asked(judge, metric), row, metric, paper, published.rows.get(RAW, {}).get(metric, math.nan),
            )  # fmt: skip
            if row in lines or (row == CHANCE and lines):
                told = _beside(told, judge, lines)
            compared.append(told)
    return compared


def _beside(told: Compared, judge: Judgement, lines: Mapping[str, Line]) -> Compared:
    """The published number with ours."""

    def find(row: str) -> Found:
        latent = is_latent(judge.protocol)
        return measure_latent(told.metric, lines[row], judge) if latent else measure(told.metric, lines[row])

    unit = 1.0 if told.metric in judge.published.shares or _is_f1(told.metric) else 100.0
    raw = find(RAW)
    found = Found(raw.chance, raw.chance) if told.row == CHANCE else find(told.row)
    return replace(
        told, ours=unit * found.value, low=unit * found.low, high=unit * found.high, ours_raw=unit * raw.value,
        chance=unit * found.chance,
    )  # fmt: skip


def _is_f1(metric: str) -> bool:
    """F1 is a share of 1 in every paper."""
    return metric.partition(" ")[0] in ("F1", "macro-F1")


def _asked(judge: Judgement, metric: str) -> str:
    """Who is asked about a metric."""
    if is_latent(judge.protocol):
        return (
            "".join(judge.attacks[:1]).removeprefix("attributes-")
            or LATENT[judge.protocol.removeprefix(f"{ALL}-")].models
        )
    if metric in ("top-1", "cMAP action"):
        return judge.vlm or judge.video_model
    return judge.video_model if judge.attacks and judge.attacks[0].endswith("video") else judge.frame_model


def show(recipe: PublishedRecipe, compared: list[Compared], smoke: bool) -> None:
    """The table: chance, raw video and the anonymizer, ours beside the paper's."""
    table = Table(
        "table", "data", "by", "row", "metric", "chance", "raw: paper", "raw: ours", "paper", "ours", box=None
    )
    for c in compared:
        ours = _number(c.ours) + (f" [{_number(c.low)}–{_number(c.high)}]" if not math.isnan(c.low) else "")
        raw = ("", "") if c.row == RAW else (_printed(c.paper_raw), _number(c.ours_raw))
        table.add_row(
            c.table.removeprefix("Table "),
            c.data,
            c.by,
            c.row,
            c.metric,
            _number(c.chance),
            *raw,
            _printed(c.paper),
            ours,
        )
    say(f"{recipe.name}: {recipe.paper}")
    out.print(table)
    if recipe.not_yet:
        say(f"not run: {recipe.not_yet}")
    for lost in dict.fromkeys(judge.published.lost for judge in recipe.judge if judge.published.lost):
        say(f"no published number: {lost}")
    if any(_is_f1(c.metric) for c in compared):
        say("The chance of F1 is a fair coin's; always yes reaches more.")
    if smoke:
        say(SMOKE)


def _printed(value: float) -> str:
    """A number of the paper's, with all its digits."""
    return "–" if math.isnan(value) else f"{value:.6g}"


def _number(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.3f}" if abs(value) <= 1 else f"{value:.1f}"


def _write(recipe: PublishedRecipe, compared: list[Compared], file: Path, *, device: str, smoke: bool) -> None:
    about = {
        "schema": SCHEMA, "recipe": recipe.name, "paper": recipe.paper, "smoke": smoke, "not_yet": recipe.not_yet,
        "rows": [asdict(row) for row in compared], "hardware": hardware(pick_device(device)), "versions": versions(),
        "commit": commit(),
    }  # fmt: skip
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, to_json(about, indent=1))
