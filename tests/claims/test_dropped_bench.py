"""V9's trials from end to end, on a theatre of a minute."""

from __future__ import annotations

from pathlib import Path

import pytest

from sfumato.claims.bench import Trial
from sfumato.claims.dropped_bench import DroppedPlan
from sfumato.claims.lanes import run_jobs
from sfumato.claims.ledger import load_ledger
from sfumato.claims.results import evidence, plan_of

TINY = {
    "embedding": 24, "patch": 4, "initialisation_steps": 1, "opponent_steps": 0, "steps": 1, "batch": 4,
    "privacy_batch": 4, "audit_steps": 0, "utility": "tiny-video", "budget_models": "tiny-video", "auditor": "tiny-frame",
}  # fmt: skip


@pytest.mark.usefixtures("minute")
def test_what_was_dropped_is_read_of_a_training_that_another_trial_made(tmp_path: Path) -> None:
    plan = DroppedPlan("theatre:small", tmp_path, epochs=1, device="cpu")
    open_way, shut = (
        Trial(name, "stprivacy", config=TINY | {"two_pass": two_pass}, training=name.partition(",")[0])
        for name, two_pass in (("stprivacy, read", False), ("two passes, read", True))
    )
    first, second = run_jobs(plan, [(open_way, 0, [None]), (shut, 0, [None])])
    assert [row["protocol"] for row in (first, second)] == ["dropped-tubelets"] * 2
    for row in (first, second):
        assert float(row["dropped_low"]) <= float(row["dropped"]) <= float(row["dropped_high"]) <= 1
    assert float(second["dropped"]) < 0.1  # what cannot come through is not read
    assert sorted(path.name.rpartition("-0-")[0] for path in tmp_path.glob("*-0-*")) == ["stprivacy", "two-passes"]
    found = evidence([first])["stprivacy, read", "dropped content", "the same"]
    assert found.values == (float(first["dropped"]),)


def test_the_ledgers_table_is_judged_by_that_attacker(tmp_path: Path) -> None:
    plan = plan_of(load_ledger().tables["dropped"], tmp_path)
    assert isinstance(plan, DroppedPlan) and plan.more() == {"protocol": "dropped-tubelets"}
