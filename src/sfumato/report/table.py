"""The command's table, and the words and number formats that it shares with the HTML page."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable

from rich import box
from rich.table import Table
from rich.text import Text

from sfumato.errors import SfumatoError, counted
from sfumato.evaluation.metrics import REFERENCE
from sfumato.evaluation.result import Leakage, Line, Result, Strongest

RAW = "identity"
ZERO_SHOT = "zero-shot"
NOTHING = "–"
NAME_WIDTH = 16


def percent(value: float) -> str:
    """A share as a percentage with one decimal; "–" where there is none.

    >>> percent(0.9441), percent(1.0), percent(float("nan"))
    ('94.4', '100', '–')
    """
    if not math.isfinite(value):
        return NOTHING
    text = f"{round(100 * value, 1) + 0.0:.1f}".replace("-", "−")
    return "100" if text == "100.0" else text


def interval(low: float, high: float) -> str:
    """A 95% interval in percent; empty where none can be given.

    >>> interval(0.931, 0.957)
    '[93.1–95.7]'
    """
    return f"[{percent(low)}–{percent(high)}]" if math.isfinite(low) and math.isfinite(high) else ""


def with_interval(value: float, low: float, high: float) -> str:
    """A share with its interval, in percent.

    >>> with_interval(0.9441, 0.931, 0.957)
    '94.4 [93.1–95.7]'
    """
    return f"{percent(value)} {interval(low, high)}".rstrip() if math.isfinite(value) else NOTHING


def plain(value: float) -> str:
    """A number between 0 and 1 with two decimals; "–" where there is none.

    >>> plain(0.4149)
    '0.41'
    """
    return f"{value:.2f}" if math.isfinite(value) else NOTHING


def shown_name(anonymizer: str) -> str:
    """What a reader calls it: the anonymizer `identity` does nothing, its output is raw video.

    >>> shown_name("identity"), shown_name("blur")
    ('raw video', 'blur')
    """
    return "raw video" if anonymizer == RAW else anonymizer


def columns(result: Result) -> list[tuple[str, str]]:
    """The attacked targets with the heading of each one's column, as (target, heading).

    >>> columns(result)
    [('attributes', 'Attributes cMAP'), ('identity', 'Identity top-1')]
    """
    if not result.lines:
        raise SfumatoError("the result holds no line", "judge at least one anonymizer")
    metrics = {attack.target: attack.metric for attack in result.lines[0].attacks}
    return [
        (s.target, f"{s.target.capitalize()} {metrics.get(s.target, '')}".strip()) for s in result.lines[0].strongest
    ]


def find_target(line: Line, target: str) -> Strongest | None:
    """The strongest attack of a line on that target, if it was attacked.

    >>> find_target(line, "identity").score.value
    0.873
    """
    return next((s for s in line.strongest if s.target == target), None)


def unproven(line: Line) -> list[str]:
    """The targets whose attacker did not reach its floor on raw video: about these the line says nothing.

    >>> unproven(line)
    ['identity']
    """
    return [s.target for s in line.strongest if s.leakage.verdict == "inconclusive"]


def worst_proven(line: Line) -> Strongest | None:
    """The target with the worst leakage that was really measured; None where every attacker was too weak.

    Its leakage is that of a measured line, and a lower bound for an inconclusive one.

    >>> worst_proven(line).leakage.value
    0.93
    """
    measured = [s for s in line.strongest if s.leakage.verdict == "measured" and math.isfinite(s.leakage.value)]
    return max(measured, key=lambda s: s.leakage.value, default=None)


def shown_leakage(line: Line) -> Leakage | None:
    """What a line leaks: its headline, or of an inconclusive one what was really measured; None where nothing was.

    >>> shown_leakage(line).value
    0.93
    """
    worst = worst_proven(line)
    if worst is None:
        return None
    # The headline's interval holds that the worst target may be another one; a bound is about the one it names.
    return line.headline if line.headline.verdict == "measured" else worst.leakage


def leakage_text(line: Line) -> str:
    """Residual leakage in percent; "≥" where another target could not be measured, "–" where none could.

    >>> leakage_text(line)
    '93.0 [90.1–95.8]'
    """
    found = shown_leakage(line)
    if found is None:
        return NOTHING
    bound = "≥ " if line.headline.verdict == "inconclusive" else ""
    return bound + with_interval(found.value, found.low, found.high)


def verdict(line: Line) -> str:
    """The line's verdict in one word; raw video is what the others are measured against.

    >>> verdict(line)
    'measured'
    """
    if line.headline.verdict == "measured" and line.anonymizer == RAW:
        return "reference"
    return line.headline.verdict


def gain_text(result: Result, line: Line) -> str:
    """LaF-Privacy's Table 8 in a line, for the protocol that is its own: of other protocols, and where it is not known, "".

    Of several attackers that were strongest on some attribute it is the best on validation. Beside the paper's gains
    stands F1 over that of always "yes", the highest without looking: only what is above it was read.

    >>> gain_text(result, line)
    'frame against answers without looking, in points of F1 over a coin, F1 over always yes, and AP: face +3.1, −8.0 and +1.0'
    """
    best = {attacker for s in line.strongest if s.target == "attributes" for attacker in s.attackers}
    attacks = [a for a in line.attacks if a.attacker in best and any(math.isfinite(x.ap_gain) for x in a.attributes)]
    if result.protocol != ZERO_SHOT or not attacks:
        return ""
    attack = max(attacks, key=lambda a: a.validation)
    gains = ", ".join(
        f"{a.name} {_signed(a.f1_gain)}, {_signed(a.f1 - a.always_yes_f1)} and {_signed(a.ap_gain)}"
        for a in attack.attributes
    )
    asked = "in points of F1 over a coin, F1 over always yes, and AP"
    return f"{attack.attacker} against answers without looking, {asked}: {gains}"


def _signed(value: float) -> str:
    text = percent(value)
    return text if text in ("0.0", NOTHING) or text.startswith("−") else f"+{text}"


def render_table(result: Result) -> Table:
    """The command's table: chance first, then one row per anonymizer. Readable from 100 columns of width on.

    >>> rich.print(render_table(Result.load(Path("result.json"))))
    """
    targets = columns(result)
    table = Table(
        box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), caption=_caption(result), caption_justify="left"
    )
    table.add_column("Anonymizer", no_wrap=True)
    for heading in ("Action top-1 ↑", *(f"{heading} ↓" for _, heading in targets), "Residual leakage ↓"):
        # The line break keeps the arrow beside its word; "fold" loses nothing where the console is very narrow.
        table.add_column(heading.replace(" ", "\n", 1), justify="right", overflow="fold")
    table.add_column("NHV ↑", justify="right", no_wrap=True)
    table.add_column("Verdict", no_wrap=True)
    table.add_row(*_chance_cells(result.lines[0], targets), style="dim")
    for line in result.lines:
        table.add_row(*_cells(line, targets))
    return table


def _chance_cells(line: Line, targets: Iterable[tuple[str, str]]) -> list[Text]:
    attacked = [find_target(line, target) for target, _ in targets]
    scores = [line.utility.chance, *(s.score.chance if s else math.nan for s in attacked), 0.0]
    return [Text(cell) for cell in ("chance", *map(percent, scores), NOTHING, "")]


def _cells(line: Line, targets: Iterable[tuple[str, str]]) -> list[Text]:
    attacked = [find_target(line, target) for target, _ in targets]
    scores = [line.utility, *(s.score if s else None for s in attacked)]
    shown = [with_interval(s.value, s.low, s.high) if s else NOTHING for s in scores]
    style = "yellow" if line.headline.verdict == "inconclusive" else ""
    cells = [Text(cell) for cell in (_folded(line.anonymizer), *shown, leakage_text(line), plain(line.nhv))]
    return [*cells, Text(verdict(line), style=style)]


def _folded(anonymizer: str) -> str:
    """The name in short lines (settings below it), since rich would otherwise cut it or break it anywhere."""
    parts = shown_name(anonymizer).replace(":", ":\n", 1).split("\n")
    return "\n".join(line for part in parts for line in textwrap.wrap(part, NAME_WIDTH))


def _caption(result: Result) -> Text:
    effort = "" if result.effort == "standard" else f" · {result.effort} effort"
    about = (
        f"{result.data} · protocol {result.protocol} · {counted(result.test_clips, 'test clip')} of "
        f"{counted(result.test_persons, 'person')} · {counted(len(result.seeds), 'seed')} · "
        f"{counted(result.epochs, 'epoch')}{effort} · {result.hardware}"
    )
    reading = f"Percent [95% interval], the strongest attacker of each target. NHV from reference point {reference()}."
    weak = sorted({target for line in result.lines for target in unproven(line)})
    doubt = (
        [f"Inconclusive: the {' and the '.join(weak)} attacker did not reach its floor on raw video."] if weak else []
    )
    gains = [f"{shown_name(line.anonymizer)}: {text}" for line in result.lines if (text := gain_text(result, line))]
    return Text(
        "\n".join([about, reading, *doubt, *(f"Note: {note}" for note in (*result.notes, *gains))]), style="dim"
    )


def reference() -> str:
    """NHV's reference point in print.

    >>> reference()
    '(0, 0)'
    """
    return f"({', '.join(f'{x:g}' for x in REFERENCE)})"
