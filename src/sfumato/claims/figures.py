"""From the line of one anonymizer under one judge to the columns of its row; a line is what a protocol of videos gives."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sfumato.claims.rows import Row
from sfumato.evaluation.protocols.transfer_architectures import NETWORKS
from sfumato.evaluation.result import AttackResult, Leakage, Line, Reader

OWN = "resnet-50"  # f_B's own architecture in training; among the f'_B it is the one that the others are measured by


def figures(line: Line, on_frames: Leakage | None = None) -> Row:
    """The line of one anonymizer as columns: the action, then identity and attributes by their strongest attackers.

    on_frames: what leaks to those alone who see single frames.

    >>> figures(line)["residual"]  # doctest: +SKIP
    0.42
    """
    found: Row = {"action": line.utility.value, "action_low": line.utility.low, "action_high": line.utility.high}
    found |= {"action_raw": line.utility.raw, "action_chance": line.utility.chance}
    found["attackers"] = "+".join(attack.attacker for attack in line.attacks)
    for target in ("identity", "attributes"):
        best = next((s for s in line.strongest if s.target == target), None)
        score, leak = (best.score, best.leakage) if best else (None, None)
        for name in ("value", "low", "high", "raw", "chance"):
            found[f"{target}_{name}"] = getattr(score, name, None)
        found |= {
            f"{target}_attackers": "+".join(best.attackers) if best else "",
            f"{target}_residual": getattr(leak, "value", None),
        }
    if undone := [each.score for attack in line.attacks for each in attack.measures if each.name == "PSNR"]:
        found |= {"psnr": undone[0].value, "psnr_low": undone[0].low, "psnr_high": undone[0].high}
    if on_frames and on_frames.verdict == "measured":
        found |= _columns("frames_residual", on_frames.value, on_frames.low, on_frames.high)
    headline = line.headline
    return found | by_networks(line) | {
        "residual": headline.value, "residual_low": headline.low, "residual_high": headline.high,
        "verdict": headline.verdict, "nhv": line.nhv,
    }  # fmt: skip


def by_networks(line: Line) -> Row:
    """Where many networks were asked, those that an anonymizer is worst with; {} where it was the usual ones alone.

    The f'_B is the best on validation. The f'_T and the target are looked for on the test clips, where the worst of several
    is a little worse than it is: this is said against the anonymizer, never for it.

    >>> by_networks(line)["reader_change"], by_networks(line)["readers"]  # doctest: +SKIP
    (-0.03, 5)
    """
    if not line.readers:
        return {}
    able = [each for each in line.readers if each.kept.verdict == "measured"]
    found: Row = {"readers": len(able)}
    if able:
        found |= _columns("reader_change", *min(map(_change, able)))
    targets = dict.fromkeys(attack.target for attack in line.attacks)
    leads = [_lead([attack for attack in line.attacks if attack.target == target]) for target in targets]
    if measured := [lead for lead in leads if lead]:
        found |= _columns("attacker_lead", *max(measured))
    return found


def _columns(name: str, value: float, low: float, high: float) -> Row:
    return {name: value, f"{name}_low": low, f"{name}_high": high}


def _change(reader: Reader) -> tuple[float, float, float]:
    """What an f'_T reads less than from raw video, with the interval of what it keeps, which is paired with raw.

    A score by itself has no such interval; but score − raw is (kept − 1)·(raw − chance).
    """
    room = reader.score.raw - reader.score.chance
    return reader.score.value - reader.score.raw, (reader.kept.low - 1) * room, (reader.kept.high - 1) * room


def _lead(attacks: Sequence[AttackResult]) -> tuple[float, float, float] | None:
    """By how much more leaks to the best of the other ResNets on validation than to f_B's own; below 0: less.

    None where it cannot be told. The intervals of both are added as squares, as if they were tested on other clips, which
    is too wide rather than too narrow.
    """
    # Without its width, where networks are narrow.
    able = [(a.recognizer.partition(",")[0], a) for a in attacks if a.leakage.verdict == "measured"]
    own = [attack for network, attack in able if network == OWN]
    others = [attack for network, attack in able if network in NETWORKS["frame"] and network != OWN]
    if not own or not others:
        return None
    first, second = (max(several, key=lambda attack: attack.validation).leakage for several in (others, own))
    lead = first.value - second.value
    below = math.hypot(first.value - first.low, second.high - second.value)
    return lead, lead - below, lead + math.hypot(first.high - first.value, second.value - second.low)
