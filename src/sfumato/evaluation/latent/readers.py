"""Fresh readers of features: the linear layer and the two-layer MLP of Appendix B.2, trained on what they are asked about."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from sfumato.evaluation.latent.material import Rows
from sfumato.objectives.labels import heads_loss, split_heads
from sfumato.training.device import seeded
from sfumato.training.optimisation import adam

KINDS = ("linear", "mlp")
EPOCHS, BATCH, LEAST = 100, 256, 16
RATES = {"linear": 3e-2, "mlp": 5e-3}  # the paper's MLP has 1e-3, which is slow where there are few videos
CHECKS = 20  # times that validation is looked at
WEIGHT_DECAY = 0.01

Choice = Callable[[Tensor, Tensor], float]  # of probabilities (n, columns) and labels (n, Q) on validation


class Reader(nn.Module):
    """Features (N, D) to logits (N, outputs).

    Each of D is first brought to mean 0 and deviation 1 of the training rows `seen`: what an anonymizer only makes small
    would else escape a reader that learns for a while and not for ever.

    >>> Reader("mlp", torch.rand(20, 8), outputs=3)(torch.rand(4, 8)).shape
    torch.Size([4, 3])
    """

    mean: Tensor
    deviation: Tensor

    def __init__(self, kind: str, seen: Tensor, outputs: int) -> None:
        super().__init__()
        width = seen.shape[1]
        self.register_buffer("mean", seen.mean(0))
        self.register_buffer("deviation", seen.std(0, correction=0).clamp(min=1e-6))
        hidden = [] if kind == "linear" else [nn.Linear(width, width), nn.ReLU()]
        self.layers = nn.Sequential(*hidden, nn.Linear(width, outputs)).to(seen.device)

    def forward(self, features: Tensor) -> Tensor:
        """(N, D) to (N, outputs)."""
        logits: Tensor = self.layers((features - self.mean) / self.deviation)
        return logits


class Lesson:
    """What a reader learns from: rows, and the labels (n, Q) of the videos they are of, -1 unknown."""

    def __init__(self, rows: Rows, labels: Tensor) -> None:
        self.rows, self.labels = rows, labels.to(rows.features.device)


def learn(
    kind: str, lesson: Lesson, heads: tuple[int, ...], *, seed: int, epochs: int = EPOCHS,
    watched: Lesson | None = None, choice: Choice | None = None,
) -> tuple[Reader, list[float]]:  # fmt: skip
    """A fresh reader, of the epoch that `choice` likes best on `watched`, or of the last one; and its scores so far.

    >>> learn("linear", Lesson(rows, labels), (2,), seed=0)[0]  # doctest: +SKIP
    """
    features, owner = lesson.rows.features, lesson.rows.owner
    device = features.device
    torch.manual_seed(seed)
    model, draw = Reader(kind, features, sum(heads)).to(device), seeded(seed)
    optimizer = adam(model, RATES[kind], WEIGHT_DECAY, device)
    # Few rows are dealt in smaller batches: a reader that takes too few steps proves nothing.
    batch = min(BATCH, max(LEAST, len(features) // 16), len(features))
    steps = len(features) // batch
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATES[kind], total_steps=steps * epochs)
    best, state, curve = -math.inf, None, []
    every = max(1, epochs // CHECKS)
    for epoch in range(epochs):
        order = torch.randperm(len(features), generator=draw).to(device)
        for rows in order[: steps * batch].split(batch):
            loss = heads_loss(model(features[rows]), lesson.labels[owner[rows]], heads)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            schedule.step()
        if watched is not None and choice is not None and ((epoch + 1) % every == 0 or epoch + 1 == epochs):
            curve.append(choice(read(model, watched.rows, heads), watched.labels.cpu()))
            if curve[-1] >= best:
                best, state = curve[-1], copy.deepcopy(model.state_dict())
    if state is not None:
        model.load_state_dict(state)
    return model, curve


@torch.no_grad()
def read(model: nn.Module, rows: Rows, heads: tuple[int, ...]) -> Tensor:
    """Probabilities (videos, sum of heads) on the CPU: softmax per question, averaged over the rows of each video.

    >>> read(reader, rows, (2, 3)).shape  # doctest: +SKIP
    """
    logits = model(rows.features)
    shares = torch.cat([part.float().softmax(1) for part in split_heads(logits, heads)], 1).cpu()
    owner = rows.owner.cpu()
    total = torch.zeros(rows.videos, shares.shape[1]).index_add_(0, owner, shares)
    return total / torch.bincount(owner, minlength=rows.videos)[:, None]
