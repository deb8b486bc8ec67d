"""Whatever precision the networks ran in, a loss is computed in float32."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from sfumato.objectives.contrastive import nt_xent, retrieval_accuracy
from sfumato.objectives.labels import entropy, heads_loss
from sfumato.objectives.momentum import KeyQueue
from sfumato.objectives.penalty import feature_penalty, pixel_penalty
from sfumato.objectives.rate import sparsity
from sfumato.objectives.reconstruction import l1_reconstruction
from sfumato.objectives.rotation import rotation_loss
from sfumato.objectives.triplet import temporal_triplet

ANSWERS = torch.tensor([[0, 2], [1, -1], [1, 0], [0, 1]])
LOSSES: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {  # of three tensors (4, 2, 3, 8, 8)
    "nt_xent": lambda a, b, c: nt_xent(a.flatten(1), b.flatten(1)),
    "retrieval": lambda a, b, c: retrieval_accuracy(a.flatten(1), b.flatten(1)),
    "moco": lambda a, b, c: moco(a.flatten(1), b.flatten(1), c.flatten(1)),
    "rotation": lambda a, b, c: rotation_loss(a[:, 0, 0, 0, :4], torch.arange(4)),
    "l1": lambda a, b, c: l1_reconstruction(a, b),
    "heads": lambda a, b, c: heads_loss(a[:, 0, 0, 0, :5], ANSWERS, (2, 3)),
    "entropy": lambda a, b, c: entropy(a[:, 0, 0, 0, :5], (2, 3)),
    "triplet": lambda a, b, c: temporal_triplet(a.flatten(1), b.flatten(1), c.flatten(1)),
    "pixels": lambda a, b, c: pixel_penalty(a, b, 0.1),
    "features": lambda a, b, c: feature_penalty(a.flatten(1), b.flatten(1), 0.1),
    "sparsity": lambda a, b, c: sparsity(a),
}


def moco(query: Tensor, key: Tensor, earlier: Tensor) -> Tensor:
    queue = KeyQueue(6, query.shape[1])
    queue.push(earlier, -1 - torch.arange(len(earlier)))
    return queue.contrast(query, key, torch.arange(len(query)), 0.1)[0]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", LOSSES)
def test_half_precision_is_computed_in_float32(name: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    inputs = [torch.rand(4, 2, 3, 8, 8).to(dtype) for _ in range(3)]
    exact = LOSSES[name](*(x.float() for x in inputs))
    loss = LOSSES[name](*inputs)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cast = LOSSES[name](*inputs)
    assert loss.dtype == cast.dtype == torch.float32 and loss.shape == ()
    assert loss.item() == cast.item() == exact.item()
