"""What SPLAVU may be trained on, and what it refuses by name."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from sfumato.datasets import theatre
from sfumato.datasets.annotations import Annotation, add_annotations
from sfumato.datasets.feature_store import INDEX, FeatureStore
from sfumato.errors import SfumatoError
from sfumato.methods.splavu import train as module
from sfumato.methods.splavu.config import SPLAVUConfig
from sfumato.methods.splavu.train import gather_features, train
from sfumato.recognizers.encoders import Encoder
from sfumato.recognizers.weights import checksum
from sfumato.training.feature_data import Filmed, Screenplays, open_source, tell_problems
from sfumato.training.options import load_options

from .splavu_toys import TINY, WHOSE, make_stage, settings, trimmed, untrimmed, write_store, write_stores


class Corners(Encoder):
    """A clip's mean colours in four corners, and how much they move: 24 features."""

    width, clip = 24, (2, 16, 16)

    def __init__(self, scale: float = 1.0) -> None:
        super().__init__()
        self.gain = torch.nn.Parameter(torch.tensor(scale), requires_grad=False)
        self.seen = 0

    def encode(self, video: Tensor) -> Tensor:
        self.seen += len(video)
        corners = video.unflatten(4, (2, 8)).unflatten(3, (2, 8)).mean((4, 6))
        moved = (corners[:, 1] - corners[:, 0]).abs()
        return self.gain * torch.cat([corners.mean(1).flatten(1), 10 * moved.flatten(1)], 1)


@pytest.fixture
def minute_theatre(monkeypatch: pytest.MonkeyPatch, small_theatre: Callable[..., object]) -> None:
    """24 training clips of 2 frames, and screenplays of 16 pixels."""
    small_theatre(sizes=(24, 12, 12))
    monkeypatch.setitem(theatre.PRESETS, "", replace(theatre.PRESETS[""], side=16))


@pytest.fixture
def corners(monkeypatch: pytest.MonkeyPatch) -> Corners:
    """What `encoder=corners` stands for."""
    encoder = Corners()
    monkeypatch.setattr(module, "load_encoder", {"corners": encoder}.__getitem__)
    return encoder


def test_videos_are_encoded_once_and_the_encoder_does_not_move(
    tmp_path: Path, minute_theatre: None, corners: Corners
) -> None:
    plays = {
        "detection_data": "screenplay:untrimmed?videos=10&frames=64",
        "anomaly_data": "screenplay:surveillance?videos=10&frames=64",
    }
    config = SPLAVUConfig(**{**TINY, "epochs": 1, "encoder": "corners", "tasks": "action+detection+anomaly", **plays})
    before = checksum(corners)
    seen: list[int] = []

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    cut = make_stage(tmp_path / "run", "theatre:small")
    cut.progress.phase = stop
    with pytest.raises(KeyboardInterrupt):
        train(config, cut)
    seen.append(corners.seen)
    result = train(config, make_stage(tmp_path / "run", "theatre:small"))
    assert corners.seen == seen[0]  # nothing was encoded again
    assert checksum(corners) == before and all(p.grad is None for p in corners.parameters())
    assert result["features"] == {"encoder": "corners", "weights_sha256": corners.fingerprint(), "width": 24}
    assert result["drawn"] is True
    stores = {
        store.videos[0].name.split("/")[0]: store for store in map(FeatureStore, (tmp_path / "run/features").iterdir())
    }
    # training clips, and those that it is watched by: no clip of the test parts
    assert len(stores["theatre:small"]) == 24 + 12 + 12
    assert len(stores["screenplay:untrimmed"]) == 10 and stores["screenplay:untrimmed"][0].shape == (32, 3, 24)


def test_rows_that_had_to_be_left_out_are_told() -> None:
    class Broken(Filmed):
        def __init__(self) -> None:
            self.problems = [f"line {n}" for n in range(7)]

    said: list[str] = []
    tell_problems(Broken(), said.append)
    assert said == [*(f"left out: line {n}" for n in range(5)), "… and 2 more"]


