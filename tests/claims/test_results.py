"""Rows of results tables become evidence; a trial that is described otherwise now does not count."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from sfumato.claims import bench, results
from sfumato.claims.bench import Plan, Trial, about, code_of, missing, read_trials
from sfumato.claims.ledger import MEASURES, Claim, Comparison, Ledger, Table
from sfumato.claims.results import check_trials, evidence, gather, run_claims
from sfumato.claims.rows import Row, read_rows, write_rows
from sfumato.errors import SfumatoError

TRIALS = """
[common]
steps = 5

[[trial]]
name = "plain"
method = "spact"

[[trial]]
name = "sharp"
method = "spact"
recipe = "recipes/spact-paper.toml"
strengths = [0.5]
config = { grey = true }
"""


def judged(trial: str = "plain", seed: int = 0, **other: Any) -> Row:
    row = {
        "trial": trial, "method": "spact", "seed": str(seed), "judged_on": "the same", "action": "0.8", "action_low": "0.7",
        "action_high": "0.9", "action_raw": "0.95", "residual": "0.5", "residual_low": "0.48", "residual_high": "0.54",
        "identity_value": "", "identity_low": "", "identity_high": "",
    }  # fmt: skip
    return {**row, **other}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "trials.toml").write_text(TRIALS)
    return tmp_path


@pytest.fixture
def ledger() -> Ledger:
    claim = Claim("X1", "A paper", "something", (Comparison("residual", "sharp at 0.5", against="plain", at_most=0.0),))
    return Ledger((claim,), {"one": Table("trials.toml", "theatre:small", "rows.csv", ("frame",))})


def test_a_headline_of_which_one_target_could_not_be_read_is_none() -> None:
    """What the others leave says nothing about it; what else was measured counts."""
    found = evidence([judged(verdict="inconclusive"), judged("sharp", verdict="measured")])
    assert ("plain", "residual", "the same") not in found and ("sharp", "residual", "the same") in found
    assert ("plain", "action", "the same") in found


@pytest.mark.parametrize(
    ("measure", "column", "read", "unread"),
    [
        ("action", "action", ("0.3", "0.1"), ("0.27", "0.1")),
        ("attributes", "attributes", ("0.81", "0.6"), ("0.79", "0.6")),
        ("identity", "identity", ("0.56", "0.1"), ("0.54", "0.1")),
        ("detection change", "detection", ("0.3", "0.1"), ("0.27", "0.1")),
    ],
)
def test_of_what_raw_video_does_not_tell_nothing_is_kept_or_lost(
    measure: str, column: str, read: tuple[str, str], unread: tuple[str, str]
) -> None:
    """Two anonymizers are level in what nobody reads, and an action that nobody recognised is never lost."""

    def there(raw: tuple[str, str]) -> bool:
        value = MEASURES[measure]
        begin = value.removesuffix("_value")
        row = judged(**{value: "0.2", f"{begin}_low": "0.1", f"{begin}_high": "0.3"})
        row |= dict(zip((f"{column}_raw", f"{column}_chance"), raw, strict=True))
        return ("plain", measure, "the same") in evidence([row])

    assert there(read) and not there(unread)
    assert there((unread[0], ""))  # rows from before chance was written down do not tell


def test_rows_become_evidence_by_seed() -> None:
    found = evidence([judged(seed=0), judged(seed=1, action="0.9", action_low="0.85", action_high="0.95")])
    assert found["plain", "action", "the same"].values == (0.8, 0.9)
    assert found["plain", "action", "the same"].below == pytest.approx((0.1 + 0.05) / 2)
    leak = found["plain", "residual", "the same"]
    assert (leak.below, leak.upwards) == pytest.approx((0.02, 0.04))
    assert found["raw beside plain", "action", "the same"].values == (0.95, 0.95)
    assert ("plain", "identity", "the same") not in found  # nothing was measured


def test_seeds_whose_f_b_read_nothing_are_counted() -> None:
    blind = {"audit_first_chance": "0.004", "audit_first_raw": "0.03", "audit_first_in_training": "0.07"}
    found = evidence([
        judged(seed=0, **blind), judged(seed=1, **{**blind, "audit_first_raw": "0.2"}), judged(seed=2, **blind),
        judged(seed=3), judged(seed=4, **{**blind, "audit_first_in_training": ""}),  # without an audit, without an f_B
        judged(seed=2, **{**blind, "audit_first_in_training": "0.5"}),  # run again
    ])  # fmt: skip
    assert found["plain", "residual", "the same"].idle == 1
    assert found["raw beside plain", "action", "the same"].idle == 0


def test_raw_video_is_what_stood_beside_that_trial() -> None:
    """Tables have judges of their own: what one of them reads from raw features is not what another reads from raw video."""
    found = evidence([judged(), judged("latent", action_raw="0.6")])
    assert found["raw beside plain", "action", "the same"].values == (0.95,)
    assert found["raw beside latent", "action", "the same"].values == (0.6,)


def test_what_is_counted_has_no_interval() -> None:
    found = evidence([judged(trained_parameters="1200")])
    assert found["plain", "trained parameters", "the same"].values == (1200,)
    assert found["plain", "trained parameters", "the same"].below == 0


def test_what_is_not_trained_has_a_row_for_every_seed_of_its_judge(place: Path) -> None:
    blur, plan = Trial("blur", anonymizer="blur", strengths=(2.0,)), Plan("theatre:small", place)
    assert [(seed, at) for _, seed, at in missing(plan, [blur], 2, [])] == [(0, [None, 2.0]), (1, [None, 2.0])]
    found = evidence([judged("blur", seed, method="", action=f"0.{7 + seed}") for seed in range(2)])
    assert found["blur", "action", "the same"].values == (0.7, 0.8)


def test_a_recipe_that_has_changed_since_makes_other_rows(
    place: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, (plain, _) = results.plan_of(ledger.tables["one"], place), read_trials(place / "trials.toml")
    row = judged() | about(plan, plain, 0, None)
    asked: list[str] = []

    def note(tasks: Any, lanes: int) -> tuple[()]:
        asked[:] = [job[0].name for _, job in tasks]
        return ()

    monkeypatch.setattr(results, "run_tasks", note)
    for config, counts in ((results.config_digest(plain), True), ("", True), ("0123456789ab", False)):
        write_rows(place / "rows.csv", [row | {"config": config}])
        assert (("plain", "action", "the same") in gather(ledger, place)) == counts
        list(run_claims(ledger.claims, ledger, place, place, seeds=1, device="cpu", lanes=1, keep_older=True))
        assert ("plain" not in asked) == counts


def test_the_recipe_is_part_of_the_settings() -> None:
    trial = Trial("plain", "spact")
    assert results.config_digest(trial) != results.config_digest(replace(trial, recipe="recipes/spact-paper.toml"))
    assert results.config_digest(trial) != results.config_digest(replace(trial, config={"cell": 2}))


def test_a_strength_is_a_trial_of_its_own_and_the_last_row_of_a_seed_counts() -> None:
    found = evidence([judged(strength="0.50", action="0.1"), judged(), judged(action="0.6")])
    assert found["plain at 0.5", "action", "the same"].values == (0.1,)
    assert found["plain", "action", "the same"].values == (0.6,)


def test_trials_carry_what_all_share(place: Path) -> None:
    plain, sharp = read_trials(place / "trials.toml")
    assert plain == Trial("plain", "spact", config={"steps": 5})
    assert sharp.settings() == ["steps=5", "grey=true"] and sharp.strengths == (0.5,)
    assert [t.name for t in read_trials(place / "trials.toml", ["sharp"])] == ["sharp"]
    with pytest.raises(SfumatoError, match="cannot read the trials file"):
        read_trials(place / "none.toml")


def test_what_is_there_is_not_done_again(place: Path) -> None:
    plan, trials = Plan("theatre:small", place), read_trials(place / "trials.toml")
    assert [(t.name, s, left) for t, s, left in missing(plan, trials, 2, [])] == [
        ("plain", 0, [None]), ("sharp", 0, [None, 0.5]), ("plain", 1, [None]), ("sharp", 1, [None, 0.5]),
    ]  # fmt: skip
    write_rows(place / "rows.csv", [about(plan, trials[1], 0, None), about(plan, trials[0], 1, None)])
    rows = read_rows(place / "rows.csv")
    assert [(t.name, s, left) for t, s, left in missing(plan, trials, 2, rows)] == [
        ("plain", 0, [None]), ("sharp", 0, [0.5]), ("sharp", 1, [None, 0.5]),
    ]  # fmt: skip
    other = Plan("theatre:small", place, epochs=3)
    assert len(missing(other, trials, 2, rows)) == 4  # by another judge it is another row


def test_tables_without_a_column_are_older_not_wrong(place: Path) -> None:
    plan, (plain, _) = Plan("theatre:small", place), read_trials(place / "trials.toml")
    old = {key: value for key, value in about(plan, plain, 0, None).items() if key != "strength"}
    assert missing(plan, [plain], 1, [old]) == []


def test_only_trials_as_they_are_described_now_count(place: Path, ledger: Ledger) -> None:
    plan = results.plan_of(ledger.tables["one"], place)
    plain, sharp = read_trials(place / "trials.toml")
    rows = [judged() | about(plan, plain, 0, None), judged() | about(plan, sharp, 0, 0.5)]
    write_rows(place / "rows.csv", rows)
    assert ("plain", "residual", "the same") in gather(ledger, place)
    assert ("sharp at 0.5", "residual", "the same") in gather(ledger, place)
    (place / "trials.toml").write_text(TRIALS.replace("steps = 5", "steps = 6"))
    assert gather(ledger, place) == {}


def test_of_a_row_that_was_done_again_nothing_counts(place: Path, ledger: Ledger) -> None:
    plan, (plain, _) = results.plan_of(ledger.tables["one"], place), read_trials(place / "trials.toml")
    first = judged() | about(plan, plain, 0, None)
    again = first | {"action": "0.6", "residual": "", "residual_low": "", "residual_high": ""}  # inconclusive this time
    write_rows(place / "rows.csv", [first, judged() | about(plan, plain, 1, None), again])
    found = gather(ledger, place)
    assert sorted(found["plain", "action", "the same"].values) == [0.6, 0.8]
    assert found["plain", "residual", "the same"].values == (0.5,)  # of the other seed


def test_what_another_protocol_has_judged_does_not_count(place: Path, ledger: Ledger) -> None:
    plan, (plain, _) = results.plan_of(ledger.tables["one"], place), read_trials(place / "trials.toml")
    write_rows(place / "rows.csv", [judged() | about(plan, plain, 0, None)])
    assert ("plain", "residual", "the same") in gather(ledger, place)
    asked = Ledger(ledger.claims, {"one": replace(ledger.tables["one"], protocol="ospar")})
    assert gather(asked, place) == {}
    plan = results.plan_of(asked.tables["one"], place)
    write_rows(place / "rows.csv", [judged() | about(plan, plain, 0, None)])
    assert ("plain", "residual", "the same") in gather(asked, place)


def test_running_a_claim_does_what_it_lacks(place: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, int, list[float | None]]] = []

    class FakeBench:
        def __init__(self, plan: Plan) -> None:
            assert plan.attacks == ("frame",)
            self.plan = plan

        def rows(self, trial: Trial, seed: int, strengths: list[float | None]) -> list[Row]:
            asked.append((trial.name, seed, strengths))
            return [judged() | about(self.plan, trial, seed, at) for at in strengths]

    monkeypatch.setattr(bench, "Bench", FakeBench)

    def run() -> list[str]:
        return list(run_claims(ledger.claims, ledger, place, place, seeds=2, device="cpu", lanes=1))

    lines = run()
    # Seed after seed, and what needs no training of its own last.
    assert asked == [
        (name, seed, [at]) for seed in (0, 1) for name, at in (("plain", None), ("sharp", None), ("sharp", 0.5))
    ]
    assert len(lines) == 6 and len(read_rows(place / "rows.csv")) == 6
    assert run() == []
    assert gather(ledger, place)["sharp at 0.5", "residual", "the same"].values == (0.5, 0.5)


@pytest.fixture
def run(place: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Runs all claims of a ledger, one seed, without training anything; how many rows that gave."""
    monkeypatch.setattr(
        results, "run_tasks",
        lambda tasks, lanes: [
            (plan, judged() | about(plan, trial, seed, at)) for plan, (trial, seed, ats) in tasks for at in ats
        ],
    )  # fmt: skip

    def rows(ledger: Ledger, *, keep_older: bool = False) -> int:
        more = {"seeds": 1, "device": "cpu", "lanes": 1, "keep_older": keep_older}
        return len(list(run_claims(ledger.claims, ledger, place, place, **more)))

    return rows


