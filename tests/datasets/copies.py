"""Small copies of the papers' data sets, in the very format they have on disk, with real encoded videos."""

from __future__ import annotations

import io
import json
import os
import pickle
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path

import av
import numpy as np
import pytest
from PIL import Image

# Where other people's label files may lie on a developer's machine; they are never part of the project.
REAL = Path(os.environ.get("SFUMATO_DATA", Path(__file__).parents[3] / "shared" / "data")) / "annotations"
needs_real = pytest.mark.skipif(not REAL.is_dir(), reason="the real label files are not here")
SMALL = "frames=4&size=16"


@lru_cache
def video(grey: int = 40, frames: int = 8, container: str = "avi", rate: int = 25) -> bytes:
    """An MPEG-4 video that starts at that grey and grows brighter by 8 from frame to frame."""
    buffer = io.BytesIO()
    with av.open(buffer, "w", format=container) as file:
        stream = file.add_stream("mpeg4", rate=rate)
        stream.width, stream.height, stream.pix_fmt = 48, 32, "yuv420p"
        for n in range(frames):
            picture = np.full((32, 48, 3), grey + 8 * n, np.uint8)
            file.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        file.mux(stream.encode(None))
    return buffer.getvalue()


@lru_cache
def picture(grey: int = 40, kind: str = "JPEG") -> bytes:
    """A JPEG or PNG file of that grey."""
    buffer = io.BytesIO()
    Image.new("RGB", (60, 40), (grey, grey, grey)).save(buffer, kind)
    return buffer.getvalue()


def put(path: Path, content: bytes | str) -> Path:
    """A file with that content, and its folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def put_labels(path: Path, table: Mapping[str, Iterable[int]]) -> Path:
    """A pickle as STPrivacy publishes it: an int64 array (1, 5) for each video."""
    return put(path, pickle.dumps({name: np.array([list(row)]) for name, row in table.items()}, protocol=4))


UCF_CLASSES = ("Archery", "BabyCrawling")


def ucf101(root: Path) -> Path:
    """Two classes with four groups of two clips each: g01 is test, the others train, in split 1; g02 in split 2."""
    put(root / "ucfTrainTestlist" / "classInd.txt", "".join(f"{n} {c}\r\n" for n, c in enumerate(UCF_CLASSES, 1)))
    for split in (1, 2):
        lists: dict[str, list[str]] = {"train": [], "test": []}
        for label, action in enumerate(UCF_CLASSES, 1):
            for group in (1, 2, 3, 4):
                for clip in (1, 2):
                    name = f"{action}/v_{action}_g{group:02d}_c{clip:02d}.avi"
                    put(root / "UCF-101" / name, video(20 * group))
                    lists["test" if group == split else "train"].append(name if group == split else f"{name} {label}")
        for part, lines in lists.items():
            put(root / "ucfTrainTestlist" / f"{part}list0{split}.txt", "".join(f"{line}\r\n" for line in lines))
    return root


def hmdb_name(source: str, action: str, number: int) -> str:
    return f"{source}_{action}_f_nm_np1_fr_goo_{number}.avi"


def hmdb51(root: Path) -> Path:
    """Two classes, each with a film of two clips in test, three films in train and one clip in neither.

    The film of clap's test is one of wave's in training, as it happens in the published lists.
    """
    films = {"clap": ("A", "B", "C", "D"), "wave": ("E", "A", "G", "H")}
    for action, (test, *train) in films.items():
        lines = [f"{hmdb_name(test, action, n)} 2 " for n in (0, 1)]
        lines += [f"{hmdb_name(film, action, n)} 1 " for film in train for n in (0, 1)]
        lines += [f"{hmdb_name('Z', action, 0)} 0 "]
        put(root / "testTrainMulti_7030_splits" / f"{action}_test_split1.txt", "\n".join(lines) + "\n")
        for line in lines:
            put(root / action / line.split()[0], video())
    return root


def pa_attributes(frames: int, **values: object) -> dict[str, object]:
    """One video's entry of PA-HMDB51, with one value from the first to the last frame unless spans are given."""
    names = ("skin_color", "face", "gender", "nudity", "relationship")
    spans = {n: values.get(n, 0) for n in names}
    whole = {n: v if isinstance(v, list) and isinstance(v[0], list) else [[0, frames - 1, v]] for n, v in spans.items()}
    return {**whole, "review": True, "note": ""}


def vispr(root: Path) -> Path:
    """Four pictures in each part, of which every second has gender and a tattoo."""
    rows = "".join(f"{n}\t{a}\tg\td\r\n" for n, a in enumerate(("a0_safe", "a4_gender", "a11_tattoo", "a17_color")))
    put(root / "attributes.tsv", f"idx\tattribute_id\tgroup\tdescription\r\n{rows}")
    for number, part in enumerate(("train", "val", "test")):
        names = [f"2017_{number}{n}" for n in range(4)]
        put(root / f"{part}2017.txt", "".join(f"annotations/{part}2017/{name}.json\n" for name in names))
        for n, name in enumerate(names):
            told = {
                "image_path": f"images/{part}2017/{name}.jpg",
                "labels": ["a4_gender", "a11_tattoo"] if n % 2 else [],
            }
            put(root / "annotations" / f"{part}2017" / f"{name}.json", json.dumps(told))
            put(root / "images" / f"{part}2017" / f"{name}.jpg", picture(20 * n))
    return root


