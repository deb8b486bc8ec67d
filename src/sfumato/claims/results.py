"""From the rows of results tables to what verdicts are made of."""

from __future__ import annotations

import hashlib
import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from sfumato.claims.bench import STANDARD, TINY, Plan, Trial, about, code_of, config_of, missing, read_trials, same
from sfumato.claims.dropped_bench import DROPPED, DroppedPlan
from sfumato.claims.lanes import Task, in_lanes_order, run_tasks
from sfumato.claims.latent_bench import LatentPlan
from sfumato.claims.ledger import EXACT, HEADLINES, MEASURES, RAW, READ, Claim, Ledger, Table
from sfumato.claims.rows import Row, add_row, read_rows
from sfumato.claims.verdict import Evidence, Found, raw_beside
from sfumato.errors import SfumatoError
from sfumato.evaluation.metrics import FLOORS, reaches_floor
from sfumato.training.audit import idle
from sfumato.training.device import pick_device
from sfumato.training.options import to_dict


def name_of(trial: str, strength: Any) -> str:
    """What the ledger calls a trial that is judged at another strength than it was trained with.

    >>> name_of("stprivacy", "0.5"), name_of("stprivacy", "")
    ('stprivacy at 0.5', 'stprivacy')
    """
    return f"{trial} at {float(strength):g}" if strength not in (None, "") else trial


def evidence(rows: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str, str], Evidence]:
    """(trial, measure, judged on) to what those rows say; of each seed the last row counts.

    Raw video is a trial by itself beside each of them: another table may have other data, labels or judges. Rows may carry
    the attackers that they have not met, as `unmet`.
    """
    values: dict[tuple[str, str, str], dict[str, tuple[float, float, float]]] = defaultdict(dict)
    # Commits and run folders, of rows that tell them, and attackers that are not met.
    told: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    idling: dict[tuple[str, str], set[str]] = defaultdict(set)  # the seeds in which f_B read nothing
    for row in rows:
        name = name_of(row["trial"], row.get("strength"))
        for column in ("commit", "run"):
            told[column, name, row["judged_on"]] |= {row[column]} if row.get(column) else set()
        for who in (name, raw_beside(name)):  # both before the same attackers
            told["unmet", who, row["judged_on"]] |= set(row.get("unmet", ()))
        idling[name, row["judged_on"]] -= {row["seed"]}
        idling[name, row["judged_on"]] |= {row["seed"]} if _idle(row) else set()
        for measure, column in MEASURES.items():
            begin = column.removesuffix("_value")
            value, low, high, raw = (
                _number(row.get(name)) for name in (column, f"{begin}_low", f"{begin}_high", f"{begin}_raw")
            )
            below, above = (0.0, 0.0) if measure in EXACT else reach(value, low, high)
            if measure in HEADLINES and row.get("verdict") == "inconclusive":
                continue  # of a target that nobody reads on raw video the others cannot speak
            if measure in READ and _unread(measure, row):
                continue
            if math.isfinite(value) and math.isfinite(below + above):
                values[name, measure, row["judged_on"]][row["seed"]] = (value, below, above)
            if math.isfinite(raw) and math.isfinite(below + above):
                # On as many clips as the trial is; which way it reaches further nobody has said.
                half = (below + above) / 2
                values[raw_beside(name), measure, row["judged_on"]][row["seed"]] = (raw, half, half)
    return {
        key: Evidence(
            tuple(value for value, _, _ in seeds.values()),
            statistics.fmean(below for _, below, _ in seeds.values()),
            statistics.fmean(above for _, _, above in seeds.values()),
            commits=frozenset(told["commit", key[0], key[2]]),
            runs=frozenset(told["run", key[0], key[2]]),
            unmet=frozenset(told["unmet", key[0], key[2]]),
            idle=len(idling[key[0], key[2]] & set(seeds)),
        )
        for key, seeds in values.items()
    }


def _idle(row: Mapping[str, Any]) -> bool:
    """Whether the f_B of a training read nothing, as its audit tells; a row without one does not tell."""
    raw, training, chance = (_number(row.get(f"audit_first_{name}")) for name in ("raw", "in_training", "chance"))
    return math.isfinite(raw + training + chance) and idle({"raw": raw, "in training": training, "chance": chance})


def _unread(measure: str, row: Mapping[str, Any]) -> bool:
    """Whether what was measured is not even read on raw video: of nothing nothing is lost. A row without chance does not tell."""
    column = MEASURES[measure].removesuffix("_value").removesuffix("_change")
    raw, chance = _number(row.get(f"{column}_raw")), _number(row.get(f"{column}_chance"))
    return math.isfinite(raw + chance) and not reaches_floor(raw, chance, FLOORS.get(measure, FLOORS["action"]))


