"""`sfumato certify`, from a folder of tiny recordings to two pages: known answers, resuming, and all ways to ask wrongly."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from sfumato.anonymizers import load
from sfumato.anonymizers.base import Anonymizer
from sfumato.datasets.files import Sampling
from sfumato.datasets.footage import LabelledFootage
from sfumato.evaluation import scoring
from sfumato.evaluation.attacks.ensemble import average
from sfumato.evaluation.certificate import Certificate, Scale, certify, examination, questions
from sfumato.evaluation.protocols import known
from sfumato.evaluation.protocols.known import Watch
from sfumato.evaluation.scoring import Ruler
from sfumato.video import VideoWriter

Files = Callable[[Path], list[str]]
LEARNING = Scale("tiny", 2, 40, 99, 99, 1, ("frame", "identity-frames", "reid-frames"), size=16)
HASTY = replace(LEARNING, steps=4)  # where it does not matter what they find
RECORDINGS = 36


class Constant(Anonymizer):
    """Grey, whatever is shown."""

    name, summary = "constant", "for tests"

    def forward(self, video: Tensor) -> Tensor:
        return torch.full_like(video, 0.5)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "SAMPLES", 100)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setitem(examination.SCALES, "cpu", HASTY)


@pytest.fixture(scope="session")
def footage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Recordings of 16 frames, each of a picture of its own that moves a little."""
    root = tmp_path_factory.mktemp("footage")
    for n in range(RECORDINGS):
        blocks = np.random.default_rng(n).integers(0, 255, (4, 4, 3)).astype(np.uint8)
        picture = np.kron(blocks, np.ones((8, 8, 1), np.uint8))
        with VideoWriter(root / f"{n:02}.mp4", 25, (32, 32)) as writer:
            for t in range(16):
                writer.write(np.roll(picture, t % 3, axis=1))
    return root


def part(n: int) -> str:
    return ("train", "val", "test")[n // 12]


def write_labels(path: Path, **columns: Callable[[int], object]) -> Path:
    rows = [{"path": f"{n:02}.mp4", **{name: of(n) for name, of in columns.items()}} for n in range(RECORDINGS)]
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)
    return path


def certified(
    anonymizer: Anonymizer, footage: Path, runs: Path, labels: Path | None = None, scale: Scale = HASTY
) -> Certificate:
    return certify(
        anonymizer, footage, labels, seeds=1, device=torch.device("cpu"), folder=runs, watch=Watch(), scale=scale
    )


def test_known_answers(footage: Path, tmp_path: Path, trained: list[str]) -> None:
    """What changes nothing is fully exposed; of what shows nothing no leak is shown; no labels are needed."""
    open_ = certified(load("identity"), footage, tmp_path, scale=LEARNING)
    assert open_.headline == "Identity is fully exposed"
    linking, strangers = open_.findings
    assert (linking.target, strangers.target) == ("identity", "re-identification")
    assert linking.exposure == strangers.exposure == "fully exposed"
    assert linking.leakage.value == 1.0 and linking.leakage.low > 0.85  # of 36 recordings
    assert linking.score.chance == pytest.approx(1 / RECORDINGS) and linking.recordings == RECORDINGS
    assert strangers.recordings == 9  # the quarter of them that nobody was trained on
    assert linking.persons == strangers.persons == 0  # recordings stand for people of whom nobody is named
    assert trained == ["identity-frames", "reid-frames", "patient-identity-frames"]  # raw video once, not twice
    assert open_.not_tested[:2] == [
        "Whether actions stay recognisable: there are no labels of it.",
        "Private attributes, such as gender or age: there are no labels of it.",
    ]

    grey = certified(Constant(), footage, tmp_path, scale=LEARNING)
    linking, strangers = grey.findings
    assert linking.exposure == "not shown to leak" and abs(linking.leakage.value) < 0.1
    assert linking.detectable < 0.25 and linking.needed == 0
    assert strangers.exposure == "too little footage"
    assert grey.verdict == "too little footage" and grey.exposed == []
    assert grey.doubts[1].startswith(
        f"9 recordings are too few for a conclusion about {strangers.title}: give at least"
    )
    assert strangers.needed >= 80  # a quarter of them is asked about, and 20 must be
    assert len(trained) == 6


