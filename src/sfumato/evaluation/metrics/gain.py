"""What an attacker scores on an attribute beyond somebody who answers at random (LaF-Privacy's Table 8).

Attributes that nearly everybody has, or hardly anybody, give high or low scores to whoever answers. The gain in AP does
not: whoever does not look gains 0. The gain in F1 does: a coin is not the best answer without looking, for F1 grows with
how often "yes" is said, and who always says it gains up to a third, most on what nearly everybody has. So a gain in F1
proves that something was read only where it is above that of always "yes", `always_yes_f1` − `coin_f1`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.evaluation.metrics.attributes import mean_defined


class Gain(NamedTuple):
    """F1 and average precision, each minus that of the random predictor. Who is blind has 0 in AP, but not always in F1."""

    f1: float
    ap: float


def random_f1(prevalence: ArrayLike, yes: ArrayLike = 0.5) -> NDArray[np.float64]:
    """Positive-class F1 of who says "yes" to a share `yes` of the items without looking: precision p, recall `yes`.

    NaN where there is no positive.

    >>> random_f1(0.25, yes=0.25)  # with the frequency of the class
    array(0.25)
    """
    share, said = np.broadcast_arrays(np.asarray(prevalence, dtype=np.float64), np.asarray(yes, dtype=np.float64))
    positive = share > 0
    return np.where(positive, 2 * share * said / np.where(positive, share + said, 1.0), np.nan)


def gain_over_random(f1: float, ap: float, prevalence: ArrayLike, yes: ArrayLike = 0.5) -> Gain:
    """The gain of one attribute, whose yes/no columns have these prevalences, (C,) or one number.

    The paper's random predictor tosses a fair coin; `yes=prevalence` is one that knows how frequent the classes are.
    Random scores have the prevalence as their average precision, however often they mean "yes".

    >>> gain_over_random(1.0, 1.0, prevalence=0.5)
    Gain(f1=0.5, ap=0.5)
    """
    share = np.asarray(prevalence, dtype=np.float64)
    blind = mean_defined(np.where(share > 0, share, np.nan)).value
    return Gain(f1 - mean_defined(random_f1(share, yes)).value, ap - blind)
