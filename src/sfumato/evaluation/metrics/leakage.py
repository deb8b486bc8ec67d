"""How much of what an attacker learns from raw video it still learns, and whether that attacker proves anything."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Numbers = TypeVar("Numbers", float, NDArray[np.float64])

# Half of the way from chance to perfect, on raw video. An attacker below it is too weak for its failure on anonymised
# video to mean privacy; one above it has clearly learned the task, while hard attributes stay within reach.
# The action has a lower one: many data sets are hard, but a ratio to an accuracy near chance would be noise.
FLOORS: Mapping[str, float] = MappingProxyType(
    {"attributes": 0.5, "identity": 0.5, "re-identification": 0.5, "action": 0.2}
)

# Below this, "raw − chance" is rounding, and a ratio to it is noise.
_CLEARLY_POSITIVE = 1e-9


def residual_leakage(score: Numbers, chance: Numbers, raw: Numbers) -> Numbers:
    """(score − chance) / (raw − chance): 1 is no protection, 0 is perfect. Numbers, or arrays elementwise.

    Not clipped: noise puts it below 0, and an anonymizer that helps the attacker above 1. NaN where the attacker
    does not beat chance on raw video, since nothing leaked there to begin with.

    >>> residual_leakage(0.75, chance=0.5, raw=1.0)
    0.5
    """
    room = np.asarray(raw, dtype=np.float64) - chance
    clear = room > _CLEARLY_POSITIVE
    share: Any = np.where(clear, (score - chance) / np.where(clear, room, 1.0), np.nan)
    return share if share.ndim else share.item()


def above_chance(score: Numbers, chance: Numbers) -> Numbers:
    """(score − chance) / (1 − chance): 0 is blind, 1 is perfect; NaN where chance is already perfect.

    >>> above_chance(0.75, chance=0.5)
    0.5
    """
    return residual_leakage(score, chance, chance * 0 + 1)


def reaches_floor(raw: float, chance: float, floor: float = FLOORS["attributes"]) -> bool:
    """Whether an attacker is strong enough on *raw* video to judge with; else its line reads "inconclusive".

    Pass the low end of the interval as `raw` to demand that it surely is.

    >>> reaches_floor(0.80, chance=0.58)
    True
    """
    return bool(above_chance(raw, chance) >= floor)
