"""The command's table: what it says, that all of it can be read, and how numbers are written."""

from __future__ import annotations

import io
import math

import pytest
from rich.console import Console

from sfumato.errors import SfumatoError
from sfumato.evaluation.metrics import always_yes_f1, coin_f1
from sfumato.evaluation.result import Result
from sfumato.report.table import gain_text, interval, leakage_text, percent, plain, render_table, verdict, with_interval


def printed(result: Result, width: int = 100) -> str:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(render_table(result))
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_numbers_are_written_in_percent_with_one_decimal() -> None:
    assert [percent(x) for x in (0.9441, 1.0, 0.0, -0.0301, -0.0001, math.nan)] == [
        "94.4",
        "100",
        "0.0",
        "−3.0",
        "0.0",
        "–",
    ]
    assert interval(0.931, 0.957) == "[93.1–95.7]"
    assert interval(math.nan, 0.9) == ""
    assert with_interval(0.9441, 0.931, 0.957) == "94.4 [93.1–95.7]"
    assert with_interval(0.9441, math.nan, math.nan) == "94.4"
    assert with_interval(math.nan, 0.1, 0.2) == "–"
    assert plain(0.4149) == "0.41"
    assert plain(math.nan) == "–"


def test_chance_comes_first_and_every_anonymizer_has_a_row(result: Result) -> None:
    table = render_table(result)
    names = [str(cell).replace("\n", "") for cell in table.columns[0].cells]
    assert names == ["chance", "raw video", "downsample:factor=4", "blur", "strong-blur-people", "noise"]
    chance = [str(next(iter(column.cells))) for column in table.columns]
    assert chance == ["chance", "10.0", "58.0", "5.0", "0.0", "–", ""]


def test_a_row_holds_its_scores_with_intervals(result: Result) -> None:
    row = [str(list(column.cells)[3]) for column in render_table(result).columns]
    # blur: (0.76 − 0.58)/(0.95 − 0.58) = 48.6%, worse than identity's (0.45 − 0.05)/(0.98 − 0.05) = 43.0%
    assert row == [
        "blur", "80.0 [78.0–82.0]", "76.0 [74.0–78.0]", "45.0 [43.0–47.0]", "48.6 [45.6–51.6]", "0.42", "measured",
    ]  # fmt: skip


def test_everything_is_readable_at_100_columns(result: Result) -> None:
    result.lines[1].anonymizer = "runs/my-long-experiment-name/anonymizer@1a2b3c4d"
    text = printed(result, 100)
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= 100
    for column in render_table(result).columns:
        for word in " ".join(str(cell) for cell in column.cells).split():
            assert word in text


def test_on_a_wide_console_a_score_and_its_interval_share_a_line(result: Result) -> None:
    assert "80.0 [78.0–82.0]" in printed(result, 140)


def test_a_narrow_console_loses_nothing(result: Result) -> None:
    assert "…" not in printed(result, 80)


def test_columns_of_targets_that_were_not_attacked_are_left_out(result: Result) -> None:
    for line in result.lines:
        line.strongest = [s for s in line.strongest if s.target == "identity"]
        line.attacks = [a for a in line.attacks if a.target == "identity"]
    headings = [str(column.header).replace("\n", " ") for column in render_table(result).columns]
    assert headings == ["Anonymizer", "Action top-1 ↑", "Identity top-1 ↓", "Residual leakage ↓", "NHV ↑", "Verdict"]


def test_an_inconclusive_line_gives_only_a_lower_bound(result: Result) -> None:
    noise = result.lines[-1]
    assert verdict(noise) == "inconclusive"
    assert leakage_text(noise) == "≥ 32.4 [29.4–35.4]"  # attributes were measured: (0.70 − 0.58)/0.37
    for strongest in noise.strongest:
        strongest.leakage.verdict = "inconclusive"
    assert leakage_text(noise) == "–"
    assert "the attributes and the identity attacker did not reach its floor on raw video" in printed(result, 200)


def test_raw_video_is_the_reference_unless_it_is_inconclusive(result: Result) -> None:
    assert verdict(result.lines[0]) == "reference"
    result.lines[0].headline.verdict = "inconclusive"
    assert verdict(result.lines[0]) == "inconclusive"


def test_the_caption_says_where_the_numbers_come_from(result: Result) -> None:
    result.data = "manifest:[bold]x[/bold].csv"  # no markup: printed as it is
    text = " ".join(printed(result).split())
    for part in (
        "manifest:[bold]x[/bold].csv",
        "240 test clips of 6 persons",
        "2 seeds",
        result.hardware,
        *result.notes,
        "(0, 0)",
    ):
        assert part in text


def test_one_of_anything_is_no_plural(result: Result) -> None:
    result.test_clips = result.test_persons = result.epochs = 1
    result.seeds = [0]
    assert "1 test clip of 1 person · 1 seed · 1 epoch · " in " ".join(printed(result).split())


def with_gains(result: Result) -> Result:
    """Of the attackers on attributes `frame` and `video` are the strongest, on some attribute each."""
    result.protocol = "zero-shot"
    for line in result.lines:
        for attack in line.attacks:
            for place, attribute in enumerate(attack.attributes):
                attribute.f1_gain, attribute.ap_gain = 0.031 - 0.03 * place, 0.0004
        line.attacks[1].attributes[0].ap_gain = 0.25
        line.attacks[1].validation += 0.01
    result.lines[2].attacks[1].attributes[3].f1_gain = math.nan
    return result


def test_zero_shot_says_the_strongest_attackers_gains(result: Result) -> None:
    found = with_gains(result)
    told = (
        "video against answers without looking, in points of F1 over a coin, F1 over always yes, and AP: "
        "face +3.1, +8.0 and +25.0, skin +0.1, +8.0 and 0.0, gender −2.9, +8.0 and 0.0, nudity –, – and 0.0, "
        "relationship −8.9, +8.0 and 0.0"
    )
    assert gain_text(found, found.lines[2]) == told
    text = " ".join(printed(found).split())
    assert f"Note: blur: {told}" in text and "Note: raw video: video against" in text
    found.lines[2].strongest[0].attackers = ["frame"]
    assert gain_text(found, found.lines[2]).startswith(
        "frame against answers without looking, in points of F1 over a coin, F1 over always yes, and AP: "
        "face +3.1, +8.0 and 0.0"
    )


def test_who_always_says_yes_is_not_said_to_read_anything(result: Result) -> None:
    # On a prevalence of .906, VP-HMDB51's faces; the paper's gain alone looks as if much were read.
    found = with_gains(result)
    face = found.lines[2].attacks[1].attributes[0]
    face.coin_f1, face.always_yes_f1 = coin_f1(0.906), always_yes_f1(0.906)
    face.f1, face.f1_gain, face.ap_gain = face.always_yes_f1, face.always_yes_f1 - face.coin_f1, 0.0
    told = gain_text(found, found.lines[2])
    assert ": face +30.6, 0.0 and 0.0, skin" in told
    assert "reads" not in told and "beyond" not in told


def test_other_protocols_and_results_without_gains_say_nothing_of_them(result: Result) -> None:
    result.protocol = "zero-shot"
    assert "without looking" not in printed(result)  # not known: they are NaN
    with_gains(result).protocol = "known"
    assert "without looking" not in printed(result)


def test_a_result_without_lines_is_refused(result: Result) -> None:
    result.lines = []
    with pytest.raises(SfumatoError, match="judge at least one anonymizer"):
        render_table(result)
