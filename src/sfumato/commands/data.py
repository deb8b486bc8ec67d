"""`sfumato data check` and `sfumato data stats`: is a copy whole, and what does a blind guess reach on it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.table import Table

from sfumato.commands.console import bars, out, say
from sfumato.datasets import LISTED, open_dataset
from sfumato.datasets.base import Labels
from sfumato.datasets.files import label_rows
from sfumato.datasets.inspection import Inspection, inspect_copy
from sfumato.datasets.sample import AttributeSpec
from sfumato.errors import SfumatoError
from sfumato.evaluation.metrics import always_yes_f1, coin_f1, mean_defined
from sfumato.registry import unknown_name
from sfumato.writing import to_json, write_whole

PARTS = ("all", "train", "val", "test")
SHOWN = 5  # lines of each kind of problem
SHOWN_ATTRIBUTES = 30
_CHUNK = 4096  # rows whose labels are counted at a time
_PLOTS = (".svg", ".png", ".pdf")


def check_data(name: str, json_file: Path | None = None) -> bool:
    """Hold a copy against what was published, and show it; whether it is fine.

    >>> check_data("ucf101:data/ucf101")  # doctest: +SKIP
    True
    """
    kind, _, source = name.partition(":")
    if kind not in LISTED:
        raise unknown_name("published data set", kind, list(LISTED))
    if not source:
        raise SfumatoError(f"'{name}' names no path", f"write {kind}:PATH")
    with bars() as progress:
        task = progress.add_task(name, total=None, status="")
        found = inspect_copy(
            LISTED[kind], source, lambda done, total: progress.update(task, completed=done, total=total)
        )
    _show_inspection(found)
    if json_file:
        _write_json(json_file, {**asdict(found), "fine": found.fine})
    return found.fine


def _show_inspection(found: Inspection) -> None:
    table = Table("", "published", "listed", "usable here", "", box=None, header_style="bold")
    for column in table.columns[1:4]:
        column.justify = "right"
    for count in found.counts:
        numbers = (f"{n:,}" for n in (count.published, count.listed, count.found))
        table.add_row(count.what, *numbers, "ok" if count.fine else "differs")
    out.print(table)
    missing = "missing" if found.whole is None else f"of {found.whole:,} files missing"
    for title, lines in (
        (missing, found.missing), ("unreadable", found.unreadable), ("outside the data root", found.outside),
        ("not in any list, and not used", found.extra),
    ):  # fmt: skip
        _show_lines(title, lines)
    published = f", {found.straddling_published} of them as published" if found.straddling_published else ""
    _show_lines(f"on both sides of the split{published}", found.straddling)
    for part, clips in found.balance.items():
        if clips:
            fewest, most = min(clips, key=clips.__getitem__), max(clips, key=clips.__getitem__)
            say(f"{part}: {clips[fewest]} ({fewest}) to {clips[most]} ({most}) clips per action")
    say("fine" if found.fine else "not the published data set", style="green" if found.fine else "yellow")


def _show_lines(title: str, lines: Sequence[str]) -> None:
    if lines:
        say(f"{len(lines):,} {title}")
    for line in lines[:SHOWN]:
        say(f"  {line}")
    if len(lines) > SHOWN:
        say(f"  … and {len(lines) - SHOWN:,} more")


@dataclass(frozen=True)
class PartStats:
    """One part of a data set. prevalence: of every attribute its values with the share of the labelled clips that have it."""

    clips: int
    actions: dict[str, int]
    prevalence: dict[str, dict[str, float]]
    chance_cmap: float
    always_yes_f1: float
    coin_f1: float


def show_stats(name: str, json_file: Path | None = None, plot: Path | None = None) -> dict[str, PartStats]:
    """Count labels, show what a blind guess reaches, and write JSON and a plot where asked.

    >>> show_stats("vp-hmdb51:data/hmdb51")["all"].chance_cmap  # doctest: +SKIP
    0.5836
    """
    if plot and plot.suffix.lower() not in _PLOTS:
        raise SfumatoError(f"'{plot}' is none of {', '.join(_PLOTS)}", "name such a file")
    source = _labelled(name)
    stats = {part: part_stats(source, part) for part in PARTS}
    attributes = source.attributes
    table = Table("attribute", *PARTS, box=None, header_style="bold")
    for column in table.columns[1:]:
        column.justify = "right"
    table.add_row("clips", *(f"{stats[part].clips:,}" for part in PARTS))
    for spec in attributes[:SHOWN_ATTRIBUTES]:
        for value in ("yes",) if spec.values == ("no", "yes") else spec.values:
            label = spec.name if spec.values == ("no", "yes") else f"{spec.name}: {value}"
            table.add_row(label, *(_three(stats[part].prevalence[spec.name][value]) for part in PARTS))
    for title, key in (("chance cMAP", "chance_cmap"), ("always-yes F1", "always_yes_f1"), ("coin F1", "coin_f1")):
        table.add_row(title, *(_three(getattr(stats[part], key)) for part in PARTS), style="bold")
    out.print(table)
    if len(attributes) > SHOWN_ATTRIBUTES:
        say(f"… and {len(attributes) - SHOWN_ATTRIBUTES:,} attributes more (all of them with --json)")
    if not attributes:
        say(f"{name} has no private attributes")
    if json_file:
        _write_json(json_file, {"data": name, **{part: asdict(one) for part, one in stats.items()}})
    if plot:
        drawn = plot_prevalence(stats["all"], name, plot)
        say(f"plot: {plot}" if drawn else "no plot: no private attribute is labelled")
    return stats


@dataclass
class _Source:
    """Labels by part, a chunk at a time."""

    attributes: tuple[AttributeSpec, ...]
    actions: tuple[str, ...]
    labels: Callable[[str], Iterator[Labels]]


def _labelled(name: str) -> _Source:
    """The papers' data sets are read from their label files alone: the videos need not be there."""
    kind, _, rest = name.partition(":")
    if kind in LISTED and rest:
        told = LISTED[kind].annotations(LISTED[kind].at(rest))
        if not told.rows:
            advice = f"give the folder that its files are in, or get them from {LISTED[kind].get_from}"
            raise SfumatoError(f"{name} has no clips", advice)

        def chunks(part: str) -> Iterator[Labels]:
            rows = [row for row in told.rows if part in ("all", row.split["person"])]
            for start in range(0, len(rows), _CHUNK):
                some = rows[start : start + _CHUNK]
                yield label_rows(some, told.actions, (), told.asked(), LISTED[kind].several_actions)

        return _Source(told.asked(), told.actions, chunks)
    data = open_dataset(name)

    def own_chunks(part: str) -> Iterator[Labels]:
        every = torch.arange(len(data)) if part == "all" else data.split(part, "person")  # type: ignore[arg-type]
        yield from (data.labels(indices) for indices in every.split(_CHUNK) if len(indices))

    return _Source(data.attributes, data.actions, own_chunks)


