"""How well, and how steadily, does a fresh recognizer read raw video? By the rate and the length of its training.

    python benchmarks/judge_steadiness.py --rate 3e-4 --rate 1e-3 --rate 3e-3 --epochs 20 --epochs 40 --seeds 8 --device cuda \
        --out benchmarks/results/judge_steadiness.csv

A row for every training, with what it reads on validation, by which a setting is to be chosen, and on test. Nobody is anonymized
here: a judge is made better on raw video alone. Several commands may write into one table; what is there is not done again.
"""

from __future__ import annotations

import argparse
import statistics
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path

import torch
from torch import Tensor

from sfumato.claims.rows import Row, add_row, read_rows, rounded
from sfumato.datasets import open_dataset
from sfumato.datasets.base import Part, VideoDataset
from sfumato.evaluation.attacks import ATTACKS
from sfumato.evaluation.exam import Exam, asked, exam_score, questions, sit
from sfumato.evaluation.protocols.known import UTILITY, JudgeConfig
from sfumato.evaluation.provenance import commit
from sfumato.training.device import hardware, pick_device

SETTING = ("exam", "rate", "epochs")


def loaded(exam: Exam, dataset: VideoDataset, device: torch.device, part: Part) -> Tensor:
    """The raw clips that an exam asks about: uint8 (N, views, T, 3, H, W)."""
    return dataset.clips(asked(exam, dataset, part), device=device).pixels


def trained(exam: Exam, dataset: VideoDataset, rate: float, epochs: int, seed: int, args: argparse.Namespace) -> Row:
    """What one training comes to, scored as the judge scores it."""
    device = pick_device(args.device)
    config = JudgeConfig(models=args.models, epochs=epochs)
    usual = config.examinee(exam, dataset)
    examinee = replace(usual, fit=replace(usual.fit, learning_rate=rate))
    clips = {part: loaded(exam, dataset, device, part) for part in ("train", "val", "test")}
    found = sit(exam, examinee, dataset, clips.__getitem__, seed=seed, device=device)
    score = exam_score(exam, questions(exam, dataset))
    told = {
        part: score(torch.from_numpy(shares), torch.from_numpy(labels))
        for part, shares, labels in (
            ("validation", found.validation, found.validation_labels), ("test", found.test, found.test_labels),
        )
    }  # fmt: skip
    return rounded({
        "trial": examinee.recognizer, "exam": exam.name, "data": args.data, "rate": f"{rate:g}", "epochs": epochs,
        "seed": seed, **told, "seconds": found.seconds, "hardware": hardware(device), "commit": commit(),
    })  # fmt: skip


def same(row: Row, other: Row) -> bool:
    """Whether two rows are of one training."""
    return all(str(row[key]) == str(other[key]) for key in ("trial", "data", *SETTING, "seed"))


def summary(rows: list[Row]) -> list[str]:
    """Every setting with the mean and the deviation over seeds."""
    lines = []
    for setting in dict.fromkeys(tuple(row[key] for key in ("trial", *SETTING)) for row in rows):
        there = [row for row in rows if tuple(row[key] for key in ("trial", *SETTING)) == setting]
        for part in ("validation", "test"):
            values = [100 * float(row[part]) for row in there]
            spread = statistics.stdev(values) if len(values) > 1 else 0.0
            lines.append(f"{' '.join(setting)} {part}: {statistics.fmean(values):.1f} ± {spread:.1f} ({len(values)})")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="theatre:small")
    parser.add_argument("--models", default="standard", help="tiny or standard networks")
    parser.add_argument("--exam", action="append", default=[], help="action, or an attack; action unless given")
    parser.add_argument("--rate", type=float, action="append", default=[], help="the highest learning rate")
    parser.add_argument("--epochs", type=int, action="append", default=[])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    dataset = open_dataset(args.data)
    exams = [UTILITY if name == UTILITY.name else ATTACKS.make(name) for name in args.exam or [UTILITY.name]]
    for seed, exam, rate, epochs in product(range(args.seeds), exams, args.rate or [1e-3], args.epochs or [20]):
        network = JudgeConfig(models=args.models).examinee(exam, dataset).recognizer
        wanted = {
            "trial": network, "exam": exam.name, "data": args.data, "rate": f"{rate:g}", "epochs": epochs, "seed": seed,
        }  # fmt: skip
        if not any(same(row, wanted) for row in read_rows(args.out)):
            row = trained(exam, dataset, rate, epochs, seed, args)
            add_row(args.out, row, partial(same, row))
            print(row, flush=True)
    print("\n".join(summary(read_rows(args.out))))


if __name__ == "__main__":
    main()
