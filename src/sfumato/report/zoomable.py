"""The trade-off as an SVG to zoom into: points, names and ticks keep their size, so that what is crowded comes apart.

The SVG is whole without the page's script, which only moves its viewBox and what is marked `fixed`.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from sfumato.report.plots import Point

WIDTH, HEIGHT = 720, 540
LETTER, LINE = 6.2, 13  # pixels of a name: a letter's width, a line's height
Box = tuple[float, float, float, float]


def zoomable_svg(points: Sequence[Point], front: Sequence[int]) -> str:
    """Utility kept (to the right) against leakage removed (up); `front`: the points no other beats, by growing utility.

    Points whose leakage is `bounded` are hollow.

    >>> zoomable_svg([Point("blur", (0.8, 0.75, 0.85), (0.5, 0.45, 0.55))], [0])
    '<svg …>'
    """
    boxes = [_around(_x(p.kept[0]), _y(p.removed[0])) for p in points]
    # Those on the front are named first: they must not lose their place to others.
    order = [*front, *(n for n in range(len(points)) if n not in front)]
    drawn = [_point(points[n], n in front, boxes) for n in order]
    return "\n".join([
        f'<svg class="plot zoomable" viewBox="0 0 {WIDTH} {HEIGHT}" data-width="{WIDTH}" data-height="{HEIGHT}">',
        *_grid(), _staircase([points[n] for n in front]), *drawn, "</svg>",
    ])  # fmt: skip


def _x(kept: float) -> float:
    return round(WIDTH * (kept + 0.07) / 1.14, 1)


def _y(removed: float) -> float:
    return round(HEIGHT * (1.07 - removed) / 1.14, 1)


def _grid() -> list[str]:
    """A line for every tenth, and its name at the edge, where the script keeps it."""
    lines = []
    for tenth in range(11):
        x, y, name = _x(tenth / 10), _y(tenth / 10), f"{10 * tenth}%"
        lines += [
            f'<path class="hair" d="M{x} 0V{HEIGHT}M0 {y}H{WIDTH}"></path>',
            f'<g class="fixed tick" data-x="{x}" transform="translate({x} {HEIGHT})"><text x="3" y="-6">{name}</text></g>',
            f'<g class="fixed tick" data-y="{y}" transform="translate(0 {y})"><text x="4" y="-3">{name}</text></g>',
        ]
    return lines


def _staircase(front: Sequence[Point]) -> str:
    """The edge of what the front dominates, from the left axis to the bottom."""
    if not front:
        return ""
    steps = [f"M{_x(0)} {_y(front[0].removed[0])}"]
    for point, after in zip(front, [*(p.removed[0] for p in front[1:]), 0.0], strict=True):
        steps.append(f"H{_x(point.kept[0])}V{_y(after)}")
    return f'<path class="front" d="{"".join(steps)}H{_x(0)}"></path>'


def _point(point: Point, best: bool, boxes: list[Box]) -> str:
    (x, *x_ends), (y, *y_ends) = map(_x, point.kept), map(_y, point.removed)
    spot = _free_spot(x, y, LETTER * len(point.label), boxes)
    side, dx, dy = spot or ("start", 7.0, 4.0)
    kinds = " ".join(["point", *["best"] * best, *["bounded"] * point.bounded, *["crowded"] * (not spot)])
    removed = "leakage removed at most" if point.bounded else "leakage removed"
    numbers = ", ".join(
        f"{what} {100 * value:.1f}% [{100 * low:.1f}–{100 * high:.1f}]"
        for what, (value, low, high) in (("utility kept", point.kept), (removed, point.removed))
    )
    return (
        f'<g class="{kinds}"><path class="whisker" d="M{x_ends[0]} {y}H{x_ends[1]}M{x} {y_ends[0]}V{y_ends[1]}"></path>'
        f'<g class="fixed" data-x="{x}" data-y="{y}" transform="translate({x} {y})"><circle r="4"></circle>'
        f'<text x="{dx:g}" y="{dy:g}" text-anchor="{side}">{escape(point.label)}</text>'
        f"<title>{escape(point.label)}: {numbers}</title></g></g>"
    )


def _free_spot(x: float, y: float, width: float, boxes: list[Box]) -> tuple[str, float, float] | None:
    """Where a name stands beside its point, taken from then on: anchor and offset; None where all places are taken."""
    for side, dx, dy, left in (
        ("start", 7.0, 4.0, 7.0), ("end", -7.0, 4.0, -7.0 - width), ("middle", 0.0, -8.0, -width / 2),
        ("middle", 0.0, 17.0, -width / 2),
    ):  # fmt: skip
        box = (x + left, y + dy - LINE + 2, x + left + width, y + dy + 2)
        inside = box[0] >= 0 and box[2] <= WIDTH and box[1] >= 0 and box[3] <= HEIGHT
        if inside and not any(_meet(box, other) for other in boxes):
            boxes.append(box)
            return side, dx, dy
    return None


def _around(x: float, y: float) -> Box:
    """A point itself."""
    return x - 4, y - 4, x + 4, y + 4


def _meet(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
