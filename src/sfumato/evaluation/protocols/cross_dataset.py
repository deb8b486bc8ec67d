"""The *cross-dataset* protocol (SPAct section 4.2): actions on one data set, private attributes on another.

No large set of videos has labels of both. A fresh f'_T learns from the anonymised action set and is tested there; fresh
attackers learn from the anonymised privacy set, often of pictures, and are tested there. Each set is loaded at its own
length: a picture need not be held for sixteen frames where the anonymizer takes single ones.
"""

from __future__ import annotations

import copy
from pathlib import Path

import torch
from torch import Tensor

from sfumato.anonymizers.base import Anonymizer
from sfumato.datasets.base import Clips, Labels, Part, Progress, SplitBy, VideoDataset
from sfumato.datasets.sample import Sample
from sfumato.errors import SfumatoError
from sfumato.evaluation.admission import without_rare
from sfumato.evaluation.exam import Answers, Exam
from sfumato.evaluation.protocols.known import ATTRIBUTE_ATTACKS, UTILITY, JudgeConfig, KnownProtocol, Watch


class Joined(VideoDataset):
    """The labels of two data sets under one name: clips of the first have an action, clips of the second attributes.

    Indices of the second follow those of the first. Clips are to be had from the two themselves.

    >>> Joined(open_dataset("theatre:small"), open_dataset("theatre:small")).persons
    ()
    """

    def __init__(self, action: VideoDataset, privacy: VideoDataset) -> None:
        self.action, self.privacy = action, privacy
        self.name = f"{action.name} + {privacy.name}"
        self.summary = "two data sets"
        self.actions, self.attributes, self.persons = action.actions, privacy.attributes, ()
        self.shape, self.mirror_safe = action.shape, action.mirror_safe and privacy.mirror_safe
        self.several_actions = action.several_actions

    def __len__(self) -> int:
        return len(self.action) + len(self.privacy)

    def split(self, part: Part, by: SplitBy) -> Tensor:
        return torch.cat([self.action.split(part, by), self.privacy.split(part, by) + len(self.action)])

    def labels(self, indices: Tensor) -> Labels:
        first = indices < len(self.action)
        found = Labels(
            torch.full((len(indices),), -1),
            torch.full((len(indices),), -1),
            torch.full((len(indices), len(self.attributes)), -1),
        )
        told = self.action.labels(indices[first])
        found.action[first] = told.action
        if told.actions is not None:
            found.actions = torch.full((len(indices), len(self.actions)), -1)
            found.actions[first] = told.actions
        found.attributes[~first] = self.privacy.labels(indices[~first] - len(self.action)).attributes
        return found

    def clips(
        self, indices: Tensor, *, views: int = 1, device: torch.device | str = "cpu", progress: Progress | None = None
    ) -> Clips:
        raise TypeError("clips of two data sets differ in length: ask the one they belong to")

    def recordings(self, indices: Tensor) -> Tensor:
        first, found = indices < len(self.action), torch.empty_like(indices)
        found[first] = self.action.recordings(indices[first])
        found[~first] = self.privacy.recordings(indices[~first] - len(self.action)) + len(self.action)
        return found

    def fingerprint(self) -> str:
        return f"{self.action.fingerprint()} {self.privacy.fingerprint()}"

    def sample(self, index: int) -> Sample:
        here = index < len(self.action)
        return self.action.sample(index) if here else self.privacy.sample(index - len(self.action))


class CrossDatasetProtocol(KnownProtocol):
    """The known protocol with f'_T on `dataset` and the attackers on `privacy`."""

    name = "cross-dataset"
    second = "privacy"  # what a second data set is given as
    attacks = ATTRIBUTE_ATTACKS

    def __init__(
        self,
        dataset: VideoDataset,
        config: JudgeConfig,
        *,
        device: torch.device,
        folder: Path,
        watch: Watch | None = None,
        privacy: VideoDataset | None = None,
    ) -> None:
        if privacy is None:
            raise SfumatoError(
                "cross-dataset needs a second data set, whose attributes are attacked",
                "name both: --data 'ACTIONS + ATTRIBUTES'",
            )
        asked, rare = without_rare(Joined(dataset, privacy))
        # What is too rare to be scored leaves both data sets too: their clips are examined by themselves.
        dataset, privacy = copy.copy(dataset), copy.copy(privacy)
        dataset.actions, privacy.attributes = asked.actions, asked.attributes
        super().__init__(Joined(dataset, privacy), config, device=device, folder=folder, watch=watch)
        self.notes += [note for note in rare if note not in self.notes]
        self._sides = [
            self._side(dataset, [exam for exam in self.exams if exam == UTILITY]),
            self._side(privacy, [exam for exam in self.exams if exam != UTILITY]),
        ]
        self.notes.append(f"the action is judged on {dataset.name}, what is private on {privacy.name}")

    def _side(self, dataset: VideoDataset, exams: list[Exam]) -> CrossDatasetProtocol:
        """This protocol as it looks from one of its data sets, with clips of its own."""
        side = copy.copy(self)
        side.dataset, side.exams, side._data = dataset, exams, dataset.fingerprint()
        return side

    def examine(self, anonymizer: Anonymizer, *, wait: bool = True) -> dict[str, list[Answers]]:
        """The exams of both sides."""
        found: dict[str, list[Answers]] = {}
        for side in self._sides:
            found |= KnownProtocol.examine(side, anonymizer, wait=wait)
        return found
