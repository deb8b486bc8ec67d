"""The certificate's page and summary: they say all that the document says, on two sheets, and promise nothing."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from sfumato.errors import SfumatoError
from sfumato.evaluation.certificate import Certificate, Finding, Utility
from sfumato.evaluation.result import Leakage, Score
from sfumato.report.certificate import ROWS, render_certificate, utility_text, worst_first, write_certificate

EVIL = '<script>alert("x")</script>'


def finding(title: str, target: str, leak: float, exposure: str) -> Finding:
    leakage = Leakage(leak, leak - 0.1, leak + 0.1, "inconclusive" if math.isnan(leak) else "measured")
    score = Score(0.1 + 0.8 * leak, 0.05, 0.95, 0.1, 0.9)
    persons = 2 if target == "identity" else 0  # who is in the others is not known
    return Finding(title, title, target, "frame", "top-1", score, leakage, 60, 120, 0.125, exposure, 0, persons)


def make(**changed: object) -> Certificate:
    findings = [
        finding("age", "attributes", 0.02, "not shown to leak"),
        finding("gender", "attributes", 0.93, "fully exposed"),
        finding("mood", "attributes", math.nan, "no conclusion"),
        finding("who a person is", "identity", 0.97, "fully exposed"),
    ]
    utility = Utility(Score(0.85, 0.8, 0.9, 0.05, 0.9), Leakage(0.941, 0.89, 0.98, "measured"), 60)
    plain = Certificate(
        "downsample:factor=16", "fully exposed", "Identity and gender are fully exposed", ["who a person is", "gender"],
        "Handle it exactly like the raw footage.", ["a first doubt"], findings, utility, ["sound", "other cameras"],
        "camera-3", "labels.csv", 60, 80, [8, 112, 112], {"frame": "tiny-frame"}, {"frame": 160}, "standard", 2,
        {"anonymizer": "aa11", "footage": "bb22"}, "some CPU", {"torch": "2.13.0"}, "0123456789ab", "2026-01-01",
    )  # fmt: skip
    return replace(plain, **changed)  # type: ignore[arg-type]


def page(certificate: Certificate, folder: Path) -> str:
    write_certificate(certificate, folder / "new" / "c.html")
    return (folder / "new" / "c.html").read_text()


def test_the_page_stands_alone_and_is_two_sheets(tmp_path: Path) -> None:
    source = page(make(), tmp_path)
    assert source.startswith("<!doctype html>") and source.rstrip().endswith("</html>")
    assert not re.search(r"<(script|link|img|iframe)\b|@import|url\(|https?:", source)
    assert source.count('<section class="sheet"') == 2 and "break-before: page" in source and "size: A4" in source
    assert source == page(make(), tmp_path)


def test_the_page_says_what_the_document_says(tmp_path: Path) -> None:
    certificate = make()
    source = page(certificate, tmp_path)
    said = [
        certificate.headline, certificate.meaning, *certificate.doubts, *certificate.not_tested, "camera-3", "labels.csv",
        "some CPU", "0123456789ab", "torch 2.13.0", "aa11", "bb22", "2026-01-01", "frame (tiny-frame, 160 steps)",
        "effort standard, 2 seeds",
        certificate.checksum().removeprefix("sha256:"), "8×112×112", "downsample:factor=16", utility_text(certificate),
    ]  # fmt: skip
    assert [text for text in said if text not in source] == []
    rows = re.findall(r'<tr><th scope="row">(.*?)</tr>', source, re.DOTALL)
    cells = [re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", row)).strip() for row in rows]
    assert cells[0] == (
        "who a person is 60 recordings of 2 people, top-1 87.6 [5.0–95.0] 10.0 90.0 97.0 [87.0–107.0] 12.5 fully exposed"
    )
    assert "– 12.5 no conclusion" in cells[2] and "60 recordings, top-1" in cells[2]
    assert "of fewer than 5 people, however many recordings show them" in source
    assert "nan" not in source.lower()


def test_identity_comes_first_and_then_the_most_exposed() -> None:
    assert [f.title for f in worst_first(make())] == ["who a person is", "gender", "mood", "age"]


def test_more_attributes_than_fit_are_counted(tmp_path: Path) -> None:
    many = [finding(f"attribute {n}", "attributes", 0.5, "largely exposed") for n in range(ROWS + 3)]
    source = page(make(findings=many, doubts=[f"doubt {n}" for n in range(9)]), tmp_path)
    assert source.count('<th scope="row">') == ROWS and "And 3 more attributes" in source
    assert "doubt 3" in source and "doubt 4" not in source and "And 5 more of this kind" in source


def test_what_users_name_is_escaped(tmp_path: Path) -> None:
    source = page(
        make(anonymizer=EVIL, footage=EVIL, labels=EVIL, headline=EVIL, not_tested=[EVIL], doubts=[EVIL],
             findings=[finding(EVIL, "attributes", 0.5, "largely exposed")]),
        tmp_path,
    )  # fmt: skip
    assert "<script" not in source and source.count("&lt;script&gt;") >= 7


def test_what_stays_useful() -> None:
    assert utility_text(make()) == (
        "Actions are recognised in 85.0 [80.0–90.0] of 100 recordings (guessing 5.0, raw video 90.0): "
        "94.1% [89.0–98.0] of what is above guessing is kept."
    )
    assert utility_text(make(utility=Utility())) == "Whether actions stay recognisable was not tested."
    weak = Utility(Score(0.06, 0.0, 0.1, 0.05, 0.07), Leakage(math.nan, math.nan, math.nan, "inconclusive"), 60)
    assert utility_text(make(utility=weak)).endswith("too few on raw video to say how much is kept.")


def test_the_summary_on_a_terminal() -> None:
    console = Console(width=100, record=True, file=None, quiet=False, force_terminal=False)
    with console.capture() as shown:
        console.print(render_certificate(make()))
    text = shown.get()
    assert text.startswith("Identity and gender are fully exposed.\n")
    row = next(line for line in text.splitlines() if line.strip().startswith("who a person is"))
    assert row.split()[4] == "2" and "87.6 [5.0–95.0]" in row and "97.0 [87.0–107.0]" in row and "fully exposed" in row
    assert "Note: a first doubt" in text and "Not tested: sound" in text and "60 of 80 recordings" in text
    assert all(len(line) <= 100 for line in text.splitlines())


@pytest.mark.parametrize(
    "verdict",
    ["too little footage", "too few people to tell", "no conclusion", "not shown to leak", "reduced, still exposed"],
)
def test_no_page_promises_too_much(tmp_path: Path, verdict: str) -> None:
    source = page(make(verdict=verdict, exposed=[]), tmp_path)
    assert not re.search(r"\b(anonymous|safe|secure|guarantee\w*)\b", source, re.IGNORECASE)


def test_a_page_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "c.html").mkdir()
    with pytest.raises(SfumatoError, match="cannot write"):
        write_certificate(make(), tmp_path / "c.html")
