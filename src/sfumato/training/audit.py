"""The audit: fresh attackers meet the finished f_A, and twins of theirs meet raw video.

An f_B that f_A was trained against tells nothing about the next one. An attacker that cannot read raw video tells
nothing either: its line is inconclusive.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import optim

from sfumato.training.opponents import Lineup, Opponent

SIDES = ("anonymized", "raw")
FLOOR = 0.1  # above guessing: what an attacker must read of raw video before its silence means anything

Maker = Callable[[list[Lineup], str], tuple[list[Opponent], list[optim.Optimizer]]]


class Audit:
    """The attackers of both sides with their optimizers; made when the audit begins, from the seed."""

    def __init__(self, lineups: list[Lineup], make: Maker) -> None:
        self.lineups, self._make = lineups, make
        self.attackers: dict[str, list[Opponent]] = {}
        self.optimizers: dict[str, list[optim.Optimizer]] = {}

    def begin(self) -> None:
        """Fresh weights, the same on both sides, so that a pair differs by what it sees alone."""
        for side in SIDES:
            self.attackers[side], self.optimizers[side] = self._make(self.lineups, "audit")

    def state_dict(self) -> dict[str, Any]:
        """Empty before the audit has begun."""
        return {
            side: {
                "attackers": [attacker.state_dict() for attacker in self.attackers[side]],
                "optimizers": [optimizer.state_dict() for optimizer in self.optimizers[side]],
            }
            for side in self.attackers
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take up an audit where `state_dict` left it."""
        if not state:
            return
        self.begin()
        for side in SIDES:
            for attacker, weights in zip(self.attackers[side], state[side]["attackers"], strict=True):
                attacker.load_state_dict(weights)
            for optimizer, kept in zip(self.optimizers[side], state[side]["optimizers"], strict=True):
                optimizer.load_state_dict(kept)


def unripe(row: Mapping[str, Any]) -> bool:
    """Whether, by its line in the audit, a fresh attacker has learnt less than it could have without looking, or than the
    f_B that f_A was trained against: what it does not read is then no merit of f_A's.

    >>> unripe({"chance": 0.7, "in training": 0.9, "fresh": 0.75}), unripe({"chance": 0.7, "in training": None, "fresh": 0.75})
    (True, False)
    """
    return bool(row["fresh"] < max(row["chance"], row["in training"] or 0.0) - FLOOR)


def verdict(row: Mapping[str, Any]) -> str:
    """Whether a line of the audit may be believed.

    >>> verdict({"raw": 0.01, "chance": 0.004, "in training": None, "fresh": 0.004})
    'inconclusive'
    """
    return "measured" if row["raw"] >= row["chance"] + FLOOR and not unripe(row) else "inconclusive"


def idle(row: Mapping[str, Any]) -> bool:
    """Whether, by its line in the audit, an f_B that f_A was trained against read nothing, nor a fresh one of raw video.

    >>> idle({"in training": 0.69, "raw": 0.7, "chance": 0.7}), idle({"in training": None, "raw": 0.7, "chance": 0.7})
    (True, False)
    """
    return row["in training"] is not None and max(row["in training"], row["raw"]) < row["chance"] + FLOOR
