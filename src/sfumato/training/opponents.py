"""f_B while an anonymizer is trained: networks that try to read what it should hide.

Self-supervised ones (SPAct's three) need no privacy labels, the labelled one (VITA's) does. All offer the same:
`reading(views)` is the loss the opponent itself minimises and how well it reads, `watched(views)` the same on clips it does
not learn from; `confusion(views)` is what f_A maximises.
"""

from __future__ import annotations

import copy
import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sfumato.objectives.contrastive import cosines, nt_xent, retrieval_accuracy, share_nearest
from sfumato.objectives.labels import entropy, heads_loss, mean_where_known, split_heads
from sfumato.objectives.momentum import KeyQueue, follow
from sfumato.objectives.rotation import rotate_all, rotation_loss
from sfumato.recognizers import make_recognizer
from sfumato.recognizers.base import Clip, Level
from sfumato.training.processes import gather

Kind = Literal["nt-xent", "moco", "rotation", "labels"]
Confusion = Literal["loss", "entropy"]


@dataclass
class Views:
    """Two views of each of B videos, (B, T, 3, H, W) each, T = 1 for frames; answers (B, Q), -1 unknown.

    videos: (B,), which ones they are: where there are few, one may be there twice, and is no negative of itself.
    frames: (B, 2), where f_A needs whole clips but its reader sees frames: which one of each view.
    """

    first: Tensor
    second: Tensor
    answers: Tensor
    videos: Tensor
    frames: Tensor | None = None

    def picked(self) -> Views:
        """What the reader sees of it."""
        if self.frames is None:
            return self
        every = torch.arange(len(self.frames), device=self.frames.device)
        first, second = (
            view[every, at][:, None] for view, at in zip((self.first, self.second), self.frames.T, strict=True)
        )
        return Views(first, second, self.answers, self.videos)


@dataclass(frozen=True)
class Lineup:
    """How an opponent is made: its network, its loss, and what it needs to know of the data."""

    kind: Kind
    network: str
    norm: str
    clip: Clip
    heads: tuple[int, ...] = ()  # of the questions it is told the answers of
    asked: tuple[int, ...] = ()  # which columns of the answers those are; none named: all
    temperature: float = 0.1  # τ
    confusion: Confusion = "loss"
    width: float = 1.0
    keys: int = 1024  # of MoCo's queue


class Opponent(nn.Module):
    """One f_B. `level` says whether it sees frames or whole clips."""

    def __init__(self, lineup: Lineup, outputs: int) -> None:
        super().__init__()
        options = {"norm": lineup.norm} if "vit" not in lineup.network else {}  # transformers have a norm of their own
        self.network = make_recognizer(lineup.network, outputs, clip=lineup.clip, width=lineup.width, **options)
        self.lineup = lineup
        self.level: Level = self.network.level
        self.told = lineup.kind == "labels"  # otherwise what it reads is what two views have in common

    @abstractmethod
    def reading(self, views: Views) -> tuple[Tensor, Tensor]:
        """L_B, which the opponent minimises, and its accuracy in [0, 1]; both scalars."""

    def watched(self, views: Views) -> tuple[Tensor, Tensor]:
        """L_B and accuracy on clips it does not learn from: as `reading`, unless that remembers earlier batches."""
        return self.reading(views)

    def confusion(self, views: Views) -> Tensor:
        """What f_A maximises: L_B itself, unless a kind knows better."""
        return self.reading(views)[0]

    @abstractmethod
    def chance(self, answers: Tensor) -> float:
        """The accuracy of an opponent that knows nothing, on videos with these answers (N, Q)."""

    @property
    def guessing(self) -> float:
        """L_B of who takes every answer for equally likely; infinite where L_B is of cosines, which have a bound."""
        return math.inf

    def remember(self, views: Views) -> None:
        """What there is to do after an update, for kinds that keep something between steps."""


class Contrastive(Opponent):
    """SPAct's f_B: two views of one video must find each other among all others (NT-Xent, eq. 5).

    >>> Contrastive(Lineup("nt-xent", "resnet-50", "group", (1, 112, 112))).reading(views)
    """

    def __init__(self, lineup: Lineup, width: int = 128) -> None:
        super().__init__(lineup, outputs=1)
        self.network.get_submodule(self.network.head_name).requires_grad_(False)  # its features are used, not its head
        features = self.network.feature_width
        self.projection = nn.Sequential(
            nn.Linear(features, features), nn.ReLU(inplace=True), nn.Linear(features, width)
        )

    def project(self, video: Tensor) -> Tensor:
        """(B, T, 3, H, W) → (B, 128)."""
        projected: Tensor = self.projection(self.network.features(video))
        return projected

    def _projections(self, views: Views) -> tuple[Tensor, Tensor]:
        """Both views through the network as one batch, then those of all processes together."""
        first, second = self.project(torch.cat([views.first, views.second])).float().chunk(2)
        return gather(first), gather(second)

    def reading(self, views: Views) -> tuple[Tensor, Tensor]:
        first, second = self._projections(views)
        videos = gather(views.videos)
        return nt_xent(first, second, self.lineup.temperature, videos), retrieval_accuracy(first, second, videos)

    def chance(self, answers: Tensor) -> float:
        return 1 / (2 * len(answers) - 1)


