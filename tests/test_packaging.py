"""What `pip install` brings: the package with the trained weights in it, their cards, and terms that tell of both."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from sfumato.anonymizers.shelf import WEIGHTS, shelved

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as a wheel holds it."""
    lib = tmp_path_factory.mktemp("lib")
    about = ["egg_info", "--egg-base", str(tmp_path_factory.mktemp("egg"))]  # nothing is left in the checkout
    command = [sys.executable, "setup.py", "--quiet", *about, "build_py", "--build-lib", str(lib)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return lib


def test_every_file_of_the_weights_is_installed_as_it_is(built: Path) -> None:
    for file in (file for file in WEIGHTS.rglob("*") if file.is_file()):
        assert (built / "sfumato" / "weights" / file.relative_to(WEIGHTS)).read_bytes() == file.read_bytes()
    assert "graft weights" in (ROOT / "MANIFEST.in").read_text()  # a wheel may be made of the source archive


def test_what_is_installed_finds_its_own_weights(built: Path, tmp_path: Path) -> None:
    ask = "import json, sfumato.anonymizers.shelf as s; print(json.dumps({n: str(p) for n, p in s.shelved().items()}))"
    done = subprocess.run(
        [sys.executable, "-c", ask], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(built)}, check=True,
        capture_output=True, text=True,
    )  # fmt: skip
    found = json.loads(done.stdout)
    assert found == {name: str(built / "sfumato" / "weights" / name) for name in shelved()}


def test_the_terms_of_all_that_is_installed_are_told() -> None:
    told = re.search(r'^license = "(.*)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    cards = [card.read_text() for card in WEIGHTS.glob("*/README.md")]
    terms = {match[1] for card in cards if (match := re.search(r"^license: (.*)$", card, re.MULTILINE))}
    assert told and {term.lower() for term in told[1].split(" AND ")} == {"apache-2.0", *terms}
