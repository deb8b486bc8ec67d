"""Reads ledger.toml: every claim with its comparisons, checked when it is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sfumato.errors import SfumatoError
from sfumato.training.options import read_toml

LEDGER = Path(__file__).with_name("ledger.toml")
RAW = "raw"  # against this: what the same judge reads from raw video
EXACT = ("trained parameters",)  # counted, not measured: they have no interval
HEADLINES = ("residual",)  # over all targets
# What the strongest of several attackers reads: one more may read more.
ATTACKED = ("residual", "frame-level residual", "identity", "attributes", "attacker lead")
# What is to be read on raw video, or of raw features, before it can be kept, lost or hidden.
READ = (
    "action", "identity", "attributes", "action change", "detection change", "anomaly change", "retrieval change",
    "retrieval mAP change", "black-box action change",
)  # fmt: skip
# What a results table has of every trial: the column of the value, and how those of its interval begin.
MEASURES = {
    "action": "action",  # top-1 on new people
    "residual": "residual",  # residual leakage by the strongest attacker
    "frame-level residual": "frames_residual",  # by the strongest of those who see single frames
    "identity": "identity_value",  # top-1
    "attributes": "attributes_value",  # cMAP
    "PSNR": "psnr",  # of what a network recovers that was trained to undo the anonymizer, dB
    "trained parameters": "trained_parameters",
    # Of other networks than f_A was trained with.
    "reader change": "reader_change",  # top-1 on new people, less on raw video, by the f'_T that loses most
    "attacker lead": "attacker_lead",  # residual leakage to the best other f'_B, less that to f_B's own architecture
    "dropped content": "dropped",  # R²: the share of the variance of dropped tubelets' colours that is read beside them
    # On features. change: less what raw features give, and kept: (value − chance)/(raw − chance), both on the same test videos.
    "action change": "action_change",
    "action kept": "action_kept",
    "detection change": "detection_change",  # mAP of temporal action detection
    "detection kept": "detection_kept",
    "anomaly change": "anomaly_change",  # frame AUC
    "anomaly kept": "anomaly_kept",
    "static residual": "static_residual",  # residual leakage of private attributes from static clips
    "retrieval change": "retrieval_change",  # R@1
    "retrieval mAP change": "retrieval_map_change",
    "gait kept": "gait_kept",  # rank-1
    "gap change": "gap_change",  # between the accuracies of either gender after a biased training
    "black-box action change": "black_action_change",  # from what an inversion recovers, by a reader of raw features
    "black-box attributes kept": "black_attributes_kept",  # of the way from chance to what that reader makes of raw features
    "white-box attributes kept": "white_attributes_kept",
    "speedup": "speedup",  # of precomputed features, their encoding counted in
}


@dataclass(frozen=True)
class Comparison:
    """One question to the results: a measure of one trial, by itself, against another one's, or along several.

    at_least, at_most: where the (difference of the) measure must lie. within: the difference, either way. rising: the
    measure grows from trial to trial. one_sided: it may hold but never refute, as the first trial has met more attackers.

    >>> Comparison("residual", "frozen f_B", against="spact", at_least=0.1).trials()
    ('frozen f_B', 'spact')
    """

    measure: str
    of: str = ""
    against: str = ""
    at_least: float | None = None
    at_most: float | None = None
    within: float | None = None
    rising: tuple[str, ...] = ()
    judged_on: str = "the same"
    one_sided: bool = False

    def __post_init__(self) -> None:
        asked = [name for name in ("at_least", "at_most", "within") if getattr(self, name) is not None]
        if self.measure not in MEASURES:
            raise SfumatoError(f"there is no measure '{self.measure}'", f"use one of {', '.join(MEASURES)}")
        if (self.rising and (self.of or self.against or asked)) or (not self.rising and not self.of):
            raise SfumatoError("a comparison is of one trial, or rising along several", "give either")
        if not self.rising and len(asked) != 1:
            raise SfumatoError(f"'{self.of}' is compared by {len(asked)} rules", "give at_least, at_most or within")
        if self.within is not None and not self.against:
            raise SfumatoError(f"'{self.of}' is within {self.within} of nothing", "say against what")
        if len(self.rising) == 1:
            raise SfumatoError("one trial does not rise", "name two or more")
        # Attackers that the other trial has not met may find more in the first: only that they find less can be said.
        if self.one_sided and (self.measure not in ATTACKED or self.at_most is None or self.against in ("", RAW)):
            raise SfumatoError(f"'{self.of}' cannot be compared one-sided", "give a leakage, at_most and another trial")

    def answers(self) -> int:
        """How many answers it has: a rising one is asked for the whole way and, if there are several, for every step."""
        return len(self.rising) if len(self.rising) > 2 else 1

    def trials(self) -> tuple[str, ...]:
        """Every trial that must have been run."""
        return self.rising or tuple(name for name in (self.of, self.against) if name and name != RAW)


@dataclass(frozen=True)
class Claim:
    """What a paper says, and the comparisons that must all hold.

    opponent: it rests on what an f_B does, in a trial or in one beside it, so that trials whose f_B read nothing do not test it.
    """

    id: str
    paper: str
    statement: str
    comparisons: tuple[Comparison, ...] = ()
    opponent: bool = False

    def trials(self) -> tuple[str, ...]:
        """Every trial of its comparisons, once."""
        return tuple(dict.fromkeys(trial for each in self.comparisons for trial in each.trials()))


@dataclass(frozen=True)
class Table:
    """Where trials are described, what they are trained on, and where their results are kept.

    With an encoder the trials are about its features, of `data` and of the long videos of the two others. With a `vlm`, a
    vision-language model, that one reads the action zero-shot. `protocol`: who judges, where it is not the known one.
    `earlier`: the attackers that rows which tell none have met; empty: `attacks`, all of them.
    """

    trials: str
    data: str
    results: str
    attacks: tuple[str, ...] = ()
    encoder: str = ""
    detection_data: str = ""
    anomaly_data: str = ""
    vlm: str = ""
    protocol: str = ""
    earlier: tuple[str, ...] = ()


@dataclass(frozen=True)
class Ledger:
    """All claims in the papers' order, and the tables that their trials are in."""

    claims: tuple[Claim, ...]
    tables: Mapping[str, Table]

    def find(self, ids: list[str]) -> list[Claim]:
        """Those claims, in that order; none named: all."""
        there = {claim.id: claim for claim in self.claims}
        for name in ids:
            if name not in there:
                raise SfumatoError(f"there is no claim '{name}'", f"there are {', '.join(there)}")
        return [there[name] for name in dict.fromkeys(ids)] if ids else list(self.claims)


