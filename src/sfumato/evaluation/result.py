"""The one result schema: what the command's table, the HTML report and the studio all read.

Every score carries its value, its 95% interval, its chance line and what raw video gives. NaN is written as null. A field
with a default may be missing from a file: it was not known yet when that was written.
"""

from __future__ import annotations

import json
import math
from dataclasses import MISSING, asdict, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from sfumato.errors import SfumatoError
from sfumato.writing import sealed, unsealed, write_whole

SCHEMA = "sfumato-result/1"


@dataclass
class Score:
    """A number with everything needed to believe it. `low`, `high`: 95% interval; NaN where none can be given.

    intervals: where there are test persons enough, the intervals over "videos" and over "persons", of which `low` and
    `high` are the wider one; empty: they are over videos.
    """

    value: float
    low: float
    high: float
    chance: float
    raw: float
    intervals: dict[str, list[float]] = field(default_factory=dict)


@dataclass
class Leakage:
    """Residual leakage (score − chance)/(raw − chance): 1 is no protection, 0 is perfect.

    verdict: "measured", or "inconclusive" where the attacker does not reach its floor on raw video. intervals: as of a
    score.
    """

    value: float
    low: float
    high: float
    verdict: str
    intervals: dict[str, list[float]] = field(default_factory=dict)


def _unmeasured() -> Leakage:
    return Leakage(math.nan, math.nan, math.nan, "inconclusive")


@dataclass
class AttributeScore:
    """One attribute under one attacker: average precision, and F1 on probabilities with its own chance lines.

    F1 is the mean over seeds. The leakage is inconclusive where this attacker does not reach its floor on raw video for
    this very attribute, whatever it does on the others.
    """

    name: str
    ap: Score
    f1: float
    macro_f1: float
    always_yes_f1: float
    coin_f1: float
    raw_f1: float = math.nan
    leakage: Leakage = field(default_factory=_unmeasured)
    f1_gain: float = math.nan  # over a coin's answers; "yes" to everything gains too: always_yes_f1 − coin_f1
    ap_gain: float = math.nan  # over the prevalence, which everybody has who does not look


@dataclass
class Measure:
    """What an attacker measured besides its score, such as the PSNR of what it reconstructed; `chance`: without looking."""

    name: str
    score: Score


@dataclass
class AttackResult:
    """One attacker against one anonymizer. `curve`: its validation score after every epoch, per seed.

    late_gain: what the last quarter of the epochs added to the best validation score, over seeds. Where it is large more
    epochs would have helped; where it is 0 they may have all the same, as the rate falls to nothing. NaN where there were
    too few to tell.
    """

    attacker: str
    target: str
    level: str
    recognizer: str
    metric: str
    score: Score
    leakage: Leakage
    floor: float
    validation: float
    per_seed: list[float]
    curve: list[list[float]]
    attributes: list[AttributeScore] = field(default_factory=list)
    measures: list[Measure] = field(default_factory=list)
    late_gain: float = math.nan


@dataclass
class Strongest:
    """The headline for one target: the attacker(s) strongest on validation, reported on test."""

    target: str
    attackers: list[str]
    score: Score
    leakage: Leakage


@dataclass
class Reader:
    """What one of several f'_T makes of the action. kept: its score above chance, relative to its own on raw video.

    kept.verdict: "measured", or "inconclusive" where this network does not reach its floor on raw video.
    """

    recognizer: str
    score: Score
    kept: Leakage
    per_seed: list[float]
    curve: list[list[float]]


@dataclass
class Line:
    """One anonymizer under one judge. readers: of the action, where there are several; the first one is `utility`'s."""

    anonymizer: str
    utility: Score
    utility_per_seed: list[float]
    attacks: list[AttackResult]
    strongest: list[Strongest]
    headline: Leakage
    nhv: float
    readers: list[Reader] = field(default_factory=list, kw_only=True)


@dataclass
class Difference:
    """`first` − `second` in `what`, the action's top-1 or the residual leakage of a target, on the same resamples.

    distinct: the interval does not hold 0. intervals: as of a score.
    """

    first: str
    second: str
    what: str
    value: float
    low: float
    high: float
    distinct: bool
    intervals: dict[str, list[float]] = field(default_factory=dict)


@dataclass
class Result:
    """A whole judgement: what was judged, on what, with what, and one line per anonymizer.

    differences: of every two anonymizers, raw left out; pareto: those that no other beats both in what it keeps and in
    what it hides.
    """

    protocol: str
    data: str
    actions: int
    persons: int
    test_clips: int
    test_persons: int
    seeds: list[int]
    models: dict[str, str]
    epochs: int
    hardware: str
    versions: dict[str, str]
    commit: str
    lines: list[Line]
    notes: list[str] = field(default_factory=list)
    schema: str = SCHEMA
    effort: str = "standard"
    differences: list[Difference] = field(default_factory=list)
    pareto: list[str] = field(default_factory=list)

    def save(self, path: Path) -> None:
        """Write as JSON with a checksum of its content, whole or not at all."""
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, sealed(asdict(self)))

    @staticmethod
    def load(path: Path) -> Result:
        """Read a result; anything that is not one, or is not as it was written, is refused by name."""
        try:
            stored = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise SfumatoError(f"cannot read a result from '{path}'", str(error)) from None
        if not isinstance(stored, dict) or stored.get("schema") != SCHEMA:
            raise SfumatoError(f"'{path}' is no result of schema {SCHEMA}", "judge again with this version")
        content = unsealed(stored, path, "judge again")
        try:
            found: Result = _build(Result, content)
        except (KeyError, TypeError, ValueError) as error:
            raise SfumatoError(f"'{path}' is damaged ({error})", "judge again") from None
        return found


def _build(kind: Any, value: Any) -> Any:
    """Plain JSON back into the dataclasses, by their type hints."""
    if isinstance(kind, type) and is_dataclass(kind):
        hints = get_type_hints(kind)
        needed = {f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING}
        there = [f.name for f in fields(kind) if f.name in value or f.name in needed]
        return kind(**{name: _build(hints[name], value[name]) for name in there})
    if get_origin(kind) is list:
        return [_build(get_args(kind)[0], v) for v in _checked(value, list)]
    if get_origin(kind) is dict:
        return {name: _build(get_args(kind)[1], v) for name, v in _checked(value, dict).items()}
    if kind is float:
        return math.nan if value is None else float(value)
    return _checked(value, kind)


def _checked(value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        raise TypeError(f"{value!r} is no {kind.__name__}")
    return value
