"""Planted features: what is done, who does it and a hat lie along directions of their own; anonymizers that are known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from sfumato.anonymizers.latent_adapter import LatentAnonymizer
from sfumato.datasets.annotations import Annotation
from sfumato.datasets.feature_store import Manifest
from sfumato.datasets.sample import Segment
from sfumato.evaluation.latent.base import LatentConfig
from sfumato.evaluation.latent.judge import LatentJudge
from sfumato.evaluation.result import AttackResult, Result, Score
from sfumato.training.feature_data import FeatureSet

CPU = torch.device("cpu")
WIDTH, FRAMES = 16, 8
ACTION, HAT, WHO = slice(0, 3), 4, slice(8, 12)
ACTIONS, PEOPLE = ("bow", "jump", "wave"), 6
MANIFEST = Manifest("toy", "ab" * 32, (FRAMES, 8, 8), 1, WIDTH, per_clip=3)


class Planted(LatentAnonymizer):
    """Any function of (N, D)."""

    name = "planted"

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.width, self.function = WIDTH, function

    def forward(self, features: Tensor, mask: Tensor | None = None) -> Tensor:
        return self.function(features)

    def settings(self) -> dict[str, Any]:
        return {}


def keep(*places: int | slice) -> Planted:
    """Everything but those features becomes 0."""
    mask = torch.zeros(WIDTH)
    for place in places:
        mask[place] = 1
    return Planted(lambda features: features * mask)


CONSTANT = Planted(lambda features: torch.ones_like(features))
SHUFFLED = Planted(lambda features: features.flip(-1) * -2 + 3)  # all is there, nothing where it was


def feature_set(videos: Sequence[tuple[Annotation, Tensor]]) -> FeatureSet:
    """Videos of (S, 3, D) each."""
    count = torch.tensor([len(rows) for _, rows in videos])
    return FeatureSet("features:toy", MANIFEST, torch.cat([r for _, r in videos]), count, [a for a, _ in videos])


def short(clips: int = 1, noise: float = 0.3, size: int = 1, **told: Callable[[int, int], str]) -> FeatureSet:
    """60 training videos, 30 each of known people and of new ones to validate and to test by; `size` times as many.

    told: more attributes, from the person's number and the video's.
    """
    draw, videos, number = torch.Generator().manual_seed(0), [], 0
    looks = torch.randn(3 * PEOPLE, WHO.stop - WHO.start, generator=draw)
    blocks = (
        ({"person": "train", "clip": "train"}, 0, 60), ({"clip": "val"}, 0, 30), ({"clip": "test"}, 0, 30),
        ({"person": "val"}, PEOPLE, 30), ({"person": "test"}, 2 * PEOPLE, 30),
    )  # fmt: skip
    for split, first, many in blocks:
        for n in range(size * many):
            action, person, hat = n % 3, first + n // 3 % PEOPLE, int(torch.rand((), generator=draw) < 0.5)
            rows = noise * torch.randn(clips, 3, WIDTH, generator=draw)
            rows[:, 0, action] += 2
            rows[..., HAT] += 2 * hat - 1
            rows[..., WHO] += 4 * looks[person]
            attributes = {"hat": "ny"[hat], **{key: value(person, n) for key, value in told.items()}}
            videos.append((Annotation(f"{number}", ACTIONS[action], f"p{person}", attributes, split=split), rows))
            number += 1
    return feature_set(videos)


def long(count: int = 40, seed: int = 0) -> FeatureSet:
    """Videos of 20 clips, noisy ones: an action of six clips somewhere, in every second video then an anomaly of three."""
    draw, videos = torch.Generator().manual_seed(seed), []
    for n in range(count):
        action, start, strange = n % 3, int(torch.randint(10, (1,), generator=draw)), n % 2 == 1
        rows = torch.randn(20, 3, WIDTH, generator=draw)
        rows[start : start + 6, 0, action] += 2.5
        segments = [Segment(start * FRAMES, (start + 6) * FRAMES, ACTIONS[action])]
        if strange:
            at = start + 7
            rows[at : at + 3, 0, 5] += 3
            segments.append(Segment(at * FRAMES, (at + 3) * FRAMES, "fall"))
        part = ("train", "train", "train", "val", "test")[n // 2 % 5]
        split = {"person": part, "clip": part}
        videos.append((Annotation(f"{n}", segments=tuple(segments), anomalous=strange, split=split), rows))
    return feature_set(videos)


def judged(data: FeatureSet, *names: str, epochs: int = 40, seeds: int = 1, **adapters: LatentAnonymizer) -> Result:
    return LatentJudge(data, LatentConfig("tiny", epochs, seeds), names=names, device=CPU).judge(adapters)


def scores(result: Result, name: str) -> dict[str, Score]:
    """The scores of the line of that name."""
    (line,) = [line for line in result.lines if line.anonymizer == name]
    return {measure.name: measure.score for measure in line.scores}


def attack(result: Result, name: str, attacker: str) -> AttackResult:
    (line,) = [line for line in result.lines if line.anonymizer == name]
    (found,) = [each for each in line.attacks if each.attacker == attacker]
    return found
