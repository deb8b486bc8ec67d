"""`sfumato train`, from end to end with networks that take milliseconds, and all the ways to ask it wrongly."""

from __future__ import annotations

import csv
import json
import os
import shlex
import shutil
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sfumato import __version__
from sfumato.anonymizers import fingerprint, load
from sfumato.cli import main
from sfumato.commands import train
from sfumato.datasets import theatre
from sfumato.datasets.files import FileDataset
from sfumato.evaluation import scoring
from sfumato.evaluation.result import Result
from sfumato.methods import METHODS, find_method
from sfumato.methods.spact.config import SPActConfig
from sfumato.recognizers.vlm import SmallVLM, SmallVLMConfig, save_vlm
from sfumato.training.minimax import Game
from sfumato.training.options import to_dict
from sfumato.training.run import RunFolder
from sfumato.video import VideoWriter

Files = Callable[[Path], list[str]]
TINY: dict[str, Any] = {
    "width": 4, "utility": "tiny-video", "utility_width": 0.25, "budget_models": "tiny-frame", "budget_width": 0.25,
    "batch": 4, "privacy_batch": 4, "reconstruction_steps": 1, "opponent_steps": 1, "steps": 2, "audit_steps": 1,
    "auditor": "tiny-frame", "budget_update": "updated",
}  # fmt: skip
SIZE = "?frames=2&size=16"
SHORTEST = {"reconstruction_steps": 0, "opponent_steps": 0, "steps": 1, "audit_steps": 0}


def tiny(**changes: Any) -> list[str]:
    """The options that make a training take a second."""
    return [word for key, value in {**TINY, **changes}.items() for word in ("--set", f"{key}={value}")]


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, minute_theatre: None) -> Path:
    """An empty working folder on a machine without a GPU, with a theatre of 24 clips."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    return tmp_path


@pytest.fixture(scope="session")
def clips(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve videos of two actions by two persons, half of them with a hat, as tables and as folders."""
    root = tmp_path_factory.mktemp("twelve")
    rows = []
    for n in range(12):
        action, person, part = n % 2, n // 2 % 2, ("train", "val", "test")[n // 4]
        picture = np.random.default_rng(person).integers(0, 255, (24, 24, 3)).astype(np.uint8)
        path = root / "folders" / part / ("left", "right")[action] / f"{n}.mp4"
        path.parent.mkdir(parents=True, exist_ok=True)
        with VideoWriter(path, 25, (24, 24)) as writer:
            for t in range(4):
                writer.write(np.roll(picture, t * (1 - 2 * action), axis=1))
        row = {"path": path.relative_to(root), "action": path.parent.name, "person": person, "hat": "ny"[person]}
        rows.append({**row, "split": part})
    write_table(root / "index.csv", rows)
    write_table(root / "actions.csv", [{key: row[key] for key in ("path", "action", "split")} for row in rows])
    write_table(root / "left.csv", [row for row in rows if row["action"] == "left"])
    return root


