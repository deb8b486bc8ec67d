"""`sfumato judge --protocol …`: protocols of videos from end to end, with real trainings on the smallest theatre."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from sfumato.datasets import theatre
from sfumato.evaluation import scoring
from sfumato.evaluation.result import Result


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, minute_theatre: None) -> None:
    """Also what is new to who knows `theatre:small`, as small as that."""
    novel, small = theatre.PRESETS["small-novel"], theatre.PRESETS["small"]
    assert novel.action_names
    frequent = tuple(spec for spec in novel.attributes if spec.name in ("hair_colour", "age_group", "build"))
    other = replace(small, action_names=novel.action_names[:2], attributes=frequent)
    monkeypatch.setitem(theatre.PRESETS, "small-novel", other)
    monkeypatch.setitem(theatre.PRESETS, "small", replace(small, cast=(2, 2, 2)))  # somebody to mistake people for
    monkeypatch.setattr(scoring, "SAMPLES", 30)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


BOTH = "theatre:small + theatre:small-novel"
ATTRIBUTES = ["frame", "video", "video-placed", "decode-frame", "patient-frame"]
CASES = [
    ("cross-dataset", BOTH, ATTRIBUTES),
    ("novel", "theatre:small", ATTRIBUTES),
    # What these two ask and of whom, tests/evaluation/test_novel.py shows of both.
    pytest.param("novel-actions", BOTH, ATTRIBUTES, marks=pytest.mark.nightly),
    pytest.param("novel-attributes", "theatre:small", ATTRIBUTES, marks=pytest.mark.nightly),
    (
        "frame-level",
        "theatre:small",
        ["frame", "identity-frames", "patient-frame", "patient-identity-frames", "reid-frames"],
    ),
    (
        "redressed",
        "theatre:small",
        ["identity", "identity-frames", "identity-placed", "reid", "reid-frames", "patient-identity-frames"],
    ),
]


@pytest.mark.parametrize(("protocol", "data", "attacks"), CASES)
def test_every_protocol_works(
    protocol: str, data: str, attacks: list[str], tmp_path: Path, sfumato: Any, trained: list[str]
) -> None:
    command = ["judge", "blur", "--data", data, "--protocol", protocol, "--runs", tmp_path / "runs"]
    run = sfumato(*command, "--json", tmp_path / "r.json")
    assert run.code == 0, run
    assert trained == ["action", *attacks] * 2
    result = Result.load(tmp_path / "r.json")
    assert result.protocol == protocol and f"protocol {protocol}" in " ".join(run.out.split())
    assert [line.anonymizer for line in result.lines] == ["identity", "blur"]
    assert [attack.attacker for attack in result.lines[1].attacks] == attacks
    for attack in result.lines[1].attacks:
        assert {len(curve) for curve in attack.curve} == {4 if attack.attacker.startswith("patient-") else 1}
    assert sfumato(*command).code == 0 and len(trained) == 2 * (1 + len(attacks))  # nothing is trained twice


# Ten networks, really trained. What they are asked is in tests/evaluation/test_transfer_architectures.py, that each learns in
# tests/recognizers.
@pytest.mark.nightly
def test_other_architectures(tmp_path: Path, sfumato: Any, trained: list[str]) -> None:
    command = ["judge", "identity", "--protocol", "transfer-architectures", "--runs", tmp_path / "runs"]
    run = sfumato(*command, "--attack", "frame", "--json", tmp_path / "r.json")
    assert run.code == 0, run
    result = Result.load(tmp_path / "r.json")
    (line,) = result.lines
    networks = [reader.recognizer.partition(",")[0] for reader in line.readers]
    assert networks[0] == "tiny-video" and {"r3d-18", "r2plus1d-18", "mvit-v2-s", "i3d-r50", "c3d"} >= set(networks[1:])
    assert len(networks) >= 4  # on clips as small as these some do not fit
    assert [attack.attacker for attack in line.attacks] == [f"frame-resnet-{depth}" for depth in (18, 34, 50, 101, 152)]
    assert len(trained) == len(networks) + 5


WRONG = [
    (["--protocol", "cross-dataset"], "cross-dataset needs a second data set"),
    (["--protocol", "cross-dataset"], "name both: --data 'ACTIONS + ATTRIBUTES'"),
    (["--protocol", "novel", "--data", "theatre:small-novel"], "nobody knows what is new"),
    (["--protocol", "novel-actions", "--data", "theatre"], "actions of theatre:novel are not new"),
    (["--protocol", "novel", "--data", "theatre:small + theatre:smal"], "did you mean 'theatre:small'?"),
    (["--protocol", "known", "--data", BOTH], f"there is no data set '{BOTH}'"),
    (["--protocol", "frame-level", "--attack", "video"], "video look at whole clips"),
    (["--protocol", "redressed", "--data", "folder:."], "no video in '.'"),
    (["--protocol", "frame-levl"], "did you mean 'frame-level'?"),
    (["--attack", "face"], "attack 'face' left out: theatre:small"),
]


@pytest.mark.parametrize(("arguments", "complaint"), WRONG)
def test_a_mistake_is_one_line_before_the_first_training(
    arguments: list[str],
    complaint: str,
    tmp_path: Path,
    sfumato: Any,
    trained: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)  # where no demo has left its videos
    assert complaint in sfumato("judge", "blur", "--runs", tmp_path / "runs", *arguments).error
    assert trained == []
