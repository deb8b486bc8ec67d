"""`sfumato benchmark --suite full`, from end to end on a theatre of a minute, and what it reuses."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from sfumato.anonymizers import load, untrained
from sfumato.anonymizers.storage import usable_names
from sfumato.claims import bench
from sfumato.claims.bench import Plan, Trial, about, network_of, read_trials
from sfumato.claims.rows import Row, read_rows, write_rows
from sfumato.commands import leaderboard
from sfumato.commands.leaderboard import EPOCHS, PAGE, RESULTS, TRIALS, data_name, frames_per_second
from sfumato.datasets import Clips, open_dataset
from sfumato.errors import SfumatoError
from sfumato.evaluation import scoring
from sfumato.methods import METHODS, find_method
from sfumato.report import leaderboard as report
from sfumato.report.leaderboard import as_markdown, boards
from sfumato.training.options import load_options

ROOT = Path(__file__).parents[2]
MOSAIC = {
    "width": 4, "cell": 2, "steps": 2, "batch": 4, "audit_steps": 0, "utility": "tiny-video", "auditor": "tiny-frame",
}  # fmt: skip
TWO = f"""
[[trial]]
name = "mosaic"
method = "spact"
config = {{ {", ".join(f"{key} = {json.dumps(value)}" for key, value in MOSAIC.items())} }}

