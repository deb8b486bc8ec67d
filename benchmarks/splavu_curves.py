"""SPLAVU's privacy–utility curve with its NHV (the paper's Figure 3), and its score over the time of a training (eq. 14).

    OMP_NUM_THREADS=1 python benchmarks/splavu_curves.py
    python benchmarks/splavu_curves.py --draw                 # the picture alone, from rows that are there

Adapters with attention and MLPs are trained and judged as the claims' trials are (`sfumato.claims.latent_bench`), on the same
features. Along the trade-off two weights of eq. 7 move. Over time trainings are cut short: rates are constant and
batches are drawn by the step, so that what a training of 5 epochs leaves is what one of 100 has after 5. Everything is told
twice: with attributes read from static clips, which is how the paper measures privacy, and from whole ones. Time is a core's,
so that neighbours on the machine do not count. Rows are kept as they get ready.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from sfumato.claims.bench import Trial, about, missing, read_trials, same
from sfumato.claims.latent_bench import LatentBench, LatentPlan
from sfumato.claims.ledger import load_ledger
from sfumato.claims.results import plan_of
from sfumato.claims.rows import Row
from sfumato.errors import SfumatoError
from sfumato.evaluation.metrics import (
    FLOORS,
    REFERENCE,
    combined_score,
    leakage_removed,
    nhv,
    pareto_front,
    reaches_floor,
    residual_leakage,
    utility_kept,
)
from sfumato.evaluation.provenance import versions
from sfumato.writing import to_json, write_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROOT = Path(__file__).parents[1]
TRIALS = {"attention": "action alone", "MLP": "mlp"}  # of benchmarks/trials/splavu_small.toml
# With attention a seed either learns to tell static clips or does not, so that one would be a toss; MLPs differ little.
SEEDS = {"attention": 3, "MLP": 1}
PAPER = (100.0, 1.0)
# (ω_LC, ω_B): two lines that cross in the paper's own. Without ω_B nothing is hidden on purpose.
WEIGHTS = ((1000.0, 1.0), PAPER, (10.0, 1.0), (1.0, 1.0), (0.0, 1.0), (100.0, 0.0), (100.0, 10.0), (100.0, 100.0))
# Named in the picture, with those on the front: whether to the right, and whether above.
LABELLED = {PAPER: (False, False), (100.0, 0.0): (True, False)}
SHARES = (0.05, 0.1, 0.25, 0.5, 0.75, 1.0)  # of a training's epochs
SIGHTS = ("static", "whole")
CORE = "core_seconds"  # of a training, from opening the store to the saved adapter
NUMBERS = ("action", "static", "whole", "identity", "train_seconds", CORE)  # how columns begin that are kept
COLOURS = {"attention": "#a5452a", "MLP": "#2a6f8a"}
INK, MUTED, HAIR = "#1f1d1a", "#77716a", "#e6e1d8"


@dataclass(frozen=True)
class Spot:
    """One training: where it lies on the curves."""

    adapter: str
    weights: tuple[float, float]
    share: float = 1.0

    def trial(self, bases: Mapping[str, Trial]) -> Trial:
        """As the bench takes it."""
        base, (consistency, budget) = bases[self.adapter], self.weights
        epochs = round(self.share * base.config["epochs"])
        moved = {"consistency_weight": consistency, "budget_weight": budget, "epochs": epochs}
        name = f"{self.adapter} LC {consistency:g} B {budget:g} epochs {epochs}"
        return replace(base, name=name, config=base.config | moved, judged_by=("action", "probe"))


SPOTS = {
    "fronts": {adapter: [Spot(adapter, weights) for weights in WEIGHTS] for adapter in TRIALS},
    "over time": {adapter: [Spot(adapter, PAPER, share) for share in SHARES] for adapter in TRIALS},
}


def load_bases() -> dict[str, Trial]:
    """The claims' trials that all of these start from."""
    file = ROOT / load_ledger().tables["latent"].trials
    return {adapter: read_trials(file, [name])[0] for adapter, name in TRIALS.items()}


