"""`sfumato judge`, from end to end on forty tiny videos, and all the ways to ask it wrongly."""

from __future__ import annotations

import csv
import errno
import os
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from sfumato.anonymizers import save, untrained
from sfumato.commands.judge import report_problems, telling_once
from sfumato.datasets.manifest import ManifestDataset
from sfumato.evaluation import scoring
from sfumato.evaluation.effort import QUICK_ATTACKS
from sfumato.evaluation.protocols import known
from sfumato.evaluation.result import Result
from sfumato.recognizers.vlm import SmallVLM, SmallVLMConfig, save_vlm, words_of
from sfumato.training.fit import FitConfig, predict
from sfumato.video import VideoWriter

Files = Callable[[Path], list[str]]
QUICK = ("--models", "tiny", "--epochs", 1)
OPTIONS = "?frames=2&size=16"


@pytest.fixture(autouse=True)
def fewer_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "SAMPLES", 40)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


@pytest.fixture(scope="session")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty videos of 2 actions by 4 persons, half of them with a hat: 16 to train, 12 to validate, 12 to test."""
    root = tmp_path_factory.mktemp("forty")
    rows = []
    for n in range(40):
        action, person = n % 2, n // 2 % 4
        picture = np.random.default_rng(person).integers(0, 255, (24, 32, 3)).astype(np.uint8)
        with VideoWriter(root / f"{n}.mp4", 25, (24, 32)) as writer:
            for t in range(6):
                writer.write(np.roll(picture, t * (1 - 2 * action), axis=1))
        part = "train" if n < 16 else "val" if n < 28 else "test"
        hat = ("no", "yes")[n // 2 % 2]
        rows.append(
            {"path": f"{n}.mp4", "action": ("left", "right")[action], "person": person, "hat": hat, "split": part}
        )
    return write_table(root / "index.csv", rows)


def write_table(path: Path, rows: list[dict[str, Any]]) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)
    return path


def read_table(path: Path) -> list[dict[str, Any]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_from_end_to_end_and_again_without_training(
    table: Path, tmp_path: Path, sfumato: Any, trained: list[str], files: Files
) -> None:
    out, runs = tmp_path / "out [1]", tmp_path / "runs"
    command = [
        "judge", "downsample:factor=16", "downsample:factor=16.0", "identity", "--data", f"manifest:{table}{OPTIONS}",
        *QUICK, "--attack", "frame", "--attack", "identity", "--json", out / "r.json", "--report", out / "r.html",
        "--runs", runs,
    ]  # fmt: skip
    run = sfumato(*command)
    assert run.code == 0
    assert trained == ["action", "frame", "identity"] * 2
    assert run.err.splitlines()[-1] == "[6/6] downsample:factor=16: identity"
    assert f"result: {out}/r.json" in run.out.splitlines()
    assert f"report: {out}/r.html" in run.out.splitlines()
    assert files(out) == ["r.html", "r.json"]
    result = Result.load(out / "r.json")
    assert [line.anonymizer for line in result.lines] == ["identity", "downsample:factor=16"]
    assert (result.actions, result.persons, result.test_clips, result.epochs) == (2, 4, 12, 1)
    page = (out / "r.html").read_text()
    assert (
        page.lower().startswith("<!doctype html>")
        and page.rstrip().endswith("</html>")
        and "downsample:factor=16" in page
    )
    assert len(files(runs)) == 6 and not any("partial" in name for name in files(runs))

    again = sfumato(*command)
    assert again.code == 0 and len(trained) == 6
    assert again.out == run.out


@pytest.mark.parametrize(
    ("asked", "views", "crop", "crops"), [([], 3, 1.0, 1), (["--views", 5, "--crops", 3], 5, 0.875, 3)]
)
def test_the_answers_about_several_clips_and_crops_of_a_video_are_averaged(
    asked: list[object], views: int, crop: float, crops: int, table: Path, tmp_path: Path, sfumato: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    seen = []

    def noted(model: nn.Module, pixels: Tensor, heads: Any, config: FitConfig, device: torch.device) -> Tensor:
        seen.append((pixels.shape[1], config.test_crop, config.test_crops))
        return predict(model, pixels, heads, config, device)

    monkeypatch.setattr("sfumato.evaluation.exam.predict", noted)
    data = f"manifest:{table}{OPTIONS}"
    run = sfumato("judge", "identity", "--data", data, *QUICK, "--attack", "frame", *asked, "--runs", tmp_path / "runs")
    assert run.code == 0, run.err
    assert set(seen) == {(views, crop, crops)}


def test_effort_says_who_attacks_and_how_long(table: Path, tmp_path: Path, sfumato: Any, trained: list[str]) -> None:
    command = [
        "judge",
        "identity",
        "--data",
        f"manifest:{table}{OPTIONS}",
        "--models",
        "tiny",
        "--runs",
        tmp_path / "r",
    ]
    assert "there is no effort 'hard': use quick, standard, thorough" in sfumato(*command, "--effort", "hard").error
    wrong = sfumato("judge", "identity", "--data", "nowhere", "--protocol", "latent", "--effort", "quick").error
    assert "has readers of its own" in wrong and trained == []
    run = sfumato(*command, "--effort", "quick", "--json", tmp_path / "r.json")
    assert run.code == 0 and trained == ["action", *QUICK_ATTACKS]
    result = Result.load(tmp_path / "r.json")
    assert (result.effort, result.epochs) == ("quick", 3) and "3 epochs · quick effort" in " ".join(run.out.split())
    assert any("3 epochs are too few to see" in note for note in result.notes)


def test_a_data_name_cannot_lead_out_of_the_runs_folder(
    table: Path, tmp_path: Path, sfumato: Any, trained: list[str], files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside = tmp_path / "work" / "x"
    inside.mkdir(parents=True)
    monkeypatch.chdir(inside)
    name = os.path.relpath(table, inside)
    tricky = f"manifest:../x/.././x/{name}{OPTIONS}"
    long = f"manifest:{'./' * 150}{name}{OPTIONS}&attributes="
    for data in (tricky, long):
        assert sfumato("judge", "identity", "--data", data, *QUICK, "--attack", "identity", "--runs", "runs").code == 0
    made = files(tmp_path)
    assert len(made) == 4
    assert all(re.fullmatch(r"work/x/runs/judge/[A-Za-z0-9][A-Za-z0-9.-]{1,99}/[^/]+\.npz", path) for path in made)


@pytest.fixture
def place(table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with good and bad data in it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "good").symlink_to(table.parent)
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.txt").write_text("path;action\n")
    (tmp_path / "binary.csv").write_bytes(bytes(range(256)))
    (tmp_path / "header.csv").write_text("path,action\n")
    write_table(tmp_path / "noaction.csv", [{"path": "a.mp4", "person": "Ada"}])
    write_table(tmp_path / "gone.csv", [{"path": "a.mp4", "action": "bow"}])
    write_table(tmp_path / "outside.csv", [{"path": "../../../etc/passwd", "action": "bow"}])
    return tmp_path


DATA = "manifest:good/index.csv?frames=4&size=32"
ASKED = ["blur", "--protocol", "zero-shot", "--vlm", "empty", "--prompts"]
WRONG = [
    (["blurr"], "there is no anonymizer 'blurr': did you mean 'blur'?"),
    (["blur", "--data", "theater"], "there is no data set 'theater': did you mean 'theatre'?"),
    (["blur", "--data", "theatre:smal"], "did you mean 'theatre:small'?"),
    (["blur", "--data", "../../etc"], "there is no data set '../../etc'"),
    (["blur", "--protocol", "knowm"], "there is no protocol 'knowm': did you mean 'known'?"),
    (["blur", "--protocol", "opsar"], "there is no protocol 'opsar': did you mean 'ospar'?"),
    (["blur", "--protocol", "fapder"], "theatre:small has no labels of young, pointy_nose, male, rosy_cheeks, brown_hair"),
    (["blur", "--protocol", "ospar", "--data", DATA], "scene, object: give data that has one of them; its own labels are hat"),
    (["blur", "--protocol", "zero-shot"], "zero-shot needs a vision-language model: name one by --vlm"),
    (["blur", "--protocol", "zero-shot", "--vlm", "xclpi:x/y"], "did you mean 'xclip'?"),
    (["blur", "--protocol", "zero-shot", "--vlm", "empty"], "cannot read 'empty/config.json'"),
    ([*ASKED, "a person"], "the template 'a person' has no place for the label"),
    ([*ASKED, "a {}", "--prompts", "A {}"], "the templates 'a {}' and 'A {}' are the same"),
    (["blur", "--vlm", "empty"], "the protocol known asks no vision-language model: use --protocol zero-shot"),
    (["blur", "--protocol", "ospar", "--prompts", "a {}"], "the protocol ospar asks no vision-language model"),
    (["blur", "--attack", "nope"], ": sfumato list attacks"),
    (["blur", "--data", "good/index.csv"], "did you mean 'manifest:good/index.csv'? others: sfumato list datasets"),
    (["blur", "--attack", "vidoe"], "there is no attack 'vidoe': did you mean 'video'?"),
    (["blur", "--attack", "transferr"], "there is no attack 'transferr': did you mean 'transfer'?"),
    (["blur", "--data", f"{DATA}&attributes=", "--attack", "transfer-frame"], "has no attributes labels, so there is nothing to"),
    (["blur", "--data", f"{DATA}&person=no", "--attack", "reid"], "&person=no has no identity labels, so there is nothing to"),
    (["blur", "--models", "huge"], "there are no 'huge' models: use auto, tiny or standard"),
    (["blur", "--device", "cuda"], "no usable CUDA GPU: use --device cpu"),
    (["blur", "--data", "manifest:"], "'manifest:' names no path"),
    (["blur", "--data", "manifest:nowhere.csv"], "cannot read the table 'nowhere.csv'"),
    (["blur", "--data", "manifest:empty"], "cannot read the table 'empty' (Is a directory)"),
    (["blur", "--data", "manifest:binary.csv"], "cannot read the table 'binary.csv'"),
    (["blur", "--data", "manifest:header.csv"], "'header.csv' has no rows"),
    (["blur", "--data", "manifest:noaction.csv"], "'noaction.csv' has no column 'action': its columns are path, person"),
    (["blur", "--data", "manifest:good/index.csv?action=sign"], "has no column 'sign'"),
    (["blur", "--data", "manifest:good/index.csv?attributes=hats"], "has no column 'hats'"),
    (["blur", "--data", "manifest:good/index.csv?size=big"], "size = 'big' is not a positive whole number"),
    (["blur", "--data", "manifest:good/index.csv?colour=no"], "there is no option 'colour'"),
    (["blur", "--data", "manifest:gone.csv"], "has no usable video (first: gone.csv line 2: there is no file 'a.mp4')"),
    (["blur", "--data", "manifest:outside.csv"], "passwd' lies outside the folder of the table): paths are relative"),
    (["blur", "--data", "manifest:outside.csv"], "put the CSV into a folder above the videos; links that lead outside are not"),
    (["blur", "--data", "manifest:outside.csv", "--strict"], "lies outside the folder of the table: paths are"),
    (["blur", "--data", "manifest:gone.csv", "--strict"], "gone.csv line 2: there is no file 'a.mp4': mend the row"),
    (["blur", "--data", "manifest:good/index.csv?frames=7", "--strict"], "index.csv line 2: '0.mp4' has 6 frames"),
    (["blur", "--data", "folder:empty"], "no video in 'empty'"),
    (["blur", "--data", "folder:nowhere"], "there is no folder 'nowhere'"),
    (["blur", "--data", "folder:notes.txt"], "there is no folder 'notes.txt'"),
    (["blacken-people", "--data", DATA], "'blacken-people' needs to know where people are"),
    (["blur", "--data", DATA, "--json", "empty"], "'empty' is a folder: name a file to write"),
    (["blur", "--data", DATA, "--report", "notes.txt/r.html"], "'notes.txt/r.html' cannot be written"),
    (["blur", "--data", DATA, "--json", "r", "--report", "./r"], "two results would both become 'r'"),
    (["blur", "--data", DATA, "--runs", "notes.txt"], "cannot use 'notes.txt/judge/"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "complaint"), WRONG)
def test_a_mistake_is_one_line_before_the_first_training(
    arguments: list[str], complaint: str, place: Path, sfumato: Any, trained: list[str], files: Files
) -> None:
    before = files(place)
    assert complaint in sfumato("judge", *arguments).error
    assert trained == []
    assert files(place) == before


@pytest.mark.parametrize("arguments", [["--epochs", 0], ["--seeds", 0], ["--epochs", "many"], ["--nonsense"]])
def test_what_no_option_takes_is_a_usage_error(arguments: list[object], sfumato: Any) -> None:
    run = sfumato("judge", "blur", *arguments)
    assert (run.code, run.out) == (2, "")
    assert "Usage" in run.err and "Traceback" not in run.err


def test_too_few_videos_are_said_so(place: Path, sfumato: Any, trained: list[str]) -> None:
    rows = read_table(Path("good/index.csv"))
    write_table(Path("good/few.csv"), [row for n, row in enumerate(rows) if n < 16 or n % 4 == 0])
    line = sfumato("judge", "blur", "--data", "manifest:good/few.csv?frames=4&size=32").error
    assert "has 3 val clips for 'action', 5 are needed" in line
    assert trained == []


def test_damaged_rows_are_left_out_and_listed_or_stop_it(place: Path, sfumato: Any) -> None:
    rows = read_table(Path("good/index.csv"))
    Path("good/broken.mp4").write_bytes(b"no video" * 40)
    broken = {**rows[0], "path": "broken.mp4"}
    gone = [{**rows[0], "path": f"gone{n}.mp4"} for n in range(6)]
    write_table(Path("good/bad.csv"), [*rows, *gone, broken])
    data = ["--data", "manifest:good/bad.csv?frames=4&size=32", *QUICK, "--attack", "identity"]
    run = sfumato("judge", "identity", *data)
    assert run.code == 0
    lines = run.err.splitlines()
    assert lines[0] == "left out: bad.csv line 42: there is no file 'gone0.mp4'"
    assert lines[5] == "… and 2 more"
    assert (
        "bad.csv line 42: there is no file 'gone0.mp4': mend the row"
        in sfumato("judge", "blur", *data, "--strict").error
    )
    write_table(Path("good/bad.csv"), [*rows, broken])
    assert "bad.csv line 42: " in sfumato("judge", "blur", *data, "--strict").error


def test_what_was_left_out_is_told_before_the_error_that_too_little_is_left(place: Path, sfumato: Any) -> None:
    rows = read_table(Path("good/index.csv"))
    for part, error in (
        ("train", "has no train clips in its split by person"),
        ("val", "has 3 val clips for 'action'"),
    ):
        gone = [row for row in rows if row["split"] == part][3 if part == "val" else 0 :]
        named = [{**row, "path": f"gone{n}.mp4"} for n, row in enumerate(gone)]
        write_table(Path("good/bad.csv"), [*(row for row in rows if row not in gone), *named])
        run = sfumato("judge", "blur", "--data", "manifest:good/bad.csv?frames=4&size=32")
        lines, first = run.err.splitlines(), len(rows) - len(gone) + 2
        assert lines[0] == f"left out: bad.csv line {first}: there is no file 'gone0.mp4'"
        assert lines[5] == f"… and {len(gone) - 5} more" and error in lines[6] and len(lines) == 7
    run = sfumato("judge", "blur", "--data", "manifest:good/index.csv?frames=7")
    assert run.err.splitlines()[0].startswith("left out: index.csv line 2: '0.mp4' has 6 frames, 7 are asked for")
    assert "has no usable video (first: index.csv line 2" in run.err.splitlines()[-1]


def test_a_problem_is_said_once_while_that_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    def said(name: str, *problems: str) -> list[str]:
        report_problems(cast(Any, SimpleNamespace(name=name, problems=list(problems))))
        return capsys.readouterr().err.splitlines()

    with telling_once():
        assert said("ucf101:a?split=1", "line 2", "line 3") == ["left out: line 2", "left out: line 3"]
        with telling_once():
            assert said("vp-ucf101:a", "line 2", "line 3", "line 4") == ["left out: line 4"]
        assert said("ucf101:b", "line 2") == ["left out: line 2"]  # of other files
        many = [f"line {n}" for n in range(10, 17)]
        assert said("ucf101:a", *many)[-1] == "… and 2 more" and said("ucf101:a", *many) == []
    for _ in range(2):
        assert said("ucf101:a", "line 2") == ["left out: line 2"]


def full(path: Path, content: bytes) -> int:
    """A disk that takes ten bytes more."""
    with path.open("wb") as file:
        file.write(content[:10])
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("what", ["answers", "json", "report"])
def test_no_space_left(
    place: Path, sfumato: Any, monkeypatch: pytest.MonkeyPatch, files: Files, trained: list[str], what: str
) -> None:
    command = ["judge", "identity", "--data", DATA, *QUICK, "--attack", "identity"]
    Path("out").mkdir()
    if what != "answers":
        assert sfumato(*command).code == 0  # the trainings are there: only the result is left to write
        command += [f"--{what}", "out/file"]
    monkeypatch.setattr(Path, "write_bytes", full)
    run = sfumato(*command)
    assert run.code == 2
    said = [line for line in run.err.splitlines() if not line.startswith("[")]
    assert len(said) == 1 and said[0].startswith("error: ")
    assert "space" in said[0] and "free some" in said[0]
    assert files(Path("out")) == []
    assert len(files(Path("runs"))) == (0 if what == "answers" else 2)


def test_ctrl_c_keeps_finished_trainings(
    place: Path, sfumato: Any, monkeypatch: pytest.MonkeyPatch, files: Files, trained: list[str]
) -> None:
    counted = known.sit

    def interrupted(exam: Any, *arguments: Any, **options: Any) -> Any:
        if exam.name == "identity":
            raise KeyboardInterrupt
        return counted(exam, *arguments, **options)

    command = ["judge", "identity", "--data", DATA, *QUICK, "--attack", "identity"]
    monkeypatch.setattr(known, "sit", interrupted)
    run = sfumato(*command)
    assert run.code == 130
    assert run.err.splitlines() == [
        "[1/2] identity: action", "stopped: finished parts are kept, run the same command to go on",
    ]  # fmt: skip
    assert len(files(Path("runs"))) == 1
    monkeypatch.setattr(known, "sit", counted)
    assert sfumato(*command).code == 0
    assert trained == ["action", "identity"]


def test_the_quick_suite_judges_what_needs_no_training_and_what_is_shipped(
    tmp_path: Path, sfumato: Any, minute_theatre: None, small_theatre: Callable[..., object]
) -> None:
    small_theatre(frames=8)  # which trained ones need
    run = sfumato("benchmark", "--runs", tmp_path / "runs", "--json", tmp_path / "b.json")
    assert run.code == 0
    names = [line.anonymizer.split("@")[0] for line in Result.load(tmp_path / "b.json").lines]
    assert names[0] == "identity" and len(names) == len(set(names)) == 12
    assert names[-3:] == ["laf-small", "spact-small", "stprivacy-small"]
    assert {"pixelate", "blur", "blacken-people", "weak-blur-people", "strong-blur-people"} <= set(names)
    assert "is a folder" in sfumato("benchmark", "--json", tmp_path).error


def test_ospar_attacks_scene_and_object_and_nobody(
    tmp_path: Path, sfumato: Any, minute_theatre: None, trained: list[str]
) -> None:
    run = sfumato(
        "judge", "identity", "--protocol", "ospar", "--runs", tmp_path / "runs", "--json", tmp_path / "o.json"
    )
    assert run.code == 0
    assert trained == ["action", "frame", "video", "video-placed", "decode-frame", "patient-frame"]
    assert "protocol ospar" in run.out and "Identity" not in run.out
    result = Result.load(tmp_path / "o.json")
    assert result.protocol == "ospar"
    assert [a.name for a in result.lines[0].attacks[0].attributes] == ["scene", "object"]


def test_fapder_takes_the_expression_and_the_looks_from_columns(place: Path, sfumato: Any, trained: list[str]) -> None:
    faces = [
        {("expression" if name == "action" else name): value for name, value in row.items()}
        | {"male": row["hat"], "young": ("no", "yes")[n // 3 % 2]}
        for n, row in enumerate(read_table(Path("good/index.csv")))
    ]
    data = f"manifest:{write_table(Path('good/faces.csv'), faces)}{OPTIONS}&action=expression"
    command = ["judge", "identity", "--data", data, *QUICK, "--attack", "frame", "--json", "r.json"]
    assert sfumato(*command, "--protocol", "fapder").code == 0
    result = Result.load(Path("r.json"))
    assert result.protocol == "fapder"
    assert [a.name for a in result.lines[0].attacks[0].attributes] == ["young", "male"]
    assert "private here: young, male" in result.notes
    assert [note.split("'")[1] for note in result.notes if "left out" in note] == [
        "pointy_nose",
        "rosy_cheeks",
        "brown_hair",
    ]
    # The known protocol on the same table asks about other attributes: nothing of it is reused.
    assert sfumato(*command).code == 0
    assert trained == ["action", "frame"] * 2
    assert [a.name for a in Result.load(Path("r.json")).lines[0].attacks[0].attributes] == ["hat", "male", "young"]


def test_attackers_by_name_of_data_whose_clips_share_recordings(place: Path, sfumato: Any, trained: list[str]) -> None:
    """Two clips in a row are of one recording: the column is no attribute, its clips are answered about together."""
    rows = [{**row, "recording": f"tape {n // 2}"} for n, row in enumerate(read_table(Path("good/index.csv")))]
    data = f"manifest:{write_table(Path('good/tapes.csv'), rows)}{OPTIONS}"
    command = ["judge", "identity", "--data", data, *QUICK, "--json", "r.json", "--attack"]
    # Of 6 validation recordings two persons have two: one is in the gallery, the other asked about.
    assert "has 2 val recordings for 'reid', 5 are needed" in sfumato(*command, "reid").error
    assert sfumato(*command, "aggregate-identity-frames").code == 0
    assert trained == ["action", "aggregate-identity-frames"]
    result = Result.load(Path("r.json"))
    assert any("intervals are over recordings" in note for note in result.notes)
    assert not any("nothing to average" in note for note in result.notes)


def test_recordings_stay_whole_where_the_split_is_automatic(place: Path) -> None:
    rows = read_table(Path("good/index.csv"))
    for n, row in enumerate(rows):
        row["split_person"] = row.pop("split")
        row["recording"] = f"tape {n // 2}" if n < 36 else ""
    data = ManifestDataset(f"{write_table(Path('good/tapes.csv'), rows)}{OPTIONS}")
    tapes = data.recordings(torch.arange(40))
    assert tapes[:36].tolist() == [n // 2 * 2 for n in range(36)] and tapes[36:].tolist() == [36, 37, 38, 39]
    parts = [set(data.recordings(data.split(part, "clip")).tolist()) for part in ("train", "val", "test")]
    assert min(map(len, parts)) > 0 and sum(map(len, parts)) == 22
    assert [spec.name for spec in data.attributes] == ["hat"]  # what a clip was cut from says nothing about a person
    rows[0]["recording"] = "another tape"
    other = ManifestDataset(f"{write_table(Path('good/tapes.csv'), rows)}{OPTIONS}")
    assert other.fingerprint() != data.fingerprint()


def test_zero_shot_names_a_model_and_its_prompts(
    tmp_path: Path, sfumato: Any, minute_theatre: None, trained: list[str]
) -> None:
    words = words_of(["a person is does jumping jacks raises hand"])
    for name, clip in (("vlm", (2, 16, 16)), ("long", (8, 16, 16))):
        small = SmallVLMConfig(clip, words, width=16, depth=1, temporal_depth=1, text_width=16, text_depth=1)
        save_vlm(SmallVLM(small), tmp_path / name)
    command = ["judge", "identity", "--protocol", "zero-shot", "--attack", "frame", "--runs", tmp_path / "runs"]
    told = ["--prompts", "a person is {}", "--prompts", "a person {}", "--json", tmp_path / "z.json"]
    error = sfumato(*command, "--vlm", tmp_path / "long", *told).error
    assert "(8, 3, 16, 16), and those of theatre:small are (2, 3, 16, 16)" in error and trained == []
    run = sfumato(*command, "--vlm", tmp_path / "vlm", *told)
    assert run.code == 0 and trained == ["frame"]
    assert "protocol zero-shot" in run.out and "asked: 'a person is {}', 'a person {}'" in " ".join(run.out.split())
    result = Result.load(tmp_path / "z.json")
    assert result.models["action"].startswith("small X-CLIP-shaped model, 2 frames of 16×16")
    assert result.lines[0].attacks[0].attributes[0].ap_gain == pytest.approx(
        result.lines[0].attacks[0].attributes[0].ap.value - result.lines[0].attacks[0].attributes[0].ap.chance
    )


def test_clips_of_another_length_are_refused_before_the_first_training(
    tmp_path: Path, sfumato: Any, trained: list[str]
) -> None:
    save(untrained("tubelets", embedding=24, frames=16, size=64), tmp_path / "long")
    error = sfumato("judge", tmp_path / "long", "--data", "theatre:small").error
    assert "takes clips of 16 frames, and those of theatre:small have 8" in error
    assert trained == []
