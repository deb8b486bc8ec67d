"""Small data sets of generated files, in the very format that the papers' have on disk: for `sfumato reproduce --smoke`.

Nothing can be learned from them. They have just as many videos, in train, validation and test, as the judge asks for.
Features are those of a tiny encoder, extracted from such videos where these are written at all.
"""

from __future__ import annotations

import io
import json
import pickle
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch

from sfumato.commands.features import extract_features
from sfumato.datasets.annotations import Annotation, add_annotations
from sfumato.datasets.feature_store import FeatureWriter
from sfumato.datasets.sample import Segment
from sfumato.datasets.vispr import SUBSETS
from sfumato.datasets.vp import COLUMNS
from sfumato.recognizers import make_recognizer
from sfumato.recognizers.base import VideoRecognizer
from sfumato.recognizers.encoders import load_encoder, save_encoder
from sfumato.training.extraction import describe

ACTIONS = ("Archery", "Bowling")
TRAIN, TEST = 72, 12  # videos of an action
LABELLED = 36  # of an action's training videos, how many PA-HMDB51 has
PICTURES = 12  # in each part of VISPR
TAGGED = 96  # videos of P-HVU to train
FACES = 160
FEATURES, CLIPS, WIDTH = 100, 6, 16  # videos in a feature store, clips in each, and how wide a feature is
FRAMES, SIZE = 32, (32, 48)
LOOKS = 8  # videos that differ

# Features that are extracted, by the name of their folder: the data sets that are written here as videos or pictures. Of
# the others, larger in films than a rehearsal should be, the features themselves are drawn.
FILMED = {
    "hmdb51": "hmdb51:hmdb51?split=1", "vp-hmdb51": "vp-hmdb51:hmdb51?split=1", "ucf101": "ucf101:ucf101?split=1",
    "pa-hmdb51": "pa-hmdb51:hmdb51?split=random", "pa-hmdb51-rest": "pa-hmdb51:hmdb51?split=rest",
    "vp-ucf101": "vp-ucf101:ucf101?split=1", "vispr": "vispr:vispr?subset=1",
}  # fmt: skip


@lru_cache
def video(container: str, look: int = 0) -> bytes:
    """An MPEG-4 video of moving noise."""
    import av

    picture = np.random.default_rng(look).integers(0, 255, (*SIZE, 3)).astype(np.uint8)
    buffer = io.BytesIO()
    with av.open(buffer, "w", format=container) as file:
        stream = file.add_stream("mpeg4", rate=25)
        stream.height, stream.width, stream.pix_fmt = *SIZE, "yuv420p"
        for number in range(FRAMES):
            shown = np.ascontiguousarray(np.roll(picture, number, axis=1))
            file.mux(stream.encode(av.VideoFrame.from_ndarray(shown, format="rgb24")))
        file.mux(stream.encode(None))
    return buffer.getvalue()


@lru_cache
def picture() -> bytes:
    """A JPEG file."""
    from PIL import Image

    buffer = io.BytesIO()
    noise = np.random.default_rng(0).integers(0, 255, (*SIZE, 3)).astype(np.uint8)
    Image.fromarray(noise).save(buffer, "JPEG")
    return buffer.getvalue()


def write_miniature(name: str, root: Path) -> None:
    """A data set for a recipe's NAME:FOLDER?OPTIONS under `root`; one that is there already is left alone.

    >>> write_miniature("vp-ucf101:ucf101?split=1", Path("miniatures"))  # doctest: +SKIP
    """
    kind, _, rest = name.partition(":")
    folder = root / rest.partition("?")[0]
    writers = {
        "ucf101": _ucf101, "vp-ucf101": _ucf101, "hmdb51": _hmdb51, "vp-hmdb51": _hmdb51, "pa-hmdb51": _hmdb51,
        "vispr": _vispr, "p-hvu": _p_hvu, "celebv-hq": _celebv_hq,
    }  # fmt: skip
    if folder.exists():
        return
    if kind != "features":
        writers[kind](folder)
    elif source := FILMED.get(folder.name):
        write_miniature(source, root)
        at, _, options = source.partition(":")[2].partition("?")
        clips = f"{source.partition(':')[0]}:{root / at}?{options}&frames=16&size={SIZE[0]}"
        extract_features([clips], str(_encoder(root)), folder, static=2, frame_step=1, batch=16, device="cpu")
    else:
        _draw_features(folder, _encoder(root))