def reach(value: float, low: float, high: float) -> tuple[float, float]:
    """How far an interval reaches to either side of a value, which may itself lie outside.

    >>> reach(0.5, 0.25, 1.0)
    (0.25, 0.5)
    """
    return max(value - low, 0.0), max(high - value, 0.0)  # in this order what is not a number stays so


def _number(text: Any) -> float:
    try:
        return float(text) if text not in (None, "") else math.nan
    except ValueError:
        raise SfumatoError(
            f"a results table has '{text}' where a number should be", "mend it, or run that trial again"
        ) from None


def gather(ledger: Ledger, root: Path) -> Found:
    """What all tables of the ledger say about their trials as these are described now: older settings do not count.

    Nor does a row of which there is a newer one, also where the newer one could not measure something; nor what a laptop's
    networks have judged, where a GPU's have judged the same data too: a trial's seeds must have one judge, and so must two
    trials, which are never of two data sets. Rows that have not met all attackers count, and say so, until there is one of
    their trial that has.
    """
    current = {name: _current(table, root) for name, table in ledger.tables.items()}
    of_videos = [(table, current[name]) for name, table in ledger.tables.items() if not table.encoder]
    strong = {table.data for table, rows in of_videos if not all(map(_by_a_laptop, rows))}
    rows: list[Row] = []
    for name, table in ledger.tables.items():
        # Features have one judge, on any device.
        judged = [row for row in current[name] if table.encoder or not (table.data in strong and _by_a_laptop(row))]
        rows += {(*_judged_trial(row), row["seed"]): row for row in _most_attacked(judged, table)}.values()
    return evidence(rows)


def unmet(row: Mapping[str, Any], table: Table) -> tuple[str, ...]:
    """The attackers of a table that a row of it has not met, as they joined it later.

    >>> unmet({"attacks": "frame"}, Table("t.toml", "theatre:small", "rows.csv", attacks=("frame", "decode-frame")))
    ('decode-frame',)
    """
    met = row["attacks"].split("+") if row.get("attacks") else table.earlier or table.attacks
    return tuple(attack for attack in table.attacks if attack not in met)


def _most_attacked(rows: Iterable[Row], table: Table) -> list[Row]:
    """The rows with the attackers that they have not met; where some of a trial have met all, of this trial those alone."""
    told = [row | {"unmet": unmet(row, table)} for row in rows]
    whole = {_judged_trial(row) for row in told if not row["unmet"]}
    return [row for row in told if not row["unmet"] or _judged_trial(row) not in whole]


def _judged_trial(row: Row) -> tuple[str, str, str]:
    return row["trial"], row.get("strength") or "", row["judged_on"]


def _current(table: Table, root: Path) -> list[Row]:
    """The rows of a table whose trials are described as they were."""
    found = []
    for row in read_rows(root / table.results):
        trial = _described(row["trial"], root / table.trials)
        plan = plan_of(table, Path(), judge_data="" if row["judged_on"] == "the same" else row["judged_on"])
        strength = float(row["strength"]) if row.get("strength") else None
        if trial and same(row, about(plan, trial, int(row["seed"]), strength)) and set_alike(row, config_digest(trial)):
            found.append(row)
    return found


def config_digest(trial: Trial) -> str:
    """Twelve digits over all settings of a trial's method, with those of its recipe; "" where nothing is trained.

    >>> config_digest(Trial("blur", anonymizer="blur"))
    ''
    """
    return hashlib.sha256(repr(to_dict(config_of(trial))).encode()).hexdigest()[:12] if trial.method else ""


def set_alike(row: Row, config: str | None) -> bool:
    """Whether a row was made with the settings that its trial has now: a recipe may have changed. Older rows do not tell.

    >>> set_alike({"config": "d6dfcde7f45a"}, "8eeb09a40156"), set_alike({"trial": "laf"}, "8eeb09a40156")
    (False, True)
    """
    return row.get("config") in ("", None, config)


def _by_a_laptop(row: Row) -> bool:
    return row.get("judge_models") == TINY


def _described(name: str, trials: Path) -> Trial | None:
    return next(iter(read_trials(trials, [name])), None)


