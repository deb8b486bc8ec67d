"""A certificate made readable: two printed pages, and a summary for the terminal."""

from __future__ import annotations

import math
from pathlib import Path

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sfumato.evaluation.certificate import Certificate, Exposure, Finding
from sfumato.evaluation.certificate.verdict import ENOUGH, ENOUGH_PEOPLE, FULL, LARGE, MOST_UNNOTICED
from sfumato.evaluation.certificate.wording import people
from sfumato.report import table
from sfumato.report.html import _at
from sfumato.report.pages import environment, source, write_page

TITLE = "What this footage still gives away"
ROWS = 10  # findings that fit on the first page
LINES = 4  # doubts, likewise
COLOURS = {
    Exposure.full: "red", Exposure.large: "red", Exposure.unmeasured: "red", Exposure.reduced: "yellow",
    Exposure.too_little: "yellow", Exposure.few_people: "yellow", Exposure.weak: "yellow", Exposure.not_shown: "default",
}  # fmt: skip


def write_certificate(certificate: Certificate, path: Path) -> None:
    """Write the page to `path`, whole or not at all. It holds no picture of the footage: pages are passed on.

    >>> write_certificate(Certificate.load(Path("certificate.json")), Path("certificate.html"))  # doctest: +SKIP
    """
    write_page(_page(certificate), path)


def _page(certificate: Certificate) -> str:
    templates = environment()
    templates.filters.update(percent=table.percent, at=_at, name=table.shown_name)
    templates.globals.update(interval=table.interval, finite=math.isfinite, people=people)
    template = templates.from_string(source("certificate.html"))
    findings = worst_first(certificate)
    return template.render(
        c=certificate, title=TITLE, checksum=certificate.checksum(), level=Exposure(certificate.verdict).name,
        findings=findings[:ROWS], more=len(findings) - ROWS, doubts=certificate.doubts[:LINES],
        more_doubts=len(certificate.doubts) - LINES, utility=utility_text(certificate),
        rules={
            "full": FULL, "large": LARGE, "unnoticed": MOST_UNNOTICED, "enough": ENOUGH, "people": ENOUGH_PEOPLE,
        },
    )  # fmt: skip


def worst_first(certificate: Certificate) -> list[Finding]:
    """The findings, identity before attributes and then the most exposed first.

    >>> [finding.exposure for finding in worst_first(certificate)]
    ['fully exposed', 'not shown to leak']
    """
    order = [level.value for level in Exposure]

    def rank(finding: Finding) -> tuple[bool, int, float]:
        share = finding.leakage.value
        return finding.target == "attributes", order.index(finding.exposure), -share if math.isfinite(share) else 0.0

    return sorted(certificate.findings, key=rank)


def utility_text(certificate: Certificate) -> str:
    """What is kept of the action, in a sentence.

    >>> utility_text(certificate)
    'Actions are recognised in 85.0 [80.1–89.3] of 100 recordings (guessing 5.0, raw video 90.0): 94.1 [89.0–98.2]% kept.'
    """
    kept, score = certificate.utility.kept, certificate.utility.score
    if kept.verdict == "not tested":
        return "Whether actions stay recognisable was not tested."
    told = (
        f"Actions are recognised in {table.with_interval(score.value, score.low, score.high)} of 100 recordings "
        f"(guessing {table.percent(score.chance)}, raw video {table.percent(score.raw)})"
    )
    if kept.verdict != "measured":
        return f"{told}: too few on raw video to say how much is kept."
    share = f"{table.percent(kept.value)}%"
    return f"{told}: {share} {table.interval(kept.low, kept.high)} of what is above guessing is kept."


def render_certificate(certificate: Certificate) -> RenderableType:
    """The terminal's summary: the verdict, one row per question, what limits it.

    >>> rich.print(render_certificate(Certificate.load(Path("certificate.json"))))  # doctest: +SKIP
    """
    colour = COLOURS[Exposure(certificate.verdict)]
    rows = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    rows.add_column("What an attacker learns")
    for heading in ("People", "Score", "Guessing", "Raw", "Of raw video's"):
        rows.add_column(heading, justify="right", no_wrap=True)
    rows.add_column("Verdict")
    for f in worst_first(certificate):
        score, leak = f.score, f.leakage
        cells = (
            f.title, str(f.persons or table.NOTHING), table.with_interval(score.value, score.low, score.high),
            table.percent(score.chance), table.percent(score.raw), table.with_interval(leak.value, leak.low, leak.high),
        )  # fmt: skip
        rows.add_row(*map(Text, cells), Text(f.exposure, style=COLOURS[Exposure(f.exposure)]))
    about = (
        f"{table.shown_name(certificate.anonymizer)} · {certificate.recordings} of {certificate.found} recordings · "
        f"percent [95% interval] · effort {certificate.effort}, {certificate.seeds} seed{'s' * (certificate.seeds != 1)} · "
        f"{certificate.hardware}"
    )
    return Group(
        Text(f"{certificate.headline}.", style=f"bold {colour}"), Text(certificate.meaning), rows,
        Text(utility_text(certificate)),
        *(Text(f"Note: {doubt}", style="dim") for doubt in certificate.doubts),
        *(Text(f"Not tested: {line}", style="dim") for line in certificate.not_tested), Text(about, style="dim"),
    )  # fmt: skip
