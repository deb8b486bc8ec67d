"""The papers' claims and what became of them: behind `sfumato claims`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from sfumato.claims.lanes import usual_lanes
from sfumato.claims.ledger import load_ledger
from sfumato.claims.results import check_trials, gather, run_claims
from sfumato.claims.verdict import Judgement, decide
from sfumato.commands.console import out, say
from sfumato.errors import SfumatoError
from sfumato.report.pages import styled, write_page
from sfumato.writing import write_whole

COLOURS = {"holds": "green", "refuted": "red", "undecided": "dim"}
PREFACE = (
    "Made by `sfumato claims --page docs/claims.md` from the results in `benchmarks/results`; rules and margins, fixed "
    "before the runs that decide, are in `src/sfumato/claims/ledger.toml`. Intervals are 95%, over seeds and test clips. A "
    "claim holds where all of its comparisons do, and is refuted where one of them is, by an interval that is widened for "
    "their number (Bonferroni); fewer than three seeds decide nothing. Two trials are compared as if on different clips, "
    "which as a rule makes the interval wider than need be. What is not even read on raw video decides nothing. Where "
    "attackers who joined later are not met yet, leakage decides nothing, and `--run` measures it again; where f_B read "
    "nothing in most trainings of a trial, which is told, nothing is decided that rests on an adversary. SPLAVU's trials "
    "have four seeds, and ten where four had left a claim undecided (U3, U7, U8, U13, U15): that was fixed before the six "
    "were run, but who looks twice finds more, and U3's interval does not hold that. Rows of several commits may have been "
    "judged by code that differs, and those of commits before a522004 had one raw video for all their seeds: `sfumato "
    "claims --run --only ID` runs again what other code has measured, with `--keep-older` only what is missing. S1 to S10, P1 "
    "to P4 and T1 are asked of small networks on thumbnails (`theatre:tiny`), where f_B reads and two CPU cores need some "
    "ten minutes for a training with its judgement; SPLAVU's, of features, need no GPU either; the others do (`--device cuda`)."
)


def show_claims(
    only: Sequence[str], *, run: bool, seeds: int, device: str, lanes: int | None, keep_older: bool, runs: Path,
    json_file: Path | None, page: Path | None, report: Path | None,
) -> None:  # fmt: skip
    """Run what is asked for, then print every verdict with its numbers."""
    root = Path()
    if not (root / "benchmarks").is_dir():
        raise SfumatoError("the trials and their results are in the repository", "run it in a checkout")
    ledger = load_ledger()
    check_trials(ledger, root)
    asked = ledger.find(list(only))
    if run:
        lanes = lanes or usual_lanes(device)
        told = run_claims(asked, ledger, root, runs, seeds=seeds, device=device, lanes=lanes, keep_older=keep_older)
        for line in told:
            say(line)
    found = gather(ledger, root)
    judged = [decide(claim, found) for claim in asked]
    for file in filter(None, (json_file, page)):
        file.parent.mkdir(parents=True, exist_ok=True)
    if report:
        write_page(as_html(judged), report)
        say(f"report: {report}")
    if json_file:
        write_whole(json_file, (json.dumps([as_json(each) for each in judged], indent=1) + "\n").encode())
    if page:
        write_whole(page, as_markdown(judged).encode())
    out.print(render(judged))
    say(counted(judged))
    if not run and any(each.missing for each in judged):
        say("run what is missing: sfumato claims --run --only ID (V, L and P5 want --device cuda; three seeds decide)")


def why(judged: Judgement) -> str:
    """The numbers of a verdict, or what is missing."""
    told = {"not run": judged.missing, "inconclusive on raw": judged.inconclusive, "f_B read nothing": judged.idle}
    said = [f"{what}: {', '.join(names)}" for what, names in told.items() if names]
    few = not all(answer.interval.decides for answer in judged.answers)
    lines = [
        f"{a.question}: {a.interval.value:+.3f} [{a.interval.low:+.3f}, {a.interval.high:+.3f}]" for a in judged.answers
    ]
    mixed = [f"rows of {len(judged.commits)} commits"] if len(judged.commits) > 1 else []
    unmet = [f"not met yet: {', '.join(judged.unmet)}"] if judged.unmet else []
    return "\n".join([*said, *lines, *(["fewer than three seeds decide nothing"] if few else []), *unmet, *mixed])


def render(judged: Sequence[Judgement]) -> Table:
    """A row for each claim."""
    table = Table("claim", "paper", "what it says", "verdict", "numbers, 95% intervals over seeds and clips")
    for each in judged:
        colour = COLOURS[each.verdict]
        about = each.claim
        table.add_row(about.id, about.paper, about.statement, f"[{colour}]{each.verdict}[/]", why(each))
    return table


def counted(judged: Sequence[Judgement]) -> str:
    """How many claims hold, are refuted, are undecided, in words."""
    count = Counter(each.verdict for each in judged)
    told = {"holds": "hold" if count["holds"] != 1 else "holds", "refuted": "refuted", "undecided": "undecided"}
    return ", ".join(f"{count[verdict]} {word}" for verdict, word in told.items())  # type: ignore[index]


def as_markdown(judged: Sequence[Judgement]) -> str:
    """The ledger as a page of the documentation."""
    rows = [
        f"| {c.id} | {c.paper} | {c.statement} | {each.verdict if each.verdict == 'undecided' else f'**{each.verdict}**'} "
        f"| {why(each).replace(chr(10), '<br>')} |"
        for each in judged
        for c in (each.claim,)
    ]
    return "\n".join([
        "# The papers' claims, tested", "",
        f"{counted(judged)}. {PREFACE}", "",
        "| claim | paper | what it says | verdict | numbers |", "|---|---|---|---|---|", *rows, "",
    ])  # fmt: skip


def as_html(judged: Sequence[Judgement]) -> str:
    """The ledger as a page that asks nothing of the network, paper by paper."""
    papers: dict[str, list[dict[str, Any]]] = {}
    for each in judged:
        shown = {**as_json(each), "why": why(each).splitlines()}
        papers.setdefault(each.claim.paper, []).append(shown)
    return styled("ledger.html", counted=counted(judged), preface=PREFACE.replace("`", ""), papers=papers)


def as_json(judged: Judgement) -> dict[str, Any]:
    """One verdict as plain JSON.

    >>> as_json(decide(load_ledger().find(["S5"])[0], {}))["verdict"]
    'undecided'
    """
    numbers = [
        {"question": a.question, "value": a.interval.value, "low": a.interval.low, "high": a.interval.high,
         "seeds": a.interval.seeds, "counted": a.interval.counted, "verdict": a.verdict} for a in judged.answers
    ]  # fmt: skip
    claim, lacking = judged.claim, ", ".join([*judged.missing, *judged.inconclusive])
    return {
        "id": claim.id, "paper": claim.paper, "statement": claim.statement, "verdict": judged.verdict, "numbers": numbers,
        "run": f"sfumato claims --run --only {claim.id}", "folders": list(judged.runs), "lacking": lacking,
        "commits": list(judged.commits), "unmet": list(judged.unmet), "idle": list(judged.idle),
    }  # fmt: skip
