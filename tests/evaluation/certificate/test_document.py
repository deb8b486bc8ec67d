"""The document: the same after a round trip, refused after any edit."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from sfumato.errors import SfumatoError
from sfumato.evaluation.certificate import Certificate, Finding, Utility
from sfumato.evaluation.result import Leakage, Score
from sfumato.writing import to_json


def certificate() -> Certificate:
    nothing = Leakage(math.nan, math.nan, math.nan, "inconclusive")
    findings = [
        Finding("identity", "who a person is", "identity", "identity-frames", "top-1", Score(0.98, 0.9, 1.0, 0.1, 0.99),
                Leakage(0.99, 0.9, 1.01, "measured"), 60, 60, 0.1, "fully exposed", 0, 3, 17),
        Finding("age", "age", "attributes", "frame", "cMAP", Score(0.5, 0.4, 0.6, 0.5, 0.52), nothing, 60, 60, math.nan,
                "no conclusion", 0),
    ]  # fmt: skip
    return Certificate(
        "blur", "fully exposed", "Identity is fully exposed", ["who a person is"], "It means …", ["a doubt"], findings,
        Utility(), ["sound"], "camera-3", "", 60, 80, [8, 112, 112], {"identity-frames": "tiny-frame"},
        {"identity-frames": 160}, "standard", 1, {"footage": "ab"}, "CPU", {"torch": "2"}, "0123", "2026-01-01",
    )  # fmt: skip


def test_it_reads_back_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "new" / "c.json"
    certificate().save(file)
    assert to_json(asdict(Certificate.load(file))) == to_json(asdict(certificate()))
    stored = json.loads(file.read_text())
    assert stored["checksum"] == certificate().checksum() == Certificate.load(file).checksum()
    assert stored["findings"][1]["leakage"]["value"] is None


def edited(stored: dict[str, Any]) -> None:
    stored["verdict"] = "not shown to leak"


def rounded(stored: dict[str, Any]) -> None:
    stored["findings"][0]["leakage"]["value"] = 0.1


def stripped(stored: dict[str, Any]) -> None:
    del stored["checksum"]


def longer(stored: dict[str, Any]) -> None:
    stored["signature"] = "me"


def more_people(stored: dict[str, Any]) -> None:
    stored["findings"][0]["persons"] = 30


SAID = "was changed after it was written"
EDITS = [
    (edited, SAID),
    (rounded, SAID),
    (longer, SAID),
    (more_people, SAID),
    (stripped, "has no checksum: it was edited"),
]


@pytest.mark.parametrize(("change", "complaint"), EDITS)
def test_an_edited_one_is_refused(tmp_path: Path, change: Any, complaint: str) -> None:
    file = tmp_path / "c.json"
    certificate().save(file)
    stored = json.loads(file.read_text())
    change(stored)
    file.write_text(json.dumps(stored))
    with pytest.raises(SfumatoError, match=complaint):
        Certificate.load(file)


def test_another_layout_of_the_same_is_the_same(tmp_path: Path) -> None:
    file = tmp_path / "c.json"
    certificate().save(file)
    file.write_text(json.dumps(json.loads(file.read_text()), sort_keys=True))
    assert Certificate.load(file).verdict == "fully exposed"


@pytest.mark.parametrize(
    ("content", "complaint"),
    [("{", "cannot read a certificate"), ("[]", "is no certificate"), ('{"schema": "x"}', "is no certificate")],
)
def test_what_is_no_certificate_is_refused(tmp_path: Path, content: str, complaint: str) -> None:
    (tmp_path / "c.json").write_text(content)
    with pytest.raises(SfumatoError, match=complaint):
        Certificate.load(tmp_path / "c.json")
    with pytest.raises(SfumatoError, match="there is no certificate"):
        Certificate.load(tmp_path / "nowhere.json")


def test_how_many_people_were_asked_about_is_in_the_document_and_absent_where_it_is_not_known(tmp_path: Path) -> None:
    certificate().save(tmp_path / "c.json")
    known, unknown = json.loads((tmp_path / "c.json").read_text())["findings"]
    assert (known["persons"], known["persons_needed"]) == (3, 17)
    assert not {"persons", "persons_needed"} & unknown.keys()


@pytest.mark.parametrize("name", ["certificate_lsa64_spact.json", "certificate_lsa64_downsample16.json"])
def test_a_document_from_before_people_were_counted_keeps_its_checksum(name: str, tmp_path: Path) -> None:
    """The page that is made from it shows the digest that is in its file."""
    old = Path(__file__).parents[3] / "benchmarks" / "results" / name
    found, stored = Certificate.load(old), json.loads(old.read_text())
    assert {finding.persons for finding in found.findings} == {0}
    assert found.checksum() == stored["checksum"]
    found.save(tmp_path / name)
    assert json.loads((tmp_path / name).read_text()) == stored


def test_the_checksum_is_of_everything() -> None:
    one = certificate()
    assert replace(one, issued="2026-01-02").checksum() != one.checksum()
