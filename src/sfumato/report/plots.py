"""Plots as light inline SVG: the trade-off and the attackers' learning curves.

Text stays text, colours are the page's CSS variables (so dark mode recolours them), ids are unique to the plot, and
equal input gives equal bytes. Figures are made without pyplot, whose global state is the caller's.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# matplotlib wants colours; these stand for the page's variables and are replaced in the finished SVG.
INK, MUTED, HAIR, ACCENT = "#010101", "#020202", "#030303", "#040404"
LABEL_SIZE = 8.5
VARIABLES = {INK: "var(--ink)", MUTED: "var(--muted)", HAIR: "var(--hair)", ACCENT: "var(--accent)"}

Box = tuple[float, float, float, float]


@dataclass(frozen=True)
class Point:
    """One anonymizer in the trade-off: utility kept (x) and leakage removed (y), in [0, 1], as (value, low, high)."""

    label: str
    kept: tuple[float, float, float]
    removed: tuple[float, float, float]
    bounded: bool = False  # more may leak than was found: `removed` is the most that it can be


def tradeoff_svg(points: Sequence[Point]) -> str:
    """Utility kept against leakage removed, with whiskers, the Pareto front and the ideal corner.

    >>> tradeoff_svg([Point("blur", (0.8, 0.75, 0.85), (0.5, 0.45, 0.55))])
    '<svg …>'
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.8, 4.3))
    axes = figure.add_axes((0.095, 0.115, 0.89, 0.865))
    axes.set(xlim=(-0.04, 1.06), ylim=(-0.06, 1.08), xlabel="utility kept  →", ylabel="leakage removed  →")
    _quiet(axes)
    ticks, names = (0, 0.25, 0.5, 0.75, 1), ("0", "25", "50", "75", "100%")
    axes.set_xticks(ticks, labels=names)
    axes.set_yticks(ticks, labels=names)
    axes.grid(color=HAIR, linewidth=0.6)
    axes.plot([1], [1], marker="*", markersize=11, color=MUTED, markeredgewidth=0, zorder=2)
    axes.annotate(
        "ideal", (1, 1), (-9, 0), textcoords="offset points", ha="right", va="center", color=MUTED, fontsize=8
    )
    front = _draw_front(axes, points) if points else []
    for point in points:
        (x, *x_ends), (y, *y_ends) = point.kept, point.removed
        axes.plot(x_ends, [y, y], color=ACCENT, linewidth=1.1, alpha=0.55, zorder=3, solid_capstyle="butt")
        axes.plot([x, x], y_ends, color=ACCENT, linewidth=1.1, alpha=0.55, zorder=3, solid_capstyle="butt")
        axes.plot([x], [y], marker="o", markersize=6, color=ACCENT, markeredgewidth=0, zorder=4)
    _label(axes, points, front, _points_per_unit(figure, axes))
    return _svg(figure, "tradeoff")


