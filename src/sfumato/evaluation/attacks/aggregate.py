"""An attacker that waits: one answer about all windows of a video, and about all clips of one recording.

A hint that is worth little in one clip adds up over a long video. Log-probabilities are averaged, as for independent
witnesses, over a video's views and, in data that say which clips share a recording, over these. Every clip then gets the
answer about its recording.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from sfumato.datasets.base import Part, VideoDataset
from sfumato.evaluation.attacks.variants import variants
from sfumato.evaluation.exam import Approach, Choice, Desk, Reply, exam_score
from sfumato.objectives.labels import split_heads
from sfumato.training.fit import predict

LEAST = 1e-6  # no single window may rule an answer out


@dataclass(frozen=True)
class Aggregate(Approach):
    """Trains as others do, one clip at a time; answers, and chooses its epoch, about whole recordings."""

    def answer(self, desk: Desk, model: nn.Module, part: Part) -> Reply:
        pixels = desk.clips(part)
        windows = pixels.flatten(0, 1)[:, None]
        each = predict(model, windows, desk.heads, desk.examinee.fit, desk.device).unflatten(0, pixels.shape[:2])
        recordings = desk.dataset.recordings(self.items(desk.exam, desk.dataset, part))
        return Reply(pooled(each, recordings, desk.heads).numpy(), desk.labels(part).numpy())

    def choice(self, desk: Desk, model: nn.Module) -> Choice:
        score = exam_score(desk.exam, desk.heads)
        return lambda _, labels: score(torch.from_numpy(self.answer(desk, model, "val").probabilities), labels)

    def note(self, dataset: VideoDataset, views: int) -> str:
        test = dataset.recordings(dataset.split("test", "clip"))
        if views > 1 or len(test.unique()) < len(test):
            return ""
        return "aggregate attackers have nothing to average: one window a video, and no two clips share a recording"


def pooled(shares: Tensor, recordings: Tensor, heads: tuple[int, ...]) -> Tensor:
    """Probabilities (N, views, sum of heads) to (N, sum of heads), the same for all clips of a recording.

    recordings: (N,) whole numbers, equal for clips of the same one. A recording's answer is, per question, proportional
    to the geometric mean over its windows.

    >>> pooled(torch.tensor([[[0.5, 0.5], [0.8, 0.2]]]), torch.tensor([0]), (2,))  # √.4 : √.1
    tensor([[0.6667, 0.3333]])
    """
    logs = shares.clamp(min=LEAST).log().mean(1)
    group = recordings.unique(return_inverse=True)[1]
    sums = torch.zeros(int(group.max()) + 1, logs.shape[1]).index_add(0, group, logs)
    means = (sums / group.bincount()[:, None])[group]
    return torch.cat([part.softmax(-1) for part in split_heads(means, heads)], dim=-1)


AGGREGATE = variants("aggregate", "with one answer per recording", Aggregate())