THUMOS_SEGMENTS: dict[str, list[tuple[float, float, str]]] = {
    "video_validation_0000001": [(0.5, 1.0, "GolfSwing")],
    "video_validation_0000002": [(0.0, 0.4, "GolfSwing"), (1.0, 1.2, "Diving")],
    "video_validation_0000003": [(0.3, 0.6, "CliffDiving"), (0.3, 0.6, "Diving")],
    "video_validation_0000004": [(0.3, 0.8, "CliffDiving"), (0.3, 0.8, "Diving")],
    "video_test_0000004": [(0.2, 0.7, "Diving"), (1.5, 9.0, "Diving"), (2.5, 3.0, "GolfSwing")],
    "video_test_0000005": [(0.2, 0.7, "GolfSwing")],
}


def thumos14(root: Path) -> Path:
    """Four videos to train and two to test, of 20 frames; the first of test has 10 frames a second, the others 25."""
    told = {}
    for name, segments in THUMOS_SEGMENTS.items():
        slow = name == "video_test_0000004"
        put(root / name.split("_")[1] / f"{name}.mp4", video(20, 20, "mp4", 10 if slow else 25))
        # As if it had 30 frames a second, which is what the published file says of all.
        about = {"duration": 20 / 30, "frames": 20, "subset": name.split("_")[1]}
        told[name] = {**about, "annotations": [{"segment": [start, end], "label": a} for start, end, a in segments]}
    put(root / "thumos14.json", json.dumps(told))
    return root


def ucf_crime(root: Path) -> Path:
    """Eight videos to train, half of them normal; three to test, one of them normal, of 20 frames each."""
    train = [f"{action}/{action}00{n}_x264.mp4" for action in ("Abuse", "Arson") for n in (1, 2)]
    train += [f"Training_Normal_Videos_Anomaly/Normal_Videos00{n}_x264.mp4" for n in (1, 2, 3, 4)]
    test = ["Abuse028_x264.mp4  Abuse  5  8  -1  -1  ", "Arson011_x264.mp4  Arson  1  2  15  99  "]
    test += ["Normal_Videos_003_x264.mp4  Normal  -1  -1  -1  -1  "]
    put(root / "Anomaly_Train.txt", "".join(f"{line}\n" for line in train))
    put(root / "Temporal_Anomaly_Annotation.txt", "".join(f"{line}\n" for line in test))
    for name in (*train, *(line.split()[0] for line in test)):
        put(root / "videos" / name, video(20, 20, "mp4"))
    return root


def ntu60(root: Path) -> Path:
    """Two actions, each once, by four people to train and two to test, before three cameras; women have odd numbers."""
    for person in (1, 2, 3, 4, 5, 6):
        for action in (1, 4):
            for camera in (1, 2, 3):
                put(
                    root / "nturgb+d_rgb" / f"S001C{camera:03d}P{person:03d}R001A{action:03d}_rgb.avi",
                    video(20 * person),
                )
    put(root / "perceived_gender.csv", "person,perceived_gender\n1,F\nP002,m\n3,female\n4,M\n5,F\n06,male\n")
    return root


def toyota_smarthome(root: Path) -> Path:
    """Two activities of three people to train and two to test, twelve videos each."""
    for person in (3, 4, 6, 2, 10):
        for n in range(12):
            action = ("Cook.Cut", "Walk")[n % 2]
            put(root / "mp4" / f"{action}_p{person:02d}_r00_v{n:02d}_c03.mp4", video(container="mp4"))
    return root


CASIA_WALKS = (*(f"nm-0{n}" for n in range(1, 7)), "bg-01", "cl-01")


def casia_b(root: Path) -> Path:
    """Eight walks of two people to train and one to test, before two cameras; the second person's are pictures."""
    for person in (1, 2, 75):
        for walk in CASIA_WALKS:
            for angle in ("000", "090"):
                if person != 2:
                    put(root / "video" / f"{person:03d}-{walk}-{angle}.avi", video(20))
                for n in range(1, 7) if person == 2 else ():
                    name = f"002-{walk}-{angle}-{n:03d}.png"
                    put(root / "silhouettes" / "002" / walk / angle / name, picture(30 * n, "PNG"))
    return root


CELEBV_ATTRIBUTES = ("Blurry", "Male", "Young", "Rosy_Cheeks", "Brown_Hair", "Pointy_Nose")


def celebv_hq(root: Path) -> Path:
    """Ten YouTube videos with two clips each; the second clip of each is happy for longer than it is sad."""
    clips = {}
    for n in range(10):
        changing = [("sadness", 0, 0.5), ("happy", 0.5, 2.0), ("sadness", 2.0, 2.5)]
        spans = [{"emotion": e, "start_sec": start, "end_sec": end} for e, start, end in changing]
        emotions = ({"sep_flag": False, "labels": "neutral"}, {"sep_flag": True, "labels": spans})
        for part, emotion in enumerate(emotions):
            about = {"appearance": [0, n % 2, 1, 0, part, n % 2], "action": [0, 1], "emotion": emotion}
            clips[f"-id_{n}_{part}"] = {
                "ytb_id": f"-id_{n}",
                "duration": {"start_sec": 1, "end_sec": 4},
                "attributes": about,
            }
            put(root / "35666" / f"-id_{n}_{part}.mp4", video(container="mp4"))
    meta = {"appearance_mapping": CELEBV_ATTRIBUTES, "action_mapping": ["blow", "chew"]}
    put(root / "celebvhq_info.json", json.dumps({"meta_info": meta, "clips": clips}))
    return root