def test_what_other_code_has_measured_is_run_again_unless_it_is_to_be_kept(
    place: Path, ledger: Ledger, run: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(ledger) == 3 and run(ledger) == 0
    monkeypatch.setattr(results, "code_of", lambda method: "other")
    assert run(ledger, keep_older=True) == 0
    assert run(ledger) == 3 and run(ledger) == 0
    assert [row["code"] for row in read_rows(place / "rows.csv")[3:]] == ["other"] * 3


def test_rows_tell_whom_they_have_met() -> None:
    table = Table("trials.toml", "theatre:small", "rows.csv", ("frame", "video", "decode-frame"), earlier=("frame",))
    assert results.unmet(judged(), table) == results.unmet(judged(attacks=""), table) == ("video", "decode-frame")
    assert results.unmet(judged(attacks="frame+video"), table) == ("decode-frame",)
    assert results.unmet(judged(attacks="decode-frame+video+frame"), table) == ()
    assert results.unmet(judged(), replace(table, earlier=())) == ()  # nobody has joined since


def test_raw_video_has_met_whom_its_trial_has_met() -> None:
    found = evidence([judged(unmet=("decode-frame",)), judged(seed=1), judged("sharp")])
    for name in ("plain", "raw beside plain"):
        assert found[name, "action", "the same"].unmet == {"decode-frame"}
    for name in ("sharp", "raw beside sharp"):
        assert found[name, "action", "the same"].unmet == frozenset()


@pytest.fixture
def grown(ledger: Ledger) -> Ledger:
    """The ledger since an attacker has joined its table."""
    table = replace(ledger.tables["one"], attacks=("frame", "decode-frame"), earlier=("frame",))
    return Ledger(ledger.claims, {"one": table})


def test_where_some_seeds_have_met_all_attackers_the_others_do_not_count(place: Path, grown: Ledger) -> None:
    plan = results.plan_of(grown.tables["one"], place)
    plain, sharp = read_trials(place / "trials.toml")
    old = [judged(residual="0.1") | about(plan, plain, seed, None) for seed in range(2)]
    beside = judged() | about(plan, sharp, 0, 0.5)  # another trial
    write_rows(place / "rows.csv", [*old, beside])
    found = gather(grown, place)
    assert found["plain", "residual", "the same"].values == (0.1, 0.1)
    assert found["plain", "residual", "the same"].unmet == {"decode-frame"}
    new = judged(residual="0.9", attacks="frame+decode-frame") | about(plan, plain, 1, None)
    # Also where it stands before them: somebody has gone on with an older checkout.
    for rows in ([*old, beside, new], [new, *old, beside]):
        write_rows(place / "rows.csv", rows)
        found = gather(grown, place)
        assert found["plain", "residual", "the same"].values == (0.9,)
        assert found["plain", "residual", "the same"].unmet == frozenset()
        assert found["sharp at 0.5", "residual", "the same"].unmet == {"decode-frame"}


def test_all_attackers_of_a_laptop_do_not_outdo_some_of_a_gpu(place: Path, grown: Ledger) -> None:
    plan, (plain, _) = results.plan_of(grown.tables["one"], place), read_trials(place / "trials.toml")
    strong = judged(residual="0.9", judge_models="standard") | about(plan, plain, 0, None)
    weak = judged(residual="0.2", judge_models="tiny", attacks="frame+decode-frame") | about(plan, plain, 1, None)
    write_rows(place / "rows.csv", [strong, weak])
    assert gather(grown, place)["plain", "residual", "the same"].values == (0.9,)


@pytest.mark.parametrize(
    ("data", "encoder", "counts"),
    [
        ("theatre:tiny", "", True),
        ("theatre:small", "", False),
        ("theatre:small", "encoder", True),
    ],  # features: one judge
)
def test_what_a_laptop_judges_counts_on_data_that_no_gpu_has_judged(
    place: Path, ledger: Ledger, data: str, encoder: str, counts: bool
) -> None:
    one = replace(ledger.tables["one"], encoder=encoder)
    both = replace(ledger, tables={"one": one, "other": replace(one, data=data, results="other.csv", encoder="")})
    plain, sharp = read_trials(place / "trials.toml")
    for table, trial, judge in ((one, plain, "standard"), (both.tables["other"], sharp, "tiny")):
        row = judged(trial.name, judge_models=judge) | about(results.plan_of(table, place), trial, 0, None)
        write_rows(place / table.results, [row])
    found = gather(both, place)
    assert ("plain", "residual", "the same") in found
    assert (("sharp", "residual", "the same") in found) is counts


def test_what_has_not_met_all_attackers_is_run_again(
    place: Path, ledger: Ledger, grown: Ledger, run: Callable[..., int]
) -> None:
    assert run(ledger) == 3 and run(ledger) == 0
    assert run(grown, keep_older=True) == 3 and run(grown, keep_older=True) == run(grown) == 0
    assert [row["attacks"] for row in read_rows(place / "rows.csv")] == ["frame"] * 3 + ["frame+decode-frame"] * 3


def test_on_a_cpu_nothing_is_run_that_would_not_count_beside_a_gpu_s(place: Path, ledger: Ledger) -> None:
    write_rows(place / "rows.csv", [judged(judge_models="standard")])
    with pytest.raises(
        SfumatoError, match=r"a GPU has judged '.*rows\.csv', and beside it a CPU's small networks do not"
    ):
        list(run_claims(ledger.claims, ledger, place, place, seeds=1, device="cpu", lanes=1))


def test_the_code_of_a_row_is_its_method_s_and_the_judge_s() -> None:
    assert len({code_of("spact"), code_of("laf"), code_of("")}) == 3


def test_a_laptop_does_not_add_seeds_to_what_a_gpu_has_judged(
    place: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tiny networks read less of everything: a seed of theirs beside one of large ones is no seed of the same number."""
    plan, (plain, _) = results.plan_of(ledger.tables["one"], place), read_trials(place / "trials.toml")
    strong, weak = (
        judged(residual=value, judge_models=models, code=code_of("spact")) | about(plan, plain, seed, None)
        for seed, (value, models) in enumerate((("0.95", "standard"), ("0.2", "tiny")))
    )
    write_rows(place / "rows.csv", [strong, weak])
    assert gather(ledger, place)["plain", "residual", "the same"].values == (0.95,)
    write_rows(place / "rows.csv", [weak])
    assert gather(ledger, place)["plain", "residual", "the same"].values == (0.2,)  # all by one judge

    asked: list[Any] = []
    monkeypatch.setattr(results, "run_tasks", lambda tasks, lanes: iter(asked.append(tasks) or ()))  # type: ignore[func-returns-value]
    for device in ("cpu", "cuda"):
        monkeypatch.setattr(results, "pick_device", lambda name: torch.device(name))
        list(run_claims(ledger.claims, ledger, place, place, seeds=2, device=device, lanes=1))
    of_plain = [[(seed) for _, (trial, seed, _) in tasks if trial.name == "plain"] for tasks in asked]
    assert of_plain == [[0], [0, 1]]  # a GPU judges again what a laptop has


def test_a_claim_about_an_unknown_trial_is_named(place: Path, ledger: Ledger) -> None:
    check_trials(ledger, place)
    (place / "trials.toml").write_text(TRIALS.replace('"plain"', '"simple"'))
    with pytest.raises(SfumatoError, match="X1 names 'plain'"):
        check_trials(ledger, place)


def test_one_name_in_two_tables_is_refused(place: Path, ledger: Ledger) -> None:
    (place / "others.toml").write_text('[[trial]]\nname = "plain"\nmethod = "vita"\n')
    both = Ledger(ledger.claims, {**ledger.tables, "two": Table("others.toml", "theatre:small", "others.csv")})
    with pytest.raises(SfumatoError, match="'plain' is described in two trials files"):
        check_trials(both, place)
