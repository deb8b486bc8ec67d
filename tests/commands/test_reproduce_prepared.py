"""`sfumato reproduce` from what `sfumato data prepare` made."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from sfumato.commands import miniatures
from sfumato.commands import reproduce as command
from sfumato.commands.prepare import prepare
from sfumato.commands.published import PublishedRecipe, find_recipe, read_published, under
from sfumato.commands.rehearsal import rehearsed
from sfumato.evaluation import scoring

NAME = "spact-vp-hmdb51"


@pytest.fixture
def few_videos(monkeypatch: pytest.MonkeyPatch) -> None:
    """Too few to judge by."""
    for name, count in (("TRAIN", 6), ("TEST", 2), ("LABELLED", 4)):
        monkeypatch.setattr(miniatures, name, count)


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PublishedRecipe:
    """A recipe made small, with its data under `data`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(scoring, "SAMPLES", 60)
    small = rehearsed(read_published(find_recipe(NAME)), tmp_path / "data")
    monkeypatch.setattr(command, "read_published", lambda path: small)
    return small


def prepared(recipe: PublishedRecipe, shards: int | None = None, **options: Any) -> None:
    """Prepare the data, and let nothing but the copy be there."""
    prepare(under(recipe.data["action"], Path("data")), Path("small/hmdb51"), shards=shards, workers=1, **options)
    shutil.rmtree("data")


@pytest.mark.parametrize("shards", [pytest.param(None, marks=pytest.mark.nightly), 2])
def test_a_recipe_runs_from_a_prepared_copy(
    recipe: PublishedRecipe, shards: int | None, sfumato: Any, trained: list[str]
) -> None:
    prepared(recipe, shards, short_side=32)
    told = ["reproduce", NAME, "--data-root", "small", "--out", "runs", "--strict", "--json", "result.json"]
    run = sfumato(*told)
    assert run.code == 0, run.err
    assert "left out" not in run.err and trained == ["action", "video"] * 2
    rows = json.loads(Path("result.json").read_text())["rows"]
    assert len(rows) == 6 and all(row["ours"] is not None for row in rows)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"short_side": 16}, "'small/hmdb51' holds pictures of short side 16, not 32: ask for a smaller size, or prep"),
        ({"short_side": 32, "fps": 10}, "'small/hmdb51' holds videos brought to 10 frames per second, and their own"),
        ({"short_side": 16, "shards": 2}, "'small/hmdb51' holds pictures of short side 16, not 32: "),
        ({"short_side": 32, "fps": 10, "shards": 2}, "brought to 10 frames per second"),
    ],
)
def test_a_copy_made_for_something_else_is_refused_before_anything_is_done(
    few_videos: None, recipe: PublishedRecipe, options: dict[str, Any], complaint: str, sfumato: Any, trained: list[str]
) -> None:
    prepared(recipe, **options)
    assert complaint in sfumato("reproduce", NAME, "--data-root", "small", "--out", "runs").error
    assert not trained and not Path("runs").exists()
