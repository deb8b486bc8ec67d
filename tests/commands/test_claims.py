"""`sfumato claims`: verdicts from the committed results."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sfumato.claims.ledger import Claim, Comparison
from sfumato.claims.verdict import Evidence, decide
from sfumato.cli import app
from sfumato.commands import claims
from sfumato.errors import SfumatoError

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def in_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def test_every_claim_has_a_verdict_in_the_json(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["claims", "--json", str(tmp_path / "claims.json")])
    assert done.exit_code == 0, done.output
    found = json.loads((tmp_path / "claims.json").read_text())
    assert len(found) == 51
    for each in found:
        assert {"id", "paper", "statement", "verdict", "numbers", "run"} <= set(each)
        assert each["verdict"] in ("holds", "refuted", "undecided")
        # A verdict has numbers of more than one seed, or counted ones; an undecided claim has numbers, or says what it lacks.
        assert each["numbers"] or (each["lacking"] and each["verdict"] == "undecided")
        assert each["verdict"] == "undecided" or all(n["seeds"] > 1 or n["counted"] for n in each["numbers"])


def test_the_page_in_the_documentation_is_what_the_results_say(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["claims", "--page", str(tmp_path / "claims.md")])
    assert done.exit_code == 0, done.output
    # When it fails: sfumato claims --page docs/claims.md
    assert (tmp_path / "claims.md").read_text() == (ROOT / "docs" / "claims.md").read_text()


def test_one_claim_by_its_id() -> None:
    done = CliRunner().invoke(app, ["claims", "--only", "S5"])
    assert done.exit_code == 0 and "a frozen f_B" in done.output
    wrong = CliRunner().invoke(app, ["claims", "--only", "S99"])
    assert wrong.exit_code != 0


def test_attackers_that_are_not_met_yet_are_named() -> None:
    asked = Claim("X1", "A paper", "something", (Comparison("residual", "a", at_most=0.9),))
    met, before = (Evidence((0.5,) * 3, 0.01, unmet=frozenset(names)) for names in ((), ("video", "decode-frame")))
    judged = decide(asked, {("a", "residual", "the same"): before})
    assert claims.why(judged).splitlines()[1:] == ["not met yet: decode-frame, video"]
    assert claims.as_json(judged)["unmet"] == ["decode-frame", "video"]
    assert "not met" not in claims.why(decide(asked, {("a", "residual", "the same"): met}))


def test_outside_a_checkout_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["claims"])
    assert done.exit_code != 0 and "checkout" in (done.output + str(done.exception))


def test_a_place_that_takes_no_file_is_told_before_anything_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "run_claims", lambda *_, **__: pytest.fail("it ran first"))
    done = CliRunner().invoke(app, ["claims", "--only", "S5", "--run", "--json", str(tmp_path)])
    assert isinstance(done.exception, SfumatoError) and "is a folder" in str(done.exception)


def test_folders_of_results_are_made(tmp_path: Path) -> None:
    files = [tmp_path / "new" / "claims.json", tmp_path / "pages" / "claims.md"]
    done = CliRunner().invoke(app, ["claims", "--only", "S5", "--json", str(files[0]), "--page", str(files[1])])
    assert done.exit_code == 0, done.output
    assert all(file.is_file() for file in files)


def test_the_ledger_is_a_page_too(tmp_path: Path) -> None:
    done = CliRunner().invoke(
        app, ["claims", "--only", "S5", "--only", "L9", "--report", str(tmp_path / "claims.html")]
    )
    assert done.exit_code == 0, done.output
    page = (tmp_path / "claims.html").read_text()
    assert '<tr id="S5">' in page and "fewer parameters to train than STPrivacy" in page
    assert "<h2>SPAct</h2>" in page and "<h2>LaF-Privacy</h2>" in page and "<h2>SPLAVU</h2>" not in page
    assert "http" not in page  # it asks nothing of the network
