"""Options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

DeviceOption = Annotated[str, typer.Option("--device", help="auto, cpu or cuda")]
JsonOption = Annotated[Path | None, typer.Option("--json", help="also write the result as JSON to this file")]
ReportOption = Annotated[Path | None, typer.Option("--report", help="also write a self-contained HTML page")]
SeedsOption = Annotated[int, typer.Option("--seeds", min=1, help="how many times everything is trained")]
StrictOption = Annotated[bool, typer.Option("--strict", help="stop at the first bad row of your own data")]
RunsOption = Annotated[Path, typer.Option("--runs", help="where finished trainings are kept and reused from")]
