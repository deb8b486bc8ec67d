"""L_B, what f_A makes large: clips of one video must not find each other (eq. 5), or labels must not be read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from sfumato.errors import SfumatoError
from sfumato.methods.splavu.config import SPLAVUConfig
from sfumato.objectives.contrastive import nt_xent, retrieval_accuracy
from sfumato.objectives.labels import entropy, heads_loss, split_heads
from sfumato.training.batches import Rounds, mix
from sfumato.training.device import seeded
from sfumato.training.feature_data import FeatureSet, Source
from sfumato.training.optimisation import adam, descend, frozen

WATCHED = 128  # validation videos
Adapt = Callable[[Tensor], Tensor]  # f_A on lone clips, (B, D) to the same


def require_attributes(source: Source) -> None:
    """Refuse data without private labels, for who is told them."""
    if not any(a.attributes and a.part("person") == a.part("clip") == "train" for a in source.annotations.values()):
        raise SfumatoError(
            f"{source.name} has no private attributes", "name --privacy-data that has, or set budget=static"
        )


class Pairs:
    """NT-Xent between two static clips of each video, at any two times; with `pairs = all` also between two that move.

    Needs no label.
    """

    def __init__(self, data: FeatureSet, config: SPLAVUConfig, *, seed: int, device: torch.device) -> None:
        self.data, self.config, self.seed, self.device = data, config, mix(seed, "privacy"), device
        static = data.manifest.per_clip - 1
        # Of each sight: which of a clip's vectors are meant, the first and how many.
        self.sights = {"static": (1, static), "moving": (0, 1)}
        self.asked = ("static", "moving") if config.pairs == "all" else ("static",)
        # A pair takes two of them, of one clip or of two.
        several = torch.stack([data.count * self.sights[sight][1] >= 2 for sight in self.asked]).all(0)
        learned, watched = data.videos("train"), data.videos("val", "clip")
        self.videos, watched = learned[several[learned]], watched[several[watched]]
        self.watched = watched[torch.linspace(0, len(watched) - 1, min(WATCHED, len(watched))).round().long()]
        self._require()

    def _require(self) -> None:
        if len(self.videos) < 2:
            static, name = self.sights["static"][1], self.data.name
            if self.config.pairs == "all" and static:
                raise SfumatoError(
                    f"pairs = all needs videos of two clips and more, and fewer than two training videos of {name} have them",
                    "give longer videos by --privacy-data, or leave it at static",
                )
            raise SfumatoError(
                f"{name} has static clips of {static} frames of each clip, and fewer than two training "
                "videos have a pair of them",
                "extract the features with --static 2",
            )
        self.rounds = Rounds(len(self.videos), min(self.config.privacy_batch, len(self.videos)), seed=self.seed)

    def pairs(self, videos: Tensor, chance: Tensor, sight: str = "static") -> tuple[Tensor, Tensor]:
        """Two different clips of that sight of each of B videos, (B, D) each; chance: (B, 2) in [0, 1)."""
        count = self.data.count[videos] * self.sights[sight][1]
        first = (chance[:, 0] * count).long()
        second = (first + 1 + (chance[:, 1] * (count - 1)).long()) % count
        return self._seen(videos, first, sight), self._seen(videos, second, sight)

    def _seen(self, videos: Tensor, number: Tensor, sight: str) -> Tensor:
        """The clip of that number of each video, counted over all of its clips."""
        start, each = self.sights[sight]
        clips = self.data.first[videos] + number // each
        return self.data.vectors[clips.to(self.device), (start + number % each).to(self.device)]

    def meet(self, adapt: Adapt, step: int) -> dict[str, Tensor]:
        """What the budget model itself does before f_A moves: there is none."""
        return {}

    def loss(self, adapt: Adapt, step: int) -> Tensor:
        """L_B on what f_A makes of this step's clips: the mean of what is found among static and among moving ones."""
        videos, draw = self.videos[self.rounds.rows(step)], seeded(mix(self.seed, step))
        losses = []
        for sight in self.asked:
            pair = self.pairs(videos, torch.rand(len(videos), 2, generator=draw), sight)
            first, second = adapt(torch.cat(pair)).chunk(2)
            losses.append(nt_xent(first, second, self.config.temperature))
        return torch.stack(losses).mean()

    def watched_pairs(self) -> tuple[Tensor, Tensor]:
        """Of each watched video the first static clip and the last."""
        chance = torch.tensor([0.0, 1 - 1e-6]).expand(len(self.watched), 2)
        return self.pairs(self.watched, chance)

    @torch.no_grad()
    def watch(self, adapt: Adapt) -> dict[str, float]:
        """How often a static clip of one video finds the other among all; guessing: one of 2B − 1."""
        if len(self.watched) < 2:
            return {}
        first, second = adapt(torch.cat(self.watched_pairs())).chunk(2)
        return {
            "L_B": float(nt_xent(first, second, self.config.temperature)),
            "pairs found": float(retrieval_accuracy(first, second)),
        }

    def state_dict(self) -> dict[str, Any]:
        """Nothing here learns."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Nothing to take up."""