def write_table(path: Path, rows: list[dict[str, Any]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_from_end_to_end(
    place: Path, sfumato: Any, make_video: Any, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = sfumato("train", "spact", *tiny(steps=20), "--seed", 3)
    assert run.code == 0
    shown = run.out.splitlines()
    assert shown[0] == "anonymizer: runs/spact/anonymizer"
    assert shown[1].startswith("action on new people, by the f_T it was trained with: ")
    assert shown[2].startswith("share of the picture that is not black: ")
    assert [word in shown[3] for word in ("attacker", "guessing", "raw video", "trained against", "fresh")] == [
        True
    ] * 5
    assert shown[4].split()[:3] == ["tiny-frame", "nt-xent", "2.1%"]  # one of 47: two views of 24 clips
    assert shown[4].count("%") == 4 and shown[5].split()[:2] == ["tiny-frame", "labels"]
    assert "about real video it has shown nothing" in run.out
    assert shown[-1] == "judge it: sfumato judge runs/spact/anonymizer --data theatre:small"

    folder = Path("runs/spact")
    assert {name.split("/")[0] for name in files(folder)} == {
        "run.json", "metrics.jsonl", "frames", "anonymizer", "result.json",
    }  # fmt: skip
    about = json.loads((folder / "run.json").read_text())
    assert about["config"] == to_dict(SPActConfig(**{**TINY, "steps": 20}))
    asked = {"method": "spact", "seed": 3, "data": "theatre:small", "privacy_data": "theatre:small", "devices": 1}
    assert asked.items() <= about.items()
    assert about["versions"]["sfumato"] == __version__ and about["commit"] and about["hardware"]
    logged = lines(folder / "metrics.jsonl")
    steps = [(line["phase"], line["step"]) for line in logged if line["kind"] == "step"]
    assert steps == [("reconstruct", 1), ("opponents", 1), ("minimax", 10), ("minimax", 20), ("audit", 1)]
    assert {"frames/minimax-000005.png", "frames/minimax-000020.png"} <= set(files(folder))
    audit = json.loads((folder / "result.json").read_text())["audit"]
    assert [row.keys() for row in audit] == [{"f_B", "task", "chance", "raw", "in training", "fresh", "verdict"}] * 2

    video = make_video(place / "in.mp4", size=(16, 16))
    assert sfumato("anonymize", video, "--with", folder / "anonymizer", "-o", "out.mp4").code == 0
    assert Path("out.mp4").stat().st_size
    monkeypatch.setattr(scoring, "SAMPLES", 40)
    judged = sfumato(*shlex.split(shown[-1])[3:], "--models", "tiny", "--epochs", 1, "--attack", "frame", "--json", "j")
    assert judged.code == 0
    names = [line.anonymizer for line in Result.load(Path("j")).lines]
    assert names[0] == "identity" and names[1].startswith("spact@") and len(names) == 2


# Who trains on features has tests of its own.
@pytest.mark.parametrize("method", [name for name in METHODS.names() if not find_method(name).on_features])
def test_every_method_trains(method: str, sfumato: Any) -> None:
    asked, known = {**TINY, "reconstruction_steps": 2}, vars(find_method(method).config())
    once = dict.fromkeys(("initialisation_steps", "phase1_steps", "phase2_steps", "phase3_steps"), 1)
    own = {"embedding": 24, "vlm": "vlm", **once}
    save_vlm(SmallVLM(SmallVLMConfig((2, 16, 16), ("a",), width=16, depth=1, text_depth=1)), "vlm")
    settings = {key: value for key, value in (asked | own).items() if key in known}
    run = sfumato("train", method, *(word for pair in settings.items() for word in ("--set", "{}={}".format(*pair))))
    assert run.code == 0, run.err
    assert f"anonymizer: runs/{method}/anonymizer" in run.out
    load(f"runs/{method}/anonymizer")


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ("theatre:small", "judge runs/laf/anonymizer --data theatre:small-unseen --protocol zero-shot --vlm vlm"),
        ("footage:recordings?frames=2&size=16", "certify runs/laf/anonymizer --footage recordings"),
    ],
)
def test_what_learns_without_labels_reads_none(
    data: str, told: str, sfumato: Any, make_video: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def locked(*_: object) -> None:
        raise AssertionError("labels were read")

    for each in (theatre.TheatreDataset, FileDataset):
        monkeypatch.setattr(each, "labels", locked)
    for n in range(3):
        make_video(Path(f"recordings/{n % 2}/{n}.mp4"), frames=16, seed=n)
    save_vlm(SmallVLM(SmallVLMConfig((2, 16, 16), ("a",), width=16, depth=1, text_depth=1)), "vlm")
    steps = ("reconstruction_steps", "phase1_steps", "phase2_steps", "phase3_steps")
    settings = {"vlm": "vlm", "embedding": 24, "depth": 1, "batch": 2, **dict.fromkeys(steps, 1)}
    run = sfumato(
        "train", "laf", "--data", data, *(word for s in settings.items() for word in ("--set", "{}={}".format(*s)))
    )
    assert run.code == 0, run.err
    assert run.out.splitlines()[-1] == f"judge it: sfumato {told}"
    load("runs/laf/anonymizer")


def test_a_teacher_that_is_not_there_is_told_before_any_clip_is_loaded(
    sfumato: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sfumato.commands.train.open_dataset", None)  # who opens it fails
    assert "no folder 'nowhere'" in sfumato("train", "laf", "--data", "theatre:small", "--set", "vlm=nowhere").error


def test_a_teacher_for_other_clips_is_told_before_any_is_loaded(sfumato: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sfumato.commands.train.load_bank", None)  # who loads fails
    error = sfumato("train", "laf", "--data", "theatre", "--set", "vlm=vlm").error
    assert "takes 8 frames of 64×64, and the clips of theatre have 16 of 112×112" in error


def test_progress_off_a_terminal_is_a_few_lines_per_phase(sfumato: Any) -> None:
    run = sfumato("train", "spact", *tiny(steps=20, batch=6, audit_steps=0))
    said = run.err.splitlines()
    assert [line.split(",")[0] for line in said] == [
        "reconstruct 1/1", "opponents 1/1", "minimax 10/20", "minimax 20/20",
    ]  # fmt: skip
    assert said[3].startswith("minimax 20/20, epoch 5.0: f_A action ")  # 20 steps of 6 clips are 5 times 24
    assert ", L_B " in said[3] and ", f_B reads " in said[3]


def test_a_long_phase_has_about_ten_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with train.bars() as shown:
        screen = train.Screen(shown)
        screen.phase("minimax", 4000, 0, 1)
        for done in range(10, 4001, 10):
            screen.step(done, {"L_T": 0.5})
    assert len(capsys.readouterr().err.splitlines()) == 10


def test_a_recipe_gives_method_and_data_and_set_overrides_it(clips: Path, sfumato: Any) -> None:
    Path("mine.toml").write_text(
        f'method = "penalty"\ndata = "manifest:{clips}/index.csv{SIZE}"\nprivacy_data = "theatre:small"\n'
        "[config]\npenalty_limit = 0.6\nbatch = 5\n"
    )
    assert sfumato("train", "--recipe", "mine.toml", *tiny(**SHORTEST)).code == 0
    about = RunFolder(Path("runs/penalty")).about()
    assert (about["data"], about["privacy_data"]) == (f"manifest:{clips}/index.csv{SIZE}", "theatre:small")
    assert (about["config"]["penalty_limit"], about["config"]["batch"]) == (0.6, 4)

    assert (
        sfumato("train", "--recipe", "mine.toml", "--data", "theatre:small", *tiny(**SHORTEST), "--out", "other").code
        == 0
    )
    assert RunFolder(Path("other")).about()["data"] == "theatre:small"


def test_a_recipe_without_a_method_fits_the_one_that_is_named(sfumato: Any) -> None:
    Path("any.toml").write_text("[config]\nbudget_weight = 2\n")
    assert sfumato("train", "vita", "--recipe", "any.toml", *tiny(**SHORTEST)).code == 0
    assert RunFolder(Path("runs/vita")).about()["config"]["budget_weight"] == 2
    assert "no method is named" in sfumato("train", "--recipe", "any.toml").error


WRONG = [
    ([], "no method is named: name one (see `sfumato list methods`)"),
    (["spac"], "there is no method 'spac': did you mean 'spact'?"),
    (["spact", "--set", "stepps=3"], "there is no setting 'stepps': did you mean 'steps'?"),
    (
        ["spact", "--set", "budget=moco", "--set", "budget_update=none"],
        "is a setting of f_B, and with budget_update=none nobody plays it: add --set budget_update=updated",
    ),
    (["spact", "--set", "steps"], "'steps' sets nothing: write --set key=value"),
    (["spact", "--set", "steps=0"], "steps = '0' does not fit: use a whole number of at least 1"),
    (["spact", "--set", "steps=many"], "steps = 'many' does not fit: use a whole number"),
    (["spact", "--set", "budget_weight=-1"], "budget_weight (ω) = '-1' does not fit"),
    (["spact", "--set", "anonymizer=blur"], "use one of unet, unet++"),
    (["spact", "--set", "utility=r3d18"], "there is no recognizer 'r3d18': did you mean 'r3d-18'?"),
    (["spact", "--set", "positives=near"], "positives = 'near' is no rule: use any, <8"),
    (["spact", "--set", "positives=>64"], "videos of theatre:small have no two frames >64 frames apart"),
    (["spact", "--set", "history=2"], "set restart_steps too"),
    (["spact", "--data", "theater"], "there is no data set 'theater': did you mean 'theatre'?"),
    (["spact", "--privacy-data", "theatre:smal"], "did you mean 'theatre:small'?"),
    (["spact", "--data", "manifest:nowhere.csv"], "cannot read the table 'nowhere.csv'"),
    (["spact", "--data", "folder:nowhere"], "there is no folder 'nowhere'"),
    (["spact", "--data", f"manifest:twelve/left.csv{SIZE}"], "has fewer than two actions"),
    (["vita", "--data", f"manifest:twelve/actions.csv{SIZE}"], "has no privacy labels: "),
    (["vita", "--data", f"folder:twelve/folders{SIZE}"], "has no privacy labels: "),
    (["spact", "--privacy-data", "manifest:twelve/index.csv?size=24&frames=2"], "size=24&frames=2 differ in size: give both"),
    (["spact", "--recipe", "nowhere.toml"], "cannot read the recipe 'nowhere.toml'"),
    (["spact", "--recipe", "notes.txt"], "the recipe 'notes.txt' is not valid TOML"),
    (["spact", "--recipe", "vita.toml"], "'vita.toml' is a recipe for vita, not for spact: train vita"),
    (["vita", "--recipe", "vita.toml", "--set", "penalty_limit=1"], "there is no setting 'penalty_limit'"),
    (["spact", "--device", "cuda"], "no usable CUDA GPU: use --device cpu"),
    (["spact", "--out", "notes.txt"], "'notes.txt' is a file: name a folder with --out"),
    (["spact", "--out", "notes.txt/run"], "cannot write 'notes.txt/run' (Not a directory): choose another --out"),
    (["spact", "--out", "twelve"], "'twelve' has files in it but no run: choose an empty or a new folder as --out"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "complaint"), WRONG)
def test_a_mistake_is_one_line_and_leaves_nothing(
    arguments: list[str], complaint: str, place: Path, clips: Path, sfumato: Any
) -> None:
    Path("twelve").symlink_to(clips)
    Path("notes.txt").write_text("no recipe\n")
    Path("vita.toml").write_text('method = "vita"\n')
    before = sorted(place.rglob("*"))
    assert complaint in sfumato("train", *tiny(), "--out", "runs/new", *arguments).error
    assert sorted(place.rglob("*")) == before


def test_what_is_set_of_a_phase_that_is_not_played_is_refused(place: Path, sfumato: Any) -> None:
    Path("whole.toml").write_text('method = "laf"\n[config]\nvlm = "nowhere"\nphase1_steps = 9\n')
    told = ["train", "--recipe", "whole.toml", "--set", "phases=3"]
    assert sfumato(*told, "--set", "phase2_rate=1e-3").error == (
        "'phase2_rate' is a setting of a phase that phases=3 does not play: leave one of them out"
    )
    assert "there is no folder 'nowhere'" in sfumato(*told).error  # a recipe may tell of one


@pytest.mark.parametrize("arguments", [["--devices", 0], ["--seed", "some"], ["--nonsense"]])
def test_what_no_option_takes_is_a_usage_error(arguments: list[object], place: Path, sfumato: Any) -> None:
    run = sfumato("train", "spact", *arguments)
    assert (run.code, run.out) == (2, "")
    assert "Usage" in run.err and "Traceback" not in run.err
    assert list(place.iterdir()) == []


@pytest.mark.parametrize("table", ["manifest:{}/actions.csv", "folder:{}/folders"])
def test_spact_needs_no_labels_of_people(table: str, clips: Path, sfumato: Any) -> None:
    data = f"{table.format(clips)}{SIZE}"
    run = sfumato("train", "spact", "--data", data, *tiny(), "--out", "my run", "--seed", -1)
    assert run.code == 0
    # as one would type it: no `&` may reach the shell
    assert run.out.splitlines()[-1] == f"judge it: sfumato judge 'my run/anonymizer' --data '{data}'"


def test_a_batch_may_be_larger_than_the_data(clips: Path, sfumato: Any) -> None:
    data = ["--data", f"manifest:{clips}/index.csv{SIZE}"]
    assert sfumato("train", "spact", *data, *tiny(batch=9, privacy_batch=11)).code == 0


def test_data_sets_may_differ_in_length(sfumato: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    longer = replace(theatre.PRESETS["small"], frames=4, sizes=(30, 8, 8))
    monkeypatch.setitem(theatre.PRESETS, "small-novel", longer)
    run = sfumato(
        "train", "spact", "--privacy-data", "theatre:small-novel", *tiny(budget_models="tiny-frame+tiny-video")
    )
    assert run.code == 0
    assert [line.split()[0] for line in run.out.splitlines()[4:6]] == ["tiny-frame", "tiny-video"]


def test_bad_rows_are_left_out_and_listed(clips: Path, sfumato: Any) -> None:
    rows = list(csv.DictReader((clips / "index.csv").open()))
    write_table(clips / "gone.csv", [*rows, {**rows[0], "path": "gone.mp4"}])
    run = sfumato("train", "spact", "--data", f"manifest:{clips}/gone.csv{SIZE}", *tiny(**SHORTEST))
    assert run.code == 0
    assert run.err.splitlines().count("left out: gone.csv line 14: there is no file 'gone.mp4'") == 1


LAF_STEPS = ("reconstruction_steps", "phase1_steps", "phase2_steps", "phase3_steps")
TINY_LAF = {"vlm": "vlm", "embedding": 24, "depth": 1, "batch": 2, **dict.fromkeys(LAF_STEPS, 1)}


def train_small(method: str, settings: dict[str, Any], *more: object) -> list[object]:
    """A command that would take a second, and the vision-language model that laf asks for."""
    save_vlm(SmallVLM(SmallVLMConfig((2, 16, 16), ("a",), width=16, depth=1, text_depth=1)), "vlm")
    return ["train", method, *(f"--set={key}={value}" for key, value in settings.items()), *more]


@pytest.mark.parametrize(("method", "settings"), [("spact", {**TINY, **SHORTEST}), ("splavu", {}), ("laf", TINY_LAF)])
def test_strict_stops_at_a_bad_row(method: str, settings: dict[str, Any], clips: Path, sfumato: Any) -> None:
    rows = list(csv.DictReader((clips / "index.csv").open()))
    write_table(clips / "bad.csv", [*rows, {**rows[0], "path": "gone.mp4"}])
    command = train_small(method, settings, "--strict")
    bad = f"manifest:{clips}/bad.csv{SIZE}"
    assert "bad.csv line 14: there is no file 'gone.mp4': mend the row" in sfumato(*command, "--data", bad).error
    if method != "laf":  # which takes one data set
        assert "bad.csv line 14: " in sfumato(*command, "--privacy-data", bad).error
    assert not Path("runs").exists()


def test_the_same_row_of_two_roles_is_told_once(clips: Path, sfumato: Any) -> None:
    rows = list(csv.DictReader((clips / "index.csv").open()))
    write_table(clips / "both.csv", [*rows, {**rows[0], "path": "gone.mp4"}])
    table = f"manifest:{clips}/both.csv"
    data = ["--data", f"{table}{SIZE}", "--privacy-data", f"{table}?size=16&frames=2"]
    run = sfumato("train", "spact", *data, *tiny(**SHORTEST))
    assert run.code == 0 and run.err.count("left out: ") == 1


@pytest.mark.parametrize(("method", "settings"), [("spact", {**TINY, **SHORTEST}), ("laf", TINY_LAF)])
def test_a_truncated_video_is_told_once_or_stops_it(
    method: str, settings: dict[str, Any], clips: Path, make_video: Any, sfumato: Any
) -> None:
    shutil.copytree(clips, "own")
    long = make_video(Path("own/long.mp4"), frames=40)
    long.write_bytes(long.read_bytes()[: long.stat().st_size // 2])  # its header still promises 40 frames
    rows = list(csv.DictReader((clips / "index.csv").open()))
    write_table(Path("own/long.csv"), [*rows, {**rows[0], "path": "long.mp4"}])
    command = train_small(method, settings, "--data", f"manifest:own/long.csv{SIZE}")
    found = f"long.csv line 14: '{long.resolve()}' has "
    assert sfumato(*command, "--strict").error.startswith(found)
    assert not Path("runs").exists()
    write_table(Path("own/long.csv"), [*rows, *({**rows[0], "path": path} for path in ("long.mp4", "gone.mp4"))])
    run = sfumato(*command)
    assert run.code == 0
    gone, cut = [line for line in run.err.splitlines() if line.startswith("left out: ")]
    assert gone == "left out: long.csv line 15: there is no file 'gone.mp4'"
    assert cut.startswith(f"left out: {found}") and "readable frames" in cut


def test_a_run_is_not_trained_over(sfumato: Any, files: Files) -> None:
    command = ["train", "spact", *tiny()]
    first = sfumato(*command)
    assert first.code == 0
    weights = Path("runs/spact/anonymizer/model.safetensors")
    before = (weights.read_bytes(), weights.stat().st_mtime_ns, files(Path("runs")))
    assert "'runs/spact' already holds a run: go on with it by --resume, or choose another --out" in (
        sfumato(*command).error
    )
    assert "'runs/spact' holds another run (steps: 2 -> 3): resume with the settings it began with" in (
        sfumato(*command, "--set", "steps=3", "--resume").error
    )
    assert "(data: theatre:small -> theatre; " in sfumato(*command, "--data", "theatre", "--resume").error
    again = sfumato(*command, "--resume")
    assert (again.code, again.err, again.out) == (0, "'runs/spact' is finished already\n", first.out)
    assert (weights.read_bytes(), weights.stat().st_mtime_ns, files(Path("runs"))) == before


def test_what_stops_before_the_first_step_leaves_nothing_and_what_stops_later_stays(
    place: Path, sfumato: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    command = ["train", "spact", *tiny(), "--out", "kept/deep/new"]
    Path("kept").mkdir()
    with monkeypatch.context() as patch:
        patch.setattr(train, "load_bank", stop)
        run = sfumato(*command)
    assert (run.code, run.out, run.err) == (130, "", "stopped: run the same command with --resume to go on\n")
    assert list(place.rglob("*")) == [place / "kept"]

    with monkeypatch.context() as patch:
        patch.setattr("sfumato.training.minimax.Game.audit_step", stop)
        assert sfumato(*command).code == 130
    assert Path("kept/deep/new/checkpoint.pt").exists()
    assert sfumato(*command, "--resume").code == 0


def test_a_full_gpu_is_one_line(sfumato: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB.")

    monkeypatch.setattr("sfumato.training.frame_game.FrameGame.reconstruction_step", full)
    assert sfumato("train", "spact", *tiny()).error.startswith("the memory of the GPU is full: set a smaller batch")


def test_a_training_that_breaks_down_says_so(sfumato: Any) -> None:
    run = sfumato("train", "spact", *tiny(anonymizer_rate=1e30, steps=10))
    assert run.code == 2
    assert run.err.splitlines()[-1].startswith("error: training broke down in phase 'minimax' at step 10: ")
    assert "smaller rates" in run.err


def test_ctrl_c_leaves_a_run_that_goes_on_as_if_nothing_had_been(
    clips: Path, sfumato: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    handler = signal.getsignal(signal.SIGINT)
    command = ["train", "spact", "--data", f"manifest:{clips}/index.csv{SIZE}", *tiny(steps=6)]
    step = Game.anonymizer_step

    def interrupted(game: Game, number: int, *rest: Any) -> Any:
        if number == 3:  # in the middle of f_A's fourth step
            os.kill(os.getpid(), signal.SIGINT)
        return step(game, number, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(Game, "anonymizer_step", interrupted)
        stopped = sfumato(*command, "--out", "stopped")
    assert (stopped.code, stopped.out) == (130, "")
    assert stopped.err.splitlines()[-1] == "stopped: run the same command with --resume to go on"
    assert "Traceback" not in stopped.err
    assert not Path("stopped/result.json").exists()

    assert sfumato(*command, "--out", "stopped", "--resume").code == 0
    assert sfumato(*command, "--out", "whole").code == 0
    assert fingerprint(load("stopped/anonymizer")) == fingerprint(load("whole/anonymizer"))
    assert lines(Path("stopped/metrics.jsonl")) == lines(Path("whole/metrics.jsonl"))
    assert Path("stopped/result.json").read_text() == Path("whole/result.json").read_text()
    assert signal.getsignal(signal.SIGINT) is handler


def two_processes(clips: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """How the command ends, on two of them."""
    command = ["train", "spact", "--data", f"manifest:{clips}/index.csv{SIZE}", *tiny(), "--devices", "2"]
    monkeypatch.setattr(sys, "argv", ["sfumato", *command])
    with pytest.raises(SystemExit) as end:
        main()
    return int(end.value.code or 0)


def test_two_processes_train_one_anonymizer(
    clips: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], quick_processes: None
) -> None:
    assert two_processes(clips, monkeypatch) == 0
    assert capsys.readouterr().out.splitlines()[0] == "anonymizer: runs/spact/anonymizer"
    # One of them writes.
    steps = [
        (line["phase"], line["step"]) for line in lines(Path("runs/spact/metrics.jsonl")) if line["kind"] == "step"
    ]
    assert steps == [("reconstruct", 1), ("opponents", 1), ("minimax", 2), ("audit", 1)]
    assert RunFolder(Path("runs/spact")).about()["devices"] == 2
    load("runs/spact/anonymizer")


@pytest.mark.nightly  # what processes say is heard of those alone that load torch by themselves, which takes long
def test_one_of_two_processes_speaks(
    clips: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    code = two_processes(clips, monkeypatch)
    shown = capfd.readouterr()  # of all processes
    assert code == 0, shown.err
    # One of them speaks and writes; a step takes both their batches, 8 of the 4 clips there are.
    assert [line.split(":")[0] for line in shown.err.splitlines()] == [
        "reconstruct 1/1, epoch 2.0", "opponents 1/1, epoch 2.0", "minimax 2/2, epoch 4.0", "audit 1/1, epoch 2.0",
    ]  # fmt: skip


SMALL_VLM = {
    "width": 16, "depth": 1, "temporal_depth": 1, "text_width": 16, "text_depth": 1, "embedding": 16, "batch": 4, "steps": 2,
}  # fmt: skip


def teach(*more: object) -> list[object]:
    return ["train", "vlm", *(word for item in SMALL_VLM.items() for word in ("--set", "{}={}".format(*item))), *more]


@pytest.fixture
def minute_unseen(monkeypatch: pytest.MonkeyPatch) -> None:
    small = replace(theatre.PRESETS["small-unseen"], side=16, frames=2, cast=(2, 1, 1), sizes=(24, 24, 24))
    monkeypatch.setitem(theatre.PRESETS, "small-unseen", small)
    monkeypatch.setattr("sfumato.training.captions.WATCHED", 4)


def test_a_vision_language_model_is_taught_and_judges(sfumato: Any, minute_unseen: None) -> None:
    run = sfumato(*teach("--data", "theatre:small", "--out", "taught"))
    assert run.code == 0, run.err
    assert run.out.splitlines()[0] == "vision-language model: taught/vlm"
    assert "of 24 clips, guessing 12%" in run.out
    (told,) = [line for line in run.out.splitlines() if line.startswith("judge with it: ")]
    command = shlex.split(told.removeprefix("judge with it: sfumato ").replace("ANONYMIZER", "identity"))
    judged = sfumato(*command, "--models", "tiny", "--epochs", 1, "--attack", "identity", "--json", "z.json")
    assert judged.code == 0, judged.err
    # The judge and the training's own examination agree on raw video.
    found = json.loads(Path("taught/result.json").read_text())["examined"]
    assert Result.load(Path("z.json")).lines[0].utility.value == pytest.approx(found["top1"])
    assert "'taught' is finished already" in sfumato(*teach("--out", "taught", "--resume")).err


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        (["--data", "theatre:novel"], "captions are not drawn for 'theatre:novel': use theatre or theatre:small"),
        (["--privacy-data", "theatre:small"], "learns from what is drawn, not from private labels"),
        (["--set", "batch=1"], "batch = '1' does not fit: use a whole number of at least 2"),
        (["--set", "utility=c3d"], "there is no setting 'utility'"),
    ],
)
def test_a_vision_language_model_asked_for_wrongly(
    more: list[object], complaint: str, sfumato: Any, minute_unseen: None
) -> None:
    assert complaint in sfumato(*teach(*more)).error
    assert not Path("runs").exists()
