"""`sfumato judge RESULT.json`: a stored result is shown again, unless somebody has edited it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from sfumato.evaluation import scoring
from sfumato.evaluation.result import Result

Files = Callable[[Path], list[str]]
RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a result and a certificate in it."""
    monkeypatch.setattr(scoring, "SAMPLES", 40)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.chdir(tmp_path)
    Path("r.json").write_bytes((RESULTS / "judge_lsa64.json").read_bytes())
    Path("c.json").write_bytes((RESULTS / "certificate_lsa64_spact.json").read_bytes())
    return tmp_path


def test_what_was_judged_is_shown_again(
    place: Path, sfumato: Any, minute_theatre: None, trained: list[str], files: Files
) -> None:
    run = sfumato("judge", "downsample", "--models", "tiny", "--attack", "identity", "--json", "new.json")
    assert trained == ["action", "identity"] * 2
    before, trained[:] = files(place), []
    again = sfumato("judge", "new.json", "--report", "r.html", "--json", "copy.json")
    assert again.code == 0 and trained == []
    told = run.out.removesuffix("result: new.json\n")
    assert again.out == f"{told}result: copy.json\nreport: r.html\n" and "Note: " in told
    assert Path("copy.json").read_bytes() == Path("new.json").read_bytes()
    assert "downsample" in Path("r.html").read_text()
    assert files(place) == sorted([*before, "copy.json", "r.html"])


@pytest.mark.parametrize("name", ["judge_lsa64.json", "judge_splavu_small_gait.json", "benchmark_quick_cpu.json"])
def test_a_committed_result_can_be_checked(name: str, sfumato: Any, trained: list[str]) -> None:
    run = sfumato("judge", RESULTS / name)
    flat = " ".join(run.out.split())
    assert run.code == 0 and trained == []
    assert all(" ".join(note.split()) in flat for note in Result.load(RESULTS / name).notes)


def test_an_edited_one_is_refused(sfumato: Any) -> None:
    stored = json.loads(Path("r.json").read_text())
    stored["lines"][1]["headline"]["value"] = 0.01
    Path("r.json").write_text(json.dumps(stored))
    assert "'r.json' was changed after it was written" in sfumato("judge", "r.json").error
    del stored["checksum"]
    Path("r.json").write_text(json.dumps(stored))
    assert "'r.json' has no checksum: it was edited, or is from before" in sfumato("judge", "r.json").error


WRONG = [
    (["r.json", "--data", "theatre", "--epochs", 2], "'r.json' is a result, shown as it was judged: leave --data, --epochs out"),
    (["r.json", "--data", "theatre:small"], "leave --data out"),  # though that is what it would be anyway
    (["r.json", "--attack", "frame", "--strict"], "leave --attack, --strict out"),
    (["r.json", "--runs", "runs"], "leave --runs out"),
    (["blur", "r.json"], "'r.json' is a result, shown by itself: name no other, or anonymizers alone"),
    (["nowhere.json"], "cannot read a result from 'nowhere.json'"),
    (["c.json"], "'c.json' is no result of schema sfumato-result/1"),
    (["r.json", "--json", "r", "--report", "./r"], "two results would both become 'r'"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "complaint"), WRONG)
def test_who_asks_for_more_than_that_is_told_in_one_line(
    arguments: list[object], complaint: str, place: Path, sfumato: Any, trained: list[str], files: Files
) -> None:
    assert complaint in sfumato("judge", *arguments).error
    assert trained == [] and files(place) == ["c.json", "r.json"]
