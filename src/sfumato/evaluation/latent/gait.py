"""The *gait* protocol (SPLAVU section 5.3, Table 7, and Appendix A, Casia-B): who walks like that, without any training.

Of every test person and clothes the first two thirds of the recordings are the gallery, the last third are probes, as four of
Casia-B's six repetitions are; a probe names the person of the nearest gallery video, by the cosine. Where somebody is seen in
different clothes, a second exam keeps the gallery to the commonest clothes and asks about all others: what still matches then
is not what was worn. Where there is walking, walking alone is looked at.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict

import numpy as np
import torch
from torch import Tensor

from sfumato.datasets.annotations import Annotation
from sfumato.datasets.base import Part
from sfumato.evaluation.exam import Answers, Exam, Reply
from sfumato.evaluation.latent.base import Asked, LatentProtocol, Sheet
from sfumato.evaluation.latent.material import Parts, Subject, parts_of, person_numbers, video_means
from sfumato.evaluation.latent.retrieval import compare
from sfumato.evaluation.metrics import MIN_GROUPS, best_match

WALK = "walk"
# The attributes that say what somebody wears. In the theatre a hidden gender is a cloak, hidden skin is covered.
CLOTHES = ("clothes", "condition", "nudity", "gender", "skin")
SAME = Exam("gait", "who moves like that, of people never seen in training", "re-identification", "video", "person")
OTHER = Exam(
    "gait-clothes", "who moves like that in other clothes, of people never seen in training", "re-identification",
    "video", "person",
)  # fmt: skip


def clothes_of(annotation: Annotation) -> tuple[str, ...]:
    """What is told of what somebody wears.

    >>> clothes_of(Annotation("a.mp4", attributes={"nudity": "no", "face": "yes"}))
    ('', '', 'no', '', '')
    """
    return tuple(annotation.attributes.get(name, "") for name in CLOTHES)


def repetitions(annotations: list[Annotation], videos: Tensor) -> tuple[Tensor, Tensor]:
    """Gallery and probes among those videos (n,): of each person and clothes the first two thirds, and the rest.

    >>> repetitions([Annotation(str(n), person="7") for n in range(6)], torch.arange(6))[1]
    tensor([4, 5])
    """
    found: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for video in videos.tolist():
        found[(annotations[video].person, *clothes_of(annotations[video]))].append(video)
    gallery, probes = [], []
    for same in found.values():
        # One alone is enrolled, not asked about.
        enrolled = max(1, round(2 * len(same) / 3))
        gallery += same[:enrolled]
        probes += same[enrolled:]
    return torch.tensor(sorted(gallery), dtype=torch.long), torch.tensor(sorted(probes), dtype=torch.long)


def other_clothes(annotations: list[Annotation], videos: Tensor) -> tuple[Tensor, Tensor]:
    """Gallery and probes among those videos (n,): who wears what is worn most often, and who wears something else.

    >>> worn = [Annotation("", person="7", attributes={"clothes": c}) for c in ("coat", "suit", "suit")]
    >>> other_clothes(worn, torch.arange(3))
    (tensor([1, 2]), tensor([0]))
    """
    worn = [clothes_of(annotations[video]) for video in videos.tolist()]
    common = Counter(worn).most_common(1)[0][0] if worn else ()
    usual = torch.tensor([clothes == common for clothes in worn], dtype=torch.bool)
    return videos[usual], videos[~usual]


class GaitProtocol(LatentProtocol):
    """Gallery and probe, among people nobody has trained on."""

    name = "gait"
    summary = "a gallery names who moves like that, also in other clothes; section 5.3, Table 7"
    models = "nearest neighbour"

    def prepare(self) -> None:
        """The exams that have enough probes whose person is in the gallery, for validation and for test."""
        annotations = self.data.annotations
        walking = any(WALK in a.action for a in annotations)
        useful = [bool(a.person) and (WALK in a.action or not walking) for a in annotations]
        self.parts: Parts = parts_of(self.data, useful, "person")
        self.person = person_numbers(self.data)
        self.sides: dict[str, dict[Part, tuple[Tensor, Tensor]]] = {}
        for exam, choose in ((SAME, repetitions), (OTHER, other_clothes)):
            sides = {part: self._enrolled(*choose(annotations, self.parts.of(part))) for part in ("val", "test")}
            few = [part for part, (_, probes) in sides.items() if len(probes) < MIN_GROUPS]
            if not few:
                self.sides[exam.name] = sides  # type: ignore[assignment]
                persons = tuple(self.person[sides[part][1].numpy()] for part in ("val", "test"))
                people = int(self.person.max()) + 1
                self.asked.append(Asked(exam, "nearest neighbour", (people,), "attack", persons=persons))
        if not self.sides:
            self.lacks = f"has fewer than {MIN_GROUPS} val or test videos of somebody who is there more than once"
        elif OTHER.name not in self.sides:
            self.notes.append("gait: nobody is seen in other clothes often enough, so clothes may have told")
        if not walking and not self.lacks:
            self.notes.append("gait: nobody walks, so the way of moving is that of all actions")

    def _enrolled(self, gallery: Tensor, probes: Tensor) -> tuple[Tensor, Tensor]:
        """Probes whose person is in no gallery cannot be named, and are left out."""
        known = torch.from_numpy(np.isin(self.person[probes.numpy()], self.person[gallery.numpy()]))
        several = len(set(self.person[gallery.numpy()].tolist())) > 1
        return gallery, probes[known] if several else probes[:0]

    def examine(self, subject: Subject, seed: int) -> Sheet:
        """The nearest gallery video of every probe."""
        sheet = Sheet()
        for name, sides in self.sides.items():
            started = time.perf_counter()
            val, test = (self._match(subject, *sides[part], seed) for part in ("val", "test"))
            right = float((val.probabilities.argmax(1) == val.labels[:, 0]).mean())
            sheet.answers[name] = Answers(
                val.probabilities, val.labels, test.probabilities, test.labels, np.array([right]),
                time.perf_counter() - started, test.blind,
            )  # fmt: skip
        return sheet

    def _match(self, subject: Subject, gallery: Tensor, probes: Tensor, seed: int) -> Reply:
        asking, known = (video_means(subject.features, videos).numpy() for videos in (probes, gallery))
        enrolled, truth = self.person[gallery.numpy()], self.person[probes.numpy()]
        found = best_match(compare(asking, known, seed), enrolled, int(self.person.max()) + 1)
        blind = (truth[:, None] == enrolled).mean(1)
        return Reply(torch.from_numpy(found).softmax(1).numpy(), truth[:, None], blind)
