"""Settings from a recipe (TOML) and from `--set key=value`, checked field by field against a flat frozen dataclass."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from sfumato.errors import SfumatoError
from sfumato.registry import unknown_name

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

C = TypeVar("C", bound="DataclassInstance")


@dataclass(frozen=True)
class Recipe:
    """What a recipe file asks for; what it leaves out is None, its table `[config]` is as it stands in the file."""

    method: str | None = None
    data: str | None = None
    privacy_data: str | None = None
    config: dict[str, Any] = field(default_factory=dict)


def read_toml(path: Path, what: str = "recipe") -> dict[str, Any]:
    """A TOML file, or a SfumatoError that names it.

    >>> read_toml(Path("recipes/spact-paper.toml"))["method"]  # doctest: +SKIP
    'spact'
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SfumatoError(f"cannot read the {what} '{path}' ({error.strerror})", "name a TOML file") from None
    except ValueError as error:  # not TOML, or not UTF-8
        raise SfumatoError(f"the {what} '{path}' is not valid TOML", str(error)) from None


def read_recipe(path: Path) -> Recipe:
    """The recipe in a TOML file: `method`, `data`, `privacy_data` and one table `[config]`, each optional.

    >>> read_recipe(Path("recipes/spact.toml")).method
    'spact'
    """
    content = read_toml(path)
    known = [entry.name for entry in fields(Recipe)]
    for key, value in content.items():
        if key not in known:
            no_such = unknown_name("key", key, known)
            advice = f"{no_such.next_step}; settings go under [config]"
            raise SfumatoError(f"in the recipe '{path}' {no_such.what}", advice)
        if not isinstance(value, dict if key == "config" else str):
            wanted = "make it a table, [config]" if key == "config" else f'write {key} = "name"'
            raise SfumatoError(f"in the recipe '{path}' {key} = {value!r} does not fit", wanted)
    return Recipe(**content)


def load_options(kind: type[C], *, recipe: Path | None = None, settings: Sequence[str] = ()) -> C:
    """A `kind` with its defaults, over which the recipe's `[config]` is laid, and over that every "key=value".

    A field of `kind` is a bool, int, float, str or a Literal of words. Its metadata may name the least and the greatest
    value (`low`, `high`) and the paper's letter for it (`symbol`).

    >>> @dataclass(frozen=True)
    ... class Config:
    ...     budget_weight: float = field(default=1.0, metadata={"low": 0, "symbol": "ω"})
    >>> load_options(Config, settings=["budget_weight=0.5"])
    Config(budget_weight=0.5)
    """
    given = list(read_recipe(recipe).config.items()) if recipe else []
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals:
            raise SfumatoError(f"'{setting}' sets nothing", "write --set key=value")
        given.append((key.strip(), value.strip()))
    known, hints = {entry.name: entry for entry in fields(kind)}, get_type_hints(kind)
    values = {}
    for key, value in given:
        if key not in known:
            raise unknown_name("setting", key, list(known))
        values[key] = _read(known[key], hints[key], value)
    return kind(**values)


def to_dict(config: DataclassInstance) -> dict[str, Any]:
    """Every field and its value, as a run folder keeps them.

    >>> to_dict(Config(budget_weight=0.5))  # doctest: +SKIP
    {'budget_weight': 0.5}
    """
    return asdict(config)


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """One line for every key whose value changed; a key that is absent counts as one that is None.

    >>> differences({"batch": 32, "seed": 0}, {"batch": 64, "seed": 0})
    ['batch: 32 -> 64']
    """
    keys = [*old, *(key for key in new if key not in old)]
    return [f"{key}: {_shown(old.get(key))} -> {_shown(new.get(key))}" for key in keys if old.get(key) != new.get(key)]


def _shown(value: Any) -> str:
    """A value the way `--set` would take it."""
    if value is None:
        return "not set"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _read(entry: Field[Any], hint: Any, value: Any) -> Any:
    """`value` as the type of the field `entry`, within its range."""
    if get_origin(hint) is Literal:
        words = get_args(hint)
        reader, allowed = _one_of(words), f"one of {', '.join(words)}"
    else:
        reader, allowed = _READERS[hint]
    low, high = entry.metadata.get("low", -math.inf), entry.metadata.get("high", math.inf)
    try:
        read = reader(value)
        if isinstance(read, (int, float)) and not low <= read <= high:
            raise ValueError("out of range")
    except (ValueError, OverflowError):
        symbol = f" ({entry.metadata['symbol']})" if "symbol" in entry.metadata else ""
        problem = f"{entry.name}{symbol} = {value!r} does not fit"
        raise SfumatoError(problem, f"use {allowed}{_range(low, high)}") from None
    return read


def _range(low: float, high: float) -> str:
    if math.isfinite(low) and math.isfinite(high):
        return f" from {low:g} to {high:g}"
    if math.isfinite(low):
        return f" of at least {low:g}"
    return f" of at most {high:g}" if math.isfinite(high) else ""


# Each reader takes what TOML gives (a typed value) or what the command line gives (always text).


def _flag(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    raise ValueError(value)


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise ValueError(value)
    return int(value)


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)) or not math.isfinite(float(value)):
        raise ValueError(value)
    return float(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(value)
    return value


def _one_of(words: tuple[str, ...]) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if value not in words:
            raise ValueError(value)
        return str(value)

    return read


_READERS: dict[Any, tuple[Callable[[Any], Any], str]] = {
    bool: (_flag, "true or false"),
    int: (_whole, "a whole number"),
    float: (_number, "a finite number"),
    str: (_text, "text"),
}