def curve_svg(name: str, curves: Sequence[Sequence[float]], *, raw: Sequence[Sequence[float]], chance: float) -> str:
    """One attacker's validation score per epoch (a line per seed), over the same attacker on raw video and chance.

    >>> curve_svg("blur-frame", [[0.6, 0.7, 0.71]], raw=[[0.8, 0.9, 0.95]], chance=0.58)
    '<svg …>'
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(2.6, 1.5))
    axes = figure.add_axes((0.13, 0.17, 0.85, 0.8))
    longest = max((len(curve) for curve in (*curves, *raw)), default=1)
    axes.set(xlim=(0.6, max(longest, 2) + 0.4), ylim=(-0.03, 1.05))
    _quiet(axes)
    axes.set_yticks((0, 0.5, 1), labels=("0", "50", "100"))
    axes.set_xticks((1, max(longest, 2)))
    if math.isfinite(chance):
        axes.axhline(chance, color=MUTED, linewidth=0.8, dashes=(2, 2))
    for group, colour, width in ((raw, MUTED, 0.8), (curves, ACCENT, 1.4)):
        for curve in group:
            axes.plot(range(1, len(curve) + 1), curve, color=colour, linewidth=width, alpha=0.9)
    for curve in curves:
        defined = [epoch for epoch, value in enumerate(curve) if math.isfinite(value)]
        if defined:  # the epoch whose network was tested
            best = max(defined, key=lambda epoch: curve[epoch])
            axes.plot([best + 1], [curve[best]], marker="o", markersize=3.2, color=ACCENT, markeredgewidth=0)
    return _svg(figure, name)


def _quiet(axes: Axes) -> None:
    """Hairlines instead of a frame."""
    axes.patch.set_visible(False)
    axes.set_axisbelow(True)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set(color=HAIR, linewidth=0.8)
    axes.tick_params(length=0, labelcolor=MUTED, labelsize=8, pad=4)
    axes.xaxis.label.set(color=INK, fontsize=9)
    axes.yaxis.label.set(color=INK, fontsize=9)


def _draw_front(axes: Axes, points: Sequence[Point]) -> list[tuple[float, float]]:
    """The staircase of points that no other beats, and the area that NHV measures below it; its corners come back."""
    from sfumato.evaluation.metrics import REFERENCE, pareto_front

    front = [
        (points[i].kept[0], points[i].removed[0]) for i in pareto_front([(p.kept[0], p.removed[0]) for p in points])
    ]
    xs, ys = [REFERENCE[0]], [front[0][1]]
    for (x, _), after in zip(front, [*(y for _, y in front[1:]), REFERENCE[1]], strict=True):
        xs += [x, x]
        ys += [ys[-1], after]
    axes.fill_between(xs, ys, REFERENCE[1], color=ACCENT, alpha=0.07, linewidth=0, zorder=1)
    axes.plot(xs, ys, color=ACCENT, linewidth=1, alpha=0.6, dashes=(4, 2), zorder=2)
    return list(zip(xs, ys, strict=True))


def _label(
    axes: Axes, points: Sequence[Point], front: Sequence[tuple[float, float]], scale: tuple[float, float]
) -> None:
    """Write each name where it covers the least of points, whiskers, the front and earlier names."""
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    frame = _stroke((left, bottom), (right, top), scale, width=0)
    taken = _obstacles(points, front, scale)
    for p in points:
        x, y = p.kept[0] * scale[0], p.removed[0] * scale[1]
        spots = _spots(x, y, width=0.58 * LABEL_SIZE * len(p.label), height=1.15 * LABEL_SIZE)
        best = min(spots, key=lambda box: sum(_overlap(box, other) for other in taken) + 3 * _outside(box, frame))
        taken.append(best)
        centre = ((best[0] + best[2]) / 2 - x, (best[1] + best[3]) / 2 - y)
        axes.annotate(
            p.label, (p.kept[0], p.removed[0]), centre, textcoords="offset points", ha="center", va="center",
            color=INK, fontsize=LABEL_SIZE, zorder=5, parse_math=False,
        )  # fmt: skip


def _obstacles(points: Sequence[Point], front: Sequence[tuple[float, float]], scale: tuple[float, float]) -> list[Box]:
    """What a name should not cover, in typographic points."""
    taken = [_stroke((0.92, 1), (1, 1), scale, width=12)]  # the word "ideal" and its star
    taken += [_stroke(a, b, scale) for a, b in pairwise(front)]
    for p in points:
        (x, *x_ends), (y, *y_ends) = p.kept, p.removed
        taken.append(_stroke((x, y), (x, y), scale, width=8))
        taken.append(_stroke((x_ends[0], y), (x_ends[1], y), scale))
        taken.append(_stroke((x, y_ends[0]), (x, y_ends[1]), scale))
    return taken


def _points_per_unit(figure: Figure, axes: Axes) -> tuple[float, float]:
    """Typographic points per unit of x and of y."""
    width, height = figure.get_size_inches() * 72
    box, (left, right), (bottom, top) = axes.get_position(), axes.get_xlim(), axes.get_ylim()
    return width * box.width / (right - left), height * box.height / (top - bottom)


def _stroke(a: tuple[float, float], b: tuple[float, float], scale: tuple[float, float], width: float = 2) -> Box:
    """The box of an upright or level line between two places of the plot, in typographic points."""
    (left, right), (bottom, top) = sorted((a[0], b[0])), sorted((a[1], b[1]))
    half = width / 2
    return left * scale[0] - half, bottom * scale[1] - half, right * scale[0] + half, top * scale[1] + half


def _around(x: float, y: float, width: float, height: float) -> Box:
    return x - width / 2, y - height / 2, x + width / 2, y + height / 2


def _spots(x: float, y: float, width: float, height: float) -> list[Box]:
    """Where a label of that size may stand beside (x, y), the best-looking places first, near before far."""
    directions = ((1, 1), (1, -1), (-1, 1), (-1, -1), (0, 1), (0, -1), (1, 0), (-1, 0))
    return [
        _around(x + dx * (width / 2 + gap), y + dy * (height / 2 + gap), width, height)
        for gap in (4, 9, 16, 26)
        for dx, dy in directions
    ]


def _overlap(a: Box, b: Box) -> float:
    width, height = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    return max(0.0, width) * max(0.0, height)


def _outside(box: Box, frame: Box) -> float:
    return (box[2] - box[0]) * (box[3] - box[1]) - _overlap(box, frame)


def _svg(figure: Figure, name: str) -> str:
    """The figure as an inline <svg> element: no prologue, no metadata, ids prefixed with `name`."""
    import matplotlib

    buffer = io.StringIO()
    nothing: dict[str, Any] = {"Date": None, "Creator": None, "Format": None, "Type": None}
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "sfumato", "font.family": "sans-serif"}):
        figure.savefig(buffer, format="svg", transparent=True, metadata=nothing)
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    for pattern, replacement in (
        (r"<metadata>.*?</metadata>|<!--.*?-->", ""),
        (r'<svg [^>]*?(viewBox="[^"]*")[^>]*>', r'<svg class="plot" \1>'),
        (r"xlink:href=", "href="),
        (r'<g id="[^"]*"', "<g"),  # nobody refers to groups
        (r" font-family: [^;]*;", ""),  # the page's font
        (r'\bid="', f'id="{name}-'),
        (r'href="#', f'href="#{name}-'),
        (r"url\(#", f"url(#{name}-"),
        # The style block would hold for the whole page; what it says is in the page's own style.
        (r"<style[^>]*>.*?</style>", ""),
        (r"\n\s*", "\n"),
    ):
        text = re.sub(pattern, replacement, text, flags=re.DOTALL)
    for colour, variable in VARIABLES.items():
        text = text.replace(colour, variable)
    return text.strip()