def test_features_on_disk_need_no_encoder_and_give_the_same(
    tmp_path: Path, minute_theatre: None, corners: Corners
) -> None:
    config = SPLAVUConfig(**{**TINY, "encoder": "corners"})
    filmed = train(config, make_stage(tmp_path / "run", "theatre:small"))
    (stored,) = (tmp_path / "run" / "features").iterdir()
    again = train(replace(config, encoder=""), make_stage(tmp_path / "again", f"features:{stored}"))
    assert again == filmed


def refused(config: SPLAVUConfig, folder: Path, *names: str) -> str:
    with pytest.raises(SfumatoError) as error:
        train(config, make_stage(folder / "run", *names))
    assert "\n" not in str(error.value)
    assert not (folder / "run" / "features").exists()  # told before anything is encoded
    return str(error.value)


@pytest.mark.parametrize(
    ("manifest", "complaint"),
    [
        (replace(WHOSE, width=12), "other: these features are 12 wide, not 16: they are of 'toy'"),
        (
            replace(WHOSE, encoder="another", weights_sha256="cd" * 32),
            "other: these features are of 'another' with weights cdcdcdcd, not abababab: extract them with the encoder",
        ),
    ],
)
def test_features_of_different_encoders_do_not_mix(manifest: Any, complaint: str, tmp_path: Path) -> None:
    videos = [(told, rows[..., : manifest.width]) for told, rows in untrimmed()]
    other = write_store(tmp_path / "other", videos, manifest)
    short = write_store(tmp_path / "short", trimmed())
    assert complaint in refused(settings("action+detection", {"detection_data": other}), tmp_path, short)


def test_features_of_another_encoder_than_the_one_named(tmp_path: Path, corners: Corners) -> None:
    short = write_store(tmp_path / "short", trimmed())
    config = settings("action", {}, encoder="corners")
    assert f"{short}: these features are 16 wide, not 24" in refused(config, tmp_path, short)
    same_width = replace(WHOSE, width=24)
    wide = [(told, torch.cat([rows, rows[..., :8]], -1)) for told, rows in trimmed()]
    other = write_store(tmp_path / "wide", wide, same_width)
    assert f"{other}: these features are of 'toy' with weights abababab" in refused(config, tmp_path / "b", other)


def test_nothing_is_encoded_for_features_that_will_not_fit(
    tmp_path: Path, minute_theatre: None, corners: Corners
) -> None:
    long = write_store(tmp_path / "long", untrimmed())
    config = settings("action+detection", {"detection_data": long}, encoder="corners")
    assert f"{long}: these features are 16 wide, not 24" in refused(config, tmp_path, "theatre:small")
    assert corners.seen == 0


def test_who_is_in_the_training_part_of_one_split_alone_is_not_learned_from(tmp_path: Path) -> None:
    splits: list[dict[str, str]] = [
        {"person": "train", "clip": "val"},
        {"person": "val", "clip": "train"},
        {"person": "train"},
    ]
    videos = [
        (replace(told, split=splits[n] if n < 3 else told.split), rows) for n, (told, rows) in enumerate(trimmed())
    ]
    data = gather_features(
        settings("action", {}), make_stage(tmp_path / "run", write_store(tmp_path / "short", videos))
    )
    learned = data["action"].videos("train").tolist()
    assert not {0, 1, 2} & set(learned) and {3, 4, 5} <= set(learned)
    assert (
        1 in data["action"].videos("val", "person").tolist()
        and 0 not in data["action"].videos("val", "person").tolist()
    )
    assert 0 in data["action"].videos("val", "clip").tolist() and 1 not in data["action"].videos("val", "clip").tolist()