def test_as_many_recordings_are_used_as_are_asked_for(
    footage: Path, tmp_path: Path, sfumato: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(examination.SCALES, "cpu", replace(HASTY, recordings=24, linked=24))
    labels = write_labels(footage / "many.csv", person=lambda n: n % 3, action=lambda n: "ab"[n % 2])
    data = tmp_path / "c.json"
    command = ["certify", "downsample", "--footage", footage, "--runs", tmp_path / "runs", "--json", data]
    for more in ([], ["--labels", labels]):
        for asked, used in (([], 24), (["--recordings", 30], 30), (["--recordings", 99], RECORDINGS)):
            assert sfumato(*command, *more, *asked).code == 0
            kept = json.loads(data.read_text())
            assert (kept["recordings"], kept["found"]) == (used, RECORDINGS)


def test_twelve_recordings_are_too_few(footage: Path, tmp_path: Path) -> None:
    few = tmp_path / "few"
    few.mkdir()
    for file in sorted(footage.glob("*.mp4"))[:12]:
        (few / file.name).write_bytes(file.read_bytes())
    grey = certified(Constant(), few, tmp_path / "runs", scale=LEARNING)
    assert grey.headline == "Too little footage for a conclusion"
    assert re.match(r"12 recordings are too few .*: give at least \d\d in all", grey.doubts[0])
    assert any("never seen is recognised again: there are too few recordings" in line for line in grey.not_tested)
    shown = certified(load("identity"), few, tmp_path / "runs", scale=LEARNING)
    assert shown.headline == "Identity is fully exposed"
    assert shown.doubts[0].startswith("12 recordings are enough to show this leak, and too few to rule others out")


def test_from_end_to_end_and_again_without_training(
    footage: Path, tmp_path: Path, sfumato: Any, trained: list[str], files: Files
) -> None:
    labels = write_labels(
        footage / "labels.csv", person=lambda n: n % 3, action=lambda n: "ab"[n % 2], hat=lambda n: "ny"[n // 3 % 2],
        rare=lambda n: "ny"[n == 3], split_clip=part,
    )  # fmt: skip
    page, data, runs = tmp_path / "out" / "c.html", tmp_path / "out" / "c.json", tmp_path / "runs"
    command = ["certify", "downsample:factor=2", "--footage", footage, "--labels", labels, "--runs", runs]
    run = sfumato(*command, "--json", data, "--report", page)
    assert run.code == 0, run
    # Persons have names here, so that nobody asks about recordings.
    assert trained == ["action", "frame", "identity-frames", "patient-frame", "patient-identity-frames"] * 2
    assert run.err.splitlines()[-1] == "[10/10] downsample:factor=2: patient-identity-frames"
    assert f"result: {data}" in run.out and f"report: {page}" in run.out
    found = Certificate.load(data)
    assert [f.name for f in found.findings] == ["identity", "hat"]
    assert [(f.persons, f.persons_needed) for f in found.findings] == [(3, 5)] * 2
    assert page.read_text().count("12 recordings of 3 people") == 2
    assert found.utility.kept.verdict in ("measured", "inconclusive")
    assert "Rare: too rare in the labels." in found.not_tested
    assert any("somebody the attacker has never seen" in line for line in found.not_tested)
    assert set(found.hashes) == {"anonymizer", "footage", "code", "labels"} and found.recordings == RECORDINGS
    assert found.headline in page.read_text() and found.headline in run.out
    assert files(tmp_path / "out") == ["c.html", "c.json"]

    again = sfumato(*command)
    assert again.code == 0 and len(trained) == 10
    assert "not saved: add --report FILE.html or --json FILE" in again.err and found.headline in again.out


def test_people_are_resampled_too_where_they_are_named(footage: Path, tmp_path: Path) -> None:
    labels = write_labels(
        footage / "people.csv", person=lambda n: n % 6, hat=lambda n: "ny"[n // 6 % 2], split_clip=part
    )
    found = certified(Constant(), footage, tmp_path, labels)
    assert [f.name for f in found.findings] == ["identity", "hat"]
    assert all(set(f.score.intervals) == {"videos", "persons"} for f in found.findings)
    assert [f.persons for f in found.findings] == [6, 6]


def test_what_one_recording_alone_shows_is_too_rare(footage: Path) -> None:
    """Six clips of one recording are drawn together, or not at all: no interval can be had from them."""
    about = {"hat": lambda n: "ny"[n % 2], "bag": lambda n: "ny"[n % 12 < 6], "split_clip": part}

    def rare(table: Path) -> list[str]:
        return questions.askable(LabelledFootage(footage, table, Sampling(2, 16), most=99))[1]

    assert rare(write_labels(footage / "apart.csv", **about)) == []
    once = {**about, "recording": lambda n: f"bags {n // 12}" if n % 12 < 6 else n}
    assert rare(write_labels(footage / "once.csv", **once)) == [
        "hat",
        "bag",
    ]  # of seven recordings none has two values often


def test_labels_without_persons_leave_identity_to_recordings(footage: Path, tmp_path: Path, trained: list[str]) -> None:
    labels = write_labels(footage / "hats.csv", hat=lambda n: "ny"[n // 3 % 2], split=part)
    found = certified(Constant(), footage, tmp_path, labels)
    linking = ["identity-frames", "reid-frames", "patient-identity-frames"]
    assert trained == [*(["frame", "patient-frame"] * 2), *(linking * 2)]
    assert [f.target for f in found.findings] == ["identity", "re-identification", "attributes"]
    assert found.utility.kept.verdict == "not tested" and found.recordings == RECORDINGS
    assert "Whether actions stay recognisable: there are no labels of it." in found.not_tested
    assert any("clothes, place or light" in line for line in found.not_tested)


def test_effort(footage: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trained: list[str]) -> None:
    def by(effort: str) -> Certificate:
        return certify(
            load("identity"), footage, None, seeds=1, device=torch.device("cpu"), folder=tmp_path, watch=Watch(),
            effort=effort, scale=replace(HASTY, steps=16, linked=16),
        )  # fmt: skip

    quick = by("quick")
    assert trained == ["identity-frames"] and quick.steps == {"identity-frames": 8}  # half of the usual
    assert any("recognised again: not tried by the effort quick" in line for line in quick.not_tested)
    together: list[list[str]] = []

    def averaged(rulers: list[Ruler]) -> Ruler:
        together.append([ruler.sitting.exam.name for ruler in rulers])
        return average(rulers)

    monkeypatch.setattr(questions, "average", averaged)
    monkeypatch.setattr(examination, "attacks_of", lambda effort, usual: (*usual, "reid", "ensemble"))
    thorough = by("thorough")
    assert trained[1:] == ["identity-frames", "reid-frames", "reid"] and "ensemble" not in thorough.attackers
    assert together == [["reid-frames", "reid"]]
    assert not any("undo the anonymizer" in line for line in thorough.not_tested)
    assert any("undo the anonymizer" in line for line in quick.not_tested)


def test_usual_attackers_whom_the_effort_leaves_out_are_told(footage: Path, tmp_path: Path, trained: list[str]) -> None:
    usual = ("identity-frames", "identity", "decode-frame", "reid-frames")

    def by(effort: str) -> list[str]:
        found = certify(
            load("identity"), footage, None, seeds=1, device=torch.device("cpu"), folder=tmp_path, watch=Watch(),
            effort=effort, scale=replace(HASTY, attacks=usual),
        )  # fmt: skip
        return [line for line in found.not_tested if "usually attack" in line]

    # Nobody reads attributes where there are no labels; that no stranger is recognised again has a line of its own.
    (line,) = by("quick")
    assert "more may leak: identity; --effort standard asks them" in line
    assert by("standard") == []


def test_ctrl_c_keeps_finished_trainings(
    footage: Path, tmp_path: Path, sfumato: Any, monkeypatch: pytest.MonkeyPatch, trained: list[str], files: Files
) -> None:
    counted = known.sit

    def interrupted(exam: Any, *arguments: Any, **options: Any) -> Any:
        if exam.name == "reid-frames":
            raise KeyboardInterrupt
        return counted(exam, *arguments, **options)

    command = ["certify", "identity", "--footage", footage, "--runs", tmp_path]
    monkeypatch.setattr(known, "sit", interrupted)
    assert sfumato(*command).code == 130
    assert len(files(tmp_path)) == 1
    monkeypatch.setattr(known, "sit", counted)
    assert sfumato(*command).code == 0
    assert trained == ["identity-frames", "reid-frames", "patient-identity-frames"]


def test_a_certificate_is_read_again_and_an_edited_one_is_not(
    footage: Path, tmp_path: Path, sfumato: Any, trained: list[str]
) -> None:
    data, page = tmp_path / "c.json", tmp_path / "c.html"
    command = ["certify", "identity", "--footage", footage, "--runs", tmp_path / "runs", "--json", data]
    assert sfumato(*command, "--report", page).code == 0
    first, trained[:] = page.read_bytes(), []
    run = sfumato("certify", data, "--report", page)
    assert run.code == 0 and Certificate.load(data).headline in run.out
    assert page.read_bytes() == first and trained == []
    stored = json.loads(data.read_text())
    data.write_text(json.dumps({**stored, "headline": "All is well"}))
    assert "was changed after it was written" in sfumato("certify", data).error


def test_other_bytes_are_another_footage(footage: Path, tmp_path: Path) -> None:
    copies = [tmp_path / place for place in ("a", "b")]
    for copy in copies:
        copy.mkdir()
        for file in footage.glob("*.mp4"):
            (copy / file.name).write_bytes(file.read_bytes())
    (copies[1] / "03.mp4").write_bytes((copies[1] / "04.mp4").read_bytes())
    one = replace(HASTY, attacks=("identity-frames",))
    found = [certified(load("identity"), copy, tmp_path / "runs", scale=one) for copy in (footage, *copies)]
    digests = [certificate.hashes["footage"] for certificate in found]
    assert digests[0] == digests[1] != digests[2]


WRONG = [
    (["blurr", "--footage", "good"], "there is no anonymizer 'blurr': did you mean 'blur'?"),
    (["blur"], "there is nothing to certify on: give the folder of the recordings by --footage"),
    (["blur", "--footage", "nowhere"], "there is no folder 'nowhere'"),
    (["blur", "--footage", "empty"], "no video in 'empty'"),
    (["blur", "--footage", "four"], "4 recordings of 'four' can be used, too few to attack: give at least 20"),
    (["blur", "--footage", "short"], "2 frames, 8 are needed for 4 clips"),
    (["blur", "--footage", "good", "--labels", "nowhere.csv"], "cannot read the table 'nowhere.csv'"),
    (["blur", "--footage", "good", "--labels", "nopath.csv"], "'nopath.csv' has no column 'path'"),
    (
        ["blur", "--footage", "good", "--labels", "outside.csv"],
        "'four/00.mp4' does not lie in the footage): paths are relative to the CSV and must lead into the footage",
    ),
    (["blur", "--footage", "short"], "for 4 clips: record longer): mend or replace the recordings and run again"),
    (["blacken-people", "--footage", "good"], "'blacken-people' needs to know where people are"),
    (["blur", "--footage", "good", "--json", "empty"], "'empty' is a folder: name a file to write"),
    (["blur", "--footage", "good", "--json", "r", "--report", "./r"], "two results would both become 'r'"),
    (["blur", "--footage", "good", "--device", "cuda"], "no usable CUDA GPU"),
    (["blur", "--footage", "good", "--effort", "brave"], "there is no effort 'brave'"),
    (
        ["nowhere.json"],
        "there is no certificate 'nowhere.json': check the name; --footage FOLDER --json FILE makes one",
    ),
    (["broken.json"], "cannot read a certificate from 'broken.json' (it is not valid JSON): certify again"),
    (["folder.json"], "cannot read a certificate from 'folder.json' (Is a directory): certify again"),
    (["blur", "good"], "certify takes one anonymizer, and there is 'good' too: name recordings by --footage good"),
    (["nopath.csv.json"], "is no certificate of schema"),
]


@pytest.mark.parametrize(("arguments", "complaint"), WRONG)
def test_a_mistake_is_one_line_before_the_first_training(
    arguments: list[str], complaint: str, footage: Path, tmp_path: Path, sfumato: Any, trained: list[str],
    monkeypatch: pytest.MonkeyPatch, files: Files,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    Path("good").symlink_to(footage)
    for name in ("empty", "four", "short"):
        Path(name).mkdir()
    for n in range(4):
        Path(f"four/{n:02}.mp4").write_bytes((footage / f"{n:02}.mp4").read_bytes())
    with VideoWriter(Path("short/a.mp4"), 25, (32, 32)) as writer:
        for _ in range(2):
            writer.write(np.zeros((32, 32, 3), np.uint8))
    Path("nopath.csv").write_text("file,person\n00.mp4,1\n")
    Path("outside.csv").write_text("path,person\nfour/00.mp4,1\n")
    Path("nopath.csv.json").write_text("{}")
    Path("broken.json").write_text("{")
    Path("folder.json").mkdir()
    before = files(tmp_path)
    assert complaint in sfumato("certify", *arguments).error
    assert trained == [] and files(tmp_path) == before


def test_what_was_left_out_is_told_before_the_error_that_too_little_is_left(
    footage: Path, tmp_path: Path, sfumato: Any, trained: list[str]
) -> None:
    for n in range(4):
        (tmp_path / f"{n}.mp4").write_bytes((footage / f"{n:02}.mp4").read_bytes())
    (tmp_path / "broken.mp4").write_bytes(b"no video" * 40)
    run = sfumato("certify", "blur", "--footage", tmp_path)
    said, error = run.err.splitlines()
    assert said.startswith("left out: broken.mp4: ") and "4 recordings of" in error and "too few to attack" in error
    assert run.code == 2 and trained == []
