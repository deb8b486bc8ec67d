"""A recognizer trained on raw clips alone, and asked about anonymised ones.

This is the weak attack of much of the literature: it measures whether anonymised video still looks like raw video to a
network, not whether it still says who is there. What it misses, an attacker who learns from anonymised clips may well
read, so that it never counts for privacy by itself; what it finds needs no access to the anonymizer at all. Its epoch
is chosen, and its learning curve drawn, on raw validation clips: it has no others.
"""

from __future__ import annotations

from dataclasses import dataclass

from sfumato.datasets.base import VideoDataset
from sfumato.evaluation.attacks.variants import variants
from sfumato.evaluation.exam import Approach, Desk
from sfumato.training.fit import Fit


def learned_on_raw(desk: Desk) -> Fit:
    """The desk's exam learned on raw clips; once for all anonymizers, so nobody may change the model it gives.

    >>> learned_on_raw(desk).model
    """
    exam, kept = desk.exam, desk.memory.raw
    key = exam.target, exam.by, desk.examinee, desk.seed
    if key not in kept:
        kept[key] = desk.train(desk.fresh(), desk.raw)
    found: Fit = kept[key]
    return found


@dataclass(frozen=True)
class Transfer(Approach):
    """Learns from raw clips, answers about anonymised ones."""

    def learn(self, desk: Desk) -> Fit:
        return learned_on_raw(desk)

    def note(self, dataset: VideoDataset, views: int) -> str:
        return "transfer attackers learn from raw video alone: what they miss is not private"


TRANSFER = variants("transfer", "trained on raw video only", Transfer())