def test_features_that_are_not_numbers_are_refused_by_the_video_they_are_of(tmp_path: Path) -> None:
    short = write_store(tmp_path / "short", trimmed())
    video = FeatureStore(tmp_path / "short").videos[7]
    path = tmp_path / "short" / video.file
    content = np.frombuffer(path.read_bytes(), np.float32).copy()
    content[3] = np.nan
    path.write_bytes(content.tobytes())
    assert "the features of 'short 7' are damaged" in refused(settings("action", {}), tmp_path, short)
    index = tmp_path / "short" / INDEX
    index.write_text(index.read_text().replace(video.sha256, hashlib.sha256(path.read_bytes()).hexdigest()))
    assert "the features of 'short 7' are not finite: extract them again" in refused(
        settings("action", {}), tmp_path, short
    )


def test_half_of_the_videos_are_not_taken_for_all(tmp_path: Path, minute_theatre: None, corners: Corners) -> None:
    short = write_store(tmp_path / "short", trimmed())
    add_annotations(tmp_path / "short", {"short 60": replace(trimmed()[0][0], name="short 60")})
    told = f"{short} is unfinished: 'short 60' of 61 annotated videos are not stored"
    assert told in refused(settings("action", {}), tmp_path, short)
    whose = replace(WHOSE, width=24, weights_sha256=corners.fingerprint())
    wide = [(told, torch.cat([rows, rows[..., :8]], -1)) for told, rows in untrimmed()]
    long = write_store(tmp_path / "long", wide, whose)
    add_annotations(tmp_path / "long", {"long 20": replace(wide[0][0], name="long 20")})
    config = settings("action+detection", {"detection_data": long}, encoder="corners")
    assert f"{long} is unfinished" in refused(config, tmp_path / "b", "theatre:small") and corners.seen == 0


def test_features_that_changed_do_not_go_on(tmp_path: Path) -> None:
    stores = write_stores(tmp_path)
    stage = make_stage(tmp_path / "run", stores["data"])

    def stop(done: int, latest: dict[str, float]) -> None:
        raise KeyboardInterrupt

    stage.progress.step = stop
    config = settings("action", stores)
    with pytest.raises(KeyboardInterrupt):
        train(config, stage)
    table = tmp_path / "short" / "annotations.jsonl"
    table.write_text(table.read_text().replace('"action 0"', '"action 1"', 1))
    with pytest.raises(SfumatoError, match="the features are not those that the run in"):
        train(config, make_stage(tmp_path / "run", stores["data"]))


def test_data_that_does_not_say_what_a_task_needs_is_refused_with_what_to_do(
    tmp_path: Path, minute_theatre: None
) -> None:
    short, long = write_store(tmp_path / "short", trimmed()), write_store(tmp_path / "long", untrimmed())
    bare = write_store(tmp_path / "bare", [(Annotation(told.name), rows) for told, rows in trimmed()])
    calm = write_store(tmp_path / "calm", [(replace(told, anomalous=False), rows) for told, rows in untrimmed()])

    def complaint(tasks: str, data: str, number: int, **changes: Any) -> str:
        return refused(SPLAVUConfig(**{**TINY, "tasks": tasks, **changes}), tmp_path / str(number), data)

    assert "short tell no segments: give other data by detection_data, or leave detection out of tasks" in complaint(
        "detection", short, 0
    )
    assert "short tell no anomalies: give other data by anomaly_data" in complaint("action+anomaly", short, 1)
    assert "long tell no actions: give other data by --data, or leave action out of tasks" in complaint(
        "action", long, 2
    )
    assert "bare tell no actions" in complaint("action", bare, 3)
    assert "calm tell only one kind of anomalies" in complaint("anomaly", calm, 4)
    assert "theatre:small tell no segments" in complaint("detection", "theatre:small", 5)
    assert "theatre:small are videos, and no encoder is named: add --set encoder=" in complaint(
        "action", "theatre:small", 6
    )
    assert "long has no private attributes: name --privacy-data that has, or set budget=static" in complaint(
        "detection", long, 7, budget="labels"
    )
    assert "there is no screenplay 'untrimed': did you mean 'untrimmed'?" in complaint(
        "action+detection", short, 8, detection_data="screenplay:untrimed"
    )
    assert "videos = '0' is not a positive whole number" in complaint(
        "action+detection", short, 9, detection_data="screenplay:untrimmed?videos=0"
    )
    assert "'features:' names nothing: write such as features:DIR" in complaint("action", "features:", 10)
    assert "name a folder that `sfumato features extract` made" in complaint("action", "features:nowhere", 11)