def plan_of(table: Table, runs: Path, *, judge_data: str = "", device: str = "auto", lanes: int = 1) -> Plan:
    """How the trials of a table are trained and judged.

    >>> plan_of(load_ledger().tables["adversarial"], Path("runs/claims")).data
    'theatre:small'
    """
    if table.encoder:
        return LatentPlan(
            table.data, runs, judge_data, device=device, lanes=lanes, encoder=table.encoder,
            detection_data=table.detection_data, anomaly_data=table.anomaly_data,
        )  # fmt: skip
    if table.protocol == DROPPED:
        return DroppedPlan(table.data, runs, judge_data, device=device, lanes=lanes)
    return Plan(
        table.data, runs, judge_data, attacks=table.attacks, device=device, lanes=lanes, vlm=table.vlm,
        protocol=table.protocol,
    )  # fmt: skip


def run_claims(
    claims: Iterable[Claim], ledger: Ledger, root: Path, runs: Path, *, seeds: int, device: str, lanes: int,
    keep_older: bool = False,
) -> Iterable[str]:  # fmt: skip
    """Train and judge what those claims lack; a line about each row as it gets ready.

    A row that other code has made is lacking too, unless older ones are to be kept; one that has not met all attackers of
    its table always is.
    """
    tasks: list[Task] = []
    # Of every method and trial as they are now: they may be edited while this runs.
    code: dict[str, str] = {}
    settings: dict[str, str] = {}
    tables: dict[Plan, Table] = {}
    for table in ledger.tables.values():
        trials = read_trials(root / table.trials)
        code |= {method: code_of(method) for method in {trial.method for trial in trials} - set(code)}
        settings |= {trial.name: config_digest(trial) for trial in trials}
        known = {name_of(trial.name, at) for trial in trials for at in ("", *trial.strengths)}
        asked: dict[str, set[str]] = defaultdict(set)  # judged on what, which trials, and at which strengths
        for each in (comparison for claim in claims for comparison in claim.comparisons):
            asked[each.judged_on] |= known & set(each.trials())
        for judged_on, names in asked.items():
            judge_data = "" if judged_on == "the same" else judged_on
            plan = plan_of(table, runs, judge_data=judge_data, device=device, lanes=lanes)
            tables[plan] = table
            wanted = [trial for trial in (_at_strengths(trial, names) for trial in trials) if trial]
            # What a laptop's networks have judged a GPU's judge again, but not the other way round.
            again = not table.encoder and pick_device(device).type != "cpu"
            if names and not (again or table.encoder):
                _refuse_beside_a_gpu(root / table.results)
            rows = [
                row
                for row in read_rows(root / table.results)
                if not (again and _by_a_laptop(row))
                and (keep_older or row.get("code") == code.get(row["method"]))
                and set_alike(row, settings.get(row["trial"]))
                and not unmet(row, table)
            ]
            lacking = missing(plan, wanted, seeds, rows)
            tasks += [(plan, job) for job in lacking]
    for plan, row in run_tasks(in_lanes_order(tasks), lanes):
        told = {"code": code[row["method"]], "config": settings[row["trial"]], "attacks": "+".join(plan.attacks)}
        add_row(root / tables[plan].results, row | told)
        leaks = f": residual {row['residual']}" if row.get("residual") else ""
        yield f"{name_of(row['trial'], row['strength'])}, seed {row['seed']}{leaks}"


def _refuse_beside_a_gpu(results: Path) -> None:
    """On a CPU nothing is trained for hours that `gather` would then leave out."""
    if any(row.get("judge_models") == STANDARD for row in read_rows(results)):
        raise SfumatoError(
            f"a GPU has judged '{results}', and beside it a CPU's small networks do not count",
            "run it with --device cuda; only V1 to V10, L1 to L10 and P5 need it",
        )


def _at_strengths(trial: Trial, names: set[str]) -> Trial | None:
    """The trial at those of its strengths that are named; None where it is not named at all."""
    strengths = tuple(at for at in trial.strengths if name_of(trial.name, at) in names)
    return replace(trial, strengths=strengths) if strengths or trial.name in names else None


def check_trials(ledger: Ledger, root: Path) -> None:
    """Every trial that a claim names is described in one of the tables' files, and in one alone."""
    known = {RAW}
    for table in ledger.tables.values():
        for trial in read_trials(root / table.trials):
            if trial.name in known:  # to run a claim would train both, and their rows would be taken for each other's
                raise SfumatoError(f"'{trial.name}' is described in two trials files", "give one of them another name")
            known |= {name_of(trial.name, at) for at in ("", *trial.strengths)}
    for claim in ledger.claims:
        if unknown := [name for name in claim.trials() if name not in known]:
            raise SfumatoError(f"claim {claim.id} names '{unknown[0]}', which no trials file describes", "add it")