[[trial]]
name = "downsample"
anonymizer = "downsample"
strengths = [2]
"""
FULL = ("benchmark", "--suite", "full", "--data", "theatre:small", "--device", "cpu")


def attack_with(names: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on the list has these attackers, "+"-joined as in a row."""
    for module in (leaderboard, report):
        monkeypatch.setattr(module, "ATTACKS", tuple(names.split("+")))


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with a trials file of its own, and nothing measured."""
    (tmp_path / TRIALS).parent.mkdir(parents=True)
    (tmp_path / TRIALS).write_text(TWO)
    monkeypatch.chdir(tmp_path)
    for name, value in (("WARM_UP", 0), ("LEAST", 1), ("MOST", 1)):
        monkeypatch.setattr(leaderboard, name, value)
    monkeypatch.setattr(leaderboard, "EPOCHS", 1)
    attack_with("identity-frames", monkeypatch)
    monkeypatch.setattr(scoring, "SAMPLES", 40)
    return tmp_path


def test_from_end_to_end_then_again_and_with_another_seed(
    checkout: Path, sfumato: Any, minute_theatre: None, trained: list[str]
) -> None:
    run = sfumato(*FULL, "--json", "out/board.json", "--report", "out/board.html")
    assert run.code == 0, run.err
    assert trained == ["action", "identity-frames"] * 4  # the mosaic, raw video, and two strengths
    rows = read_rows(RESULTS)
    assert [(r["trial"], r["strength"], r["judge_seeds"]) for r in rows] == [
        ("mosaic", "", ""), ("downsample", "", "1"), ("downsample", "2", "1"),
    ]  # fmt: skip
    assert [r["network"].partition(":")[0] for r in rows] == ["unet", "downsample", "downsample"]
    assert int(rows[0]["parameters"]) > 0 and rows[1]["parameters"] == "0"
    assert all(float(r["fps_cpu"]) > 0 and r["fps_cpu_on"] and not r.get("fps_gpu") for r in rows)
    found = boards(rows, read_trials(TRIALS), 1)
    assert PAGE.read_text() == as_markdown(found) and "| downsample at 2 |" in PAGE.read_text()
    (board,) = json.loads(Path("out/board.json").read_text())
    assert {e["name"] for e in board["entries"]} == {"mosaic", "downsample", "downsample at 2"}
    assert board["entries"][0]["fps_gpu"] is None and board["data"] == "theatre:small" and board["models"] == "tiny"
    assert "downsample at 2" in Path("out/board.html").read_text()

    before = RESULTS.read_bytes()
    assert sfumato(*FULL).code == 0 and len(trained) == 8 and RESULTS.read_bytes() == before
    # Two seeds: what is not trained is judged once more, as is raw video, and its row is still one.
    (checkout / TRIALS).write_text(TWO[TWO.rindex("[[trial]]") :].replace("strengths = [2]", ""))
    assert sfumato(*FULL, "--seeds", 2).code == 0
    assert len(trained) == 8 + 4
    rows = read_rows(RESULTS)
    assert sorted((r["trial"], r["strength"], r["judge_seeds"]) for r in rows) == [
        ("downsample", "", "2"), ("downsample", "2", "1"), ("mosaic", "", ""),
    ]  # fmt: skip
    (board,) = boards(rows, read_trials(TRIALS), 1)
    assert [(e.name, e.seeds) for e in board.entries] == [("downsample", 2)] and board.seeds == (0, 1)
    # More seeds than are asked for are enough.
    before = RESULTS.read_bytes()
    assert sfumato(*FULL).code == 0 and len(trained) == 12 and RESULTS.read_bytes() == before


class FakeBench:
    """Judges nothing and says so at once; a trial called `bad` cannot be done."""

    models = "standard"
    lacking: tuple[str, ...] = ()  # attackers for whom the data has no labels
    asked: list[tuple[str, int, list[float | None]]]

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def rows(self, trial: Trial, seed: int, strengths: list[float | None]) -> Iterator[Row]:
        FakeBench.asked.append((trial.name, seed, strengths))
        if trial.name == "bad":
            raise SfumatoError("it diverged", "train slower")
        for at in strengths:
            yield {
                **about(self.plan, trial, seed, at), **{f"action{end}": "0.8" for end in ("", "_low", "_high")},
                "action_raw": "0.9", "action_chance": "0.1", "residual": "0.5", "residual_low": "0.4",
                "residual_high": "0.6", "identity_residual": "0.5", "identity_attackers": "frames", "verdict": "measured",
                "network": "downsample:factor=2", "parameters": "0", "judge_models": self.models, "hardware": "a GPU",
                "commit": "abc", "attackers": "+".join(name for name in self.plan.attacks if name not in self.lacking),
            }  # fmt: skip


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch) -> type[FakeBench]:
    FakeBench.asked, FakeBench.models, FakeBench.lacking = [], "standard", ()
    monkeypatch.setattr(bench, "Bench", FakeBench)
    return FakeBench


def test_a_trial_that_cannot_be_done_stops_no_other_and_is_told_at_the_end(
    checkout: Path, sfumato: Any, judge: type[FakeBench]
) -> None:
    (checkout / TRIALS).write_text(TWO.replace('"mosaic"', '"bad"'))
    run = sfumato(*FULL, "--json", "board.json")
    assert run.code == 2
    told = run.err.splitlines()[-1]
    assert told.startswith("error: 1 of 3 trials could not be done (first: bad, seed 0: it diverged: train slower)")
    assert [row["trial"] for row in read_rows(RESULTS)] == ["downsample", "downsample"]
    assert len(json.loads(Path("board.json").read_text())[0]["entries"]) == 2
    assert "Not measured yet: bad." in PAGE.read_text()


def test_what_a_gpu_has_judged_a_laptop_only_times_but_not_the_other_way_round(
    checkout: Path, sfumato: Any, judge: type[FakeBench], monkeypatch: pytest.MonkeyPatch
) -> None:
    judge.models = "tiny"
    assert sfumato(*FULL).code == 0 and len(judge.asked) == 3
    judge.models = "standard"
    timed: list[str] = []
    fps = 1000.0
    monkeypatch.setattr(leaderboard, "pick_device", lambda name: torch.device("cuda:0" if name == "cuda" else "cpu"))
    monkeypatch.setattr(leaderboard, "hardware", lambda device: f"a {device.type}")

    def measure(anonymizer: Any, device: torch.device) -> float:
        timed.append(device.type)
        return fps

    monkeypatch.setattr(leaderboard, "frames_per_second", measure)
    assert sfumato(*FULL[:-1], "cuda").code == 0 and len(judge.asked) == 6 and timed == ["cuda"]
    rows = read_rows(RESULTS)
    assert len(rows) == 3 and {(r["judge_models"], r["fps_cpu"], r["fps_gpu"]) for r in rows} == {
        ("standard", "", "1000")
    }
    assert sfumato(*FULL).code == 0 and len(judge.asked) == 6 and timed == ["cuda", "cpu"]  # one network, once
    assert {(r["fps_cpu_on"], r["fps_gpu_on"]) for r in read_rows(RESULTS)} == {("a cpu", "a cuda")}
    assert sfumato(*FULL).code == 0 and timed == ["cuda", "cpu"]
    # A network has one speed: where a row lacks it, it is measured anew for all.
    rows, fps = read_rows(RESULTS), 2000.0
    write_rows(RESULTS, [rows[0] | {"fps_cpu": ""}, *rows[1:]])
    assert sfumato(*FULL).code == 0 and {r["fps_cpu"] for r in read_rows(RESULTS)} == {"2000"}


def test_a_laptop_with_more_seeds_takes_no_row_of_a_gpu_away(
    checkout: Path, sfumato: Any, judge: type[FakeBench]
) -> None:
    judge.models = "standard"
    assert sfumato(*FULL).code == 0

    def strong() -> list[tuple[str, str]]:
        return [(row["trial"], row["strength"]) for row in read_rows(RESULTS) if row["judge_models"] == "standard"]

    there = strong()
    judge.models = "tiny"
    assert sfumato(*FULL, "--seeds", 4).code == 0
    assert len(there) == 3 and strong() == there


def test_what_other_code_has_judged_is_judged_again(
    checkout: Path, sfumato: Any, judge: type[FakeBench], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert sfumato(*FULL).code == 0 and len(judge.asked) == 3
    assert sfumato(*FULL).code == 0 and len(judge.asked) == 3
    monkeypatch.setattr(leaderboard, "code_of", lambda method: "other")
    assert sfumato(*FULL).code == 0 and len(judge.asked) == 6
    assert {row["code"] for row in read_rows(RESULTS)} == {"other"}


def test_a_new_attacker_on_the_list_has_all_judged_again(
    checkout: Path, sfumato: Any, judge: type[FakeBench], monkeypatch: pytest.MonkeyPatch
) -> None:
    attack_with("identity-frames+frame", monkeypatch)
    assert sfumato(*FULL).code == 0 and len(judge.asked) == 3
    attack_with("frame", monkeypatch)  # to have met more is enough
    assert sfumato(*FULL).code == 0 and len(judge.asked) == 3
    attack_with("frame+decode-frame", monkeypatch)
    assert sfumato(*FULL).code == 0 and len(judge.asked) == 6
    assert [row["attackers"] for row in read_rows(RESULTS)] == ["frame+decode-frame"] * 3
    assert sfumato(*FULL).code == 0 and len(judge.asked) == 6


def test_an_attacker_without_labels_is_not_waited_for(
    checkout: Path, sfumato: Any, judge: type[FakeBench], monkeypatch: pytest.MonkeyPatch
) -> None:
    unlabelled = open_dataset("theatre:small")
    unlabelled.persons = ()
    monkeypatch.setattr(leaderboard, "open_dataset", lambda name: unlabelled)
    attack_with("identity-frames+frame", monkeypatch)
    judge.lacking = ("identity-frames",)
    assert sfumato(*FULL).code == 0 and sfumato(*FULL).code == 0
    assert len(judge.asked) == 3 and {row["attackers"] for row in read_rows(RESULTS)} == {"frame"}


def test_what_is_trained_comes_first(checkout: Path, sfumato: Any, judge: type[FakeBench]) -> None:
    parts = TWO.split("[[trial]]")
    (checkout / TRIALS).write_text("[[trial]]".join([parts[0], parts[2], parts[1]]))
    assert sfumato(*FULL, "--seeds", 2).code == 0
    assert judge.asked == [
        ("mosaic", 0, [None]),
        ("mosaic", 1, [None]),
        ("downsample", 0, [None]),
        ("downsample", 0, [2]),
    ]


def test_a_changed_trial_is_done_again_and_takes_the_old_rows_place(
    checkout: Path, sfumato: Any, judge: type[FakeBench]
) -> None:
    assert sfumato(*FULL).code == 0
    (checkout / TRIALS).write_text(TWO.replace('"steps": 2', "").replace("steps = 2", "steps = 3"))
    assert boards(read_rows(RESULTS), read_trials(TRIALS), 1)[0].waiting == ("mosaic",)
    assert sfumato(*FULL).code == 0
    assert judge.asked[3:] == [("mosaic", 0, [None])] and len(read_rows(RESULTS)) == 3


def test_a_teacher_that_is_not_there_leaves_its_trial_out(checkout: Path, sfumato: Any, judge: type[FakeBench]) -> None:
    (checkout / TRIALS).write_text(
        f'{TWO}\n[[trial]]\nname = "laf"\nmethod = "laf"\nconfig = {{ vlm = "runs/v/vlm" }}\n'
    )
    run = sfumato(*FULL)
    assert (
        run.code == 0
        and "left out: laf: there is no" in run.err
        and "sfumato train vlm --data theatre:small" in run.err
    )
    assert "laf" not in {name for name, _, _ in judge.asked}


def test_a_teacher_of_other_clips_leaves_its_trial_out(
    checkout: Path, sfumato: Any, judge: type[FakeBench], monkeypatch: pytest.MonkeyPatch
) -> None:
    (checkout / TRIALS).write_text(f'{TWO}\n[[trial]]\nname = "laf"\nmethod = "laf"\nconfig = {{ vlm = "vlm" }}\n')
    teacher = SimpleNamespace(clip=(8, 64, 64))
    monkeypatch.setattr(leaderboard, "load_vlm", lambda name: teacher)
    assert sfumato(*FULL).code == 0 and "laf" in {name for name, _, _ in judge.asked}
    teacher.clip = (8, 224, 224)
    RESULTS.unlink()
    run = sfumato(*FULL)
    assert (
        run.code == 0 and "left out: laf: its teacher 'vlm' takes clips of 8×224×224, and these are 8×64×64" in run.err
    )


def test_mistakes_are_one_line(checkout: Path, sfumato: Any, judge: type[FakeBench]) -> None:
    assert "did you mean 'theatre:small'?" in sfumato(*FULL, "--data", "theatre:smal").error
    assert "use --suite full" in sfumato("benchmark", "--data", "theatre").error
    assert "use --suite full" in sfumato("benchmark", "--lanes", 2).error
    shutil.rmtree("benchmarks")
    assert "run it in a checkout" in sfumato(*FULL).error
    assert judge.asked == []


def test_files_are_named_without_the_way_to_them(tmp_path: Path, make_video: Any) -> None:
    def write(folder: str, people: str, parts: str = "train train val val test test") -> str:
        lines = ["path,action,person,split"]
        for n, (person, part) in enumerate(zip(people, parts.split(), strict=True)):
            make_video(tmp_path / folder / "signs" / f"{n}.mp4", frames=4)
            lines.append(f"{n}.mp4,{'bow' if n % 2 else 'wave'},{person},{part}")
        (tmp_path / folder / "signs" / "index.csv").write_text("\n".join(lines))
        return f"manifest:{tmp_path}/{folder}/signs/index.csv?frames=4"

    made = [
        write("a", "ABABAB"),
        write("b", "ABABAB"),
        write("c", "ABABAA"),
        write("d", "ABABAB", "val val train train test test"),
    ]
    names = [data_name(data, open_dataset(data)) for data in made]
    assert names[0] == names[1] and len(set(names)) == 3
    assert names[0].startswith("manifest:signs/index.csv?frames=4@") and str(tmp_path) not in names[0]
    assert data_name("theatre:small", open_dataset("theatre:small")) == "theatre:small"


@pytest.mark.parametrize("name", ["blacken-people", "downsample"])
def test_speed_is_of_whole_clips_by_the_median_after_a_warm_up(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, seen = iter(range(10**6)), []
    durations = iter([50.0, 60.0, 70.0, 2.0, 4.0, 400.0, 4.0, 8.0])  # three to warm up, five that count
    now = [0.0]

    def pass_through(anonymizer: Any, clips: Clips, device: torch.device, batch: int) -> None:
        seen.append((tuple(clips.pixels.shape), clips.people is not None and bool(clips.people.any()), batch))
        now[0] += next(durations)
        next(clock)

    monkeypatch.setattr(leaderboard, "anonymize_clips", pass_through)
    monkeypatch.setattr(leaderboard.time, "perf_counter", lambda: now[0])
    assert frames_per_second(load(name), torch.device("cpu")) == 16 / 4.0
    assert seen == [((1, 1, 16, 3, 112, 112), True, 1)] * 8


def test_an_anonymizer_of_other_clips_is_timed_on_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaderboard, "LEAST", 1)
    monkeypatch.setattr(leaderboard, "MOST", 1)
    monkeypatch.setattr(leaderboard, "WARM_UP", 0)
    small = untrained("tubelets", embedding=24, frames=6, size=32)
    assert frames_per_second(small, torch.device("cpu")) > 0
    again = untrained(network_of(small).partition(":")[0], embedding=24, frames=6, size=32)
    assert network_of(again) == network_of(small) == "tubelets:embedding=24,frames=6,size=32"


def test_the_page_in_the_documentation_is_what_the_results_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    # When it fails: from sfumato.commands.leaderboard import *; write_page(read_trials(TRIALS))
    assert PAGE.read_text() == as_markdown(boards(read_rows(RESULTS), read_trials(TRIALS), EPOCHS))


def test_every_anonymizer_and_every_method_of_pictures_is_on_the_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    trials = read_trials(TRIALS)
    assert {t.anonymizer for t in trials if t.anonymizer} == set(usable_names()) - {"identity"}
    on_pictures = {name for name in METHODS.names() if not find_method(name).on_features}
    assert {t.method for t in trials if t.method} == on_pictures
    for trial in trials:
        if trial.anonymizer:
            for at in trial.strengths:
                load(trial.anonymizer, strength=at)
        else:
            recipe = Path(trial.recipe) if trial.recipe else None
            load_options(find_method(trial.method).config, recipe=recipe, settings=trial.settings())


def test_a_row_of_another_command_is_not_lost(checkout: Path, sfumato: Any, judge: type[FakeBench]) -> None:
    other = next(FakeBench(Plan("theatre", checkout, epochs=1)).rows(Trial("mosaic", "spact"), 0, [None]))
    really = FakeBench.rows

    def slow(self: FakeBench, trial: Trial, seed: int, strengths: list[float | None]) -> Iterator[Row]:
        write_rows(RESULTS, [*read_rows(RESULTS), other])
        yield from really(self, trial, seed, strengths)

    judge.asked.clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FakeBench, "rows", slow)
        assert sfumato(*FULL).code == 0
    assert sum(row["data"] == "theatre" for row in read_rows(RESULTS)) == 3
