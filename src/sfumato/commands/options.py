"""Options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sfumato import __version__
from sfumato.errors import SfumatoError

DeviceOption = Annotated[str, typer.Option("--device", help="auto, cpu or cuda")]
JsonOption = Annotated[Path | None, typer.Option("--json", help="also write the result as JSON to this file")]
ReportOption = Annotated[Path | None, typer.Option("--report", help="also write a self-contained HTML page")]
SeedsOption = Annotated[int, typer.Option("--seeds", min=1, help="how many times everything is trained")]
StrictOption = Annotated[bool, typer.Option("--strict", help="stop at the first bad row of your own data")]
RunsOption = Annotated[Path, typer.Option("--runs", help="where finished trainings are kept and reused from")]


def tell_version(asked: bool) -> None:
    """Say which version this is, and no more, where that is asked."""
    if asked:
        print(f"sfumato {__version__}")
        raise typer.Exit()


VersionOption = Annotated[
    bool, typer.Option("--version", callback=tell_version, is_eager=True, help="which version this is")
]


def named(value: str | list[str]) -> str | list[str]:
    """The names of anonymizers as they are; an empty one, such as of a shell variable that is not set, is refused.

    >>> named("blur")
    'blur'
    """
    if not all(name.strip() for name in ([value] if isinstance(value, str) else value)):
        raise SfumatoError("the name of an anonymizer is empty", "see `sfumato list anonymizers`, or name a folder")
    return value
