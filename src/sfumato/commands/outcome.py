"""What came out of a training, in a few lines, and what to ask next."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

from sfumato.commands.console import out, say
from sfumato.commands.train import ENCODER, VLM
from sfumato.training.audit import idle, unripe
from sfumato.training.captions import UNSEEN, weights_folder
from sfumato.training.motions import encoder_folder
from sfumato.training.run import RunFolder

DRAWN_PEOPLE = "It was made on drawn people: about real video it has shown nothing."
UNREAD = 0.9  # of the loss of guessing: an f_T that is no better reads nothing


def show_run(run: RunFolder) -> None:
    """What came out, in a few lines: no number of the training's own is a judgement."""
    result = run.read_result()
    watched = result["watched"]
    if run.about()["method"] == VLM:
        _show_vlm(run, result["examined"])
        return
    if run.about()["method"] == ENCODER:
        _show_encoder(run, result["examined"])
        return
    say(f"anonymizer: {run.anonymizer}")
    if "features" in result:
        _show_adapter(result)
        return
    if watched["action"] is not None:
        say(f"action on new people, by the f_T it was trained with: {_percent(watched['action'])}")
    about = run.about()
    # Of other pictures the mean brightness tells nothing.
    if about["config"].get("sparsity_weight"):
        say(f"share of the picture that is not black: {_percent(watched['shown'])}")
    _show_audit(result["audit"], asked=bool(about["config"].get("audit_steps")))
    blind = result.get("guessing", {}).get("L_T")
    if blind and watched["L_T"] > UNREAD * blind:
        say(
            f"f_T hardly reads what f_A draws (L_T {watched['L_T']:.2f}, guessing {blind:.2f}): what it hides is destroyed; "
            "train longer, or with another utility"
        )
    if str(about["data"]).startswith("theatre"):
        say(DRAWN_PEOPLE)
    say(f"judge it: {shlex.join(['sfumato', *_judgement(str(run.anonymizer), about['data'], about['config'])])}")


def _show_audit(rows: Sequence[Mapping[str, Any]], *, asked: bool) -> None:
    """What attackers read beside what the f_B reads that f_A was trained against, and why that may mean nothing."""
    if not rows:
        if asked:
            say(
                "No fresh attacker was set on it: nobody played f_B, and the data tells neither who people are nor what they "
                "look like. What it hides is not known."
            )
        return
    table = Table("attacker", "task", "guessing", "raw video", "trained against", "fresh", "", box=None)
    for row in rows:
        figures = [_percent(row[key]) for key in ("chance", "raw", "in training", "fresh")]
        table.add_row(row["f_B"], row["task"], *figures, "" if row["verdict"] == "measured" else row["verdict"])
    out.print(table)
    say("What a fresh attacker reads is what counts, and only where it can read raw video; the judge's may read more.")
    if any(unripe(row) for row in rows):
        say(
            "A fresh attacker learnt less than guessing gives or than the f_B it should outdo, so that what it does not read "
            "says nothing; give it more audit_steps"
        )
    if read := [f"{_percent(row['raw'])}, guessing {_percent(row['chance'])}" for row in rows if idle(row)]:
        say(
            f"f_B hardly read anything, of raw video neither ({'; '.join(dict.fromkeys(read))}): f_A had next to no opponent, "
            "and what it hides is not f_B's doing; give f_B more opponent_steps, a higher budget_rate or other budget_models "
            "(a tiny-frame with budget_norm=batch at budget_rate=1e-3 learned soonest here)"
        )


def _judgement(anonymizer: str, data: str, config: Mapping[str, Any]) -> list[str]:
    """What to ask next: of recordings nobody has labelled only the attackers can be; who had a teacher is read by it."""
    if data.startswith("footage:"):
        return ["certify", anonymizer, "--footage", data.removeprefix("footage:").partition("?")[0]]
    if not config.get("vlm"):
        return ["judge", anonymizer, "--data", data]
    # Of the theatre's own actions a small teacher was told the names: those it was never shown are zero-shot.
    unseen = f"theatre:{UNSEEN[data]}" if data in UNSEEN else data
    return ["judge", anonymizer, "--data", unseen, "--protocol", "zero-shot", "--vlm", config["vlm"]]


def _show_vlm(run: RunFolder, found: dict[str, Any]) -> None:
    where, data = weights_folder(run), run.about()["data"]
    say(f"vision-language model: {where}")
    say(
        f"actions it was never shown, by their descriptions: {_percent(found['top1'])} of {found['clips']} clips, "
        f"guessing {_percent(found['chance'])}"
    )
    told = ["judge", "ANONYMIZER", "--protocol", "zero-shot", "--vlm", str(where), "--data", f"theatre:{UNSEEN[data]}"]
    say(f"judge with it: {shlex.join(['sfumato', *told])}")


def _show_encoder(run: RunFolder, found: dict[str, Any]) -> None:
    where = encoder_folder(run)
    say(f"encoder: {where}")
    say(
        f"motions told apart: {_percent(found['top1'])} of {found['clips']} new clips, among {found['motions']}, "
        f"guessing {_percent(found['chance'])}"
    )
    told = ["features", "extract", run.about()["data"], "--encoder", str(where), "-o", "features"]
    say(f"use it: {shlex.join(['sfumato', *told])}")


def _show_adapter(result: dict[str, Any]) -> None:
    """Of an anonymizer of features."""
    watched, raw, features = result["watched"], result["raw"], result["features"]
    trained = sum(result["parameters"].values())
    say(
        f"for features of '{features['encoder']}', {features['width']} wide; {trained / 1e6:.2f} M parameters were trained"
    )
    if watched["action"] is not None:
        say(f"action on new people, by the head it was trained with: {_percent(watched['action'])}")
    if raw:
        say(
            f"static clips that find the other one of their video: {_percent(watched['pairs found'])}, "
            f"in raw features {_percent(raw['pairs found'])}, by guessing {_percent(raw['guessing'])}"
        )
    say("What an attacker reads from these features has not been asked: no number here is a judgement.")
    if result["drawn"]:
        say(DRAWN_PEOPLE)


def _percent(share: float | None) -> str:
    if share is None:
        return "–"
    return f"{100 * share:.{0 if share >= 0.1 else 1}f}%"  # guessing one of hundreds is not 0%
