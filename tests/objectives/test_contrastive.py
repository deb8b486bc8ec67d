"""NT-Xent and retrieval, by hand on four unit vectors."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from sfumato.errors import SfumatoError
from sfumato.objectives.contrastive import cosines, nt_xent, retrieval_accuracy, share_nearest

# Normalised: a = (.6, .8), b = (1, 0), a' = (.8, .6), b' = (0, 1).
# Cosines: a·a' = .96, b·b' = 0 (the positives), a·b = .6, a·b' = .8, b·a' = .8, a'·b' = .6.
FIRST = torch.tensor([[3.0, 4.0], [1.0, 0.0]])
SECOND = torch.tensor([[4.0, 3.0], [0.0, 2.0]])


def by_hand(temperature: float) -> float:
    """a and a' see (.96; .6, .8), b and b' see (0; .6, .8): positive first, then everyone else but oneself."""

    def one(positive: float) -> float:
        h = [math.exp(cosine / temperature) for cosine in (positive, 0.6, 0.8)]
        return -math.log(h[0] / sum(h))

    return (2 * one(0.96) + 2 * one(0.0)) / 4


@pytest.mark.parametrize("temperature", [0.1, 0.5, 1.0])
def test_nt_xent_worked_by_hand(temperature: float) -> None:
    assert nt_xent(FIRST, SECOND, temperature).item() == pytest.approx(by_hand(temperature))


def test_the_papers_temperature_is_the_default() -> None:
    assert nt_xent(FIRST, SECOND).item() == pytest.approx(by_hand(0.1))


def test_neither_length_nor_order_counts() -> None:
    torch.manual_seed(0)
    first, second = torch.randn(5, 8), torch.randn(5, 8)
    loss = nt_xent(first, second).item()
    order = torch.tensor([3, 0, 4, 1, 2])
    assert nt_xent(second, first).item() == pytest.approx(loss)
    assert nt_xent(first[order], second[order]).item() == pytest.approx(loss)
    assert nt_xent(7 * first, second * torch.rand(5, 1)).item() == pytest.approx(loss, rel=1e-4)
    assert nt_xent(first, second[order]).item() != pytest.approx(loss, rel=1e-3)  # but who belongs to whom does


@pytest.mark.parametrize("count", [2, 3, 16])
def test_videos_all_alike_are_told_apart_by_chance_alone(count: int) -> None:
    torch.manual_seed(0)
    same = torch.randn(1, 24).expand(count, -1)
    assert nt_xent(same, same).item() == pytest.approx(math.log(2 * count - 1), rel=1e-5)
    assert retrieval_accuracy(same, same).item() == pytest.approx(1 / (2 * count - 1))


def test_the_gradient_brings_the_two_of_a_video_together() -> None:
    first, second = (x.clone().requires_grad_() for x in (FIRST, SECOND))
    nt_xent(first, second, 0.5).backward()
    assert first.grad is not None and second.grad is not None and first.grad.any() and second.grad.any()
    with torch.no_grad():
        closer = F.cosine_similarity(first - 0.01 * first.grad, second - 0.01 * second.grad)
    assert (closer > F.cosine_similarity(FIRST, SECOND)).all()


def test_retrieval_worked_by_hand() -> None:
    # a and a' are each other's nearest; b is nearest to a', b' to a.
    assert retrieval_accuracy(FIRST, SECOND).item() == 0.5
    assert retrieval_accuracy(FIRST, FIRST).item() == 1
    assert retrieval_accuracy(torch.eye(2), torch.eye(2).flip(0)).item() == 0


def test_retrieval_of_noise_is_chance() -> None:
    torch.manual_seed(0)
    found = [retrieval_accuracy(torch.randn(4, 8), torch.randn(4, 8)) for _ in range(500)]
    assert torch.stack(found).mean().item() == pytest.approx(1 / 7, abs=0.02)


def test_entries_that_tie_share_the_point() -> None:
    similarities = torch.tensor([[0.5, 0.5, 0.1], [0.2, 0.9, 0.1], [0.3, 0.3, 0.3]])
    # Row 0: two tie, the positive is one of them. Row 1: another is nearer. Row 2: three tie.
    assert share_nearest(similarities, torch.tensor([1, 0, 2])).item() == pytest.approx((1 / 2 + 0 + 1 / 3) / 3)
    rounding = torch.tensor([[1.0, 1 - 2**-24, 0.99]])  # 1 and the float32 before it
    assert share_nearest(rounding, torch.tensor([0])).item() == 0.5


@pytest.mark.parametrize("objective", [nt_xent, retrieval_accuracy])
def test_one_video_has_no_negatives(objective: object) -> None:
    with pytest.raises(SfumatoError, match="no negatives: use a batch of at least 2"):
        objective(FIRST[:1], SECOND[:1])  # type: ignore[operator]


def test_views_of_unequal_number_are_refused() -> None:
    with pytest.raises(ValueError, match="3 views of videos and 2"):
        nt_xent(torch.randn(3, 4), torch.randn(2, 4))


def test_cosines_are_exact_under_autocast() -> None:
    rows = torch.tensor([[1.0, 0.0]])
    column = torch.tensor([[math.cos(0.05), math.sin(0.05)]])  # cos .05 = .99875, which bf16 calls 1

    def found() -> Tensor:
        return cosines(rows, column)

    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert found().item() == pytest.approx(math.cos(0.05), abs=1e-6)


def test_a_video_that_is_there_twice_is_no_negative_of_itself() -> None:
    """Of few videos a batch holds some more than once: whoever recognises each of them loses nothing by that."""
    videos = torch.tensor([0, 1, 2, 0, 1, 2, 0, 1])
    perfect = torch.eye(3)[videos]
    assert nt_xent(perfect, perfect, 0.1).item() > 1
    assert nt_xent(perfect, perfect, 0.1, videos).item() < 1e-3
    assert retrieval_accuracy(perfect, perfect).item() < 0.5
    assert retrieval_accuracy(perfect, perfect, videos).item() == 1


def test_of_different_videos_it_does_not_matter_which_they_are() -> None:
    torch.manual_seed(0)
    first, second, videos = torch.randn(5, 4), torch.randn(5, 4), torch.tensor([9, 3, 7, 1, 5])
    assert nt_xent(first, second, 0.1, videos).item() == nt_xent(first, second, 0.1).item()
