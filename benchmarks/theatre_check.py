"""Is the theatre a fair stage? Trains fresh recognizers on raw clips and checks what DESIGN asks of the embedded data.

    python benchmarks/theatre_check.py --device cuda --out benchmarks/results/theatre_check.json

- a video model recognises the action of *new* people (≥ 90%), a one-frame model stays ≥ 30 points below;
- inside time-reversed pairs one frame, drawn uniformly, tells nothing (≤ 55%);
- (cMAP − chance)/(1 − chance) of the five attributes ≥ .80, in the balanced preset ≥ .90; identity ≥ 95%;
- the empty stage tells neither the action nor any of the five attributes (± 3 points of chance).
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from sfumato.datasets.theatre import PRESETS, TheatreDataset
from sfumato.evaluation.exam import Answers, Exam, Examinee, questions, sit, yes_columns
from sfumato.evaluation.metrics import above_chance, attribute_ap, bootstrap, chance_ap, one_hot_columns
from sfumato.evaluation.provenance import commit, versions
from sfumato.theatre.choreography import actions, reversed_pairs
from sfumato.training.device import hardware, pick_device
from sfumato.training.fit import FitConfig

VIDEO = FitConfig(epochs=16, batch=32)
FRAME = FitConfig(epochs=16, batch=64, frames=2, test_frames=8)
ONE_FRAME = replace(FRAME, test_frames=1)


def examine(
    dataset: TheatreDataset, exam: Exam, recognizer: str, fit: FitConfig, device: torch.device, actors: bool = True
) -> Answers:
    def clips(part: str) -> torch.Tensor:
        pixels = dataset.clips(dataset.split(part, exam.by), device=device, actors=actors).pixels
        if fit.test_frames == 1 and part != "train":  # one frame, drawn uniformly
            draw = torch.Generator().manual_seed(7)
            which = torch.randint(pixels.shape[2], (len(pixels),), generator=draw).to(pixels.device)
            pixels = pixels[torch.arange(len(pixels), device=pixels.device), :, which][:, :, None]
        return pixels

    answers = sit(exam, Examinee(recognizer, fit), dataset, clips, seed=0, device=device)
    print(
        f"{dataset.name} {exam.name} actors={actors}: {answers.seconds:.0f} s, best validation {answers.curve.max():.3f}",
        flush=True,
    )
    return answers


def accuracy(answers: Answers) -> dict[str, float]:
    right = answers.test.argmax(1) == answers.test_labels[:, 0]
    return bootstrap(lambda items: float(right[items].mean()), len(right))._asdict()


def within_pairs(answers: Answers) -> dict[str, float]:
    """Accuracy when only the two members of a reversed pair are on offer."""
    right = []
    for pair in reversed_pairs():
        rows = np.isin(answers.test_labels[:, 0], pair)
        guess = np.array(pair)[answers.test[rows][:, list(pair)].argmax(1)]
        right.append(guess == answers.test_labels[rows, 0])
    hits = np.concatenate(right)
    return bootstrap(lambda items: float(hits[items].mean()), len(hits))._asdict()


def attribute_scores(answers: Answers, dataset: TheatreDataset, exam: Exam) -> dict[str, object]:
    heads = questions(exam, dataset)
    columns = one_hot_columns(answers.test_labels, heads)
    ap = attribute_ap(yes_columns(answers.test, heads), columns.labels, columns.owner)
    chance = chance_ap(columns.labels, columns.owner)
    names = [a.name for a in dataset.attributes]
    return {
        "ap": dict(zip(names, ap.tolist(), strict=True)), "chance": dict(zip(names, chance.tolist(), strict=True)),
        "cmap": float(ap.mean()), "above_chance": float(above_chance(float(ap.mean()), float(chance.mean()))),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/theatre_check.json"))
    parser.add_argument("--tiny", action="store_true", help="a smoke run on a CPU: tiny networks, one epoch")
    args = parser.parse_args()
    device = pick_device(args.device)
    video, frame, video_fit, frame_fit = "r3d-18", "resnet-18", VIDEO, FRAME
    if args.tiny:
        for name, preset in PRESETS.items():
            PRESETS[name] = replace(preset, sizes=(64, 32, 64))
        video, frame, video_fit, frame_fit = (
            "tiny-video",
            "tiny-frame",
            replace(VIDEO, epochs=1),
            replace(FRAME, epochs=1),
        )
    stage, balanced = TheatreDataset(), TheatreDataset("balanced")
    action = Exam("action", "", "action", "video", "person")
    attributes = Exam("attributes", "", "attributes", "frame", "clip")
    identity = Exam("identity", "", "identity", "frame", "clip")
    results: dict[str, object] = {"hardware": hardware(device), "versions": versions(), "commit": commit(), "seed": 0}

    def note(name: str, value: object) -> None:
        results[name] = value
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(json.dumps(results, indent=1) + "\n")
        print(name, json.dumps(value), flush=True)

    seen = examine(stage, action, video, video_fit, device)
    note("action, video, new people", accuracy(seen))
    note("inside reversed pairs, video", within_pairs(seen))
    single = examine(stage, action, frame, replace(frame_fit, test_frames=1), device)
    note("action, one frame, new people", accuracy(single))
    note("inside reversed pairs, one frame", within_pairs(single))
    note("attributes, raw", attribute_scores(examine(stage, attributes, frame, frame_fit, device), stage, attributes))
    note(
        "attributes, raw, balanced",
        attribute_scores(examine(balanced, attributes, frame, frame_fit, device), balanced, attributes),
    )
    note("identity, raw", accuracy(examine(stage, identity, frame, frame_fit, device)))
    empty = examine(stage, action, frame, frame_fit, device, actors=False)
    note("action, empty stage", {**accuracy(empty), "chance": 1 / len(actions())})
    note(
        "attributes, empty stage",
        attribute_scores(examine(balanced, attributes, frame, frame_fit, device, actors=False), balanced, attributes),
    )


if __name__ == "__main__":
    main()