def part_stats(source: _Source, part: str) -> PartStats:
    """Prevalence and the lines of a blind guess; attributes that nobody labelled have none, and are left out of means."""
    counts = [np.zeros(len(spec.values)) for spec in source.attributes]
    acted, clips = np.zeros(len(source.actions), dtype=np.int64), 0
    for labels in source.labels(part):
        clips += len(labels.action)
        if labels.actions is not None:
            acted += labels.actions.sum(0).numpy()
        else:
            acted += np.bincount(labels.action[labels.action >= 0].numpy(), minlength=len(acted))[: len(acted)]
        for count, column in zip(counts, labels.attributes.numpy().T, strict=True):
            count += np.bincount(column[column >= 0], minlength=len(count))
    shares = [count / count.sum() if count.sum() else np.full(len(count), np.nan) for count in counts]
    # Of two values only the second is asked about; of more, each against the rest. Chance of what never occurs is undefined.
    asked = [np.where(share > 0, share, np.nan)[1 if len(share) == 2 else 0 :] for share in shares]
    chance, yes, coin = (
        mean_defined([mean_defined(line(share)).value for share in asked]).value
        for line in (lambda p: p, always_yes_f1, coin_f1)
    )
    prevalence = {
        spec.name: dict(zip(spec.values, share.tolist(), strict=True))
        for spec, share in zip(source.attributes, shares, strict=True)
    }
    return PartStats(clips, dict(zip(source.actions, acted.tolist(), strict=True)), prevalence, chance, yes, coin)


def plot_prevalence(stats: PartStats, name: str, path: Path) -> bool:
    """A bar per attribute (per value where it has more than two), the most frequent first, with the chance line of cMAP.

    False, and no file, where nothing is labelled.
    """
    from matplotlib.figure import Figure

    bars_by_name = {}
    for attribute, values in stats.prevalence.items():
        asked = list(values.items())[1 if len(values) == 2 else 0 :]
        for value, share in asked:
            if math.isfinite(share):
                bars_by_name[attribute if len(values) == 2 else f"{attribute}: {value}"] = share
    if not bars_by_name:
        return False
    shown = sorted(bars_by_name.items(), key=lambda bar: bar[1])[-SHOWN_ATTRIBUTES:]
    figure = Figure(figsize=(6, 0.8 + 0.25 * len(shown)), layout="constrained")
    axes = figure.add_subplot()
    axes.barh([label for label, _ in shown], [share for _, share in shown], color="#4a6fa5")
    if math.isfinite(stats.chance_cmap):
        axes.axvline(stats.chance_cmap, color="#333333", linewidth=1, dashes=(3, 2))
    axes.set(xlim=(0, 1), xlabel="prevalence (dashed: chance cMAP)", title=f"{name}, {stats.clips:,} clips")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    return True


def _three(value: float) -> str:
    return f"{value:.3f}" if math.isfinite(value) else "–"


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, to_json(content, indent=1))
    say(f"result: {path}")
