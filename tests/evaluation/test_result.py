from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from sfumato.errors import SfumatoError
from sfumato.evaluation.certificate import Certificate
from sfumato.evaluation.result import (
    SCHEMA,
    AttackResult,
    AttributeScore,
    Difference,
    Leakage,
    Line,
    Measure,
    Result,
    Score,
    Strongest,
)
from sfumato.writing import sealed

NAN = math.nan
RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
COMMITTED = {path.name: json.loads(path.read_text()) for path in sorted(RESULTS.glob("*.json"))}


def result() -> Result:
    score = Score(0.7, 0.6, 0.8, 0.5, 0.9, {"videos": [0.65, 0.75], "persons": [0.6, 0.8]})
    attribute = AttributeScore("face", score, NAN, 0.4, 0.3, 0.2, f1_gain=0.25, ap_gain=-0.125)
    attack = AttackResult(
        "frame", "attributes", "frame", "tiny-frame", "cMAP", score, Leakage(0.5, 0.4, 0.6, "measured"), 0.5, 0.71,
        [0.7, 0.69], [[0.5, NAN], [0.6, 0.7]], [attribute], [Measure("PSNR", Score(21.5, 20.0, 23.0, NAN, 100.0))],
    )  # fmt: skip
    nothing = Leakage(NAN, NAN, NAN, "inconclusive", {"videos": [NAN, NAN], "persons": [NAN, 0.5]})
    line = Line(
        "downsample:factor=16", score, [0.7], [attack], [Strongest("attributes", ["frame"], score, nothing)], nothing,
        NAN,
    )  # fmt: skip
    return Result(
        "known", "theatre:small", 10, 22, 400, 8, [0, 1], {"frame": "tiny-frame"}, 6, "a laptop", {"torch": "2"}, "abc",
        [line], ["a note"], effort="quick", pareto=["downsample:factor=16"],
        differences=[Difference("blur", "pixelate", "action", 0.1, -0.1, 0.3, False)],
    )  # fmt: skip


def same(a: Any, b: Any) -> bool:
    """Equal, NaN being equal to NaN."""
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    return (isinstance(a, float) and math.isnan(a) and math.isnan(b)) or (type(a) is type(b) and a == b)


