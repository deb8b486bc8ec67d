"""Every claim is there once, and names trials that exist."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sfumato.claims.bench import read_trials
from sfumato.claims.dropped_bench import DROPPED
from sfumato.claims.ledger import ATTACKED, MEASURES, RAW, Comparison, load_ledger
from sfumato.claims.results import check_trials
from sfumato.claims.rows import read_rows
from sfumato.errors import SfumatoError
from sfumato.evaluation.protocols import PROTOCOLS
from sfumato.methods import find_method
from sfumato.methods.splavu.config import SPLAVUConfig
from sfumato.training.options import load_options

ROOT = Path(__file__).parents[2]
HEAD = '[table.one]\ntrials = "t.toml"\ndata = "theatre:small"\nresults = "r.csv"\nattacks = []\n'
COMPARED = 'comparisons = [{ measure = "action", of = "t", at_least = 0.0 }]\n'


def test_all_fifty_one_claims_are_there() -> None:
    wanted = [f"{paper}{n}" for paper, count in (("S", 10), ("P", 5), ("T", 1), ("V", 10), ("L", 10), ("U", 15))
              for n in range(1, count + 1)]  # fmt: skip
    assert [claim.id for claim in load_ledger().claims] == wanted


def test_their_trials_are_described() -> None:
    check_trials(load_ledger(), ROOT)


def test_tables_name_protocols_that_there_are() -> None:
    named = {name: table.protocol for name, table in load_ledger().tables.items() if table.protocol}
    assert named == {"architectures": "transfer-architectures", "ospar": "ospar", "dropped": DROPPED}
    assert all(protocol in PROTOCOLS or protocol == DROPPED for protocol in named.values())


def test_rows_that_tell_no_attackers_have_met_all_but_those_who_decode() -> None:
    tables = load_ledger().tables
    assert {name for name, table in tables.items() if table.earlier} == {"tubelets", "ospar", "zero-shot"}
    for name, table in tables.items():
        if all(row.get("attacks") for row in read_rows(ROOT / table.results)):
            continue
        earlier = tuple(attack for attack in table.attacks if not attack.startswith("decode-"))
        assert (table.earlier or table.attacks) == earlier, name


def test_against_a_trial_that_has_met_fewer_attackers_nothing_is_refuted() -> None:
    ledger, met = load_ledger(), {}
    for table in ledger.tables.values():
        met |= {trial.name: set(table.attacks) for trial in read_trials(ROOT / table.trials)}
    unequal = [
        each
        for claim in ledger.claims
        for each in claim.comparisons
        if each.measure in ATTACKED and each.against not in ("", RAW) and met[each.of] != met[each.against]
    ]
    assert len(unequal) == 4  # V1's and V2's
    assert all(each.one_sided and met[each.of] > met[each.against] for each in unequal)


def test_who_sees_whole_clips_may_look_at_their_frames_too() -> None:
    """Else an anonymizer that a decoder of frames breaks would be safe from an attacker who knows more."""
    (claim,) = load_ledger().find(["V1"])
    assert {each.measure for each in claim.comparisons} == {"residual", "action"}


def test_what_shares_a_training_is_trained_alike() -> None:
    every = [
        (trial, table.data) for table in load_ledger().tables.values() for trial in read_trials(ROOT / table.trials)
    ]
    shared = [(trial, data) for trial, data in every if trial.training]
    assert {trial.name for trial, _ in shared} == {
        "penalty B .3, other networks", "laf, read by another", "stprivacy, what was dropped",
        "two passes, what was dropped", "stprivacy, zero-shot",
    }  # fmt: skip
    for trial, data in shared:
        (other,) = [found for found in every if found[0].name == trial.training]
        alike = replace(other[0], name="", strengths=())
        assert replace(trial, name="", training="") == alike and data == other[1]


def test_scenes_and_objects_are_hidden_as_people_are_but_for_the_labels() -> None:
    tables = load_ledger().tables
    (usual,) = read_trials(ROOT / tables["tubelets"].trials, ["stprivacy"])
    (trial,) = read_trials(ROOT / tables["ospar"].trials)
    assert (trial.method, trial.config) == (usual.method, usual.config | {"budget_labels": "attributes"})
    config = load_options(find_method(trial.method).config, settings=trial.settings())
    assert config.budget_labels == "attributes" and config.budget == "labels"


# How the columns of a measure of features begin, and the protocol that gives them.
GIVEN = {
    "action": "action", "detection": "detection", "anomaly": "anomaly", "static": "probe", "retrieval": "retrieval",
    "gait": "gait", "gap": "bias", "black": "inversion", "white": "inversion",
}  # fmt: skip


def test_trials_on_features_are_judged_by_what_their_claims_ask() -> None:
    ledger = load_ledger()
    trials = {trial.name: trial for trial in read_trials(ROOT / ledger.tables["latent"].trials)}
    claims = [claim for claim in ledger.claims if claim.paper == "SPLAVU"]
    asked = [(claim.id, name, each.measure) for claim in claims for each in claim.comparisons for name in each.trials()]
    assert len({claim for claim, _, _ in asked}) == 15 and {name for _, name, _ in asked} == set(trials)
    for claim, name, measure in asked:
        if measure != "speedup":
            protocol = GIVEN[MEASURES[measure].partition("_")[0]]
            assert protocol in trials[name].judged_by, f"{claim}: {name} is not judged by {protocol}"


def test_trials_on_features_can_be_set() -> None:
    for trial in read_trials(ROOT / load_ledger().tables["latent"].trials):
        config = load_options(SPLAVUConfig, settings=trial.settings())
        assert trial.method == "splavu" and config.weight("action") >= 0, trial.name


def test_what_rests_on_an_adversary_is_not_decided_by_one_that_read_nothing() -> None:
    """Beside such a one the privacy of a penalty is constant, a λ matters little, and who is compared with it is better."""
    ledger = load_ledger()
    files = (ROOT / ledger.tables[name].trials for name in ("adversarial", "small"))
    against_one = {trial.name for file in files for trial in read_trials(file) if "no f_B" not in trial.name}
    for claim in ledger.claims:
        if against_one & set(claim.trials()):
            assert claim.opponent, claim.id
    assert {claim.id for claim in ledger.claims if claim.opponent and claim.paper == "STPrivacy"} == {
        "V1", "V2", "V5", "V8", "V10",
    }  # fmt: skip
    assert not any(claim.opponent for claim in ledger.find(["S4", "L2", "V9"]))


def test_claims_are_found_by_id() -> None:
    ledger = load_ledger()
    assert [claim.id for claim in ledger.find(["V4", "S1"])] == ["V4", "S1"]
    assert len(ledger.find([])) == 51
    with pytest.raises(SfumatoError, match="no claim 'S99'"):
        ledger.find(["S99"])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"measure": "beauty", "of": "a", "at_least": 1.0}, "no measure 'beauty'"),
        ({"measure": "action", "of": "a"}, "0 rules"),
        ({"measure": "action", "of": "a", "at_least": 0.0, "at_most": 1.0}, "2 rules"),
        ({"measure": "action", "of": "a", "within": 0.1}, "of nothing"),
        ({"measure": "action", "at_least": 0.1}, "of one trial"),
        ({"measure": "action", "of": "a", "rising": ("a", "b")}, "of one trial"),
        ({"measure": "action", "rising": ("a",)}, "does not rise"),
        ({"measure": "residual", "of": "a", "at_most": 0.0, "one_sided": True}, "one-sided"),
        ({"measure": "residual", "of": "a", "against": "raw", "at_most": 0.0, "one_sided": True}, "one-sided"),
        ({"measure": "residual", "of": "a", "against": "b", "at_least": 0.0, "one_sided": True}, "one-sided"),
        ({"measure": "action", "of": "a", "against": "b", "at_most": 0.0, "one_sided": True}, "one-sided"),
    ],
)
def test_a_comparison_that_says_nothing_is_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(SfumatoError, match=message):
        Comparison(**settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ('id = "A"\npaper = "p"\nstatement = "s"\n', "A compares nothing"),
        (f'id = "A"\npaper = "p"\nstatement = "s"\n{COMPARED}colour = "red"\n', "claim A"),
        (
            'id = "A"\npaper = "p"\nstatement = "s"\ncomparisons = [{ measure = "action", of = "a" }]\n',
            "claim A.*0 rules",
        ),
    ],
)
def test_a_wrong_entry_is_named(tmp_path: Path, entries: str, message: str) -> None:
    path = tmp_path / "ledger.toml"
    path.write_text(f"{HEAD}[[claim]]\n{entries}")
    with pytest.raises(SfumatoError, match=message):
        load_ledger(path)


def test_a_claim_twice_is_refused(tmp_path: Path) -> None:
    entry = f'[[claim]]\nid = "A"\npaper = "p"\nstatement = "s"\n{COMPARED}'
    (tmp_path / "ledger.toml").write_text(HEAD + entry + entry)
    with pytest.raises(SfumatoError, match="A is there twice"):
        load_ledger(tmp_path / "ledger.toml")
