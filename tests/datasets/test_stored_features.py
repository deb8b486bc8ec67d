"""From videos in THUMOS14's and UCF-Crime's own formats to features that detection and anomalies are judged on."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
import torch
from torch import Tensor

from sfumato.commands.prepare import prepare
from sfumato.datasets import Segment, VideoDataset, open_dataset
from sfumato.datasets.annotations import read_annotations
from sfumato.datasets.feature_store import FeatureStore, FeatureWriter
from sfumato.errors import SfumatoError
from sfumato.evaluation import scoring
from sfumato.evaluation.latent import LatentConfig, LatentJudge
from sfumato.evaluation.latent.anomaly import AnomalyProtocol
from sfumato.evaluation.latent.detection import DetectionProtocol
from sfumato.evaluation.latent.reconstruction import ReconstructionProtocol
from sfumato.methods.splavu.tasks import require_labels
from sfumato.recognizers.encoders import Encoder
from sfumato.training.extraction import describe, extract_items, first_clips
from sfumato.training.feature_data import FeatureSet, Filmed, NamedEncoder, Stored, fetch, read_features

from . import copies
from .copies import put, video

CPU = torch.device("cpu")
CLIPS = "frames=4&size=16"  # videos of 20 frames are five clips


class Brightness(Encoder):
    """The mean of a clip, and how much it changes."""

    width, clip = 2, (4, 16, 16)

    def encode(self, video: Tensor) -> Tensor:
        grey = video.mean((2, 3, 4))
        return torch.stack([grey.mean(1), grey[:, -1] - grey[:, 0]], 1)


def stored(data: VideoDataset, folder: Path, frame_step: int = 1) -> FeatureStore:
    encoder = Brightness()
    writer = FeatureWriter(folder, describe(encoder, "brightness", frame_step=frame_step, static=1))
    extract_items(encoder, data, torch.arange(len(data)), writer, device=CPU)
    return FeatureStore(folder)


def read(folder: Path) -> FeatureSet:
    return fetch(Stored(f"features:{folder}"), None, Path(), CPU, lambda done, total: None)


def number_of(data: VideoDataset, stem: str) -> int:
    return next(i for i in range(len(data)) if Path(data.sample(i).source).stem == stem)


@pytest.mark.parametrize(("step", "starts"), [(1, (0, 4, 8, 12, 16)), (2, (0, 8, 16))])
def test_all_clips_of_a_video_are_stored_side_by_side(step: int, starts: tuple[int, ...], tmp_path: Path) -> None:
    data = open_dataset(f"thumos14:{copies.thumos14(tmp_path / 'thumos14')}?{CLIPS}&skip={step}")
    store = stored(data, tmp_path / "features", step)
    assert [each.starts for each in store.videos] == [starts] * len(data)
    # Frame n has the grey 20 + 8·n: a clip of frames 4 to 7 (by twos 8, 10, 12, 14) is their mean.
    second = torch.arange(starts[1], starts[1] + 4 * step, step).float()
    assert store[0][1, 0, 0] * 255 == pytest.approx(float((20 + 8 * second).mean()), abs=3)
    assert store[0][1, 1, 1] == 0  # one frame of it, standing still


def test_the_first_clip_of_each_video_is_the_one_that_the_store_has_first(tmp_path: Path) -> None:
    data = open_dataset(f"thumos14:{copies.thumos14(tmp_path / 'thumos14')}?{CLIPS}")
    store = stored(data, tmp_path / "features")
    first = first_clips(data, torch.arange(len(data)), store.manifest)
    seen = Brightness()(first.float() / 255)
    assert torch.allclose(seen, torch.stack([store[n][0, 0] for n in range(len(data))]), atol=1e-5)
    protocol = ReconstructionProtocol(read(tmp_path / "features"), LatentConfig("tiny"), CPU)
    assert torch.equal(protocol._clips([2, 4]), first[[2, 4]])


def test_the_last_clip_is_filled_up_and_a_store_that_is_begun_goes_on(tmp_path: Path) -> None:
    root = copies.thumos14(tmp_path / "thumos14")
    put(root / "validation" / "video_validation_0000001.mp4", video(20, 18, "mp4"))
    data = open_dataset(f"thumos14:{root}?{CLIPS}")
    first = number_of(data, "video_validation_0000001")
    encoder, folder = Brightness(), tmp_path / "features"
    writer = FeatureWriter(folder, describe(encoder, "brightness", static=1))
    assert extract_items(encoder, data, torch.tensor([first]), writer, device=CPU) == 1
    assert extract_items(encoder, data, torch.arange(len(data)), writer, device=CPU) == len(data) - 1
    rows = FeatureStore(folder)[0]
    assert len(rows) == 5 and rows[4, 0, 0] * 255 == pytest.approx(20 + 8 * (16 + 17 + 17 + 17) / 4, abs=3)


def test_every_how_many_frames_must_be_the_same_in_the_name_and_in_the_store(tmp_path: Path) -> None:
    data = open_dataset(f"thumos14:{copies.thumos14(tmp_path / 'thumos14')}?{CLIPS}&skip=2")
    with pytest.raises(SfumatoError, match=r"have every 2\. frame, and those of the store every 1\."):
        stored(data, tmp_path / "features")


def test_walks_in_pictures_are_videos_too_and_what_somebody_wears_is_told(tmp_path: Path) -> None:
    data = open_dataset(f"casia-b:{copies.casia_b(tmp_path / 'casia-b')}?{CLIPS}")
    store = stored(data, tmp_path / "features")
    assert {each.starts for each in store.videos} == {(0, 4)}  # videos of eight frames, folders of six pictures
    pictures = next(n for n, each in enumerate(store.videos) if Path(data.sample(_number(each.name)).source).is_dir())
    assert store[pictures][1, 0, 0] * 255 == pytest.approx((150 + 180 + 180 + 180) / 4, abs=3)
    told = read_annotations(tmp_path / "features")
    assert Counter(a.attributes["condition"] for a in told.values()) == {"nm": 36, "bg": 6, "cl": 6}
    assert {a.person for a in told.values()} == {"1", "2", "75"}


def _number(name: str) -> int:
    return int(name.rpartition("/")[2])


def test_all_clips_of_a_video_in_a_shard(tmp_path: Path) -> None:
    root = copies.thumos14(tmp_path / "thumos14")
    prepare(f"thumos14:{root}", tmp_path / "shards", short_side=16, shards=1, workers=1)
    data = open_dataset(f"shards:{tmp_path / 'shards'}?{CLIPS}&skip=1")
    store = stored(data, tmp_path / "features")
    assert {each.starts for each in store.videos} == {(0, 4, 8, 12, 16)}
    assert store[0][1, 0, 0] * 255 == pytest.approx(20 + 8 * (4 + 5 + 6 + 7) / 4, abs=4)


def test_who_trains_on_videos_encodes_them_as_their_name_says(tmp_path: Path) -> None:
    filmed = Filmed(f"thumos14:{copies.thumos14(tmp_path / 'thumos14')}?{CLIPS}&skip=2")
    features = fetch(filmed, NamedEncoder("brightness", Brightness()), tmp_path / "run", CPU, lambda done, total: None)
    assert features.manifest.frame_step == 2 and features.count.unique().tolist() == [3]
    assert all(a.segments for a in features.annotations)


def test_what_is_missing_or_damaged_is_extracted_again_and_is_the_same(tmp_path: Path) -> None:
    data = open_dataset(f"thumos14:{copies.thumos14(tmp_path / 'thumos14')}?{CLIPS}")
    folder = tmp_path / "features"
    store, before = stored(data, folder), read(folder)
    gone, broken = (folder / store.videos[n].file for n in (1, 3))
    gone.unlink()
    broken.write_bytes(bytes([broken.read_bytes()[0] ^ 1]) + broken.read_bytes()[1:])
    with pytest.raises(SfumatoError, match=r"thumos14.*/1' are missing: extract them again into"):
        read(folder)
    writer = FeatureWriter(folder, store.manifest)
    assert extract_items(Brightness(), data, torch.arange(len(data)), writer, device=CPU) == 2
    after = read(folder)
    # Also in the same order: who trains on them can go on.
    assert torch.equal(after.vectors, before.vectors) and after.fingerprint == before.fingerprint


def test_features_that_were_not_extracted_to_the_end_are_refused(tmp_path: Path) -> None:
    data = open_dataset(f"thumos14:{copies.thumos14(tmp_path / 'thumos14')}?{CLIPS}")
    encoder, folder = Brightness(), tmp_path / "features"
    writer = FeatureWriter(folder, describe(encoder, "brightness", static=1))

    def stop(done: int, total: int) -> None:
        if done == total - 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        extract_items(encoder, data, torch.arange(len(data)), writer, device=CPU, progress=stop)
    with pytest.raises(SfumatoError) as error:
        read(folder)
    assert str(error.value) == (
        f"features:{folder} is unfinished: '{data.name}/{len(data) - 2}' and 1 more of {len(data)} annotated videos are not "
        "stored: run `sfumato features extract` to the end, or correct annotations.jsonl"
    )
    source = Stored(f"features:{folder}")
    with pytest.raises(SfumatoError, match="is unfinished"):
        read_features(source.name, source.store, source.annotations, CPU, lambda done, total: None)
    extract_items(encoder, data, torch.arange(len(data)), writer, device=CPU)
    assert len(read(folder).count) == len(data)


def test_a_picture_is_one_clip(tmp_path: Path) -> None:
    store = stored(open_dataset(f"vispr:{copies.vispr(tmp_path / 'vispr')}?{CLIPS}"), tmp_path / "features")
    assert {each.starts for each in store.videos} == {(0,)} and len(store) == 12
    told = read_annotations(tmp_path / "features").values()
    assert {(a.segments, a.anomalous) for a in told} == {(None, None)}  # nobody asks when something is in a picture


def test_segments_of_thumos14_and_anomalies_of_ucf_crime_go_with_the_features(tmp_path: Path) -> None:
    data = open_dataset(f"thumos14:{copies.thumos14(tmp_path / 'thumos14')}?{CLIPS}")
    stored(data, tmp_path / "tad")
    name = f"{data.name}/{number_of(data, 'video_test_0000004')}"
    told = read_annotations(tmp_path / "tad")[name]
    assert told.segments == (Segment(2, 7, "Diving"), Segment(15, 20, "Diving")) and told.anomalous is None
    assert told.part("person") == "test"

    crimes = open_dataset(f"ucf-crime:{copies.ucf_crime(tmp_path / 'ucf-crime')}?{CLIPS}")
    stored(crimes, tmp_path / "ad")
    read_back = read_annotations(tmp_path / "ad")

    def of(stem: str) -> tuple[object, object]:
        found = read_back[f"{crimes.name}/{number_of(crimes, stem)}"]
        return found.anomalous, found.segments

    assert of("Abuse028_x264") == (True, (Segment(4, 8, "Abuse"),))
    assert of("Normal_Videos_003_x264") == (False, ()) == of("Normal_Videos001_x264")
    assert of("Abuse001_x264") == (True, None)  # of training videos nobody told when


# ---- judged ------------------------------------------------------------------------------------------------------


@pytest.fixture
def thumos14(tmp_path: Path) -> Path:
    """Features of 35 videos of five actions, which each shows in the frames 4 to 12."""
    told: dict[str, object] = {}
    for n in range(35):
        part = "validation" if n < 25 else "test"
        name = f"video_{part}_{n:07d}"
        put(tmp_path / "thumos14" / f"{name}.mp4", video(20, 20, "mp4"))
        segments = [{"segment": [4 / 25, 12 / 25], "label": f"Action{n % 5}"}]
        told[name] = {"duration": 20 / 30, "frames": 20, "subset": part, "annotations": segments}
    put(tmp_path / "thumos14" / "thumos14.json", json.dumps({"version": "", "database": told}))
    stored(open_dataset(f"thumos14:{tmp_path / 'thumos14'}?{CLIPS}", strict=True), tmp_path / "features")
    return tmp_path / "features"


@pytest.fixture
def ucf_crime(tmp_path: Path) -> Path:
    """Features of 60 videos to train and 12 to test, half of them ordinary; anomalies of the test videos alone are told."""
    train = [f"Abuse/Abuse{n:03d}_x264.mp4" for n in range(30)]
    train += [f"Training_Normal_Videos_Anomaly/Normal_Videos{n:03d}_x264.mp4" for n in range(30)]
    test = [f"Abuse{n:03d}_x264.mp4  Abuse  5  12  -1  -1  " for n in range(100, 106)]
    test += [f"Normal_Videos_{n:03d}_x264.mp4  Normal  -1  -1  -1  -1  " for n in range(100, 106)]
    root = tmp_path / "ucf-crime"
    put(root / "Anomaly_Train.txt", "".join(f"{line}\n" for line in train))
    put(root / "Temporal_Anomaly_Annotation.txt", "".join(f"{line}\n" for line in test))
    for name in (*train, *(line.split()[0] for line in test)):
        put(root / name, video(60 if "Abuse" in name else 20, 20, "mp4"))
    stored(open_dataset(f"ucf-crime:{root}?{CLIPS}", strict=True), tmp_path / "features")
    return tmp_path / "features"


def judge(data: FeatureSet, protocol: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    monkeypatch.setattr(scoring, "SAMPLES", 20)
    result = LatentJudge(data, LatentConfig("tiny", epochs=2), names=(protocol,), device=CPU).judge({})
    return {each.name: each.score.value for each in result.lines[0].scores}  # type: ignore[attr-defined]


def test_detection_is_learned_from_and_judged_on_features_of_thumos14(
    thumos14: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_labels("detection", Stored(f"features:{thumos14}"))  # SPLAVU may train on it
    data = read(thumos14)
    protocol = DetectionProtocol(data, LatentConfig("tiny"), CPU)
    assert protocol.lacks == "" and len(protocol.videos.labels) == 5 and data.count.unique().tolist() == [5]
    assert [len(protocol.videos.parts.of(part)) for part in ("train", "val", "test")] == [20, 5, 10]  # type: ignore[arg-type]
    assert protocol.videos.truth[0].spans.tolist() == [[1.0, 3.0]]  # frames 4 to 12, in clips of four
    assert 0 <= judge(data, "detection", monkeypatch)["TAD mAP"] <= 1


def test_anomalies_are_learned_from_and_judged_on_features_of_ucf_crime(
    ucf_crime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_labels("anomaly", Stored(f"features:{ucf_crime}"))
    data = read(ucf_crime)
    protocol = AnomalyProtocol(data, LatentConfig("tiny"), CPU)
    assert protocol.lacks == "" and not protocol.by_frames
    # Where the anomalies of validation videos are is not told: whole videos choose, and both kinds are there.
    assert sorted(protocol.labels[protocol.parts.val].tolist()) == [0, 0, 0, 1, 1, 1]
    assert len(protocol.parts.test) == 12
    frames = [protocol.frames[video] for video in protocol.parts.test.tolist()]
    assert sorted({tuple(each.tolist()) for each in frames if each is not None}) == [
        (0.0,) * 20, (0.0,) * 4 + (1.0,) * 8 + (0.0,) * 8,
    ]  # fmt: skip
    assert 0 <= judge(data, "anomaly", monkeypatch)["AD AUC"] <= 1
