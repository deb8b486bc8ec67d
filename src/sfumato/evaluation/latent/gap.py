"""The *gap* protocol (SPLAVU section 4.3, Table 3): how much better a fresh action head serves one perceived gender.

Unlike *bias* it changes nothing: the training videos are what they are. On Toyota Smarthome the bias is the homes' own; on
NTU-Bias-F and NTU-Bias-M it was put there when the data set was made.
"""

from __future__ import annotations

import numpy as np

from sfumato.evaluation.latent.base import LatentProtocol, Sheet
from sfumato.evaluation.latent.bias import GENDER, gap_tallies, gender_of
from sfumato.evaluation.latent.material import Parts, Subject, ask, parts_of, whole_rows
from sfumato.evaluation.latent.readers import EPOCHS, Lesson, learn, read


class GapProtocol(LatentProtocol):
    """One training on all videos whose action is told, a test on those whose gender is too."""

    name = "gap"
    summary = "a fresh linear head on the training videos as they are, the gap between genders; section 4.3, Table 3"
    models = "linear"

    def prepare(self) -> None:
        """Who is tested."""
        told = [a.action for a in self.data.annotations]
        gender = gender_of(self.data.annotations)
        parts = parts_of(self.data, [bool(action) for action in told], "person")
        self.question = ask(told, parts.train, "action")
        known = (self.question.labels[:, 0] >= 0).numpy() & np.array([bool(each) for each in gender])
        self.parts = Parts(parts.train, parts.val, parts.test[known[parts.test.numpy()]], parts.note)
        self.gender = np.array([gender[video] for video in self.parts.test.tolist()])
        self.lacks = self.parts.lacks()
        if len(set(self.gender.tolist())) != 2:
            self.lacks = (
                f"does not tell two perceived genders of its test videos by the attribute {' or '.join(GENDER)}"
            )
        elif self.question.heads[0] < 2:
            self.lacks = "tells fewer than two actions"
        self.notes += filter(None, [parts.note and f"gap: {parts.note}"])

    def examine(self, subject: Subject, seed: int) -> Sheet:
        """One training. No epoch is chosen: validation videos without the bias would tell the head about it."""
        labels, heads = self.question.labels, self.question.heads
        lesson = Lesson(whole_rows(subject.features, self.parts.train), labels[self.parts.train])
        head, _ = learn("linear", lesson, heads, seed=seed, epochs=self.config.epochs or EPOCHS)
        named = read(head, whole_rows(subject.features, self.parts.test), heads).argmax(1)
        right = (named == labels[self.parts.test, 0]).double().numpy()
        return Sheet(tallies=gap_tallies("natural", right, self.gender, 1 / heads[0]))
