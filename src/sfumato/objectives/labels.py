"""Losses against labels: several questions with a softmax each, and the action, of which a clip may show several."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from sfumato.errors import SfumatoError


def split_heads(logits: Tensor, heads: Sequence[int]) -> list[Tensor]:
    """The logits (N, sum of heads) of each question by itself.

    >>> [part.shape[1] for part in split_heads(torch.zeros(2, 5), (2, 3))]
    [2, 3]
    """
    return list(logits.split(list(heads), dim=-1))


def heads_loss(logits: Tensor, labels: Tensor, heads: Sequence[int]) -> Tensor:
    """Mean cross-entropy over the questions, each over the clips where its answer is known (label ≥ 0).

    logits: (N, sum of heads); labels: int64 (N, questions), -1 unknown. Where every question is yes or no, this is the
    multi-label binary cross-entropy of the differences of their two logits: VITA's L_B for f_B.

    >>> heads_loss(torch.zeros(1, 5), torch.tensor([[1, -1]]), (2, 3)).item()  # log 2
    0.6931...
    """
    parts = split_heads(logits, heads)
    sums = [
        F.cross_entropy(part.float(), label, ignore_index=-1, reduction="sum")
        for part, label in zip(parts, labels.T, strict=True)
    ]
    return mean_where_known(torch.stack(sums), labels)


def action_loss(logits: Tensor, actions: Tensor) -> Tensor:
    """L_T: cross-entropy of the action (N,), or, of several, (N, A) in {0, 1}, the mean binary one. logits: (N, A).

    >>> action_loss(torch.zeros(1, 4), torch.tensor([2])).item(), action_loss(torch.zeros(1, 4), torch.ones(1, 4)).item()
    (1.386..., 0.693...)
    """
    if actions.ndim == 1:
        return F.cross_entropy(logits.float(), actions)
    return F.binary_cross_entropy_with_logits(logits.float(), actions.float())


def blind_action_loss(actions: Tensor, count: int) -> float:
    """What `action_loss` is for who knows the actions of all clips, shapes as there, and does not look: of one of `count`
    the logarithm; of several, the mean entropy of how often each is shown.

    >>> blind_action_loss(torch.tensor([0, 1]), 4), blind_action_loss(torch.tensor([[0, 1], [1, 1]]), 2)
    (1.386..., 0.346...)
    """
    if actions.ndim == 1:
        return math.log(count)
    share = actions.float().mean(0)
    return float(F.binary_cross_entropy(share, share))


def named_actions(logits: Tensor, actions: Tensor) -> Tensor:
    """The share of clips whose likeliest action is theirs, or one of theirs; shapes as in `action_loss`, a scalar.

    >>> named_actions(torch.tensor([[3.0, 1.0], [0.0, 2.0]]), torch.tensor([[1, 1], [1, 0]])).item()
    0.5
    """
    said = logits.argmax(1)
    right = said == actions if actions.ndim == 1 else actions.gather(1, said[:, None])[:, 0]
    return right.float().mean()


def mean_where_known(sums: Tensor, labels: Tensor) -> Tensor:
    """Sums over clips (questions,) to a scalar: each over its known labels (N, questions), then over questions with any.

    No `if` looks at a value: on a GPU that would wait for everything under way, in every step.

    >>> mean_where_known(torch.tensor([6.0, 0.0]), torch.tensor([[1, -1], [0, -1]])).item()
    3.0
    """
    known = (labels >= 0).sum(0)
    return (sums / known.clamp(min=1)).sum() / (known > 0).sum().clamp(min=1)


def entropy(logits: Tensor, heads: Sequence[int]) -> Tensor:
    """Mean over questions and clips of the softmax's entropy, as a share of the most there can be.

    VITA's L_B for f_A, which makes it large. A large cross-entropy instead can be had by pictures that say the opposite
    of the truth, which tells as much; where the entropy is largest, nothing is told. logits: (N, sum of heads).

    >>> entropy(torch.zeros(4, 5), (2, 3)).item()
    1.0
    """
    if min(heads) < 2:
        raise SfumatoError("a question with a single answer tells nothing", "leave that attribute out")
    logs = [part.float().log_softmax(-1) for part in split_heads(logits, heads)]
    return torch.stack([-(log.exp() * log).sum(-1).mean() / math.log(log.shape[-1]) for log in logs]).mean()
