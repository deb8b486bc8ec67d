"""`sfumato features import`: lists of .npy files of UCF-Crime, from the list to the training and the judgement."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sfumato.datasets import Segment
from sfumato.datasets.annotations import read_annotations
from sfumato.datasets.feature_lists import describe_brought, read_lists
from sfumato.datasets.feature_store import FeatureStore, FeatureWriter, Manifest
from sfumato.errors import SfumatoError
from sfumato.evaluation import scoring

from ..datasets.copies import REAL, needs_real, put

WIDTH, CROPS, CLIPS = 16, 10, 6


def names() -> dict[str, str]:
    """30 videos with an anomaly and 30 without to train, six and six to test: label file lines by the video's name."""
    train = {f"Abuse{n:03d}_x264": f"Abuse/Abuse{n:03d}_x264.mp4" for n in range(30)}
    ordinary = {n: f"Training_Normal_Videos_Anomaly/{n}.mp4" for n in (f"Normal_Videos{n:03d}_x264" for n in range(30))}
    test = {f"Abuse{n}_x264": f"Abuse{n}_x264.mp4  Abuse  17  48  -1  -1  " for n in range(100, 106)}
    others = {n: f"{n}.mp4  Normal  -1  -1  -1  -1  " for n in (f"Normal_Videos_{n}_x264" for n in range(100, 106))}
    return train | ordinary | test | others


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Label files in `labels`, features in `i3d`, and a list of training and one of test files."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    lists: dict[str, list[str]] = {"train": [], "test": []}
    draw = np.random.default_rng(0)
    for number, (name, line) in enumerate(names().items()):
        shape = (CLIPS, CROPS, WIDTH) if number % 2 else (CLIPS, WIDTH)
        values = draw.normal(size=shape) + ("Abuse" in name)
        part = "test" if "  " in line else "train"
        path = Path("i3d", part, f"{name}_i3d.npy")
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, values.astype(np.float16 if number % 3 else np.float32))
        lists[part].append(f"{part}/{path.name}")
    for part, lines in lists.items():
        put(Path("i3d", f"{part}.list"), "".join(f"{line}\n" for line in lines))
    told = list(names().values())
    put(Path("labels", "Anomaly_Train.txt"), "".join(f"{line}\n" for line in told[:60]))
    put(Path("labels", "Temporal_Anomaly_Annotation.txt"), "".join(f"{line}\n" for line in told[60:]))


IMPORT = ("features", "import", "i3d/train.list", "i3d/test.list", "--labels", "labels", "-o", "crime")


def test_lists_become_a_store_with_what_ucf_crime_says(sfumato: Any) -> None:
    run = sfumato(*IMPORT, "--encoder", "i3d")
    assert (run.code, run.out, run.err) == (0, "crime: 432 clips of 72 videos, 72 of them new, width 16\n", "")
    store, told = FeatureStore("crime"), read_annotations(Path("crime"))
    assert (store.manifest.encoder, store.manifest.clip[0], store.manifest.per_clip) == ("i3d", 16, 1)
    by_name = {video.name: number for number, video in enumerate(store.videos)}
    assert list(by_name) == list(names()) == list(told) and store.videos[0].starts == (0, 16, 32, 48, 64, 80)
    for video, part in (("Abuse000_x264", "train"), ("Abuse001_x264", "train"), ("Normal_Videos_101_x264", "test")):
        values = np.load(f"i3d/{part}/{video}_i3d.npy").astype(np.float32)
        wanted = values.mean(1) if values.ndim == 3 else values
        assert np.allclose(store[by_name[video]][:, 0].numpy(), wanted, atol=1e-6)
    located = told["Abuse100_x264"]
    assert (located.anomalous, located.segments, located.part("clip")) == (True, (Segment(16, 48, "Abuse"),), "test")
    assert (told["Abuse001_x264"].anomalous, told["Abuse001_x264"].segments) == (True, None)
    ordinary = told["Normal_Videos_100_x264"]
    assert (ordinary.anomalous, ordinary.segments, ordinary.action) == (False, (), "Normal")
    assert {a.part("person") for a in told.values()} == {"train", "val", "test"}
    assert sfumato(*IMPORT, "--encoder", "i3d").out.endswith("72 videos, 0 of them new, width 16\n")