def test_one_static_clip_of_one_clip_makes_no_pair(tmp_path: Path) -> None:
    single = replace(WHOSE, per_clip=2)
    lone = write_store(tmp_path / "lone", [(told, rows[:, :2]) for told, rows in trimmed()], single)
    with pytest.raises(
        SfumatoError, match=r"fewer than two training videos have a pair of them: extract .* --static 2"
    ):
        train(settings("action", {}), make_stage(tmp_path / "run", lone))
    several = write_store(tmp_path / "several", [(told, rows[:, :2]) for told, rows in trimmed(clips=2)], single)
    assert train(settings("action", {}), make_stage(tmp_path / "two", several))["watched"]["pairs found"] >= 0


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        (["tasks=actions"], "tasks = 'actions' does not fit: join some of action, detection, anomaly by +, each once"),
        (["tasks=action+action"], "tasks = 'action+action' does not fit"),
        (["tasks="], "tasks = '' does not fit"),
        (["detection_data=features:d"], "detection_data is given, and detection is no task"),
        (["consistency_weight=-1"], "consistency_weight (ω_LC) = '-1' does not fit"),
        (["pairs=moving"], "pairs = 'moving' does not fit: use one of static, all"),
        (["attend=pixels"], "attend = 'pixels' does not fit: use one of feature, video, batch, none"),
    ],
)
def test_wrong_settings_are_refused_in_one_line(wrong: list[str], complaint: str) -> None:
    with pytest.raises(SfumatoError) as error:
        load_options(SPLAVUConfig, settings=wrong)
    assert str(error.value).startswith(complaint) and "\n" not in str(error.value)


def test_the_paper_says_so_much() -> None:
    config = load_options(SPLAVUConfig, recipe=Path(__file__).parents[2] / "recipes" / "splavu-paper.toml")
    assert (config.budget, config.pairs) == ("static", "static")
    assert config.asked() == ("action", "detection", "anomaly") and (config.batch, config.privacy_batch) == (512, 512)
    assert (config.utility_weight, config.consistency_weight, config.budget_weight) == (1, 100, 1)
    assert (config.layers, config.heads, config.epochs, config.anonymizer_rate) == (3, 8, 100, 1e-4)


def test_what_is_said_of_a_data_set_stands_beside_its_features(
    tmp_path: Path, minute_theatre: None, corners: Corners
) -> None:
    train(SPLAVUConfig(**{**TINY, "encoder": "corners", "epochs": 1}), make_stage(tmp_path / "run", "theatre:small"))
    (stored,) = (tmp_path / "run" / "features").iterdir()
    lines = [json.loads(line) for line in (stored / "annotations.jsonl").read_text().splitlines()]
    assert lines[0]["action"] in ("raise hand", "jumping jack") and lines[0]["person"].startswith("person ")
    assert set(lines[0]["attributes"].values()) <= {"no", "yes"} and lines[0]["split"] == {
        "person": "train",
        "clip": "train",
    }


def test_plays_of_another_seed_are_played_by_others_and_bear_other_names() -> None:
    own, others = (open_source(f"screenplay:untrimmed?videos=2&frames=32{more}") for more in ("", "&seed=1"))
    assert isinstance(own, Screenplays) and isinstance(others, Screenplays)
    assert list(own.annotations)[1] == "screenplay:untrimmed/1/32"
    assert list(others.annotations)[1] == "screenplay:untrimmed?seed=1/1/32"
    looks = [plays.theatre.screenplay(1, "untrimmed", 32).clip for plays in (own, others)]
    assert not torch.equal(*looks)
    with pytest.raises(SfumatoError, match="seed = '-1' is not a whole number"):
        open_source("screenplay:untrimmed?seed=-1")
