"""What a line of a judgement says about a metric of a published table, and what chance gives."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sfumato.commands.published import Judgement
from sfumato.errors import SfumatoError
from sfumato.evaluation.result import AttackResult, Line, Score

ACTION = "action"  # "cMAP action": the utility, where a clip shows several actions


@dataclass(frozen=True)
class Found:
    """A metric of one line of a judgement, as shares of 1."""

    value: float
    chance: float
    low: float = math.nan
    high: float = math.nan


def measure(metric: str, line: Line) -> Found:
    """Of videos: "top-1", "cMAP", "F1", "macro-F1", of one attribute "cMAP face", of a kind of tags "cMAP scene".

    F1's chance is that of a fair coin. Of several attackers the first that attacks attributes is asked.

    >>> measure("top-1", result.lines[1])  # doctest: +SKIP
    Found(value=0.62, chance=0.01, low=0.60, high=0.64)
    """
    kind, _, attribute = metric.partition(" ")
    if metric == "top-1" or (kind, attribute) == ("cMAP", ACTION):
        return _of_score(line.utility)
    attack = next((attack for attack in line.attacks if attack.target == "attributes"), None)
    if attack is None or kind not in _OF_ATTRIBUTES:
        raise SfumatoError(f"the judge does not measure '{metric}'", "use top-1, cMAP, F1 or macro-F1")
    if kind == "cMAP" and not attribute:
        return _of_score(attack.score)
    return _OF_ATTRIBUTES[kind](attack, attribute)


def _of_score(score: Score) -> Found:
    return Found(score.value, score.chance, score.low, score.high)


def _mean(attack: AttackResult, attribute: str, of: Callable[[Any], tuple[float, float]]) -> Found:
    """Over all attributes, over one, or over the tags of a kind, "scene/beach" and the like."""
    asked = [score for score in attack.attributes if attribute in ("", score.name, score.name.partition("/")[0])]
    if not asked:
        raise SfumatoError(f"the judged data has no attribute '{attribute}'", "mend the recipe")
    pairs = [of(score) for score in asked]
    values, chances = ([v for v in column if not math.isnan(v)] for column in zip(*pairs, strict=True))
    return Found(*(sum(each) / len(each) if each else math.nan for each in (values, chances)))


def _coin_macro(share: float) -> float:
    """The macro F1 of a fair coin where `share` of the answers is yes."""
    return (share / (share + 0.5) + (1 - share) / (1.5 - share)) / 2


_OF_ATTRIBUTES: dict[str, Callable[[AttackResult, str], Found]] = {
    "cMAP": lambda attack, name: _mean(attack, name, lambda s: (s.ap.value, s.ap.chance)),
    "F1": lambda attack, name: _mean(attack, name, lambda s: (s.f1, s.coin_f1)),
    "macro-F1": lambda attack, name: _mean(attack, name, lambda s: (s.macro_f1, _coin_macro(s.ap.chance))),
}

# Of features: by protocol and metric, what the score is called that the line has of it; {} is who the recipe asks.
_SCORES = {
    ("latent-detection", "mAP"): "TAD mAP",
    ("latent-anomaly", "AUC"): "AD AUC",
    ("latent-retrieval", "R@1"): "retrieval R@1",
    ("latent-retrieval", "R@5"): "retrieval R@5",
    ("latent-retrieval", "R@10"): "retrieval R@10",
    ("latent-retrieval", "mAP"): "retrieval mAP",
    ("latent-gap", "gap"): "natural subclass gap",
    ("latent-gap", "top-1"): "natural accuracy",
    ("latent-gap", "top-1 female"): "natural accuracy of female",
    ("latent-gap", "top-1 male"): "natural accuracy of male",
    ("latent-inversion", "top-1"): "inversion-{}-action top-1",
}
# And by whom an attack is made.
_ATTACKS = {
    ("latent-probe", "cMAP"): "{}",
    ("latent-gait", "top-1"): "{}",
    ("latent-inversion", "cMAP"): "inversion-{}-attributes",
}


def measure_latent(metric: str, line: Line, judge: Judgement) -> Found:
    """Of features: what the protocol of a judgement calls that metric, read by whom `attacks` names, where it names one.

    >>> measure_latent("mAP", result.lines[1], Judgement(published, "latent-detection", "features:a"))  # doctest: +SKIP
    Found(value=0.6, chance=0.08, low=0.55, high=0.65)
    """
    who, asked = "".join(judge.attacks[:1]), (judge.protocol, metric)
    if asked == ("latent-action", "top-1"):
        return _of_score(line.utility)
    scores = {each.name: each.score for each in getattr(line, "scores", [])}
    scores |= {f"attack {each.attacker}": each.score for each in line.attacks}
    name = f"attack {_ATTACKS[asked]}" if asked in _ATTACKS else _SCORES.get(asked, "")
    if name.format(who) not in scores:
        raise SfumatoError(f"the protocol {judge.protocol} does not measure '{metric}'", "mend the recipe")
    return _of_score(scores[name.format(who)])
