"""The HTML report: one file that asks nothing of the network, made from a result and a few filmstrips."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from sfumato.errors import counted
from sfumato.evaluation.metrics import leakage_removed, nhv, utility_kept
from sfumato.evaluation.result import AttackResult, Leakage, Line, Result
from sfumato.report import table
from sfumato.report.pages import environment, source, write_page
from sfumato.report.plots import Point, curve_svg, tradeoff_svg

if TYPE_CHECKING:
    from markupsafe import Markup

TITLE = "What the video still gives away"
FRAMES = 6
SIDE = 128  # pixels; a frame is shown about that wide, and the page must stay small enough to mail
COLOURS = 255  # of a frame's palette: a third of the bytes, and no difference to the eye
FLOOR_MISSED = "the attacker did not reach its floor on raw video"


@dataclass(frozen=True)
class Strip:
    """One row of a before/after filmstrip: uint8 frames (T, 3, H, W), of which a few are shown.

    Strips that follow each other with an equal caption form a group, with the caption under it.

    >>> Strip("blur", sample.clip, caption="sit down · person 3")
    """

    label: str
    frames: Tensor
    caption: str = ""

    def __post_init__(self) -> None:
        if (
            self.frames.dtype != torch.uint8
            or self.frames.ndim != 4
            or self.frames.shape[1] != 3
            or not len(self.frames)
        ):
            shape = tuple(self.frames.shape)
            raise ValueError(f"a strip is uint8 (T, 3, H, W) with T > 0, not {self.frames.dtype} {shape}")


def write_report(result: Result, path: Path, *, strips: Sequence[Strip] = (), title: str = TITLE) -> None:
    """Write the page to `path`, whole or not at all.

    >>> write_report(Result.load(Path("result.json")), Path("report.html"))
    """
    write_page(_page(result, strips, title), path)


def _page(result: Result, strips: Sequence[Strip], title: str) -> str:
    templates = environment()
    templates.filters.update(
        percent=table.percent, plain=table.plain, name=table.shown_name, at=_at,
        leakage=table.leakage_text, worst=table.worst_proven, shown=table.shown_leakage, verdict=table.verdict,
        unproven=table.unproven,
    )  # fmt: skip
    templates.globals.update(
        interval=table.interval, find_target=table.find_target, finite=math.isfinite, counted=counted
    )
    template = templates.from_string(source("page.html"))
    return template.render(
        result=result, title=title, summary=summary(result), groups=_groups(strips), targets=table.columns(result),
        reference=table.reference(), tradeoff=_tradeoff(result), attributes=_attributes(result), curves=_curves(result),
        raw=table.RAW, floor_missed=FLOOR_MISSED,
    )  # fmt: skip


def _at(value: float) -> str:
    """Where a share stands on a scale from 0 to 1, as a CSS percentage; what lies beyond is drawn at the end."""
    return f"{100 * min(max(value, 0.0), 1.0):.1f}%"


def summary(result: Result) -> Markup:
    """The result in plain words, as HTML. It never calls anything private: it says what an attacker still reads.

    >>> summary(result)
    Markup('Under <em>blur</em> the strongest attacker still reads 49% [46–52] of what raw video gives away, …')
    """
    from markupsafe import Markup

    judged = [line for line in result.lines if line.anonymizer != table.RAW]
    measured = [line for line in judged if line.headline.verdict == "measured" and math.isfinite(line.headline.value)]
    sentences = [] if judged else [Markup("Only raw video was judged: it shows what there is to protect.")]
    if measured:
        least = min(measured, key=lambda line: line.headline.value)
        many = f"Of {len(measured)} measured anonymizers, <em>{{}}</em> leaks least: "
        opening = Markup(many if len(measured) > 1 else "Under <em>{}</em> ")
        sentences.append(opening.format(table.shown_name(least.anonymizer)) + _findings(least))
        best = max(measured, key=lambda line: line.nhv if math.isfinite(line.nhv) else -1.0)
        if best is not least and math.isfinite(_kept(best)):
            praise = Markup("The best trade-off is <em>{}</em>, at {} read and {}% kept.")
            sentences.append(
                praise.format(table.shown_name(best.anonymizer), _share(best.headline), _whole(_kept(best)))
            )
    doubtful = [line for line in judged or result.lines if line.headline.verdict == "inconclusive"]
    if doubtful:
        names = Markup(", ").join(Markup("<em>{}</em>").format(table.shown_name(line.anonymizer)) for line in doubtful)
        verb = "is" if len(doubtful) == 1 else "are"
        sentences.append(names + Markup(" {} inconclusive: {}.").format(verb, FLOOR_MISSED))
    return Markup(" ").join(sentences)


def _findings(line: Line) -> str:
    share, kept = _share(line.headline), _kept(line)
    found = f"the strongest attacker still reads {share} of what raw video gives away"
    if line.headline.low <= 0:
        found = f"the strongest attacker reads {share} of what raw video gives away, which cannot be told from chance"
    return found + (
        f", and {_whole(kept)}% of the action accuracy above chance is kept." if math.isfinite(kept) else "."
    )


def _kept(line: Line) -> float:
    return utility_kept(line.utility.value, line.utility.chance, line.utility.raw)


def _share(leak: Leakage) -> str:
    known = math.isfinite(leak.low) and math.isfinite(leak.high)
    return f"{_whole(leak.value)}%" + (f" [{_whole(leak.low)}–{_whole(leak.high)}]" if known else "")


def _whole(share: float) -> str:
    return f"{round(100 * share)}".replace("-", "−")


def _groups(strips: Sequence[Strip]) -> list[tuple[str, list[dict[str, Any]]]]:
    """The filmstrips by caption: (caption, rows), each row with its label and its frames as data URIs."""
    return [
        (
            caption,
            [{"label": s.label, "small": max(s.frames.shape[-2:]) <= SIDE, "frames": _frames(s.frames)} for s in group],
        )
        for caption, group in groupby(strips, key=lambda s: s.caption)
    ]


def _frames(frames: Tensor) -> list[str]:
    """A few frames of (T, 3, H, W), evenly spaced from first to last, as PNG data URIs."""
    from PIL import Image

    count = min(FRAMES, len(frames))
    chosen = torch.linspace(0, len(frames) - 1, count).round().long()
    found = []
    for frame in frames[chosen].cpu():
        image = Image.fromarray(frame.permute(1, 2, 0).contiguous().numpy())
        image.thumbnail((SIDE, SIDE), Image.Resampling.BOX)
        buffer = io.BytesIO()
        image.quantize(COLOURS, dither=Image.Dither.NONE).save(buffer, format="PNG", optimize=True)
        found.append(f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}")
    return found


def _tradeoff(result: Result) -> dict[str, Any]:
    """The plot, the NHV of all points together, and the names that are not drawn because they are inconclusive."""
    from markupsafe import Markup

    drawn = {line.anonymizer: point for line in result.lines if (point := _point(line))}
    together = nhv([(p.kept[0], p.removed[0]) for p in drawn.values()])
    missing = [line.anonymizer for line in result.lines if line.anonymizer not in drawn]
    return {"svg": Markup(tradeoff_svg(list(drawn.values()))) if drawn else "", "nhv": together, "missing": missing}


def _point(line: Line) -> Point | None:
    """The line in the trade-off; None where it is inconclusive or undefined. Without an interval, no whiskers."""
    u, h = line.utility, line.headline
    kept = [utility_kept(x, u.chance, u.raw) for x in (u.value, u.low, u.high)]
    removed = [leakage_removed(x) for x in (h.value, h.high, h.low)]
    if h.verdict != "measured" or math.isnan(kept[0]) or math.isnan(removed[0]):
        return None
    (x, *x_ends), (y, *y_ends) = kept, removed
    x_low, x_high = (x if math.isnan(end) else end for end in x_ends)
    y_low, y_high = (y if math.isnan(end) else end for end in y_ends)
    return Point(table.shown_name(line.anonymizer), (x, x_low, x_high), (y, y_low, y_high))


def _attributes(result: Result) -> list[tuple[str, list[AttackResult], str]]:
    """Per anonymizer the attackers that were strongest on some attribute, as (anonymizer, attackers, their gain)."""
    found = []
    for line in result.lines:
        best = {attacker for s in line.strongest if s.target == "attributes" for attacker in s.attackers}
        attacks = [attack for attack in line.attacks if attack.attributes and attack.attacker in best]
        if attacks:
            found.append((line.anonymizer, attacks, table.gain_text(result, line)))
    return found


def _curves(result: Result) -> list[tuple[str, list[tuple[AttackResult, Markup]]]]:
    """Per anonymizer every attacker with its learning curve over the same attacker's on raw video."""
    from markupsafe import Markup

    raw = {a.attacker: a.curve for line in result.lines if line.anonymizer == table.RAW for a in line.attacks}
    found = []
    for i, line in enumerate(result.lines):
        panels = []
        for j, attack in enumerate(line.attacks):
            behind = [] if line.anonymizer == table.RAW else raw.get(attack.attacker, [])
            svg = curve_svg(f"curve-{i}-{j}", attack.curve, raw=behind, chance=attack.score.chance)
            panels.append((attack, Markup(svg)))
        found.append((line.anonymizer, panels))
    return found
