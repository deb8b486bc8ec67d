"""The everyday attackers with four times the epochs.

Pictures that were made to mislead an adversary can be read, only not soon: of ten people behind a U-Net that had beaten
SPAct's f_B a tiny network named 44% after 20 epochs and 65% after 80 (of raw video 86 and 90). The learning curve of the
shorter training does not show it: the rate falls to nothing over the epochs, so that every curve ends flat.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sfumato.evaluation.attacks.variants import variants
from sfumato.evaluation.exam import Approach, Desk
from sfumato.training.fit import Fit


@dataclass(frozen=True)
class Patient(Approach):
    """Trains afresh, `times` as long as others."""

    times: int = 4

    def learn(self, desk: Desk) -> Fit:
        fit = replace(desk.examinee.fit, epochs=self.times * desk.examinee.fit.epochs)
        patient = replace(desk, examinee=replace(desk.examinee, fit=fit))
        return patient.train(patient.fresh(), patient.clips)


PATIENT = variants("patient", "trained four times as long", Patient())
