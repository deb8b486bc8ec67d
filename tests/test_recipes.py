"""Every shipped recipe parses into its method's config, and its header holds the command that runs it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from sfumato.anonymizers import load
from sfumato.methods import find_method
from sfumato.training.options import load_options, read_recipe

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
RECIPES = sorted((ROOT / "recipes").glob("*.toml"))
TRIALS = sorted((ROOT / "benchmarks" / "trials").glob("*.toml"))


def test_there_are_recipes() -> None:
    assert {r.stem for r in RECIPES} >= {"spact-paper", "vita-paper", "tedspad-paper", "penalty-paper"}


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_every_recipe_is_a_config_of_its_method(path: Path) -> None:
    recipe = read_recipe(path)
    assert recipe.method is not None
    load_options(find_method(recipe.method).config, recipe=path)
    assert f"sfumato train --recipe recipes/{path.name}" in path.read_text()


@pytest.mark.parametrize("path", TRIALS, ids=lambda path: path.stem)
def test_every_trial_is_a_config_of_its_method(path: Path) -> None:
    written = tomllib.loads(path.read_text())
    names = [trial["name"] for trial in written["trial"]]
    assert len(names) == len(set(names))
    for trial in written["trial"]:
        assert ("method" in trial) != ("anonymizer" in trial), trial["name"]
        if "anonymizer" in trial:  # nothing is trained
            load(trial["anonymizer"])
            continue
        settings = written.get("common", {}) | trial.get("config", {})
        told = [f"{key}={str(value).lower() if isinstance(value, bool) else value}" for key, value in settings.items()]
        recipe = ROOT / trial["recipe"] if "recipe" in trial else None
        load_options(find_method(trial["method"]).config, recipe=recipe, settings=told)


def test_stprivacy_as_published_has_the_papers_numbers() -> None:
    config = load_options(find_method("stprivacy").config, recipe=ROOT / "recipes" / "stprivacy-paper.toml")
    assert (config.embedding, config.duration, config.keep_ratio) == (384, 2, 0.7)
    assert (config.action_weight, config.budget_weight, config.weight_decay) == (0.5, 0.5, 0.05)
    assert config.anonymizer_rate == config.initialisation_rate == 1e-3 * config.batch / 512
    assert (config.utility, config.budget_models, config.budget_labels) == ("vit-s", "vit-s", "attributes")


def test_spact_as_published_has_the_papers_numbers() -> None:
    config = load_options(find_method("spact").config, recipe=ROOT / "recipes" / "spact-paper.toml")
    assert (config.width, config.utility, config.budget_models) == (64, "r3d-18", "resnet-50")
    assert (config.budget_weight, config.temperature, config.anonymizer_rate) == (1.0, 0.1, 1e-4)
    assert config.levels == 0 and config.sparsity_weight == 0 and config.utility_update == "alternate"
    assert config.utility_dilated and config.anonymizer_norm == config.budget_norm == "batch"


def test_the_other_papers_numbers() -> None:
    def read(name: str) -> Any:
        return load_options(find_method(name).config, recipe=ROOT / "recipes" / f"{name}-paper.toml")

    penalty, tedspad, vita = read("penalty"), read("tedspad"), read("vita")
    assert (penalty.anonymizer_rate, penalty.utility_rate, penalty.budget_rate) == (4e-5, 1e-4, 1e-4)
    assert (penalty.penalty, penalty.penalty_weight, penalty.penalty_limit, penalty.batch) == ("pixels", 1.0, 0.3, 8)
    assert (penalty.anonymizer, penalty.utility) == (tedspad.anonymizer, tedspad.utility) == ("unet++", "i3d-r50")
    assert (tedspad.triplet_weight, tedspad.triplet_margin) == (0.1, 1.0)
    assert (vita.budget, vita.confusion, vita.budget_labels, vita.strongest) == (
        "labels",
        "entropy",
        "attributes",
        True,
    )
    assert (vita.utility, vita.utility_dilated, vita.restart_steps) == ("r3d-18", True, 200)  # k
    assert vita.networks() == ("resnet-50", "mobilenet-v1")  # M = 2
    assert (vita.anonymizer_rate, vita.utility_rate, vita.budget_rate) == (1e-4, 1e-4, 1e-4)