def measure(plan: LatentPlan, trials: Mapping[str, Sequence[Trial]], out: Path) -> list[Row]:
    """The rows of all adapters' trials; those that `out` has already are not done again."""
    rows: list[Row] = json.loads(out.read_text())["rows"] if out.exists() else []
    todo = [job for adapter, mine in trials.items() for job in missing(plan, mine, SEEDS[adapter], rows)]
    if not todo:
        return rows
    plan.prepare()
    bench = LatentBench(plan)
    for number, (trial, seed, _) in enumerate(todo, 1):
        started = time.process_time()
        run = bench.train(trial, seed)
        if CORE not in run.about():
            run.pin(CORE, f"{time.process_time() - started:.3f}")
        row = bench.row(trial, seed) | {CORE: run.about()[CORE]}
        rows.append(_slim(row, about(plan, trial, seed, None)))
        write_whole(out, to_json({"rows": rows}, indent=1))
        told = ", ".join(f"{key} {row[key]}" for key in ("action", "static_value", "whole_value", CORE))
        print(f"{number} of {len(todo)}: {trial.name}, seed {seed}: {told}", flush=True)
    return rows


def _slim(row: Row, told: Row) -> Row:
    """What is asked here, numbers as such."""
    numbers = {k: float(v) for k, v in row.items() if k.startswith(NUMBERS) and not k.endswith("attackers")}
    return {key: row[key] for key in told} | numbers | {key: row[key] for key in ("hardware", "commit")}


# ---- curves ----------------------------------------------------------------------------------------------------------


def front(spots: Mapping[Spot, Sequence[Row]], sight: str) -> dict[str, Any]:
    """Points of the trade-off, means of their seeds' and each, and their NHV, likewise.

    The residual leakage is taken where raw is below the judge's floor too: then it is no verdict (`conclusive` is false), a
    better reader might find more.
    """
    seeds = {spot: [_place(row, sight) for row in rows] for spot, rows in spots.items()}
    means = {spot: (fmean(kept for kept, _ in each), fmean(out for _, out in each)) for spot, each in seeds.items()}
    best = pareto_front(list(means.values()))
    points = [
        {
            "consistency_weight": spot.weights[0], "budget_weight": spot.weights[1], "on_front": number in best,
            "kept": kept, "removed": removed, "seeds": seeds[spot],
        }
        for number, (spot, (kept, removed)) in enumerate(means.items())
    ]  # fmt: skip
    rows = [row for each in spots.values() for row in each]
    return {
        "nhv": nhv(list(means.values())),
        "nhv_of_each_seed": [nhv(each) for each in zip(*seeds.values(), strict=True)],
        "conclusive": all(reaches_floor(row[f"{sight}_raw"], row[f"{sight}_chance"]) for row in rows),
        "points": points,
    }


def _place(row: Row, sight: str) -> tuple[float, float]:
    """Utility kept, leakage removed."""
    residual = residual_leakage(row[f"{sight}_value"], row[f"{sight}_chance"], row[f"{sight}_raw"])
    return utility_kept(row["action"], row["action_chance"], row["action_raw"]), leakage_removed(residual)


def over_time(spots: Mapping[Spot, Sequence[Row]]) -> list[dict[str, Any]]:
    """The score after so many seconds of training, the mean of the seeds and each; at none, features are raw."""
    first = next(iter(spots.values()))
    raw = {sight: [combined_score(row["action_raw"], row[f"{sight}_raw"]) for row in first] for sight in SIGHTS}
    found = [{"share": 0.0, "seconds": 0.0, **_scores(raw)}]
    for spot, rows in spots.items():
        each = {sight: [combined_score(row["action"], row[f"{sight}_value"]) for row in rows] for sight in SIGHTS}
        found.append({"share": spot.share, "seconds": fmean(row[CORE] for row in rows), **_scores(each)})
    return found


def _scores(each: Mapping[str, Sequence[float]]) -> dict[str, Any]:
    return {sight: fmean(values) for sight, values in each.items()} | {f"{k}_seeds": v for k, v in each.items()}


