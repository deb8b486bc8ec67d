"""The *bias* protocol (SPLAVU section 4.3 and Appendix A): does a shortcut by perceived gender fool a fresh action head?

People and videos are first balanced: as many persons, and of every action as many videos, of either gender, in training as in
test. Then training alone is biased: of every action 95% of one gender's videos are kept and 5% of the other's; of one action,
drawn by the seed, the reverse. `bias-woman` is the paper's NTU-Bias-F: the flipped action belongs to women, all others to men.
The subclass gap is the difference, without its sign, of the accuracies on either gender; 0 without looking, and 0 is fair.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sfumato.datasets.annotations import Annotation
from sfumato.evaluation.latent.base import Items, LatentProtocol, Sheet, Statistic, Tally
from sfumato.evaluation.latent.material import Subject, parts_of, whole_rows
from sfumato.evaluation.latent.origins import look_up
from sfumato.evaluation.latent.readers import EPOCHS, Lesson, learn, read
from sfumato.training.batches import mix
from sfumato.training.device import seeded

GENDER = ("gender_value", "perceived_gender")  # the attributes that may tell it, not those that tell if it can be seen
KEPT, RARE = 0.95, 0.05


class Told(NamedTuple):
    """Of every video: what is done, who does it, and their perceived gender; "" unknown."""

    action: Sequence[str]
    person: Sequence[str]
    gender: Sequence[str]


def gender_of(annotations: list[Annotation]) -> list[str]:
    """The perceived gender that each video tells, "" where none.

    >>> gender_of([Annotation("a.mp4", attributes={"perceived_gender": "female"}), Annotation("b.mp4")])
    ['female', '']
    """
    known = [look_up(annotations, name) for name in GENDER]
    return [next(filter(None, each), "") for each in zip(*known, strict=True)]


def balance(told: Told, videos: Sequence[int], seed: int = 0) -> dict[tuple[str, str], list[int]]:
    """As many persons of either gender, then as many videos of each action and gender: (action, gender) to videos.

    Actions that one gender never does are left out.

    >>> told = Told(["wave"] * 5, list("abcab"), ["woman", "man", "man", "woman", "man"])
    >>> {key: len(videos) for key, videos in balance(told, range(5)).items()}  # one person of each, one has one video
    {('wave', 'man'): 1, ('wave', 'woman'): 1}
    """
    persons: dict[str, list[str]] = defaultdict(list)
    for video in videos:
        if told.person[video] not in persons[told.gender[video]]:
            persons[told.gender[video]].append(told.person[video])
    if len(persons) < 2:
        return {}
    count = min(map(len, persons.values()))
    kept = {(g, p) for g, some in persons.items() for p in _draw(sorted(some), count, mix(seed, "persons", g))}
    cells: dict[tuple[str, str], list[int]] = defaultdict(list)
    for video in videos:
        if (told.gender[video], told.person[video]) in kept:
            cells[told.action[video], told.gender[video]].append(video)
    actions = [a for a in sorted({a for a, _ in cells}) if all((a, g) in cells for g in persons)]
    if not actions:
        return {}
    least = min(len(cells[a, g]) for a in actions for g in persons)
    return {(a, g): _draw(cells[a, g], least, mix(seed, a, g)) for a in actions for g in sorted(persons)}


def inject(cells: dict[tuple[str, str], list[int]], owner: str, flipped: str, seed: int = 0) -> list[int]:
    """Of every action 95% of the other gender's videos and 5% of the owner's, at least one; of `flipped` the reverse.

    >>> cells = {(a, g): list(range(20)) for a in ("bow", "wave") for g in ("man", "woman")}
    >>> len(inject(cells, "woman", "wave"))  # 2 · (19 + 1)
    40
    """
    found: list[int] = []
    for (action, gender), videos in cells.items():
        often = (gender == owner) == (action == flipped)
        share = max(1, round((KEPT if often else RARE) * len(videos)))
        found += _draw(videos, share, mix(seed, "inject", action, gender))
    return sorted(found)


def _draw(values: list, count: int, seed: int) -> list:
    order = torch.randperm(len(values), generator=seeded(seed))[:count]
    return [values[n] for n in sorted(order.tolist())]


class BiasProtocol(LatentProtocol):
    """Two biased trainings, one for each gender to own the flipped action."""

    name = "bias"
    summary = "95/5 biased training splits with one action flipped, the gap between genders; section 4.3, Appendix A"
    models = "linear"

    def prepare(self) -> None:
        """Balanced videos of both parts."""
        annotations = self.data.annotations
        gender = gender_of(annotations)
        self.told = Told([a.action for a in annotations], [a.person for a in annotations], gender)
        useful = [bool(action and person and g) for action, person, g in zip(*self.told, strict=True)]
        parts = parts_of(self.data, useful, "person")
        self.genders = sorted({gender[video] for video in parts.train.tolist()})
        train, test = (balance(self.told, videos.tolist()) for videos in (parts.train, parts.test))
        self.actions = sorted({a for a, _ in train} & {a for a, _ in test})
        self.train, self.test = ({k: v for k, v in c.items() if k[0] in self.actions} for c in (train, test))
        if len(self.genders) != 2:
            self.lacks = f"does not tell two perceived genders by the attribute {' or '.join(GENDER)}"
        elif len(self.actions) < 2:
            self.lacks = "has fewer than two actions that both genders do, in training and in test"
        self.notes += filter(None, [parts.note and f"bias: {parts.note}"])

    def examine(self, subject: Subject, seed: int) -> Sheet:
        """Either gender owns the flipped action once."""
        tested = sorted(video for videos in self.test.values() for video in videos)
        labels = torch.tensor([[self.actions.index(a) if a in self.actions else -1] for a in self.told.action])
        gender = np.array([self.told.gender[video] for video in tested])
        flipped = self.actions[int(torch.randint(len(self.actions), (1,), generator=seeded(mix(seed, "flipped"))))]
        tallies = []
        for owner in self.genders:
            learned = torch.tensor(inject(self.train, owner, flipped, seed))
            right = self._right(subject, learned, torch.tensor(tested), labels, seed)
            tallies += gap_tallies(f"bias-{owner}", right, gender, 1 / len(self.actions))
        return Sheet(tallies=tallies)

    def _right(
        self, subject: Subject, learned: Tensor, tested: Tensor, labels: Tensor, seed: int
    ) -> NDArray[np.float64]:
        """Whether a head that was trained on the one names the action of the others, (n,).

        No epoch is chosen: validation videos without the bias would tell the head about it.
        """
        heads = (len(self.actions),)
        lesson = Lesson(whole_rows(subject.features, learned), labels[learned])
        head, _ = learn("linear", lesson, heads, seed=seed, epochs=self.config.epochs or EPOCHS)
        named = read(head, whole_rows(subject.features, tested), heads).argmax(1)
        return (named == labels[tested, 0]).double().numpy()


def gap_tallies(name: str, right: NDArray[np.float64], gender: NDArray[np.str_], blind: float) -> list[Tally]:
    """The subclass gap, the accuracy over all, and that of either gender, from whether each test video was right, (n,).

    >>> gap_tallies("b", np.array([1.0, 0, 1, 1]), np.array(["m", "m", "w", "w"]), 0.5)[0].value(np.arange(4))
    0.5
    """

    def accuracy(of: str) -> Statistic:
        def over(items: Items) -> float:
            mine = items[gender[items] == of]
            return float(right[mine].mean()) if len(mine) else float("nan")

        return over

    first, second = (accuracy(of) for of in sorted(set(gender.tolist())))

    def gap(items: Items) -> float:
        return abs(first(items) - second(items))

    n = len(right)
    each = [Tally(f"{name} accuracy of {of}", n, accuracy(of), blind) for of in sorted(set(gender.tolist()))]
    overall = Tally(f"{name} accuracy", n, lambda items: float(right[items].mean()), blind)
    return [Tally(f"{name} subclass gap", n, gap, 0.0), overall, *each]
