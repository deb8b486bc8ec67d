"""`sfumato certify`: what an anonymizer leaves on a site's own footage, as a document."""

from __future__ import annotations

import re
from pathlib import Path

from sfumato.anonymizers import load
from sfumato.commands.console import err, monitored, out, say
from sfumato.errors import SfumatoError
from sfumato.evaluation.certificate import Certificate, certify
from sfumato.evaluation.effort import find_effort
from sfumato.evaluation.protocols.known import Watch
from sfumato.report.certificate import render_certificate, write_certificate
from sfumato.training.device import pick_device


def certify_footage(
    name: str, footage: Path | None, labels: Path | None, *, effort: str, seeds: int, runs: Path, device: str,
    recordings: int | None = None,
) -> Certificate:  # fmt: skip
    """The certificate of an anonymizer by name; or, where `name` is the JSON file of one, that one, if it is unchanged."""
    if name.endswith(".json") and footage is None and labels is None:
        return Certificate.load(Path(name))
    if footage is None:
        raise SfumatoError(
            "there is nothing to certify on", "give the folder of the recordings by --footage, or a certificate's JSON"
        )
    find_effort(effort)  # said now, not after the footage has been read
    where = pick_device(device)
    anonymizer = load(name)
    folder = runs / "certify" / (re.sub(r"[^A-Za-z0-9.-]+", "-", str(footage))[-100:].strip("-.") or "footage")
    with monitored() as monitor:
        return certify(
            anonymizer, footage, labels, effort=effort, seeds=seeds, device=where, folder=folder,
            watch=Watch(monitor.total, monitor.done, monitor.status), recordings=recordings,
        )  # fmt: skip


def show_certificate(certificate: Certificate, json_file: Path | None, report: Path | None) -> None:
    """The summary on the terminal, and the documents that are asked for."""
    out.print(render_certificate(certificate))
    if json_file:
        certificate.save(json_file)
        say(f"result: {json_file}")
    if report:
        write_certificate(certificate, report)
        say(f"report: {report}")
    if not json_file and not report:
        say("not saved: add --report FILE.html or --json FILE", console=err, style="dim")
