"""A result made by hand: raw video, a weak and a strong anonymizer, one undefined and one inconclusive."""

from __future__ import annotations

import math
from typing import Any

import pytest

from sfumato.evaluation.result import AttackResult, AttributeScore, Leakage, Line, Result, Score, Strongest
from sfumato.report import html, plots

CURVES: dict[str, str] = {}
ATTRIBUTES = ("face", "skin", "gender", "nudity", "relationship")
CHANCE = {"action": 0.1, "attributes": 0.58, "identity": 0.05}
RAW = {"action": 0.944, "attributes": 0.95, "identity": 0.98}
ATTACKERS = {"frame": "attributes", "video": "attributes", "identity": "identity", "identity-frames": "identity"}


def _score(target: str, value: float, width: float = 0.02) -> Score:
    return Score(value, value - width, value + width, CHANCE[target], RAW[target])


def _leakage(target: str, value: float, verdict: str) -> Leakage:
    residual = (value - CHANCE[target]) / (RAW[target] - CHANCE[target])
    return Leakage(residual, residual - 0.03, residual + 0.03, verdict)


def _attributes(cmap: float) -> list[AttributeScore]:
    scores = [_score("attributes", cmap + 0.01 * (i - 2)) for i in range(len(ATTRIBUTES))]
    found = [AttributeScore(name, ap, 0.81, 0.72, 0.73, 0.54) for name, ap in zip(ATTRIBUTES, scores, strict=True)]
    found[3].f1 = math.nan
    return found


def _attack(name: str, value: float, verdict: str) -> AttackResult:
    target = ATTACKERS[name]
    attributes = target == "attributes"
    curve = [value * (1 - 0.5**epoch) for epoch in range(1, 9)]
    return AttackResult(
        name, target, "frame" if "frame" in name else "video", "tiny", "cMAP" if attributes else "top-1",
        _score(target, value), _leakage(target, value, verdict), 0.5, value, [value, value], [curve, curve[::-1]],
        _attributes(value) if attributes else [],
    )  # fmt: skip


def make_line(name: str, action: float, cmap: float, identity: float, nhv: float, weak: tuple[str, ...] = ()) -> Line:
    """One line whose attackers on the `weak` targets do not reach their floor."""
    values = {"attributes": cmap, "identity": identity}
    verdicts = {target: "inconclusive" if target in weak else "measured" for target in values}
    best = {"attributes": ["frame", "video"], "identity": ["identity"]}
    attacks = [_attack(a, values[t], verdicts[t]) for a, t in ATTACKERS.items()]
    strongest = [Strongest(t, best[t], _score(t, v), _leakage(t, v, verdicts[t])) for t, v in values.items()]
    worst = max(strongest, key=lambda s: s.leakage.value).leakage
    headline = Leakage(worst.value, worst.low, worst.high, "inconclusive" if weak else "measured")
    return Line(name, _score("action", action), [action, action], attacks, strongest, headline, nhv)


def make_result() -> Result:
    """Raw video, three measured anonymizers and one that is inconclusive."""
    lines = [
        make_line("identity", 0.944, 0.95, 0.98, 0.0),
        make_line("downsample:factor=4", 0.913, 0.92, 0.914, 0.067),
        make_line("blur", 0.80, 0.76, 0.45, 0.42),
        make_line("strong-blur-people", 0.40, 0.66, 0.20, 0.27),
        make_line("noise", 0.5, 0.70, 0.06, math.nan, weak=("identity",)),
    ]
    lines[3].utility.low = lines[3].utility.high = math.nan
    lines[0].headline = Leakage(1.0, 1.0, 1.0, "measured")
    return Result(
        "known", "theatre:small", 10, 20, 240, 6, [0, 1], {"action": "tiny-video", "frame": "tiny-frame"}, 8,
        "Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz, 2 threads", {"python": "3.11.2", "torch": "2.13.0"},
        "0123456789ab", lines, ["only 6 test persons for the action: intervals are over clips, not over persons"],
    )  # fmt: skip


@pytest.fixture(autouse=True)
def curves_drawn_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page has twenty learning curves, most pages the same: each is drawn once. Tests of plots draw for themselves."""

    def curve_svg(*of: Any, **more: Any) -> str:
        about = str((of, more))
        if about not in CURVES:
            CURVES[about] = plots.curve_svg(*of, **more)
        return CURVES[about]

    monkeypatch.setattr(html, "curve_svg", curve_svg)


@pytest.fixture
def result() -> Result:
    """A result that a test may change."""
    return make_result()


@pytest.fixture(scope="session")
def unchanged() -> Result:
    """The same result, shared: not to be changed."""
    return make_result()
