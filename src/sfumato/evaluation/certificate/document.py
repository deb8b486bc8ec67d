"""The certificate: one JSON document that says everything the printed page says, with a checksum over all of it."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from sfumato.errors import SfumatoError
from sfumato.evaluation.result import Leakage, Score, _build
from sfumato.writing import checksum, sealed, to_json, unsealed, write_whole

SCHEMA = "sfumato-certificate/1"
_UNLESS_KNOWN = ("persons", "persons_needed")  # of a finding: not in the document where they are 0


@dataclass
class Finding:
    """What the attacker that was strongest on validation still learns about one question.

    recordings, clips: so many were asked about. detectable: the smallest share of what raw video gives away that this much
    footage can tell from luck. exposure: one of `Exposure`. needed: so many recordings in all would do, where these were too
    few; else 0. persons: so many people were asked about, as the labels name them; 0: it is not known. persons_needed: so
    many in all would do, where these were too few; else 0.
    """

    name: str
    title: str
    target: str
    attacker: str
    metric: str
    score: Score
    leakage: Leakage
    recordings: int
    clips: int
    detectable: float
    exposure: str
    needed: int
    persons: int = 0
    persons_needed: int = 0


def _untested() -> Score:
    return Score(math.nan, math.nan, math.nan, math.nan, math.nan)


@dataclass
class Utility:
    """What is still recognised of the action. kept.verdict: "measured", "inconclusive", or "not tested"."""

    score: Score = field(default_factory=_untested)
    kept: Leakage = field(default_factory=lambda: Leakage(math.nan, math.nan, math.nan, "not tested"))
    recordings: int = 0


@dataclass
class Certificate:
    """Who was tested, on what, by whom, with what outcome; and what was not tested."""

    anonymizer: str
    verdict: str  # one of `Exposure`
    headline: str  # and in one line
    exposed: list[str]  # the titles of the questions the verdict is about
    meaning: str
    doubts: list[str]  # what limits the verdict: too little footage, and how much would do
    findings: list[Finding]
    utility: Utility
    not_tested: list[str]
    footage: str
    labels: str
    recordings: int  # that were used
    found: int  # in the folder
    clip: list[int]  # frames, height, width
    attackers: dict[str, str]  # attack → network
    steps: dict[str, int]  # attack → training steps, each
    effort: str
    seeds: int
    hashes: dict[str, str]
    hardware: str
    versions: dict[str, str]
    commit: str
    issued: str
    schema: str = SCHEMA

    def checksum(self) -> str:
        """SHA-256 over everything the document says.

        >>> certificate.checksum() == Certificate.load(file).checksum()
        True
        """
        return checksum(self._content())

    def _content(self) -> dict[str, Any]:
        """Everything as plain JSON has it; what is not known is left out, as in documents from before it was asked."""
        content: dict[str, Any] = json.loads(to_json(asdict(self)))
        for finding in content["findings"]:
            for name in _UNLESS_KNOWN:
                if not finding[name]:
                    del finding[name]
        return content

    def save(self, path: Path) -> None:
        """Write as JSON with its checksum, whole or not at all."""
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, sealed(self._content()))

    @staticmethod
    def load(path: Path) -> Certificate:
        """Read a certificate; one that was changed after it was written is refused.

        >>> Certificate.load(Path("certificate.json")).verdict  # doctest: +SKIP
        'fully exposed'
        """
        try:
            stored = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise SfumatoError(
                f"there is no certificate '{path}'", "check the name; --footage FOLDER --json FILE makes one"
            ) from None
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not valid JSON"
            raise SfumatoError(f"cannot read a certificate from '{path}' ({reason})", "certify again") from None
        if not isinstance(stored, dict) or stored.get("schema") != SCHEMA:
            raise SfumatoError(f"'{path}' is no certificate of schema {SCHEMA}", "certify again with this version")
        content = unsealed(stored, path, "certify again")
        try:
            found: Certificate = _build(Certificate, content)
        except (KeyError, TypeError, ValueError) as error:
            raise SfumatoError(f"'{path}' is damaged ({error})", "certify again") from None
        return found