def curves(rows: Sequence[Row], plan: LatentPlan, bases: Mapping[str, Trial]) -> dict[str, Any]:
    """Both curves of every adapter, and what they are held against."""

    def found(spot: Spot, seed: int) -> Row:
        wanted = about(plan, spot.trial(bases), seed, None)
        row = next((row for row in rows if same(row, wanted)), None)
        if row is None:
            raise SfumatoError(f"'{wanted['trial']}', seed {seed}, has not been measured", "leave --draw out")
        return row

    known = {
        curve: {
            adapter: {spot: [found(spot, seed) for seed in range(SEEDS[adapter])] for spot in spots}
            for adapter, spots in adapters.items()
        }
        for curve, adapters in SPOTS.items()
    }
    judged = known["fronts"]["attention"][SPOTS["fronts"]["attention"][0]]  # raw features, by every seed's judge
    columns = ("action_raw", "action_chance", *(f"{sight}_{what}" for sight in SIGHTS for what in ("raw", "chance")))
    raw = {key: fmean(row[key] for row in judged) for key in columns}
    return {
        "raw": raw,
        "fronts": {
            adapter: {sight: front(spots, sight) for sight in SIGHTS} for adapter, spots in known["fronts"].items()
        },
        "over_time": {adapter: over_time(spots) for adapter, spots in known["over time"].items()},
        "score_of_a_blind_reader": combined_score(raw["action_raw"], raw["static_chance"]),
    }


# ---- the picture -----------------------------------------------------------------------------------------------------


