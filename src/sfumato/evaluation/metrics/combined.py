"""Accuracy and privacy in one score, as SPLAVU draws it over the time of a training (its eq. 14)."""

from __future__ import annotations

from sfumato.evaluation.metrics.leakage import Numbers


def combined_score(top1: Numbers, privacy: Numbers) -> Numbers:
    """S(t) = (A(t) + 1 − P(t)) / 2. Numbers, or arrays elementwise.

    top1: A, the action's accuracy. privacy: P, what a reader scores on private attributes (cMAP); the less the better.
    The formula is lost in the paper's text, which says that S combines A with P and that P is inverted: the mean is our
    reading. A blind reader still scores chance, so that nobody is better than (A + 1 − chance) / 2 but by luck.

    >>> combined_score(1.0, 0.5)
    0.75
    """
    return (top1 + (1.0 - privacy)) / 2.0
