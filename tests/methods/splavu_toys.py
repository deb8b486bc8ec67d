"""Planted features: what is done lies along some directions, who does it along others, and static clips show only who."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor

from sfumato.datasets.annotations import Annotation, add_annotations
from sfumato.datasets.feature_store import FeatureWriter, Manifest
from sfumato.datasets.sample import Segment
from sfumato.methods.splavu.config import SPLAVUConfig
from sfumato.methods.splavu.train import CoTraining, gather_features
from sfumato.training.feature_data import FeatureStage
from sfumato.training.phases import Timing
from sfumato.training.run import RunFolder

from ..training.toys import CPU

WIDTH, ACTIONS, FRAMES, NOISE = 16, 3, 8, 0.1
ACTION_AT, WHO_AT, WHO = 0, 8, 4  # the first of the directions of actions, the first and the number of those of looks
WHOSE = Manifest("toy", "ab" * 32, (FRAMES, 8, 8), 1, WIDTH, per_clip=3)

TINY: dict[str, Any] = {
    "layers": 1, "heads": 2, "tokens": 4, "head_width": 0.01, "batch": 16, "privacy_batch": 8, "detection_batch": 2,
    "anomaly_batch": 4, "epochs": 2, "anonymizer_rate": 0.3, "reconstruction_epochs": 2,
}  # fmt: skip


def clip_features(actions: Sequence[int], who: Tensor, draw: torch.Generator) -> Tensor:
    """(S, 3, WIDTH): clips with an action each (-1: none), and of every clip two static ones, which show looks alone."""
    rows = NOISE * torch.randn(len(actions), 3, WIDTH, generator=draw)
    rows[..., WHO_AT : WHO_AT + WHO] += who
    for clip, action in enumerate(actions):
        if action >= 0:
            rows[clip, 0, ACTION_AT + action] += 2
    return rows


def write_store(folder: Path, videos: Sequence[tuple[Annotation, Tensor]], manifest: Manifest = WHOSE) -> str:
    """A store of these videos with their annotations; the name to train on it by."""
    writer = FeatureWriter(folder, manifest)
    for annotation, rows in videos:
        with writer.video(annotation.name) as stored:
            for place, row in enumerate(rows):
                stored.add(manifest.clip[0] * manifest.frame_step * place, row)
    add_annotations(folder, {annotation.name: annotation for annotation, _ in videos})
    return f"features:{folder}"


def split_of(number: int) -> dict[str, str]:
    part = ("train", "train", "train", "val", "test")[number % 5]
    return {"person": part, "clip": part}


def trimmed(count: int = 60, clips: int = 1, seed: int = 0) -> list[tuple[Annotation, Tensor]]:
    """Short videos of one action each; everybody looks different, and wears a hat where the first of the looks is positive."""
    draw, found = torch.Generator().manual_seed(seed), []
    for n in range(count):
        action, who = n % ACTIONS, torch.randn(WHO, generator=draw)
        told = Annotation(
            f"short {n}",
            f"action {action}",
            f"person {n}",
            {"hat": "ny"[int(who[0] > 0)]},
            split=split_of(n // ACTIONS),
        )
        found.append((told, clip_features([action] * clips, who, draw)))
    return found


def untrimmed(count: int = 20, seed: int = 1) -> list[tuple[Annotation, Tensor]]:
    """Videos of 8 to 11 clips: from the third clip on an action for three clips; every second one has an anomaly."""
    draw, found = torch.Generator().manual_seed(seed), []
    for n in range(count):
        action, strange, who = n % ACTIONS, n % 2 == 1, torch.randn(WHO, generator=draw)
        actions = [-1, -1, action, action, action, -1, *([2] if strange else [-1]), *[-1] * (1 + n % 4)]
        segments = (Segment(2 * FRAMES, 5 * FRAMES, f"action {action}"),)
        told = Annotation(f"long {n}", segments=segments, anomalous=strange, split=split_of(n // 2))
        found.append((told, clip_features(actions, who, draw)))
    return found


@cache
def stored() -> dict[Path, bytes]:
    """The files of two stores: they are the same for every test, and take a while."""
    with TemporaryDirectory() as name:
        write_store(Path(name) / "short", trimmed())
        write_store(Path(name) / "long", untrimmed())
        return {file.relative_to(name): file.read_bytes() for file in Path(name).rglob("*") if file.is_file()}


def write_stores(folder: Path) -> dict[str, str]:
    """Data for every task."""
    for file, content in stored().items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_bytes(content)
    short, long = f"features:{folder / 'short'}", f"features:{folder / 'long'}"
    return {"data": short, "detection_data": long, "anomaly_data": long}


def settings(tasks: str, stores: dict[str, str], **changes: Any) -> SPLAVUConfig:
    """A tiny config with the data that its tasks need."""
    needed = {f"{task}_data": stores[f"{task}_data"] for task in tasks.split("+") if task != "action"}
    return SPLAVUConfig(**{**TINY, "tasks": tasks, **needed, **changes})


def make_stage(folder: Path, data: str, privacy_data: str = "") -> FeatureStage:
    run = RunFolder.open(folder, {"method": "splavu", "config": {}, "seed": 0}, resume=folder.exists())
    return FeatureStage(data, privacy_data or data, run, 0, CPU, timing=Timing(log=1, watch=2, save=2), title="splavu")


def make_learner(folder: Path, tasks: str = "action+detection+anomaly", **changes: Any) -> CoTraining:
    stores = write_stores(folder)
    config = settings(tasks, stores, **changes)
    data = gather_features(config, make_stage(folder / "run", stores["data"]))
    return CoTraining(config, data, seed=0, device=CPU)


def probe(features: Tensor, labels: Tensor) -> Callable[[Tensor], Tensor]:
    """A fresh linear reader, solved by least squares with a little ridge: features (N, D) to guesses (M,)."""

    def with_one(rows: Tensor) -> Tensor:
        return torch.cat([rows, torch.ones(len(rows), 1)], 1)

    seen = with_one(features)
    wanted = torch.nn.functional.one_hot(labels).float()
    weights = torch.linalg.solve(seen.T @ seen + 1e-2 * torch.eye(seen.shape[1]), seen.T @ wanted)
    return lambda rows: (with_one(rows) @ weights).argmax(1)
