"""Rows become lines: means over seeds, intervals worked by hand, the best trade-off first, nothing that was not measured."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sfumato.claims.bench import Plan, Trial, about
from sfumato.claims.results import config_digest
from sfumato.claims.rows import Row
from sfumato.report.leaderboard import (
    ATTACKS,
    COMMAND,
    HEADINGS,
    Entry,
    as_json,
    as_markdown,
    boards,
    cells,
    notes,
    possible,
    references,
    warnings,
    write_html,
)

MOSAIC = Trial("mosaic", "spact", config={"cell": 4})
BLUR = Trial("blur", anonymizer="blur", strengths=(2.0,))
BLACK = Trial("black", anonymizer="blacken-people")
TRIALS = [MOSAIC, BLUR, BLACK]
MISSED = "decode-identity-frames"
MET = [name for name in ATTACKS if name != MISSED]
FEWER = "+".join(MET)


def row(trial: Trial, seed: int = 0, strength: float | None = None, data: str = "theatre", **other: Any) -> Row:
    """As it comes from a file: text."""
    plan = Plan(data, Path(), epochs=20, judge_seeds=int(other.get("judge_seeds", 3)))
    figures = {
        "action": 0.8, "action_low": 0.7, "action_high": 0.9, "action_raw": 0.9, "action_chance": 0.1,
        "identity_value": 0.5, "identity_low": 0.45, "identity_high": 0.57, "identity_raw": 0.9, "identity_chance": 0.1,
        "identity_attackers": "identity-frames", "identity_residual": 0.5, "attributes_value": "",
        "attributes_residual": "", "attributes_attackers": "", "residual": 0.5, "residual_low": 0.44,
        "residual_high": 0.59, "verdict": "measured", "parameters": 1100000, "judge_models": "standard",
        "hardware": "a GPU", "commit": "abc", "fps_gpu": "", "fps_cpu": 1234.5, "fps_cpu_on": "a laptop",
        "attackers": "+".join(ATTACKS),
    }  # fmt: skip
    return {key: str(value) for key, value in {**about(plan, trial, seed, strength), **figures, **other}.items()}


def test_one_training_keeps_its_interval_and_what_was_not_asked_stays_empty() -> None:
    ((entry,),) = [board.entries for board in boards([row(BLUR)], TRIALS, 20)]
    assert (entry.name, entry.method, entry.seeds, entry.attackers) == ("blur", "", 3, "identity-frames")
    assert entry.identity is not None and entry.attributes is None
    assert (entry.identity.value, entry.identity.low, entry.identity.high) == (0.5, 0.45, 0.57)
    assert (entry.identity.chance, entry.identity.raw) == (0.1, 0.9)
    assert (entry.residual.low, entry.residual.high) == (0.44, 0.59)
    # (.8 − .1)/(.9 − .1) of the action is kept, half of the leakage removed.
    assert entry.nhv == pytest.approx(0.875 * 0.5)
    assert entry.fps_cpu == 1234.5 and math.isnan(entry.fps_gpu)


def test_two_seeds_are_one_line_with_an_interval_over_seeds_and_clips() -> None:
    second = row(MOSAIC, 1, action="0.9", action_low="0.85", action_high="0.95", residual="0.7")
    (board,) = boards([row(MOSAIC), second], TRIALS, 20)
    (entry,) = board.entries
    # Clips: (.1 + .05)/2. Seeds: t of one degree of freedom, 12.706, times √(.005/2). 1.49 is more than a score can be.
    half = math.hypot(0.075, 12.706205 * 0.05)
    assert entry.action.value == pytest.approx(0.85) and entry.action.low == pytest.approx(0.85 - half)
    assert entry.action.high == 1.0
    assert entry.residual.value == pytest.approx(0.6)
    assert entry.nhv == pytest.approx((0.85 - 0.1) / 0.8 * 0.4)
    assert entry.seeds == 2 and board.seeds == (0, 1)


def test_the_worse_target_names_the_attacker() -> None:
    worse = {"attributes_value": 0.9, "attributes_residual": 0.6, "attributes_attackers": "video"}
    assert boards([row(BLUR, **worse)], TRIALS, 20)[0].entries[0].attackers == "video"
    assert boards([row(BLUR, **{**worse, "attributes_residual": 0.4})], TRIALS, 20)[0].entries[0].attackers == (
        "identity-frames"
    )


def test_the_best_trade_off_is_first_and_an_inconclusive_line_last() -> None:
    rows = [row(BLUR, residual="0.1", verdict="inconclusive"), row(BLUR, strength=2.0, residual="0.9"), row(MOSAIC)]
    (board,) = boards(rows, TRIALS, 20)
    assert [entry.name for entry in board.entries] == ["mosaic", "blur at 2", "blur"]
    assert math.isnan(board.entries[-1].nhv)
    page = as_markdown([board])
    assert "| ≥ 10.0 [44.0–59.0] |" in page and "did not reach its floor" in page


def test_every_data_set_and_every_judge_has_a_table_of_its_own() -> None:
    rows = [row(MOSAIC), row(MOSAIC, data="theatre:small"), row(MOSAIC, 1, judge_models="tiny")]
    assert [(b.data, b.models, b.entries[0].seeds) for b in boards(rows, TRIALS, 20)] == [
        ("theatre", "standard", 1), ("theatre:small", "standard", 1), ("theatre", "tiny", 1),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "old",
    [
        row(MOSAIC, settings="cell=8"), row(MOSAIC, judge_epochs=6), row(BLUR, strength=4.0),
        row(Trial("gone", anonymizer="blur")), row(MOSAIC, config="0123456789ab"),
    ],
)  # fmt: skip
def test_what_is_described_otherwise_now_does_not_count(old: Row) -> None:
    assert boards([old], TRIALS, 20) == []


@pytest.mark.parametrize("told", [{}, {"config": ""}, {"config": config_digest(MOSAIC)}])
def test_a_row_that_was_set_alike_or_does_not_tell_counts(told: dict[str, str]) -> None:
    assert [entry.name for entry in boards([row(MOSAIC, **told)], TRIALS, 20)[0].entries] == ["mosaic"]


def test_people_cannot_be_hidden_in_files() -> None:
    assert possible(BLACK, "theatre") and not possible(BLACK, "manifest:a/index.csv") and possible(MOSAIC, "folder:a")
    assert boards([row(BLUR)], TRIALS, 20)[0].waiting == ("mosaic", "blur at 2", "black")
    assert boards([row(BLUR, data="manifest:a/b.csv@12")], TRIALS, 20)[0].waiting == ("mosaic", "blur at 2")


def test_the_page_word_for_word() -> None:
    page = as_markdown(boards([row(BLUR), row(MOSAIC, fps_gpu="91234", fps_gpu_on="a GPU")], TRIALS, 20))
    assert "Nothing has been measured" not in page
    table = page.split("## theatre, standard judge\n\n")[1].splitlines()
    assert table[:6] == [
        "| " + " | ".join(HEADINGS) + " |", "|" + "---|" * len(HEADINGS),
        "| chance | 10.0 | 10.0 | – | 0.0 |  |  |  |  |  |  |",
        "| raw video | 90.0 | 90.0 | – | 100 |  |  |  |  |  |  |",
        "| blur | 80.0 [70.0–90.0] | 50.0 [45.0–57.0] | – | 50.0 [44.0–59.0] | identity-frames | 0.44 | 1,234 |  | 1.10 M | 3 |",
        "| mosaic | 80.0 [70.0–90.0] | 50.0 [45.0–57.0] | – | 50.0 [44.0–59.0] | identity-frames | 0.44 | 1,234 | 91,234 "
        "| 1.10 M | 1 |",
    ]  # fmt: skip
    judged = f"Judged on a GPU by standard models, 20 epochs each; seeds 0, 1, 2; commit abc. Attackers: {', '.join(ATTACKS)}."
    assert judged in table
    assert any("16×112×112" in line and line.endswith("on a laptop and a GPU.") for line in table)
    assert "Not measured yet: blur at 2, black." in table


def test_attackers_whom_a_line_has_not_met_are_named_before_the_table() -> None:
    everybody = "+".join(ATTACKS)

    def told(*attackers: str) -> list[str]:
        rows = [row(trial, attackers=those) for trial, those in zip((BLUR, MOSAIC), attackers, strict=True)]
        (board,) = boards(rows, TRIALS, 20)
        page = as_markdown([board])
        assert all(page.index(warning) < page.index("| raw video |") for warning in warnings(board))
        return [*warnings(board), *(note for note in notes(board) if "Attackers: " in note)]

    assert len(told(everybody, everybody)) == 1
    warning, judged = told(everybody, FEWER)
    assert judged.endswith(f"Attackers: {', '.join(MET)}.")
    assert warning.startswith(
        f"Lines that have not met every attacker on the list: 1 of 2 (unmet: {MISSED}). Their leakage is a lower bound"
    )
    warning, judged = told("", everybody)  # a row from before it was told
    assert judged.endswith("Attackers: not told.")
    assert f"1 of 2 (unmet: {', '.join(name for name in ATTACKS if 'identity' in name)})" in warning
    assert "2 of 2" in told(FEWER, FEWER)[0]


def test_a_line_that_has_not_met_all_attackers_is_a_bound_without_nhv_at_the_end(tmp_path: Path) -> None:
    def leaves(residual: float, verdict: str = "measured") -> dict[str, str]:
        ends = {"residual_low": str(residual - 0.05), "residual_high": str(residual + 0.05)}
        return {"residual": str(residual), "verdict": verdict, **ends}

    unmet = [
        row(BLUR, strength=4.0, attackers=FEWER, **leaves(0.2)), row(BLUR, strength=8.0, attackers=FEWER, **leaves(0.1)),
    ]  # fmt: skip
    others = [
        row(MOSAIC, **leaves(0.9)), row(BLACK, **leaves(0.05, "inconclusive")), row(BLUR, **leaves(0.6)),
    ]  # fmt: skip
    trials = [MOSAIC, replace(BLUR, strengths=(4.0, 8.0)), BLACK]
    (board,) = found = boards([*unmet, *others], trials, 20)
    assert [entry.name for entry in board.entries] == ["blur", "mosaic", "black", "blur at 8", "blur at 4"]
    marked = board.entries[-2]
    assert marked.unmet == (MISSED,) and math.isnan(marked.nhv) and board.entries[0].unmet == ()
    assert cells(marked)[4] == "≥ 10.0 [5.0–15.0]" and cells(marked)[6] == "–"
    assert cells(board.entries[0])[4] == "60.0 [55.0–65.0]"
    assert as_json(found)[0]["entries"][-2]["unmet"] == (MISSED,)
    write_html(found, tmp_path / "b.html")
    page = (tmp_path / "b.html").read_text()
    # All are drawn; hollow ones are not on the front, however little they seem to leak.
    drawn = re.findall(r'<g class="(point[^"]*)">.*?<title>([^:]*): [^,]*, ([a-z ]*)', page, re.DOTALL)
    kinds = {name: (set(kind.split()) - {"crowded"}, what) for kind, name, what in drawn}
    assert kinds == {
        "blur": ({"point", "best"}, "leakage removed "), "mosaic": ({"point"}, "leakage removed "),
        **{name: ({"point", "bounded"}, "leakage removed at most ") for name in ("black", "blur at 8", "blur at 4")},
    }  # fmt: skip
    assert "<td>≥ 10.0 " in page
    write_html(boards(unmet, trials, 20), tmp_path / "b.html")
    page = (tmp_path / "b.html").read_text()
    assert page.count('class="point bounded') == 2 and "2 of 2" in page and 'class="front"' not in page


def test_without_labels_no_attacker_on_a_target_is_missed() -> None:
    """Otherwise a data set that names nobody would be warned about for ever."""
    nobody = {"identity_value": "", "identity_residual": "", "attributes_value": 0.9, "attributes_residual": 0.5}
    there = "+".join(name for name in ATTACKS if "identity" not in name)
    (board,) = boards([row(BLUR, attackers=there, **nobody)], TRIALS, 20)
    assert warnings(board) == [] and board.entries[0].nhv == pytest.approx(0.875 * 0.5)
    (board,) = boards([row(BLUR, attackers="frame", **nobody)], TRIALS, 20)
    assert board.entries[0].unmet == tuple(name for name in ATTACKS if "identity" not in name and name != "frame")


def test_a_seed_before_fewer_attackers_is_not_averaged_with_others() -> None:
    def judged(seed: int, residual: str, attackers: str) -> Row:
        return row(MOSAIC, seed, residual=residual, attackers=attackers, commit=f"of {residual}")

    def line(*rows: Row) -> Entry:
        (board,) = boards(rows, TRIALS, 20)
        assert len(board.seeds) == board.entries[0].seeds == len(board.commits)
        return board.entries[0]

    everybody = "+".join(ATTACKS)
    old, new, newer = judged(0, "0.2", FEWER), judged(1, "0.6", everybody), judged(2, "0.7", everybody)
    found = line(old, new, newer)
    assert found.residual.value == pytest.approx(0.65) and found.seeds == 2 and found.unmet == ()
    assert line(old, newer).residual.value == 0.7
    # Of the list more is more, whoever else was there before.
    left = f"{FEWER}+video+identity"
    assert line(judged(0, "0.2", left), new).residual.value == 0.6
    assert line(old, judged(1, "0.3", left)).residual.value == 0.3


def test_raw_video_is_the_mean_of_what_stood_beside_the_entries() -> None:
    (board,) = boards([row(BLUR), row(MOSAIC, action_raw="0.8")], TRIALS, 20)
    chance, raw = references(board)
    assert (chance[:3], raw[:3]) == (("chance", "10.0", "10.0"), ("raw video", "85.0", "90.0"))


def test_an_empty_table_says_which_command_fills_it(tmp_path: Path) -> None:
    assert f"Nothing has been measured yet: `{COMMAND}`" in as_markdown([])
    assert "|---" not in as_markdown([])
    write_html([], tmp_path / "b.html")
    assert COMMAND in (tmp_path / "b.html").read_text() and "<table" not in (tmp_path / "b.html").read_text()
    assert as_json([]) == []


def test_the_html_page_stands_alone_and_holds_the_same_numbers(tmp_path: Path) -> None:
    found = boards([row(BLUR), row(MOSAIC), row(BLUR, strength=2.0, verdict="inconclusive")], TRIALS, 20)
    write_html(found, tmp_path / "new" / "b.html")
    page = (tmp_path / "new" / "b.html").read_text()
    assert page.startswith("<!doctype html>") and page.rstrip().endswith("</html>")
    assert not re.search(r"https?:|@import|url\(|<link|<iframe|<img|\bsrc=|\bfetch\b|XMLHttp|import\s*\(", page)
    assert '<td>80.0 <span class="sub">[70.0–90.0]</span></td>' in page
    assert page.count('class="point') == 3 and page.count('class="point bounded') == 1  # what is inconclusive is hollow
    assert page.count("<svg") == page.count("</svg>") == 1 and "svg.zoomable" in page
