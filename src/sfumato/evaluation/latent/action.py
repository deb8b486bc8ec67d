"""The *action* protocol (SPLAVU section 4.2, action recognition): a fresh linear layer names the action of new people.

Top-1 on up to five evenly spaced clips of each test video, whose probabilities are averaged.
"""

from __future__ import annotations

from sfumato.evaluation.exam import Exam
from sfumato.evaluation.latent.base import Asked, LatentProtocol, Sheet
from sfumato.evaluation.latent.material import Subject, whole_rows
from sfumato.evaluation.latent.probe import answer, inquire_actions, videos_of
from sfumato.evaluation.latent.readers import EPOCHS

ACTION = Exam("action", "what is done, by people never seen in training", "action", "video", "person")


class ActionProtocol(LatentProtocol):
    """AR: the utility of the trade-off."""

    name = "action"
    summary = "a fresh linear head names the action of new people; section 4.2"
    models = "linear"

    def prepare(self) -> None:
        """One exam."""
        self.inquiry = inquire_actions(self.data)
        self.lacks = self.inquiry.lacks
        self.notes += self.inquiry.notes
        heads, persons = self.inquiry.question.heads, self.inquiry.persons(self.data)
        self.asked.append(Asked(ACTION, "linear", heads, "utility", persons=persons))

    def examine(self, subject: Subject, seed: int) -> Sheet:
        """One training."""
        rows = {part: whole_rows(subject.features, v) for part, v in videos_of(self.inquiry.parts).items()}
        epochs = self.config.epochs or EPOCHS
        return Sheet({ACTION.name: answer(ACTION, self.inquiry, rows, "linear", seed=seed, epochs=epochs)})
