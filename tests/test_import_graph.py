"""Imports only go down: the four layers of rooms, read from the source itself, `TYPE_CHECKING` imports included."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import sfumato
from sfumato.evaluation.provenance import JUDGING

SOURCE = Path(sfumato.__file__).parent
LAYERS = (
    {"video", "theatre", "datasets"},
    {"recognizers", "objectives", "anonymizers"},
    {"training", "methods", "evaluation"},
    {"report", "commands", "claims", "cli", "__main__", "studio", "gateway"},
)
HEIGHT = {room: height for height, layer in enumerate(LAYERS) for room in layer}
FOR_ALL = {"", "errors", "hub", "registry", "turns", "writing"}  # "" is the package itself: its version
# Inside a layer everybody may know everybody, but for these: (who, whom).
STRANGERS = {
    ("video", "theatre"), ("theatre", "video"), ("video", "datasets"), ("theatre", "datasets"),
    ("methods", "evaluation"), ("evaluation", "methods"),
}  # fmt: skip
OFFERED = {("", "anonymizers")}  # what the package itself passes on to its users, imported when it is asked for


def imported(tree: ast.AST, package: tuple[str, ...], rooms: set[str]) -> Iterator[str]:
    """The room of every import of a module that lies in `package`; "" for the package root."""
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = [*package[: len(package) - node.level + 1]] if node.level else []
            start = ".".join([*base, *([node.module] if node.module else [])])
            names = [f"{start}.{alias.name}" for alias in node.names]
        for parts in (name.split(".") for name in names):
            if parts[0] == "sfumato":
                # `from sfumato import __version__` is the root, `from sfumato import video` a room.
                yield parts[1] if len(parts) > 1 and parts[1] in rooms | FOR_ALL else ""


def violations(source: Path) -> list[str]:
    """Every import under `source` (the folder `sfumato`) that goes up, or between rooms that do not know each other."""
    rooms = {path.stem for path in source.iterdir() if path.suffix == ".py" or any(path.rglob("*.py"))} - {"__init__"}
    found = [f"'{room}' belongs to no layer" for room in sorted(rooms - set(HEIGHT) - FOR_ALL)]
    for path in sorted(source.rglob("*.py")):
        inside = path.relative_to(source)
        room = inside.parts[0].removesuffix(".py")
        room = "" if room == "__init__" else room
        for other in imported(ast.parse(path.read_text()), ("sfumato", *inside.parts[:-1]), rooms):
            if other in FOR_ALL or other == room or (room, other) in OFFERED:
                continue
            # What all may use stands on nothing.
            up = room in FOR_ALL or HEIGHT.get(other, 99) > HEIGHT.get(room, -1)
            if up or (room, other) in STRANGERS:
                found.append(f"{inside.as_posix()} imports {other}")
    return found


def test_imports_only_go_down() -> None:
    assert violations(SOURCE) == []


def plant(root: Path, **files: str) -> Path:
    """A package with one module per room; `evaluation__x="…"` is evaluation/x.py."""
    for room in HEIGHT.keys() - {"cli", "__main__", "studio", "gateway"}:
        (root / room).mkdir(parents=True)
        (root / room / "__init__.py").touch()
    for name in ("__init__", "cli", "errors", "registry"):
        (root / f"{name}.py").touch()
    for name, text in files.items():
        room, _, module = name.strip("_").partition("__")
        (root / (f"{room}/{module}.py" if module else f"{name}.py")).write_text(text)
    return root


@pytest.mark.parametrize(
    ("module", "text", "caught"),
    [
        ("video__x", "from sfumato.evaluation.result import Result", "video/x.py imports evaluation"),
        ("video__x", "def f():\n    import sfumato.anonymizers.blur", "video/x.py imports anonymizers"),
        ("datasets__x", "from sfumato import recognizers", "datasets/x.py imports recognizers"),
        ("datasets__x", "from ..training import fit", "datasets/x.py imports training"),
        ("datasets__x", "from .. import report", "datasets/x.py imports report"),
        ("anonymizers__x", "if TYPE_CHECKING:\n    from sfumato.methods import m", "anonymizers/x.py imports methods"),
        ("evaluation__x", "import torch, sfumato.report as r", "evaluation/x.py imports report"),
        ("training__x", "from sfumato.cli import main", "training/x.py imports cli"),
        ("evaluation__x", "from sfumato.methods import m", "evaluation/x.py imports methods"),
        ("methods__x", "from sfumato.evaluation import result", "methods/x.py imports evaluation"),
        ("video__x", "from sfumato.theatre import cast", "video/x.py imports theatre"),
        ("theatre__x", "from sfumato.video import VideoWriter", "theatre/x.py imports video"),
        ("video__x", "from sfumato.datasets import Sample", "video/x.py imports datasets"),
        ("theatre__x", "from sfumato.datasets import Sample", "theatre/x.py imports datasets"),
        ("errors", "from sfumato.video import probe", "errors.py imports video"),
        ("__init__", "from sfumato.evaluation import result", "__init__.py imports evaluation"),
        ("surprise", "import math", "'surprise' belongs to no layer"),
    ],
)
def test_a_planted_import_is_caught(tmp_path: Path, module: str, text: str, caught: str) -> None:
    assert violations(plant(tmp_path / "sfumato", **{module: text})) == [caught]


@pytest.mark.parametrize(
    ("module", "text"),
    [
        ("datasets__x", "from sfumato.video import probe\nfrom sfumato.theatre import cast"),
        ("anonymizers__x", "from sfumato.recognizers import base\nfrom ..video import decode\nfrom . import y"),
        ("evaluation__x", "from sfumato import __version__\nfrom sfumato.training import fit"),
        ("methods__x", "from sfumato.training import fit\nfrom sfumato.objectives import loss"),
        ("cli", "from sfumato.commands import judge\nfrom sfumato.report import html\nimport json"),
        ("video__x", "from sfumato.errors import SfumatoError\nfrom sfumato import registry"),
    ],
)
def test_what_goes_down_is_free(tmp_path: Path, module: str, text: str) -> None:
    assert violations(plant(tmp_path / "sfumato", **{module: text})) == []


def test_what_was_judged_is_of_all_code_that_the_judge_may_import_and_no_other() -> None:
    rooms = {*LAYERS[0], *LAYERS[1], "training", "evaluation"}
    wanted = {path for room in rooms for path in (SOURCE / room).rglob("*.py")}
    wanted |= {SOURCE / f"{module or '__init__'}.py" for module in FOR_ALL}
    assert {path for pattern in JUDGING for path in SOURCE.glob(pattern)} == wanted


LOADED = "import json, sys; print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))"
HELP = """
import contextlib, io, sys
from sfumato.cli import main
sys.argv = ["sfumato", *sys.argv[1:]]
with contextlib.redirect_stdout(io.StringIO()) as shown, contextlib.suppress(SystemExit):
    main()
assert "Usage" in shown.getvalue()
"""


@pytest.mark.parametrize(
    ("code", "arguments"), [("import sfumato", []), (HELP, ["--help"]), (HELP, ["judge", "--help"])]
)
def test_help_loads_nothing_heavy(code: str, arguments: list[str]) -> None:
    script = f"{code}\n{LOADED}"
    done = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=True)
    heavy = {"torch", "av", "transformers", "matplotlib", "sklearn", "numpy", "jinja2", "huggingface_hub"}
    assert heavy & set(json.loads(done.stdout)) == set()
