"""A recognizer trained on raw clips first and then, as long again, on anonymised ones.

Whoever attacks usually has raw video of somebody. What a network has learned of people there may be what it takes to
read the little that an anonymizer leaves.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass

from sfumato.evaluation.attacks.architectures import ARCHITECTURES
from sfumato.evaluation.attacks.transfer import learned_on_raw
from sfumato.evaluation.attacks.variants import EVERYDAY, variants
from sfumato.evaluation.exam import Approach, Desk
from sfumato.training.fit import Fit


@dataclass(frozen=True)
class Pretrained(Approach):
    """Goes on learning from anonymised clips with what it has learned from raw ones; the curve is that of the second."""

    def learn(self, desk: Desk) -> Fit:
        return desk.train(copy.deepcopy(learned_on_raw(desk).model), desk.clips)


PRETRAINED = variants("pretrained", "trained on raw video first", Pretrained(), (*EVERYDAY, *ARCHITECTURES))