class MomentumContrastive(Contrastive):
    """MoCo: the second view is read by a slowly following copy, the negatives come from a queue of its past answers."""

    MOMENTUM = 0.99

    def __init__(self, lineup: Lineup, width: int = 128) -> None:
        super().__init__(lineup, width)
        self.follower = nn.ModuleList([copy.deepcopy(self.network), copy.deepcopy(self.projection)]).requires_grad_(
            False
        )
        self.queue = KeyQueue(lineup.keys, width)

    @torch.no_grad()
    def _key(self, video: Tensor) -> Tensor:
        network, projection = self.follower
        key: Tensor = projection(network.features(video)).float()  # type: ignore[operator]
        return key

    def reading(self, views: Views) -> tuple[Tensor, Tensor]:
        query = self.project(views.first).float()
        if not int(self.queue.filled):  # no negatives yet: nothing to read, and nothing to confuse
            return query.sum() * 0, query.new_zeros(())
        return self.queue.contrast(query, self._key(views.second), views.videos, self.lineup.temperature)

    def watched(self, views: Views) -> tuple[Tensor, Tensor]:
        # Among the keys of the watched videos. Those of the queue are of earlier weights, and of batch norm in train mode: a
        # query finds its own key among them by being made at the same time, whatever the two views show.
        similarities = cosines(self.project(views.first), self._key(views.second))
        own = torch.arange(len(similarities), device=similarities.device)
        return F.cross_entropy(similarities / self.lineup.temperature, own), share_nearest(similarities, own)

    def chance(self, answers: Tensor) -> float:
        return 1 / max(1, len(answers))

    @torch.no_grad()
    def remember(self, views: Views) -> None:
        follow(self.follower[0], self.network, self.MOMENTUM)
        follow(self.follower[1], self.projection, self.MOMENTUM)
        self.queue.push(gather(self._key(views.second)), gather(views.videos))


class Rotation(Opponent):
    """RotNet: by how many quarter turns was the picture turned?"""

    def __init__(self, lineup: Lineup) -> None:
        super().__init__(lineup, outputs=4)

    def reading(self, views: Views) -> tuple[Tensor, Tensor]:
        turned, labels = rotate_all(views.first)
        logits = self.network(turned)
        return rotation_loss(logits, labels), (logits.argmax(1) == labels).float().mean()

    def chance(self, answers: Tensor) -> float:
        return 0.25

    @property
    def guessing(self) -> float:
        return math.log(4)


class Labelled(Opponent):
    """VITA's f_B: told the true attributes and who it is; sees both views. Its accuracy is the mean over questions."""

    def __init__(self, lineup: Lineup) -> None:
        super().__init__(lineup, outputs=sum(lineup.heads))
        self.columns = list(lineup.asked or range(len(lineup.heads)))

    def _logits(self, views: Views) -> Tensor:
        # Two frames of a clip count as one clip of two frames; whole clips are read one by one.
        seen = torch.cat([views.first, views.second], 1 if self.level == "frame" else 0)
        logits: Tensor = self.network(seen).float()
        return logits

    def reading(self, views: Views) -> tuple[Tensor, Tensor]:
        # Gathered, because the mean is over the clips whose answer is known, and each process knows others.
        answers = views.answers[:, self.columns]
        answers = gather(answers if self.level == "frame" else answers.repeat(2, 1))
        logits = gather(self._logits(views))
        return heads_loss(logits, answers, self.lineup.heads), answered(logits, answers, self.lineup.heads)

    def confusion(self, views: Views) -> Tensor:
        if self.lineup.confusion == "entropy":
            return entropy(self._logits(views), self.lineup.heads)
        return self.reading(views)[0]

    def chance(self, answers: Tensor) -> float:
        # Always the most frequent answer: the best that can be done blindfold.
        shares = [
            column[column >= 0].bincount().max().item() / (column >= 0).sum().item()
            for column in answers[:, self.columns].T
            if (column >= 0).any()
        ]
        return sum(shares) / len(shares) if shares else 0.0

    @property
    def guessing(self) -> float:
        return sum(math.log(count) for count in self.lineup.heads) / len(self.lineup.heads)


def answered(logits: Tensor, answers: Tensor, heads: Sequence[int]) -> Tensor:
    """Share of right answers where the answer is known: mean over questions, scalar."""
    said = torch.stack([part.argmax(1) for part in split_heads(logits, heads)], 1)
    return mean_where_known((said == answers).float().sum(0), answers)


def make_opponent(lineup: Lineup) -> Opponent:
    """A fresh opponent, weights at random."""
    kinds = {"nt-xent": Contrastive, "moco": MomentumContrastive, "rotation": Rotation, "labels": Labelled}
    return kinds[lineup.kind](lineup)
