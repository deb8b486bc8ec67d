"""The plot that can be zoomed: every point at its place, names that do not cover each other."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from sfumato.report.plots import Point
from sfumato.report.zoomable import HEIGHT, WIDTH, zoomable_svg


def at(label: str, kept: float, removed: float) -> Point:
    return Point(label, (kept, kept - 0.05, kept + 0.05), (removed, removed - 0.1, removed + 0.1))


def places(svg: str) -> dict[str, tuple[float, float]]:
    """Every point's place, by its name."""
    found = {}
    for group in ElementTree.fromstring(svg).iter("g"):
        text = group.find("text")
        if text is not None and {"data-x", "data-y"} <= set(group.keys()):
            found[str(text.text)] = (float(group.attrib["data-x"]), float(group.attrib["data-y"]))
    return found


def test_more_kept_is_to_the_right_and_more_removed_above() -> None:
    svg = zoomable_svg([at("blur", 0.5, 0.5), at("a <b> & c", 0.75, 0.75)], [1])
    found = places(svg)
    (x, y), (right, above) = found["blur"], found["a <b> & c"]
    assert right > x and above < y
    # A quarter of what is kept is as far everywhere: 0 and 1 are both inside, with room beside them.
    assert x - 2 * (right - x) > 0 and x + 2 * (right - x) < WIDTH
    assert y - 2 * (y - above) > 0 and y + 2 * (y - above) < HEIGHT
    assert f'data-x="{x}" data-y="{y}" transform="translate({x} {y})"' in svg


def test_points_and_names_keep_their_size_and_the_front_is_marked() -> None:
    svg = zoomable_svg([at("blur", 0.5, 0.5), at("mosaic", 0.6, 0.7)], [1])
    tree = ElementTree.fromstring(svg)
    kinds = [group.attrib["class"] for group in tree.iter("g") if "point" in group.attrib["class"]]
    assert kinds == ["point best", "point"]
    # Everything that is written or round is in a group that the page's script keeps at its size.
    fixed = [group for group in tree.iter("g") if "fixed" in group.attrib["class"].split()]
    inside = sum(len(group.findall("text")) + len(group.findall("circle")) for group in fixed)
    assert inside == len(list(tree.iter("text"))) + len(list(tree.iter("circle"))) == 22 + 2 * 2
    assert tree.attrib["viewBox"] == f"0 0 {WIDTH} {HEIGHT}" and tree.attrib["data-width"] == str(WIDTH)
    assert "mosaic: utility kept 60.0% [55.0–65.0], leakage removed 70.0% [60.0–80.0]" in svg


def test_the_staircase_goes_through_the_front() -> None:
    svg = zoomable_svg([at("a", 0.2, 0.9), at("b", 0.8, 0.3)], [0, 1])
    (ax, ay), (bx, by) = places(svg)["a"], places(svg)["b"]
    path = re.search(r'class="front" d="([^"]*)"', svg)
    assert path is not None and f"{ay}H{ax}V{by}H{bx}V" in path.group(1)


def test_names_without_room_wait_until_one_comes_nearer() -> None:
    crowd = [at(f"anonymizer {n}", 0.5 + n / 1000, 0.5) for n in range(8)]
    svg = zoomable_svg(crowd, [7])
    hidden = svg.count("crowded")
    assert 0 < hidden < 8
    best = next(line for line in svg.splitlines() if "anonymizer 7<" in line)
    assert "best" in best and "crowded" not in best  # the front is named first
    assert "crowded" not in zoomable_svg([at("a", 0.2, 0.9), at("b", 0.8, 0.3)], [0, 1])
