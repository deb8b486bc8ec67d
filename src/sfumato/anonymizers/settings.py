"""Settings of an anonymizer as text and as checked values: `downsample:factor=16`."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from typing import Any

from sfumato.anonymizers.base import Anonymizer
from sfumato.errors import SfumatoError

Setting = float | int | str | bool


def parse_name(text: str) -> tuple[str, dict[str, Setting]]:
    """Split a name with settings into the name and the settings; numbers become floats, true and false booleans.

    >>> parse_name("downsample:factor=16")
    ('downsample', {'factor': 16.0})
    """
    name, colon, rest = text.partition(":")
    settings: dict[str, Setting] = {}
    for pair in rest.split(",") if colon else ():
        key, equals, value = (part.strip() for part in pair.partition("="))
        if not key or not equals or not value:
            raise SfumatoError(f"'{pair}' in '{text}' is no setting", "write NAME:key=value,key=value")
        if key in settings:
            raise SfumatoError(f"'{key}' is set twice in '{text}'", "set it once")
        settings[key] = _parse_value(value)
    return name, settings


def _parse_value(text: str) -> Setting:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        return float(text)
    except ValueError:
        return text


def format_name(name: str, settings: Mapping[str, Setting]) -> str:
    """The inverse of `parse_name`.

    >>> format_name("downsample", {"factor": 16.0})
    'downsample:factor=16'
    """
    pairs = ",".join(f"{key}={_format_value(value)}" for key, value in settings.items())
    return f"{name}:{pairs}" if pairs else name


def _format_value(value: Setting) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def default_settings(kind: type[Anonymizer]) -> dict[str, Setting]:
    """What the constructor of `kind` takes, with the values it takes when nobody says otherwise.

    >>> default_settings(Downsample)
    {'factor': 4.0}
    """
    parameters = inspect.signature(kind).parameters.values()
    # nn.Module's own constructor takes *args and **kwargs, which are no settings
    return {each.name: each.default for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD}


def check_settings(kind: type[Anonymizer], settings: Mapping[str, Any]) -> dict[str, Setting]:
    """`settings`, each known to `kind` and of the type of its default, or a SfumatoError that names the wrong one.

    >>> check_settings(Downsample, {"factor": 16})
    {'factor': 16.0}
    """
    defaults = default_settings(kind)
    for key in settings:
        if key not in defaults:
            known = ", ".join(defaults) or "none"
            raise SfumatoError(f"{kind.name} has no setting '{key}'", f"its settings: {known}")
    return {key: _check_value(f"{kind.name}: {key}", value, defaults[key]) for key, value in settings.items()}


def require_least(least: Mapping[str, int], **settings: int) -> None:
    """Refuse a whole number below 1, or below what `least` says of it.

    >>> require_least({"embedding": 4}, embedding=32, depth=3)
    """
    for key, value in settings.items():
        if value < least.get(key, 1):
            raise SfumatoError(f"{key} = {value} is too small", f"use {least.get(key, 1)} or more")


def _check_value(what: str, value: Any, default: Setting) -> Setting:
    if isinstance(default, bool | str):
        if type(value) is not type(default):
            wanted = "true or false" if isinstance(default, bool) else "a word"
            raise SfumatoError(f"{what} = {value!r} does not fit", f"give {wanted}")
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise SfumatoError(f"{what} = {value!r} is not a number", "give a number")
    try:
        number = float(value)
    except OverflowError:  # a whole number beyond the largest float
        number = math.inf
    if not math.isfinite(number):
        raise SfumatoError(f"{what} is not finite", "give a number")
    if isinstance(default, float):
        return number
    if not number.is_integer():
        raise SfumatoError(f"{what} = {value!r} is not a whole number", "give a whole number")
    return int(number)
