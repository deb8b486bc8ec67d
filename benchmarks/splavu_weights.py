"""Trains the adapters of benchmarks/trials/splavu_weights.toml and says what fresh readers find in validation clips.

    sfumato features extract theatre:small --encoder encoder -o short
    sfumato features extract "screenplay:untrimmed?videos=200&seed=1" --encoder encoder -o plays
    python benchmarks/splavu_weights.py --short short --plays plays

Test clips are not looked at. What `--out` has already is not done again; each run stays in `--runs`, with its adapter.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from sfumato.anonymizers.latent_adapter import LatentAnonymizer
from sfumato.anonymizers.latent_storage import load_latent
from sfumato.claims.bench import Trial, read_trials
from sfumato.evaluation.exam import Exam, Target, exam_score
from sfumato.evaluation.latent.material import RawFeatures, make_subject, moved, static_rows, whole_rows
from sfumato.evaluation.latent.probe import Inquiry, inquire_actions, inquire_attributes, inquire_persons
from sfumato.evaluation.latent.readers import KINDS, Lesson, learn
from sfumato.evaluation.provenance import commit, versions
from sfumato.methods import find_method
from sfumato.training.device import hardware
from sfumato.training.feature_data import FEATURES, FeatureSet, FeatureStage, Stored, read_features
from sfumato.training.options import load_options, to_dict
from sfumato.training.run import RunFolder
from sfumato.writing import to_json, write_whole

ROOT = Path(__file__).parents[1]
TRIALS = ROOT / "benchmarks/trials/splavu_weights.toml"
EPOCHS = 50  # of every reader
LOST = 0.03  # of the action, at most
LOOKS = {"whole": whole_rows, "static": static_rows}
CPU = torch.device("cpu")
CORE = "core_seconds"

Row = dict[str, Any]


def read_validation(adapter: LatentAnonymizer, data: FeatureSet) -> Row:
    """The best that a fresh linear and a fresh MLP reader find in validation clips: action, attributes (cMAP), persons."""
    subject = make_subject("adapter", adapter, data)
    attributes, persons = inquire_attributes(data), inquire_persons(data)
    found: Row = {"action": _read(subject.features, inquire_actions(data), "action", "whole", ("linear",))}
    for sight in LOOKS:
        found[f"attributes_{sight}"] = _read(subject.features, attributes, "attributes", sight, KINDS)
        found[f"persons_{sight}"] = _read(subject.features, persons, "identity", sight, KINDS)
    return found | {f"moved_{sight}": share for sight, share in moved(subject)._asdict().items()}


def _read(data: FeatureSet, inquiry: Inquiry, target: Target, sight: str, kinds: tuple[str, ...]) -> float:
    exam = Exam(f"{target}-{sight}", target, target, "video", "person" if target == "action" else "clip")
    labels, heads, _ = inquiry.question
    train, val = (
        Lesson(LOOKS[sight](data, videos), labels[videos]) for videos in (inquiry.parts.train, inquiry.parts.val)
    )
    choice = exam_score(exam, heads)
    curves = [learn(kind, train, heads, seed=0, epochs=EPOCHS, watched=val, choice=choice)[1] for kind in kinds]
    return max(max(curve) for curve in curves)


def chances(data: FeatureSet) -> Row:
    """What guessing gives: how often an attribute is so, one of so many."""
    attributes, persons, actions = inquire_attributes(data), inquire_persons(data), inquire_actions(data)
    prevalence = attributes.question.labels[attributes.parts.val].float().mean()
    return {
        "action": 1 / actions.question.heads[0], "attributes": float(prevalence), "persons": 1 / persons.question.heads[0],
    }  # fmt: skip


def train(trial: Trial, seed: int, short: str, plays: str, runs: Path) -> RunFolder:
    """The finished run of a trial; L_B sees the plays where it asks for moving pairs."""
    method = find_method(trial.method)
    config = load_options(method.config, settings=trial.settings())
    privacy = plays if config.pairs == "all" else short
    told = {"method": trial.method, "config": to_dict(config), "data": short, "privacy_data": privacy, "seed": seed}
    folder = runs / f"{trial.name.replace(' ', '-').replace(',', '')}-{seed}"
    run = RunFolder.open(folder, told | {"commit": commit()}, resume=folder.exists())
    method.train(config, FeatureStage(short, privacy, run, seed, CPU, title=method.name))
    return run


def means(rows: list[Row], name: str) -> Row:
    """A trial's numbers over its seeds."""
    mine = [row for row in rows if row["trial"] == name]
    return {key: fmean(row[key] for row in mine) for key in mine[0] if isinstance(mine[0][key], float)}


def choose(rows: list[Row]) -> str:
    """Of the trials that keep the action, the one whose whole clips tell least of the attributes."""
    names = dict.fromkeys(row["trial"] for row in rows if row["trial"] != "raw")
    raw = means(rows, "raw")["action"]
    kept = [name for name in names if means(rows, name)["action"] >= raw - LOST]
    return min(kept, key=lambda name: means(rows, name)["attributes_whole"], default="none")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", type=Path, required=True, help="features of theatre:small")
    parser.add_argument("--plays", type=Path, required=True, help="features of long plays of other people")
    parser.add_argument("--runs", type=Path, default=Path("runs/splavu-weights"))
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks/results/splavu_weights.json")
    parser.add_argument("--seeds", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(1)
    short, plays = (f"{FEATURES}{folder}" for folder in (args.short, args.plays))
    source = Stored(short)
    data = read_features(source.name, source.store, source.annotations, CPU, lambda done, total: None)
    rows: list[Row] = json.loads(args.out.read_text())["rows"] if args.out.exists() else []

    def keep(row: Row) -> None:
        rows.append(row | {"hardware": hardware(CPU), "commit": commit()})
        told = {"guessing": chances(data), "chosen": choose(rows), "reader_epochs": EPOCHS, "versions": versions()}
        write_whole(args.out, to_json({**told, "rows": rows}, indent=1))
        print({key: round(value, 3) if isinstance(value, float) else value for key, value in row.items()}, flush=True)

    if not any(row["trial"] == "raw" for row in rows):
        keep({"trial": "raw", "seed": 0, **read_validation(RawFeatures(data.manifest.width), data)})
    for seed in range(args.seeds):
        for trial in read_trials(TRIALS):
            if any((row["trial"], row["seed"]) == (trial.name, seed) for row in rows):
                continue
            started = time.process_time()
            run = train(trial, seed, short, plays, args.runs)
            if CORE not in run.about():  # a finished run knows it
                run.pin(CORE, f"{time.process_time() - started:.3f}")
            adapter, _ = load_latent(run.anonymizer)
            keep({"trial": trial.name, "seed": seed, **read_validation(adapter, data), CORE: float(run.about()[CORE])})
    print(f"chosen on validation clips: {choose(rows)}")


if __name__ == "__main__":
    main()
