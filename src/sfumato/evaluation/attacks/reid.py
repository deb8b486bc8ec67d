"""Re-identification: is this the person of that other video? Nobody asked about was in training.

A recognizer learns to tell the training persons apart; its features then compare people it has never seen. Of the clips of
every validation or test person, every other recording goes into the gallery, the rest are probes, each of which is
compared with the whole gallery. Rank-1: the nearest gallery clip is of the same person; mAP: the ranking of all of them.
Gallery and probes are both anonymised: whoever holds the anonymizer runs it over the gallery, and like is compared with
like. Chance is a gallery in random order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sfumato.datasets.base import Part, VideoDataset
from sfumato.evaluation.exam import Approach, Choice, Desk, Exam, Reply, asked
from sfumato.evaluation.metrics import best_match, chance_retrieval_ap, retrieval_ap, top1
from sfumato.recognizers import Recognizer
from sfumato.training.fit import FitConfig

# Similarities closer than this are rounding. What cannot be told apart is ranked at random, not by the order of files.
TIE = 1e-6


@dataclass(frozen=True)
class GalleryProbe(Approach):
    """Trains to name the training persons; answers by the nearest gallery clip of other persons."""

    def items(self, exam: Exam, dataset: VideoDataset, part: Part) -> Tensor:
        indices = asked(exam, dataset, part)
        return indices if part == "train" else indices[probes(exam, dataset, part)[1]]

    def choice(self, desk: Desk, model: nn.Module) -> Choice:
        # What it names training persons like, which is what it is given, says nothing about people it has never seen.
        def rank1(*_: Tensor) -> float:
            reply = self.answer(desk, model, "val")
            return top1(reply.probabilities, reply.labels[:, 0])

        return rank1

    def answer(self, desk: Desk, model: nn.Module, part: Part) -> Reply:
        persons, gallery, probe = _enrolled(desk.exam, desk.dataset, part)
        enrolled, asked_about = self.embedded(desk, cast(Recognizer, model), part)
        similarity = (asked_about[probe] @ enrolled[gallery].T).numpy()
        similarity += TIE * np.random.default_rng(desk.seed).random(similarity.shape)
        found = best_match(similarity, persons[gallery], int(persons.max()) + 1)
        matches = persons[probe][:, None] == persons[gallery]
        expected = chance_retrieval_ap(matches.sum(1), int(gallery.sum()))
        return Reply(
            torch.from_numpy(found).softmax(1).numpy(), persons[probe][:, None], matches.mean(1),
            {"mAP": np.stack([retrieval_ap(similarity, matches), expected])},
        )  # fmt: skip

    def embedded(self, desk: Desk, model: Recognizer, part: Part) -> tuple[Tensor, Tensor]:
        """All clips of a part as the gallery holds them, and as probes show them, (N, width) each."""
        seen = embed(model, desk.clips(part), desk.examinee.fit, desk.device)
        return seen, seen

    def lacks(self, exam: Exam, dataset: VideoDataset) -> str:
        for part in ("val", "test"):
            _, probe = probes(exam, dataset, part)
            found = len(dataset.labels(asked(exam, dataset, part)[probe]).person.unique())
            if found < 2:
                return f"has {found} {part} persons with two recordings or more, 2 are needed"
        return ""


def probes(exam: Exam, dataset: VideoDataset, part: Part) -> tuple[Tensor, Tensor]:
    """Which of the N clips asked about are in the gallery, and which are probes: (N,) bool each, no clip both.

    A person's first recording, the third and so on are the gallery, so that no recording is on both sides. Whose
    recordings are all in the gallery is nobody's match there, and makes it harder for the others.

    >>> probes(REID, open_dataset("theatre:small"), "test")[1].sum()
    tensor(200)
    """
    indices = asked(exam, dataset, part)
    pairs = zip(dataset.labels(indices).person.tolist(), dataset.recordings(indices).tolist(), strict=True)
    turn: dict[int, dict[int, int]] = {}
    probe = []
    for person, recording in pairs:
        known = turn.setdefault(person, {})
        probe.append(known.setdefault(recording, len(known)) % 2 == 1)
    chosen = torch.tensor(probe, dtype=torch.bool)
    return ~chosen, chosen


def _enrolled(exam: Exam, dataset: VideoDataset, part: Part) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Who is in the clips, numbered from 0, and which are gallery and probes, (N,) each."""
    gallery, probe = probes(exam, dataset, part)
    persons = dataset.labels(asked(exam, dataset, part)).person.unique(return_inverse=True)[1]
    return persons.numpy(), gallery.numpy(), probe.numpy()


@torch.inference_mode()
def embed(model: Recognizer, pixels: Tensor, config: FitConfig, device: torch.device) -> Tensor:
    """What the model's head sees, averaged over a video's views, at length 1: uint8 (N, views, …) to float64 (N, width).

    In full precision, unlike a prediction: of many near neighbours the nearest one counts.

    >>> embed(recognizer, clips.pixels, FitConfig(), torch.device("cpu"))
    """
    model.eval()
    found = []
    for chunk in pixels.split(config.batch):
        keep = torch.linspace(0, chunk.shape[2] - 1, config.test_frames or chunk.shape[2]).round().long()
        video = chunk[:, :, keep].flatten(0, 1).to(device).float() / 255
        features = F.normalize(model.features(video).double(), dim=1)
        found.append(features.unflatten(0, chunk.shape[:2]).mean(1).cpu())
    return F.normalize(torch.cat(found), dim=1)


REID = Exam(
    "reid", "whether two clips show the same person, never seen in training", "re-identification", "video", "person",
    approach=GalleryProbe(),
)  # fmt: skip
REID_FRAMES = Exam(
    "reid-frames", "whether two clips show the same person, never seen in training, by single frames",
    "re-identification", "frame", "person", approach=GalleryProbe(),
)  # fmt: skip