def test_splavu_is_trained_and_judged_on_them(sfumato: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "SAMPLES", 20)
    # Static clips are of another store of the same encoder: lists have none.
    static = FeatureWriter(Path("static"), Manifest("mine", "ab" * 32, (16, 224, 224), 1, WIDTH, per_clip=3))
    for n in range(12):
        with static.video(f"{n}.mp4") as rows:
            for at in (0, 16):
                rows.add(at, torch.randn(3, WIDTH))
    assert sfumato(*IMPORT, "--encoder", "static").code == 0
    assert FeatureStore("crime").manifest.weights_sha256 == "ab" * 32
    small = {
        "tasks": "anomaly", "epochs": 1, "reconstruction_epochs": 1, "layers": 1, "heads": 2, "head_width": 0.02,
        "privacy_batch": 4, "anomaly_batch": 4,
    }  # fmt: skip
    settings = [word for key, value in small.items() for word in ("--set", f"{key}={value}")]
    data = ["--data", "features:crime", "--privacy-data", "features:static"]
    run = sfumato("train", "splavu", *data, *settings, "--out", "run", "--device", "cpu")
    assert run.code == 0, run.err
    asked = ["--data", "features:crime", "--protocol", "latent-anomaly", "--models", "tiny", "--epochs", 8]
    run = sfumato("judge", "run/anonymizer", *asked, "--device", "cpu", "--json", "r.json")
    assert run.code == 0, run.err
    lines = json.loads(Path("r.json").read_text())["lines"]
    assert len(lines) == 2 and all(0 <= line["scores"][0]["score"]["value"] <= 1 for line in lines)
    assert lines[0]["scores"][0]["score"]["value"] > 0.5  # what is in the features is found


def test_files_that_fail_are_named_and_the_rest_is_there(sfumato: Any) -> None:
    Path("i3d/train/Abuse003_x264_i3d.npy").unlink()
    np.save("i3d/train/Abuse004_x264_i3d.npy", np.array([{"a": 1}], dtype=object))
    np.save("i3d/train/Abuse005_x264_i3d.npy", np.zeros((2, 3, 4, 5), np.float32))
    np.save("i3d/train/Abuse006_x264_i3d.npy", np.zeros((2, WIDTH + 1), np.float32))
    np.save("i3d/train/Abuse007_x264_i3d.npy", np.full((2, WIDTH), np.nan, np.float32))
    put(Path("i3d/train/Abuse008_x264_i3d.npy"), b"\x93NUMPY cut")
    run = sfumato(*IMPORT, "--encoder", "i3d")
    *failed, last = run.err.splitlines()
    assert (run.code, last[:44]) == (2, "error: 6 of the videos could not be read: me")
    for line, (number, what) in zip(
        failed,
        (
            (4, "there is no file"), (5, "is no .npy file of numbers (Array can't be memory-mapped: Python obj"),
            (6, "is not (clips, width) or (clips, crops, width)"), (7, "a row of shape (1, 17) is not (1, 16)"),
            (8, "are not finite"), (9, "is no .npy file of numbers"),
        ),
        strict=True,
    ):  # fmt: skip
        assert line.startswith(f"train.list line {number}: ") and what in line
    assert len(FeatureStore("crime")) == len(read_annotations(Path("crime"))) == 66
    assert "there is no file" in sfumato(*IMPORT, "--encoder", "i3d", "--strict").error


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("../secret/Abuse001_x264.npy", "train.list line 1: '../secret/Abuse001_x264.npy' lies outside the folder of the"),
        ("/etc/Abuse001_x264.npy", "'/etc/Abuse001_x264.npy' lies outside the folder of the list: write paths relative"),
        ("link/Abuse001_x264.npy", "'link/Abuse001_x264.npy' lies outside the folder of the list"),
        ("train/Shop001_x264_i3d.npy", "is no video of UCF-Crime: name files such as Abuse001_x264_i3d.npy"),
        ("", "the lists name no file: write one path"),
    ],
)  # fmt: skip
def test_a_list_that_leaves_its_folder_or_names_something_else_is_refused(
    line: str, complaint: str, sfumato: Any, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    Path("i3d/link").symlink_to(tmp_path / "elsewhere")
    Path("i3d/train.list").write_text(f"{line}\n")
    run = sfumato("features", "import", "i3d/train.list", "--labels", "labels", "--encoder", "i3d", "-o", "crime")
    assert complaint in run.error and not Path("crime").exists()


def test_what_does_not_fit_together_is_refused(sfumato: Any) -> None:
    with pytest.raises(SfumatoError, match=r"cannot read the list 'none\.list'"):
        read_lists([Path("none.list")], Path("labels"))
    FeatureWriter(Path("other"), describe_brought("c3d", 4096, 16))
    assert "these features are 4096 wide, not 16" in sfumato(*IMPORT, "--encoder", "other").error
    assert not Path("crime").exists()
    assert sfumato(*IMPORT, "--encoder", "i3d").code == 0
    assert "'crime' holds features with encoder = i3d, not c3d" in sfumato(*IMPORT, "--encoder", "c3d").error
    assert "there is no 'Anomaly_Train.txt'" in sfumato(*IMPORT, "--encoder", "i3d", "--labels", "i3d").error


@needs_real
def test_every_video_of_the_published_lists_is_known_by_its_name(tmp_path: Path) -> None:
    labels = REAL / "ucf-crime"
    videos = [line.split()[0] for file in sorted(labels.glob("*.txt")) for line in file.read_text().splitlines()]
    put(tmp_path / "all.list", "".join(f"{Path(video).stem}_i3d.npy\n" for video in videos))
    found = read_lists([tmp_path / "all.list"], labels)
    assert len(found) == 1900 and sum(each.row.action == "Normal" for each in found) == 950