class LabelReader(Pairs):
    """The supervised variant: f_B, two layers, is told the private attributes; f_A makes it undecided.

    f_B reads clips and static clips alike. It learns by cross-entropy; f_A raises the entropy of its answers, since a large
    cross-entropy could be had by features that say the opposite of the truth.
    """

    def __init__(self, data: FeatureSet, config: SPLAVUConfig, *, seed: int, device: torch.device) -> None:
        super().__init__(data, config, seed=seed, device=device)
        width, self.answers, self.questions = data.manifest.width, *self._answers()
        torch.manual_seed(mix(self.seed, "f_B"))
        self.reader = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, sum(self.questions))).to(
            device
        )
        self.optimizer = adam(self.reader, config.budget_rate, config.weight_decay, device)

    def _require(self) -> None:
        labelled = torch.tensor([bool(annotation.attributes) for annotation in self.data.annotations])
        learned, watched = self.data.videos("train"), self.data.videos("val", "clip")
        self.labelled, self.known = learned[labelled[learned]], watched[labelled[watched]][:WATCHED]
        self.rounds = Rounds(len(self.labelled), min(self.config.privacy_batch, len(self.labelled)), seed=self.seed)

    def _answers(self) -> tuple[Tensor, tuple[int, ...]]:
        """Every video's answers (V, Q), -1 unknown, and how many values each question has."""
        told = [annotation.attributes for annotation in self.data.annotations]
        learned = [told[v] for v in self.labelled.tolist()]
        names = list(dict.fromkeys(name for each in learned for name in each))
        values = {name: sorted({each[name] for each in learned if name in each}) for name in names}
        asked = [name for name in names if len(values[name]) > 1]  # what is the same everywhere tells nothing
        if not asked:
            raise SfumatoError(f"the private attributes of {self.data.name} never differ", "name other --privacy-data")
        place = {name: {value: n for n, value in enumerate(values[name])} for name in asked}
        rows = [[place[name].get(each.get(name, ""), -1) for name in asked] for each in told]
        return torch.tensor(rows), tuple(len(values[name]) for name in asked)

    def _batch(self, step: int) -> tuple[Tensor, Tensor]:
        """Any vector of each video, the clips' own or static, (B, D), and the answers (B, Q)."""
        videos = self.labelled[self.rounds.rows(step)]
        chance = torch.rand(len(videos), generator=seeded(mix(self.seed, step)))
        number = (chance * self.data.count[videos] * self.data.manifest.per_clip).long()
        return self._vectors(videos, number), self.answers[videos].to(self.device)

    def _vectors(self, videos: Tensor, number: Tensor) -> Tensor:
        per_clip = self.data.manifest.per_clip
        clips = self.data.first[videos] + number // per_clip
        return self.data.vectors[clips.to(self.device), (number % per_clip).to(self.device)]

    def meet(self, adapt: Adapt, step: int) -> dict[str, Tensor]:
        """f_B one step down its cross-entropy on what f_A makes."""
        features, answers = self._batch(step)
        with torch.no_grad():
            seen = adapt(features)
        self.reader.train()
        loss = heads_loss(self.reader(seen), answers, self.questions)
        descend(loss, self.optimizer)
        return {"f_B": loss.detach()}

    def loss(self, adapt: Adapt, step: int) -> Tensor:
        """The entropy of f_B's answers, as a share of the most there can be."""
        features, _ = self._batch(step)
        seen = adapt(features)
        with frozen([self.reader]):
            return entropy(self.reader(seen), self.questions)

    @torch.no_grad()
    def watch(self, adapt: Adapt) -> dict[str, float]:
        """Also how often f_B is right, over all questions with a known answer."""
        found = super().watch(adapt)
        if not len(self.known):
            return found
        answers = self.answers[self.known].to(self.device)
        read = self.reader(adapt(self._vectors(self.known, torch.zeros_like(self.known))))
        given = torch.stack([part.argmax(1) for part in split_heads(read, self.questions)], 1)
        right = (given == answers)[answers >= 0]
        return {**found, "f_B reads": float(right.float().mean())} if len(right) else found

    def state_dict(self) -> dict[str, Any]:
        """f_B and its optimizer."""
        return {"reader": self.reader.state_dict(), "optimizer": self.optimizer.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take up where `state_dict` left it."""
        self.reader.load_state_dict(state["reader"])
        self.optimizer.load_state_dict(state["optimizer"])
