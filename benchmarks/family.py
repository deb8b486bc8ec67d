"""What was tried to make an anonymizer that a fresh attacker cannot read, and what each trial left.

    python benchmarks/family.py benchmarks/trials/search.toml --data manifest:PATH/index.csv --device cuda \
        --out benchmarks/results/family_lsa64.csv
    python benchmarks/family.py benchmarks/trials/claims_small.toml --data theatre:small --device cuda --lanes 12 \
        --out benchmarks/results/claims_small.csv

What a trials file is, and what is done with it: `sfumato.claims.bench`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from sfumato.claims.bench import Plan, missing, read_trials
from sfumato.claims.lanes import run_jobs
from sfumato.claims.rows import add_row, read_rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trials", type=Path)
    parser.add_argument("--data", required=True, help="what the anonymizers are trained on")
    parser.add_argument("--judge-data", default="", help="what they are judged on, where it is not the same")
    parser.add_argument("--name", default="", help="what to call the data in the table")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--runs", type=Path, default=Path("runs/family"))
    parser.add_argument("--only", action="append", default=[], help="only trials of this name; repeat to name several")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=20, help="of every training of the judge")
    parser.add_argument("--attack", action="append", default=[], help="only these attackers")
    parser.add_argument("--lanes", type=int, default=1, help="processes side by side, for trials too small for a GPU")
    parser.add_argument("--device", default="auto")
    args = parser.parse_args()
    plan = Plan(
        args.data, args.runs, args.judge_data, args.name, args.epochs, tuple(args.attack), args.device, args.lanes
    )
    rows = read_rows(args.out)
    todo = missing(plan, read_trials(args.trials, args.only), args.seeds, rows)
    total = len(rows) + sum(len(strengths) for _, _, strengths in todo)
    for row in run_jobs(plan, todo):
        add_row(args.out, row)
        print(f"{len(read_rows(args.out))} of {total}: {row}", flush=True)


if __name__ == "__main__":
    main()
