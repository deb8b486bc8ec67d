"""What `sfumato train` says at the end, above all why it may mean nothing."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from sfumato.commands.outcome import show_run
from sfumato.training.audit import verdict
from sfumato.training.run import RunFolder


@pytest.mark.parametrize(("loss", "told"), [(2.29, True), (1.0, False)])
def test_an_f_t_that_reads_nothing_is_told(
    loss: float, told: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = RunFolder.open(tmp_path / "run", {"method": "stprivacy", "config": {}, "data": "theatre:small"}, resume=False)
    watched = {"L1": 0.4, "shown": 0.2, "L_T": loss, "action": 0.1}
    run.save_result({"watched": watched, "audit": [], "trained_parameters": 1, "guessing": {"L_T": math.log(10)}})
    show_run(run)
    said = " ".join("".join(capsys.readouterr()).split())
    assert ("f_T hardly reads what f_A draws (L_T 2.29, guessing 2.30)" in said) is told


@pytest.mark.parametrize(("trained", "raw", "told"), [(0.69, 0.7, True), (0.69, 0.9, False), (0.85, 0.7, False)])
def test_an_f_b_that_never_read_anything_is_told(
    trained: float, raw: float, told: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = RunFolder.open(tmp_path / "run", {"method": "stprivacy", "config": {}, "data": "theatre:small"}, resume=False)
    watched = {"L1": 0.4, "shown": 0.2, "L_T": 1.0, "action": 0.5}
    row = {"f_B": "r3d-18", "task": "labels", "chance": 0.7, "raw": raw, "in training": trained, "fresh": 0.7}
    labelled = {**row, "f_B": "resnet-18", "in training": None}  # nobody was trained against that one
    audit = [{**each, "verdict": "inconclusive"} for each in (row, row, labelled)]  # of two f_B it is said once
    run.save_result({"watched": watched, "audit": audit, "trained_parameters": 1, "guessing": {"L_T": math.log(10)}})
    show_run(run)
    said = " ".join("".join(capsys.readouterr()).split())
    assert (f"f_B hardly read anything, of raw video neither ({raw:.0%}, guessing 70%)" in said) is told
    assert said.count("give f_B more opponent_steps") == told


@pytest.mark.parametrize(("config", "told"), [({"audit_steps": 200}, True), ({"audit_steps": 0}, False), ({}, False)])
def test_where_nobody_could_be_set_on_it_that_is_told(
    config: dict[str, int], told: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = RunFolder.open(tmp_path / "run", {"method": "spact", "config": config, "data": "folder:clips"}, resume=False)
    watched = {"L1": 0.4, "shown": 0.2, "L_T": 1.0, "action": 0.5}
    run.save_result({"watched": watched, "audit": [], "trained_parameters": 1})
    show_run(run)
    said = " ".join("".join(capsys.readouterr()).split())
    assert ("No fresh attacker was set on it" in said) is told


@pytest.mark.parametrize(
    ("trained", "fresh", "told"), [(0.95, 0.8, True), (0.95, 0.9, False), (None, 0.55, True), (None, 0.7, False)]
)
def test_a_fresh_attacker_that_learnt_too_little_is_told(
    trained: float | None, fresh: float, told: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = RunFolder.open(tmp_path / "run", {"method": "vita", "config": {}, "data": "theatre:small"}, resume=False)
    row = {"f_B": "resnet-18", "task": "labels", "chance": 0.7, "raw": 1.0, "in training": trained, "fresh": fresh}
    watched = {"L1": 0.4, "shown": 0.2, "L_T": 1.0, "action": 0.5}
    run.save_result({"watched": watched, "audit": [{**row, "verdict": verdict(row)}], "trained_parameters": 1})
    show_run(run)
    said = " ".join("".join(capsys.readouterr()).split())
    assert ("give it more audit_steps" in said) is ("inconclusive" in said) is told
