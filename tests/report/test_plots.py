"""Plots: light, deterministic, with ids of their own, text as text, and no state left behind."""

from __future__ import annotations

import math
import re
import sys

import matplotlib

from sfumato.report.plots import Point, curve_svg, tradeoff_svg

POINTS = [
    Point("raw video", (1.0, 0.97, 1.0), (0.0, 0.0, 0.02)),
    Point("downsample", (0.98, 0.95, 1.0), (0.03, 0.0, 0.06)),
    Point("pixelate", (0.97, 0.94, 1.0), (0.05, 0.02, 0.08)),
    Point("blur", (0.6, 0.55, 0.65), (0.7, 0.66, 0.74)),
]


def texts(svg: str) -> list[tuple[float, float, str]]:
    return [
        (float(x), float(y), text)
        for x, y, text in re.findall(r'<text [^>]*? x="(.*?)" y="(.*?)"[^>]*>(.*?)</text>', svg)
    ]


def test_equal_input_gives_equal_bytes() -> None:
    assert tradeoff_svg(POINTS) == tradeoff_svg(POINTS)
    assert curve_svg("a", [[0.5, 0.6]], raw=[], chance=0.1) == curve_svg("a", [[0.5, 0.6]], raw=[], chance=0.1)


def test_plots_are_light_and_refer_to_nothing_outside() -> None:
    curve = curve_svg("a", [[0.5] * 60] * 3, raw=[[0.9] * 60] * 3, chance=0.1)
    for svg in (tradeoff_svg(POINTS), curve):
        assert svg.startswith("<svg class=")
        assert len(svg) < 60_000
        assert "http" not in svg
        assert "#0" not in svg  # the stand-in colours are all replaced
        assert "font-family" not in svg


def test_ids_are_unique_and_every_reference_is_met() -> None:
    page = tradeoff_svg(POINTS) + "".join(curve_svg(f"curve-{i}", [[0.5, 0.6]], raw=[], chance=0.1) for i in range(2))
    ids = re.findall(r'\bid="([^"]+)"', page)
    used = set(re.findall(r'url\(#([^)]+)\)|href="#([^"]+)"', page))
    assert ids
    assert len(ids) == len(set(ids))
    assert {a or b for a, b in used} <= set(ids)


def test_names_are_written_as_they_are() -> None:
    svg = tradeoff_svg([Point("$x$ <script>&", (0.5, 0.5, 0.5), (0.5, 0.5, 0.5))])
    assert "$x$ &lt;script&gt;&amp;" in svg
    assert "<script" not in svg


def test_names_of_close_points_do_not_cover_each_other() -> None:
    names = [(x, y, text) for x, y, text in texts(tradeoff_svg(POINTS)) if text in {p.label for p in POINTS}]
    assert len(names) == len(POINTS)
    for i, (x, y, text) in enumerate(names):
        for other_x, other_y, other in names[:i]:
            room = 0.5 * 8.5 * (len(text) + len(other)) / 2
            assert abs(x - other_x) >= room or abs(y - other_y) >= 8.5, (text, other)


def test_undefined_epochs_leave_a_gap() -> None:
    whole = curve_svg("a", [[0.2, 0.4, 0.6]], raw=[], chance=math.nan)
    broken = curve_svg("a", [[0.2, math.nan, 0.6]], raw=[], chance=math.nan)
    assert "nan" not in broken
    assert broken.count("\nL ") == whole.count("\nL ") - 2
    assert "nan" not in curve_svg("a", [[math.nan, math.nan]], raw=[], chance=math.nan)


def test_the_tested_epoch_is_marked() -> None:
    def dot(curve: list[float]) -> float:
        return float(re.findall(r'<use [^>]*x="(.*?)"', curve_svg("a", [curve], raw=[], chance=0.1))[-1])

    assert dot([0.9, 0.5, 0.4]) < dot([0.5, 0.9, 0.4]) < dot([0.4, 0.5, 0.9])


def test_settings_of_matplotlib_are_left_alone() -> None:
    before = dict(matplotlib.rcParams)
    loaded = "matplotlib.pyplot" in sys.modules
    tradeoff_svg(POINTS)
    assert dict(matplotlib.rcParams) == before
    assert ("matplotlib.pyplot" in sys.modules) == loaded