def test_a_result_comes_back_as_it_went(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "result.json"
    result().save(path)
    assert [p.name for p in path.parent.iterdir()] == ["result.json"]
    again = Result.load(path)
    assert isinstance(again.lines[0].attacks[0].attributes[0].ap, Score)
    assert same(asdict(again), asdict(result()))


def test_nan_is_written_as_null_and_the_file_is_plain_json(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    result().save(path)

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    stored = json.loads(path.read_text(), parse_constant=refuse)
    assert stored["schema"] == "sfumato-result/1"
    line = stored["lines"][0]
    assert line["nhv"] is None and line["headline"]["value"] is None
    assert line["attacks"][0]["curve"] == [[0.5, None], [0.6, 0.7]]
    assert line["attacks"][0]["attributes"][0]["f1"] is None


def test_a_result_from_before_the_gains_and_measures_is_still_read(tmp_path: Path) -> None:
    stored = asdict(result())
    for attribute in stored["lines"][0]["attacks"][0]["attributes"]:
        del attribute["f1_gain"], attribute["ap_gain"]
    del stored["lines"][0]["attacks"][0]["measures"]
    (tmp_path / "r.json").write_bytes(sealed(stored))
    (attack,) = Result.load(tmp_path / "r.json").lines[0].attacks
    (attribute,) = attack.attributes
    assert attack.measures == []
    assert math.isnan(attribute.f1_gain) and math.isnan(attribute.ap_gain)


def test_a_result_that_was_edited_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    result().save(path)
    stored = json.loads(path.read_text())
    assert stored["checksum"].startswith("sha256:")
    path.write_text(json.dumps(stored))  # the same content, laid out otherwise
    assert Result.load(path).notes == ["a note"]
    edits: list[Callable[[dict[str, Any]], object]] = [
        lambda r: r["lines"][0]["utility"].update(value=0.71),
        lambda r: r["lines"][0].update(nhv=0.9),
        lambda r: r["notes"].clear(),
        lambda r: r.update(lines=[]),
        lambda r: r.update(checksum="sha256:00"),
        lambda r: r.update(more="than was written"),
    ]
    for edit in edits:
        edited = copy.deepcopy(stored)
        edit(edited)
        path.write_text(json.dumps(edited))
        with pytest.raises(SfumatoError, match=r"'.*r.json' was changed after it was written.*judge again"):
            Result.load(path)


def test_what_an_older_result_never_had_is_still_unknown_when_it_is_written_again(tmp_path: Path) -> None:
    stored = asdict(result())
    for later in ("effort", "differences", "pareto"):
        del stored[later]
    (attack,) = stored["lines"][0]["attacks"]
    del stored["lines"][0]["utility"]["intervals"], attack["late_gain"], attack["attributes"][0]["raw_f1"]
    (tmp_path / "r.json").write_bytes(sealed(stored))
    old = Result.load(tmp_path / "r.json")
    assert (old.notes, old.effort, old.differences, old.pareto) == (["a note"], "standard", [], [])
    assert old.lines[0].utility.intervals == {} and math.isnan(old.lines[0].attacks[0].late_gain)
    assert math.isnan(old.lines[0].attacks[0].attributes[0].raw_f1)
    old.save(tmp_path / "new.json")
    assert same(asdict(Result.load(tmp_path / "new.json")), asdict(old))


def test_who_takes_the_checksum_out_is_refused(tmp_path: Path) -> None:
    """Once it was only noted, so that whoever edited a number had but to delete a line more."""
    path = tmp_path / "r.json"
    result().save(path)
    stored = json.loads(path.read_text())
    del stored["checksum"]
    stored["lines"][0]["headline"]["value"] = 0.01
    path.write_text(json.dumps(stored))
    with pytest.raises(SfumatoError, match=r"'.*r.json' has no checksum: it was edited, or .*; judge again$"):
        Result.load(path)


@pytest.mark.parametrize("name", [name for name, told in COMMITTED.items() if "schema" in told])
def test_every_committed_result_is_read_again_and_says_the_same(name: str, tmp_path: Path) -> None:
    kind = Result if COMMITTED[name]["schema"] == SCHEMA else Certificate
    first = kind.load(RESULTS / name)
    first.save(tmp_path / name)
    assert same(asdict(kind.load(tmp_path / name)), asdict(first))


def test_no_committed_judgement_is_overlooked() -> None:
    assert {name for name in COMMITTED if name.startswith(("judge_", "benchmark_", "certificate_"))} == {
        name for name, told in COMMITTED.items() if "schema" in told
    }


def change(stored: dict[str, Any], kind: str) -> Any:
    line = stored["lines"][0]
    match kind:
        case "a field is missing":
            del line["utility"]["raw"]
        case "a word for a number":
            line["utility"]["raw"] = "much"
        case "a list for a number":
            line["utility"]["raw"] = []
        case "a number for a word":
            stored["protocol"] = 7
        case "no lines":
            stored["lines"] = None
        case "a word for lines":
            stored["lines"] = "none"
        case "a line that is none":
            stored["lines"] = [3]
        case "models that are none":
            stored["models"] = ["r3d-18"]
    return stored


DAMAGE = (
    "a field is missing", "a word for a number", "a list for a number", "a number for a word", "no lines",
    "a word for lines", "a line that is none", "models that are none",
)  # fmt: skip


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_result_is_refused_by_name(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "r.json"
    path.write_bytes(sealed(change(asdict(result()), kind)))
    with pytest.raises(SfumatoError, match=r"'.*r.json' is damaged .*judge again"):
        Result.load(path)


@pytest.mark.parametrize("content", ['{"schema": "other/1"}', "{}", "[]", "3", "null"])
def test_a_foreign_file_is_refused_by_its_schema(tmp_path: Path, content: str) -> None:
    (tmp_path / "r.json").write_text(content)
    with pytest.raises(SfumatoError, match="is no result of schema sfumato-result/1"):
        Result.load(tmp_path / "r.json")


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", None])
def test_an_unreadable_file_is_refused_by_name(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "r.json").write_bytes(content)
    with pytest.raises(SfumatoError, match=r"cannot read a result from '.*r.json'"):
        Result.load(tmp_path / "r.json")


def test_a_save_that_fails_leaves_the_old_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "r.json"
    result().save(path)
    before = path.read_bytes()

    def broken(self: Path, *args: object, **options: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", broken)
    with pytest.raises(OSError, match="No space"):
        result().save(path)
    assert path.read_bytes() == before