def _put(path: Path, content: bytes | str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)


def _yes(number: int, question: int) -> bool:
    """Three of four times, at other times for every question."""
    return (number + question) % 4 != 0


def _put_labels(path: Path, videos: list[str]) -> None:
    """A pickle as STPrivacy publishes it."""
    table = {v: np.array([[int(_yes(n, a)) for a in range(len(COLUMNS))]]) for n, v in enumerate(videos)}
    _put(path, pickle.dumps(table, protocol=4))


def _ucf101(root: Path) -> None:
    """UCF101 with split 1 and the labels of VP-UCF101; every video a group of its own."""
    lists: dict[str, list[str]] = {"train": [], "test": []}
    for label, action in enumerate(ACTIONS, 1):
        for group in range(TRAIN + TEST):
            name = f"{action}/v_{action}_g{group:02d}_c01.avi"
            _put(root / "UCF-101" / name, video("avi", group % LOOKS))
            part = "test" if group < TEST else "train"
            lists[part].append(name if part == "test" else f"{name} {label}")
    lines = {"classInd": [f"{n} {a}" for n, a in enumerate(ACTIONS, 1)]}
    for file, content in (lines | {f"{part}list01": rows for part, rows in lists.items()}).items():
        _put(root / f"{file}.txt", "".join(f"{line}\r\n" for line in content))
    names = [line.split()[0].replace(".avi", ".mp4") for rows in lists.values() for line in rows]
    _put_labels(root / "ucf101_privacy_attribute_label.pickle", names)


def _hmdb51(root: Path) -> None:
    """HMDB51 with split 1 and the labels of VP-HMDB51 and PA-HMDB51; every video from a film of its own."""
    every = []
    for action in ACTIONS:
        names = [f"Film{n}{action}_{action}_f_nm_np1_fr_goo_0.avi" for n in range(TRAIN + TEST)]
        marks = [2 if n < TEST else 1 for n in range(len(names))]
        lines = [f"{name} {mark} \n" for name, mark in zip(names, marks, strict=True)]
        _put(root / f"{action}_test_split1.txt", "".join(lines))
        for n, name in enumerate(names):
            _put(root / action / name, video("avi", n % LOOKS))
        spans = {name: _spans(n) for n, name in enumerate(names[: TEST + LABELLED])}
        _put(root / "PrivacyAttributes" / f"{action}.json", json.dumps(spans))
        every += [f"{action}/{name}".replace(".avi", ".mp4") for name in names]
    _put_labels(root / "hmdb51_privacy_attribute_label.pickle", every)


def _spans(number: int) -> dict[str, object]:
    """One video's entry of PA-HMDB51: one value for all of it."""
    values = {
        "skin_color": number % 4, "face": number % 3, "gender": number % 3, "nudity": number % 3,
        "relationship": int(number % 12 > 0),
    }  # fmt: skip
    return {name: [[0, FRAMES - 1, value]] for name, value in values.items()} | {"review": True, "note": ""}


def _vispr(root: Path) -> None:
    """VISPR with both subsets' attributes."""
    names = [name for subset in SUBSETS.values() for name in subset]
    rows = "".join(f"{n}\t{name}\tgroup\tdescription\r\n" for n, name in enumerate(names))
    _put(root / "attributes.tsv", f"idx\tattribute_id\tgroup\tdescription\r\n{rows}")
    for place, part in enumerate(("train", "val", "test")):
        listed = ""
        for n in range(PICTURES):
            stem = f"2017_{place}{n:02d}"
            has = [name for a, name in enumerate(names) if _yes(n, a)]
            told = {"image_path": f"images/{part}2017/{stem}.jpg", "labels": has}
            _put(root / "annotations" / f"{part}2017" / f"{stem}.json", json.dumps(told))
            _put(root / "images" / f"{part}2017" / f"{stem}.jpg", picture())
            listed += f"annotations/{part}2017/{stem}.json\n"
        _put(root / f"{part}2017.txt", listed)


