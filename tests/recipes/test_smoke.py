"""Every published recipe from its generated files to its table: the quick suite plays one of each kind, a night all."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from sfumato.commands.published import RAW, read_published
from sfumato.commands.reproduce import SMOKE, reproduce
from sfumato.evaluation import scoring

FOLDER = Path(__file__).parents[2] / "recipes" / "published"
# SPAct from end to end is in tests/commands/test_reproduce.py.
QUICK = (
    "vita-vp-hmdb51",
    "stprivacy-pa-hmdb51",
    "laf-no-patch-embedding",
    "splavu-vp-hmdb51-supervised",  # from videos through an encoder
    "baselines-celebv-hq",
)
REST = sorted({path.stem for path in FOLDER.glob("*.toml")} - {*QUICK})


@pytest.fixture(autouse=True)
def fewer_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "SAMPLES", 60)


def smoke(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = read_published(FOLDER / f"{name}.toml")
    reproduce(str(FOLDER / f"{name}.toml"), data_root=None, smoke=True, json_file=tmp_path / "result.json")
    shown = capsys.readouterr().out
    assert SMOKE in shown and f"{name}: {recipe.paper}" in shown
    told = json.loads((tmp_path / "result.json").read_text())
    assert (told["recipe"], told["smoke"], told["not_yet"]) == (name, True, recipe.not_yet)
    expected = [
        (judge.published.table, who, metric, number, bool(judge.not_yet or recipe.not_yet))
        for judge in recipe.judge for who, row in judge.published.rows.items() for metric, number in row.items()
    ]  # fmt: skip
    assert len(told["rows"]) == len(expected)
    for row, (table, who, metric, number, idle) in zip(told["rows"], expected, strict=True):
        assert (row["table"], row["row"], row["metric"], row["paper"]) == (table, who, metric, number)
        if idle or who.endswith("-people"):
            assert row["ours"] is None
        else:
            assert math.isfinite(row["ours"]) and math.isfinite(row["chance"])
            assert who != RAW or row["ours"] == row["ours_raw"]


@pytest.mark.parametrize("name", QUICK)
def test_one_recipe_of_each_kind_plays_from_end_to_end(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    smoke(name, tmp_path, capsys)


@pytest.mark.nightly
@pytest.mark.parametrize("name", REST)
def test_every_other_recipe_plays_from_end_to_end(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    smoke(name, tmp_path, capsys)
