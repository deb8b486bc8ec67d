"""A trial from end to end, on a theatre of a minute."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sfumato.claims.bench import Plan, Trial, run_jobs
from sfumato.datasets import theatre
from sfumato.evaluation import scoring
from sfumato.theatre.script import BALANCED

SMALL = {
    "width": 4, "cell": 2, "steps": 2, "batch": 4, "audit_steps": 0, "utility": "tiny-video", "auditor": "tiny-frame",
}  # fmt: skip


@pytest.fixture(autouse=True)
def minute(monkeypatch: pytest.MonkeyPatch) -> None:
    small = replace(
        theatre.PRESETS["small"], side=16, frames=2, cast=(2, 1, 1), sizes=(24, 24, 24), prevalence=BALANCED,
        action_names=("raise hand", "jumping jack"),
    )  # fmt: skip
    monkeypatch.setitem(theatre.PRESETS, "small", small)
    monkeypatch.setattr(scoring, "SAMPLES", 60)


def test_a_trial_is_trained_once_and_judged_at_every_strength(tmp_path: Path, trained: list[str]) -> None:
    plan = Plan("theatre:small", tmp_path, epochs=1, attacks=("identity-frames",), device="cpu")
    trial = Trial("mosaic", "spact", config=SMALL)
    first, moved = run_jobs(plan, [(trial, 0, [None, 1.0])])
    assert (first["trial"], first["seed"], first["strength"], moved["strength"]) == ("mosaic", 0, "", "1")
    assert first["action_raw"] == moved["action_raw"] and float(first["identity_chance"]) == 0.5
    assert trained == ["action", "identity-frames"] * 3  # raw video, f_A, f_A centred
    folders = [path for path in tmp_path.iterdir() if path.name.startswith("mosaic-0-")]
    assert len(folders) == 1 and (folders[0] / "anonymizer" / "config.json").is_file()
    (again,) = run_jobs(plan, [(trial, 0, [None])])
    assert len(trained) == 6 and again["action"] == first["action"]
