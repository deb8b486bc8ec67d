"""`sfumato data check` and `sfumato data stats`, used well and badly."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sfumato.datasets import kth

Make = Callable[..., Path]
PEOPLE = (2, 11, 19)  # test, train, val


@pytest.fixture
def whole_kth(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, make_video: Make) -> Path:
    """A copy of KTH, as if three people, one action and three scenarios were all there is."""
    monkeypatch.setattr(kth, "ACTIONS", ("boxing",))
    monkeypatch.setattr(kth, "PEOPLE", PEOPLE)
    monkeypatch.setattr(kth, "SCENARIOS", (1, 3, 4))
    monkeypatch.setattr(kth, "PUBLISHED", {"videos": 9, "train": 3, "val": 3, "test": 3, "actions": 1, "persons": 3})
    first = make_video(tmp_path / "first.mp4")
    for person in PEOPLE:
        for scenario in (1, 3, 4):
            path = tmp_path / "kth" / "boxing" / f"person{person:02d}_boxing_d{scenario}_uncomp.mp4"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(first.read_bytes())
    return tmp_path / "kth"


def test_a_whole_copy_is_fine_and_the_code_is_0(whole_kth: Path, tmp_path: Path, sfumato: Any) -> None:
    run = sfumato("data", "check", f"kth:{whole_kth}", "--json", tmp_path / "new" / "check.json")
    assert (run.code, run.err) == (0, "")
    lines = [line.split() for line in run.out.splitlines()]
    assert ["videos", "9", "9", "9", "ok"] in lines and ["persons", "3", "3", "3", "ok"] in lines
    assert "test: 3 (boxing) to 3 (boxing) clips per action" in run.out
    assert run.out.splitlines()[-2] == "fine"
    written = json.loads((tmp_path / "new" / "check.json").read_text())
    assert written["fine"] and written["counts"][0] == {"what": "videos", "published": 9, "listed": 9, "found": 9}


def test_what_is_wrong_is_shown_and_the_code_is_1(whole_kth: Path, tmp_path: Path, sfumato: Any) -> None:
    for person in PEOPLE:
        (whole_kth / "boxing" / f"person{person:02d}_boxing_d1_uncomp.mp4").write_bytes(b"no video")
    for n in range(7):
        (whole_kth / f"other{n}.mp4").write_bytes(b"")
    run = sfumato("data", "check", f"kth:{whole_kth}", "--json", tmp_path / "check.json")
    assert run.code == 1
    assert ["videos", "9", "9", "6", "differs"] in [line.split() for line in run.out.splitlines()]
    assert "3 unreadable\n" in run.out and "person02_boxing_d1_uncomp.mp4" in run.out
    assert "7 not in any list, and not used\n" in run.out
    assert "  other4.mp4\n  … and 2 more\n" in run.out and "other5.mp4" not in run.out
    assert run.out.splitlines()[-2] == "not the published data set"
    written = json.loads((tmp_path / "check.json").read_text())
    assert len(written["unreadable"]) == 3 and len(written["extra"]) == 7 and not written["fine"]


def test_missing_files_are_named_and_of_a_subset_a_few(whole_kth: Path, sfumato: Any) -> None:
    (whole_kth / "boxing" / "person11_boxing_d3_uncomp.mp4").unlink()
    run = sfumato("data", "check", f"kth:{whole_kth}")
    assert run.code == 1 and "1 of 9 files missing\n  there is no file 'person11_boxing_d3_uncomp.avi'\n" in run.out
    for path in (whole_kth / "boxing").glob("person*_d[14]_uncomp.mp4"):
        path.unlink()
    out = sfumato("data", "check", f"kth:{whole_kth}").out
    assert "7 of 9 files missing\n" in out and out.count("there is no file") == 5 and "  … and 2 more\n" in out


def test_people_on_both_sides_are_shown(whole_kth: Path, monkeypatch: pytest.MonkeyPatch, sfumato: Any) -> None:
    real = kth.row_of

    def mixed_up(path: Path) -> Any:
        row = real(path)
        assert row
        row.person = "1"
        return row

    monkeypatch.setattr(kth, "row_of", mixed_up)
    run = sfumato("data", "check", f"kth:{whole_kth}")
    assert run.code == 1 and "1 on both sides of the split\n  person 1\n" in run.out


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("ucf110:x", "there is no published data set 'ucf110': did you mean 'ucf101'? known: ucf101, hmdb51"),
        ("kth", "'kth' names no path: write kth:PATH"),
        ("manifest:x.csv", "there is no published data set 'manifest': known: "),
        ("kth:nowhere", "there is no folder '"),
    ],
)
def test_a_name_that_cannot_be_checked_is_one_line(name: str, line: str, sfumato: Any) -> None:
    assert sfumato("data", "check", name).error.startswith(line)


@pytest.fixture
def labels(tmp_path: Path) -> Path:
    """The label files of a VP-HMDB51 of one class, without its videos: skin in 3 of 4 clips, face in 1 of 4."""
    parts = {"a": 1, "b": 1, "c": 2, "d": 2}
    lines = "".join(f"{film}_clap_0.avi {part} \n" for film, part in parts.items())
    (tmp_path / "clap_test_split1.txt").write_text(lines)
    rows = {film: np.array([[film != "c", film == "d", 1, 0, film in "ad"]], dtype=np.int64) for film in parts}
    table = pickle.dumps({f"clap/{film}_clap_0.mp4": row for film, row in rows.items()}, protocol=4)
    (tmp_path / "hmdb51_privacy_attribute_label.pickle").write_bytes(table)
    return tmp_path


def test_stats_are_worked_by_hand(labels: Path, sfumato: Any) -> None:
    out = labels / "new" / "stats.json"
    run = sfumato("data", "stats", f"vp-hmdb51:{labels}", "--json", out)
    assert (run.code, run.err) == (0, "")
    told = json.loads(out.read_text())
    share = {name: values["yes"] for name, values in told["all"]["prevalence"].items()}
    assert share == {"skin": 0.75, "face": 0.25, "gender": 1.0, "nudity": 0.0, "relationship": 0.5}
    # Nudity never occurs, so that it has no average precision: the mean is over the other four.
    assert told["all"]["chance_cmap"] == pytest.approx((0.75 + 0.25 + 1 + 0.5) / 4)
    assert told["all"]["always_yes_f1"] == pytest.approx((1.5 / 1.75 + 0.5 / 1.25 + 1 + 1 / 1.5) / 4)
    assert told["all"]["coin_f1"] == pytest.approx((0.75 / 1.25 + 0.25 / 0.75 + 1 / 1.5 + 0.5) / 4)
    assert told["test"]["prevalence"]["skin"] == {"no": 0.5, "yes": 0.5}
    assert told["all"]["actions"] == {"clap": 4} and told["train"]["clips"] + told["val"]["clips"] == 2
    lines = [line.split() for line in run.out.splitlines()]
    assert next(line for line in lines if line[:1] == ["chance"])[:3] == ["chance", "cMAP", "0.625"]
    assert ["clips", "4", "1", "1", "2"] in lines


def test_a_plot_is_drawn_on_request(labels: Path, sfumato: Any) -> None:
    for name in ("plot.svg", "deep/plot.png"):
        run = sfumato("data", "stats", f"vp-hmdb51:{labels}", "--plot", labels / name)
        assert run.code == 0 and f"plot: {labels / name}" in run.out
    drawn = (labels / "plot.svg").read_text()
    assert drawn.count("<svg") == 1 and (labels / "deep" / "plot.png").read_bytes().startswith(b"\x89PNG")
    assert "none of .svg" in sfumato("data", "stats", f"vp-hmdb51:{labels}", "--plot", "plot.txt").error


def test_where_nothing_is_labelled_no_plot_is_drawn_and_that_is_said(
    labels: Path, whole_kth: Path, sfumato: Any
) -> None:
    plot = labels / "plot.svg"
    (labels / "hmdb51_privacy_attribute_label.pickle").write_bytes(pickle.dumps({}))
    for name in (f"kth:{whole_kth}", f"vp-hmdb51:{labels}"):
        run = sfumato("data", "stats", name, "--plot", plot)
        assert run.code == 0 and not plot.exists() and "\nplot: " not in run.out
        assert run.out.endswith("\nno plot: no private attribute is labelled\n")


@pytest.mark.parametrize("kind", ["lsa64", "kth", "casia-b", "ntu60", "toyota-smarthome"])
def test_stats_of_an_empty_folder_are_an_error(kind: str, tmp_path: Path, sfumato: Any) -> None:
    error = sfumato("data", "stats", f"{kind}:{tmp_path}").error
    assert error.startswith(f"{kind}:{tmp_path} has no clips: give the folder that its files are in, or get them from ")


def test_stats_of_data_without_files(sfumato: Any, tmp_path: Path) -> None:
    run = sfumato("data", "stats", "theatre:small", "--json", tmp_path / "stats.json")
    assert run.code == 0
    told = json.loads((tmp_path / "stats.json").read_text())
    assert told["train"]["clips"] == 1200 and told["all"]["clips"] == 2480
    assert abs(told["all"]["prevalence"]["skin"]["yes"] - 0.903) < 0.03


def test_stats_of_data_without_attributes(whole_kth: Path, sfumato: Any) -> None:
    run = sfumato("data", "stats", f"kth:{whole_kth}")
    assert run.code == 0 and run.out.endswith("has no private attributes\n")


def test_unlabelled_clips_and_many_values(tmp_path: Path, sfumato: Any) -> None:
    """PA-HMDB51: of three values each is a question of its own; clips without labels do not count."""
    (tmp_path / "clap_test_split1.txt").write_text("".join(f"f{n}_clap_0.avi 1 \n" for n in range(4)))
    spans = {"skin_color": 1, "gender": 1, "nudity": 0, "relationship": 0}
    told = {
        f"f{n}_clap_0.avi": {**{name: [[0, 9, v]] for name, v in spans.items()}, "face": [[0, 9, face]]}
        for n, face in ((0, 2), (1, 0))
    }
    (tmp_path / "PrivacyAttributes").mkdir()
    (tmp_path / "PrivacyAttributes" / "clap.json").write_text(json.dumps(told))
    sfumato("data", "stats", f"pa-hmdb51:{tmp_path}", "--json", tmp_path / "stats.json")
    stats = json.loads((tmp_path / "stats.json").read_text())
    assert stats["all"]["prevalence"]["face"] == {"hidden": 0.5, "partly visible": 0.0, "visible": 0.5}
    assert stats["train"]["prevalence"]["face"]["hidden"] is None
    # Skin, gender and nudity have one value in all clips, face two that occur; relationship's "to tell" never does.
    assert stats["all"]["chance_cmap"] == pytest.approx((1 + 0.5 + 1 + 1) / 4)