def draw(found: Mapping[str, Any], path: Path) -> None:
    """The trade-off from static and from whole clips, and the score over time, side by side."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13.2, 4.5), layout="constrained", facecolor="white")
    static, whole, timed = figure.subplots(1, 3)
    points = [p for sights in found["fronts"].values() for one in sights.values() for p in one["points"]]
    low = min(kept for p in points for kept, _ in p["seeds"])
    for axes, sight in ((static, "static"), (whole, "whole")):
        fronts = {adapter: sights[sight] for adapter, sights in found["fronts"].items()}
        _draw_fronts(axes, fronts)
        note = "" if all(one["conclusive"] for one in fronts.values()) else " (raw is below the floor)"
        axes.set(
            title=f"Attributes read from {sight} clips{note}", xlim=(low - 0.004, 1.008), ylim=(-0.08, 1.05),
            xlabel="utility kept (action)  →", ylabel="leakage removed  →",
        )  # fmt: skip
    _draw_times(timed, found)
    for axes in (static, whole, timed):
        _quiet(axes)
    figure.savefig(path, dpi=110, metadata={"Software": None})


def _draw_fronts(axes: Axes, fronts: Mapping[str, Any]) -> None:
    for adapter, one in fronts.items():
        colour, points = COLOURS[adapter], one["points"]
        for p in points:
            for kept, removed in p["seeds"]:
                axes.plot([p["kept"], kept], [p["removed"], removed], "-", color=colour, linewidth=0.7, alpha=0.3)
                axes.plot([kept], [removed], "o", color=colour, markersize=3, alpha=0.45, markeredgewidth=0)
            weights = (p["consistency_weight"], p["budget_weight"])
            if p["on_front"] or weights in LABELLED:
                right, up = LABELLED.get(weights, (adapter == "attention", True))
                axes.annotate(
                    f"{weights[0]:g}/{weights[1]:g}", (p["kept"], p["removed"]), (6 if right else -6, 4 if up else -11),
                    textcoords="offset points", ha="left" if right else "right", fontsize=8.5, color=colour,
                )  # fmt: skip
        xs, ys = [p["kept"] for p in points], [p["removed"] for p in points]
        axes.plot(xs, ys, "o", color=colour, markersize=6, label=f"{adapter}, NHV {one['nhv']:.2f}{_each(one)}")
        best = sorted((p["kept"], p["removed"]) for p in points if p["on_front"])
        corners = [(REFERENCE[0], best[0][1]), *best, (best[-1][0], REFERENCE[1])]
        axes.step(*zip(*corners, strict=True), where="pre", color=colour, linewidth=1, alpha=0.6, dashes=(4, 2))
    axes.legend(
        title="labels: $ω_{LC}/ω_B$; small dots: seeds", loc="upper left", frameon=False, fontsize=9, title_fontsize=9
    )


def _each(one: Mapping[str, Any]) -> str:
    """The NHV of every seed, where there are several."""
    seeds = one["nhv_of_each_seed"]
    return f" (seeds {', '.join(f'{value:.2f}' for value in seeds)})" if len(seeds) > 1 else ""


def _draw_times(axes: Axes, found: Mapping[str, Any]) -> None:
    for adapter, points in found["over_time"].items():
        for sight, style, filled in (("static", "-", True), ("whole", "--", False)):
            seconds, colour = [p["seconds"] for p in points], COLOURS[adapter]
            for each in zip(*(p[f"{sight}_seeds"] for p in points), strict=True):
                axes.plot(seconds, each, style, color=colour, linewidth=0.7, alpha=0.35)
            axes.plot(
                seconds, [p[sight] for p in points], style, marker="o", markersize=5, color=colour,
                markerfacecolor=colour if filled else "white", label=f"{adapter}, {sight} clips",
            )  # fmt: skip
    blind = found["score_of_a_blind_reader"]
    axes.axhline(blind, color=MUTED, linewidth=0.9, dashes=(2, 2))
    axes.annotate("raw accuracy, blind reader", (0, blind), (0, 4), textcoords="offset points", fontsize=8, color=MUTED)
    axes.set(
        title="Score over time, (accuracy + 1 − cMAP) / 2",
        xlabel="seconds of training on one core (0: raw features)",
        ylabel="score",
    )
    axes.set_ylim(top=blind + 0.02)
    axes.legend(loc="upper right", bbox_to_anchor=(1, 0.85), frameon=False, fontsize=9)


def _quiet(axes: Axes) -> None:
    """Hairlines instead of a frame, as in the report."""
    axes.set_axisbelow(True)
    axes.locator_params(axis="x", nbins=5)
    axes.grid(color=HAIR, linewidth=0.6)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set(color=HAIR)
    axes.tick_params(length=0, labelcolor=MUTED, labelsize=9)
    axes.title.set(color=INK, fontsize=10.5)
    for label in (axes.xaxis.label, axes.yaxis.label):
        label.set(color=INK, fontsize=10)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, default=Path("runs/claims"), help="where `sfumato claims` keeps features")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks/results/splavu_curves.json")
    parser.add_argument("--picture", type=Path, default=ROOT / "docs/splavu-curves.png")
    parser.add_argument("--draw", action="store_true", help="measure nothing")
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()
    plan, bases = plan_of(load_ledger().tables["latent"], args.runs, device=args.device), load_bases()
    assert isinstance(plan, LatentPlan)
    spots = {adapter: dict.fromkeys(s for each in SPOTS.values() for s in each[adapter]) for adapter in TRIALS}
    trials = {adapter: [spot.trial(bases) for spot in mine] for adapter, mine in spots.items()}
    rows = measure(plan, {} if args.draw else trials, args.out)
    found = curves(rows, plan, bases)
    told = {
        "seeds": {adapter: list(range(count)) for adapter, count in SEEDS.items()},
        "nhv_reference": REFERENCE, "floor": FLOORS["attributes"],
        "score": "(top-1 + 1 − cMAP) / 2: eq. 14 as we read it", "versions": versions(),
    }  # fmt: skip
    write_whole(args.out, to_json({**told, **found, "rows": rows}, indent=1))
    draw(found, args.picture)
    for adapter, sights in found["fronts"].items():
        print(f"{adapter}: " + ", ".join(f"NHV from {sight} clips {one['nhv']:.3f}" for sight, one in sights.items()))


if __name__ == "__main__":
    main()
