"""Results that could not be written are refused before any work, whatever command they are of."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sfumato.commands.places import check_places
from sfumato.errors import SfumatoError


def test_places_are_tried_and_left_as_they_were(tmp_path: Path, files: Callable[[Path], list[str]]) -> None:
    check_places(None, tmp_path / "new/deep/r.json", tmp_path / "r.html", None)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "old.json").write_text("{}")
    check_places(tmp_path / "old.json")  # a result may be replaced
    assert files(tmp_path) == ["old.json"] and (tmp_path / "old.json").read_text() == "{}"


def test_what_takes_no_files_is_named_as_it_was_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("old.json").write_text("{}")
    for wrong, what in (
        (
            "old.json/r.html",
            "'old.json/r.html' cannot be written (a file is where its folder should be): choose another place",
        ),
        ("old.json/new/r.html", "cannot be written (a file is where its folder should be): choose another place"),
        ("new/deep/" + "x" * 300, "cannot be written (File name too long): choose another place"),
        ("x" * 300 + "/r.html", "cannot be written (File name too long): choose another place"),
        ("/dev/null", "'/dev/null' is no ordinary file: name a file to write"),
        (".", "'.' is a folder: name a file to write"),
    ):
        with pytest.raises(SfumatoError) as error:
            check_places(Path("r.json"), Path(wrong))
        assert str(error.value).endswith(what)
    assert [path.name for path in tmp_path.iterdir()] == ["old.json"]
    with pytest.raises(SfumatoError, match=r"two results would both become 'r'"):
        check_places(Path("r"), Path("./r"))


SURE = "/proc/x.json"  # no rights forbid it, not even to a user who may do all, and yet no file can be made there


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a /proc")
@pytest.mark.parametrize(
    "command",
    [
        ["judge", "blur", "--json", SURE],
        ["judge", "blur", "--report", SURE],
        ["benchmark", "--report", SURE],
        ["certify", "blur", "--footage", ".", "--report", SURE],
        ["claims", "--run", "--page", SURE],
        ["reproduce", "baselines-p-hvu", "--json", SURE],
        ["data", "check", "ucf101:nowhere", "--json", SURE],
        ["data", "stats", "theatre:small", "--json", SURE],
        ["data", "stats", "theatre:small", "--plot", "/proc/x.svg"],
        ["index", "search", "nowhere", "--text", "a dog", "--json", SURE],
    ],
    ids=lambda command: " ".join(part for part in command[:2] + command[-2:-1]),
)
def test_every_command_tries_its_places_before_any_work(command: list[str], sfumato: Any, trained: list[str]) -> None:
    line = sfumato(*command).error
    assert line == f"'{command[-1]}' cannot be written (No such file or directory): choose another place"
    assert trained == []
