"""What all pages share: a template of this room, filled in and written whole, in the style of the report."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.errors import SfumatoError
from sfumato.writing import write_whole

if TYPE_CHECKING:
    from jinja2 import Environment


def environment() -> Environment:
    """Templates that escape what they are given, and that break where something is missing."""
    from jinja2 import Environment, StrictUndefined

    return Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)


def source(name: str) -> str:
    """The template of that name, as it stands in this room."""
    return resources.files("sfumato.report").joinpath(name).read_text(encoding="utf-8")


def styled(name: str, **values: Any) -> str:
    """A template filled in, with the style of the report as `style`.

    >>> styled("ledger.html", **values)[:15]  # doctest: +SKIP
    '<!doctype html>'
    """
    from markupsafe import Markup

    style = source("page.html").split("<style>")[1].split("</style>")[0]
    return environment().from_string(source(name)).render(style=Markup(style), **values)


def write_page(page: str, path: Path) -> None:
    """Whole or not at all; what stands in the way is told in one line."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, page.encode())
    except OSError as error:
        raise SfumatoError(
            f"cannot write '{path}' ({error.strerror})", "free some space or choose another folder"
        ) from error