def _p_hvu(root: Path) -> None:
    """P-HVU: videos with one or two actions, objects and scenes each."""
    kinds = {"action": ("running", "diving"), "object": ("ball", "car"), "scene": ("beach", "street")}
    lines = "".join(f"{tag},{kind}\n" for kind, tags in kinds.items() for tag in tags)
    _put(root / "HVU_Tags_Categories_V1.0.csv", f"Tag,Category\n{lines}")
    for part, count in (("Train", TAGGED), ("Val", TEST)):
        lines = "Tags,youtube_id,time_start,time_end\n"
        for n in range(count):
            # Every fourth lacks the first tag of a kind, every fourth the second.
            has = [tags[a] for k, tags in enumerate(kinds.values()) for a in (0, 1) if (n + k) % 4 != 2 * a]
            lines += f"{'|'.join(has)},id{part}{n},{n}.0,{n + 10}.0\n"
            _put(root / part / f"id{part}{n}_{n:06d}_{n + 10:06d}.mp4", video("mp4"))
        _put(root / f"HVU_{part}_V1.0.csv", lines)


def _celebv_hq(root: Path) -> None:
    """CelebV-HQ with two of its expressions; every clip from a video of its own."""
    names = ("Young", "Pointy_Nose", "Male", "Rosy_Cheeks", "Brown_Hair")
    clips = {}
    for n in range(FACES):
        looks = [int(_yes(n // 2, a)) for a in range(len(names))]
        about = {"appearance": looks, "emotion": {"labels": ("neutral", "happy")[n % 2]}}
        clips[f"id{n:03d}_0"] = {"ytb_id": f"id{n:03d}", "attributes": about}
        _put(root / f"id{n:03d}_0.mp4", video("mp4"))
    _put(root / "celebvhq_info.json", json.dumps({"meta_info": {"appearance_mapping": list(names)}, "clips": clips}))


def _encoder(root: Path) -> Path:
    """The folder of a tiny encoder with random weights."""
    folder = root / "encoder"
    if not folder.exists():
        torch.manual_seed(0)
        options = {"width": WIDTH / 192}
        network = make_recognizer("tiny-video", 2, clip=(16, SIZE[0], SIZE[0]), **options)
        assert isinstance(network, VideoRecognizer)
        save_encoder(network, "tiny-video", options, folder)
    return folder


def _draw_features(root: Path, encoder: Path) -> None:
    """Features that the encoder did not make; what is told of the videos is what the data set of the folder's name tells."""
    manifest = describe(load_encoder(str(encoder)), str(encoder))
    writer, draw = FeatureWriter(root, manifest), torch.Generator().manual_seed(0)
    told = {f"video {n}": _annotation(root.name, n) for n in range(FEATURES)}
    for name in told:
        with writer.video(name) as rows:
            for place in range(CLIPS):
                rows.add(16 * place, torch.randn(3, WIDTH, generator=draw))
    add_annotations(root, told)


def _annotation(data: str, n: int) -> Annotation:
    """Of video n of a data set: 60 to train, 20 to validate, 20 to test."""
    part = ("train", "train", "train", "val", "test")[n // 4 % 5]
    about = Annotation(f"video {n}", split={"person": part, "clip": part})
    action, strange = ACTIONS[n % 2], n // 2 % 2 == 1
    if data == "vispr":
        return replace(about, attributes=_looks(n, SUBSETS["1"]))
    if data == "thumos14":
        return replace(about, action=action, segments=(Segment(16, 48, action),))
    if data == "ucf-crime":  # where an anomaly is, is told of test videos alone
        spans = (Segment(16, 48, "Abuse"),) if strange else ()
        known = part == "test" or not strange
        return replace(
            about, action="Abuse" if strange else "Normal", segments=spans if known else None, anomalous=strange
        )
    person = f"{part} {n % 4}"
    if data == "casia-b":
        return replace(about, person=person, attributes={"condition": "nm", "angle": "090"})
    if data.startswith(("ntu", "toyota")):
        return replace(
            about, action=action, person=person, attributes={"perceived_gender": ("female", "male")[n // 2 % 2]}
        )
    return replace(about, action=action, attributes=_looks(n, COLUMNS) if data.startswith(("vp-", "pa-")) else {})


def _looks(n: int, names: Sequence[str]) -> dict[str, str]:
    return {name: ("no", "yes")[_yes(n, a)] for a, name in enumerate(names)}