def load_ledger(path: Path = LEDGER) -> Ledger:
    """All claims, or a SfumatoError that names the entry that is wrong.

    >>> load_ledger().find(["S5"])[0].statement
    'a frozen f_B removes far less than an updated one'
    """
    read = read_toml(path, "ledger")
    lists = ("attacks", "earlier")
    tables = {
        name: Table(**{**about, **{key: tuple(about.get(key, ())) for key in lists}})
        for name, about in read["table"].items()
    }
    claims = tuple(_claim(entry) for entry in read["claim"])
    ids = [claim.id for claim in claims]
    for claim in claims:
        if ids.count(claim.id) > 1:
            raise SfumatoError(f"claim {claim.id} is there twice", "give it another id")
        if not claim.comparisons:
            raise SfumatoError(f"claim {claim.id} compares nothing", "say what is measured, and what would hold")
    return Ledger(claims, tables)


def _claim(entry: dict[str, Any]) -> Claim:
    try:
        compared = [{**each, "rising": tuple(each.get("rising", ()))} for each in entry.pop("comparisons", ())]
        return Claim(**entry, comparisons=tuple(Comparison(**each) for each in compared))
    except (TypeError, SfumatoError) as error:
        raise SfumatoError(f"claim {entry.get('id', '?')}: {error}", "mend the ledger") from None
