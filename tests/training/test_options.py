from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest

from sfumato.errors import SfumatoError
from sfumato.training.options import Recipe, differences, load_options, read_recipe, to_dict


@dataclass(frozen=True)
class Config:
    batch: int = field(default=32, metadata={"low": 1})
    learning_rate: float = field(default=1e-4, metadata={"low": 0, "high": 1})
    budget_weight: float = field(default=1.0, metadata={"low": 0, "symbol": "ω"})
    shift: float = field(default=0.0, metadata={"high": 2})
    restart: bool = False
    budget: Literal["nt-xent", "moco", "rotnet"] = "nt-xent"
    note: str = ""


def write(folder: Path, text: str) -> Path:
    path = folder / "recipe.toml"
    path.write_text(text, encoding="utf-8")
    return path


def refusal(*settings: str) -> str:
    with pytest.raises(SfumatoError) as caught:
        load_options(Config, settings=settings)
    return str(caught.value)


def test_the_defaults_stand_where_nothing_is_said() -> None:
    assert load_options(Config) == Config()


def test_set_goes_over_the_recipe_and_the_recipe_over_the_defaults(tmp_path: Path) -> None:
    recipe = write(tmp_path, '[config]\nbatch = 8\nbudget = "moco"\n')
    config = load_options(Config, recipe=recipe, settings=["batch=16", "batch=64"])
    assert config == Config(batch=64, budget="moco")


def test_values_of_a_recipe_keep_their_types(tmp_path: Path) -> None:
    text = '[config]\nbatch = 8\nlearning_rate = 1e-3\nbudget_weight = 2\nrestart = true\nnote = "a = b"\n'
    config = load_options(Config, recipe=write(tmp_path, text))
    assert config == Config(batch=8, learning_rate=1e-3, budget_weight=2.0, restart=True, note="a = b")
    assert type(config.budget_weight) is float


@pytest.mark.parametrize(
    ("setting", "name", "value"),
    [
        ("batch=64", "batch", 64),
        ("learning_rate=1e-3", "learning_rate", 0.001),
        ("budget_weight=3", "budget_weight", 3.0),
        ("restart=true", "restart", True),
        ("restart=False", "restart", False),
        ("budget=rotnet", "budget", "rotnet"),
        (" note = a=b ", "note", "a=b"),
        ("note=3", "note", "3"),
        ("note=", "note", ""),
        ("learning_rate=0", "learning_rate", 0.0),
        ("learning_rate=1", "learning_rate", 1.0),
    ],
)
def test_text_is_read_as_the_type_of_its_field(setting: str, name: str, value: object) -> None:
    read = getattr(load_options(Config, settings=[setting]), name)
    assert read == value and type(read) is type(value)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("batch=many", "batch = 'many' does not fit: use a whole number of at least 1"),
        ("batch=", "batch = '' does not fit: use a whole number of at least 1"),
        ("batch=2.0", "batch = '2.0' does not fit: use a whole number of at least 1"),
        ("batch=true", "batch = 'true' does not fit: use a whole number of at least 1"),
        ("batch=0", "batch = '0' does not fit: use a whole number of at least 1"),
        ("learning_rate=2", "learning_rate = '2' does not fit: use a finite number from 0 to 1"),
        ("budget_weight=-1", "budget_weight (ω) = '-1' does not fit: use a finite number of at least 0"),
        ("budget_weight=nan", "budget_weight (ω) = 'nan' does not fit: use a finite number of at least 0"),
        ("budget_weight=inf", "budget_weight (ω) = 'inf' does not fit: use a finite number of at least 0"),
        ("shift=2.5", "shift = '2.5' does not fit: use a finite number of at most 2"),
        ("restart=1", "restart = '1' does not fit: use true or false"),
        ("budget=mocov2", "budget = 'mocov2' does not fit: use one of nt-xent, moco, rotnet"),
        ("batch", "'batch' sets nothing: write --set key=value"),
    ],
)
def test_a_value_that_does_not_fit_is_answered_with_what_does(setting: str, message: str) -> None:
    assert refusal(setting) == message


def test_an_unknown_setting_is_answered_with_the_nearest_and_all() -> None:
    assert refusal("bacth=3") == (
        "there is no setting 'bacth': did you mean 'batch'? "
        "known: batch, learning_rate, budget_weight, shift, restart, budget, note"
    )


@pytest.mark.parametrize(
    "line",
    [
        "batch = true", "batch = 2.0", "batch = [1]", "batch = 0", "learning_rate = true", "learning_rate = nan",
        "learning_rate = 1979-05-27", "budget_weight = inf", f"budget_weight = 1{'0' * 400}", "restart = 1", "note = 3",
        "budget = 3", "budget = {a = 1}",
    ],
)  # fmt: skip
def test_a_recipe_is_held_to_the_same_types(tmp_path: Path, line: str) -> None:
    recipe = write(tmp_path, f"[config]\n{line}\n")
    with pytest.raises(SfumatoError, match=f"^{line.split()[0]} .*does not fit: use "):
        load_options(Config, recipe=recipe)


def test_a_wrong_recipe_is_refused_even_where_set_goes_over_it(tmp_path: Path) -> None:
    with pytest.raises(SfumatoError, match="batch = 'x' does not fit"):
        load_options(Config, recipe=write(tmp_path, '[config]\nbatch = "x"\n'), settings=["batch=2"])


def test_a_recipe_names_method_and_data(tmp_path: Path) -> None:
    path = write(tmp_path, 'method = "spact"\ndata = "theatre"\nprivacy_data = "vispr:x"\n[config]\nbatch = 8\n')
    assert read_recipe(path) == Recipe("spact", "theatre", "vispr:x", {"batch": 8})
    assert read_recipe(write(tmp_path, "")) == Recipe(None, None, None, {})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("method = \n", "is not valid TOML: .*line 1"),
        (
            'methd = "spact"',
            "there is no key 'methd': did you mean 'method'\\? known: method, data, privacy_data, config",
        ),
        ("batch = 3", "there is no key 'batch': .*settings go under \\[config\\]"),
        ("method = 3", 'method = 3 does not fit: write method = "name"'),
        ("config = 3", "config = 3 does not fit: make it a table"),
    ],
)
def test_a_recipe_that_is_none_is_refused_in_one_line(tmp_path: Path, text: str, message: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(SfumatoError, match=message) as caught:
        read_recipe(path)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


def test_a_recipe_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    for path in (tmp_path / "missing.toml", tmp_path):
        with pytest.raises(SfumatoError, match=r"cannot read the recipe '.*: name a TOML file"):
            read_recipe(path)
    (tmp_path / "latin.toml").write_bytes(b'method = "\xe9"')
    with pytest.raises(SfumatoError, match="is not valid TOML"):
        read_recipe(tmp_path / "latin.toml")


def test_a_config_as_a_dict_makes_the_same_config_again() -> None:
    config = load_options(Config, settings=["batch=7", "restart=true"])
    assert to_dict(config)["batch"] == 7
    assert Config(**to_dict(config)) == config


def test_differences_are_told_line_by_line() -> None:
    old = {"batch": 32, "restart": False, "budget": "moco", "gone": 1, "same": 0.1}
    new = {"same": 0.1, "batch": 64, "restart": True, "budget": "rotnet", "added": 2.5}
    assert differences(old, new) == [
        "batch: 32 -> 64",
        "restart: false -> true",
        "budget: moco -> rotnet",
        "gone: 1 -> not set",
        "added: not set -> 2.5",
    ]
    assert differences(old, dict(old)) == []
