"""Symmetric InfoNCE, by hand on two clips and two captions."""

from __future__ import annotations

import math

import pytest
import torch

from sfumato.errors import SfumatoError
from sfumato.objectives.alignment import alignment

# Normalised: clips (1, 0) and (.6, .8), captions (.8, .6) and (0, 1).
# Cosines, clip by caption: (.8, 0) and (.96, .8).
VIDEO = torch.tensor([[2.0, 0.0], [3.0, 4.0]])
TEXT = torch.tensor([[4.0, 3.0], [0.0, 5.0]])


def surprise(right: float, wrong: float, scale: float) -> float:
    """−log of the share that the right one of two has."""
    return -math.log(math.exp(scale * right) / (math.exp(scale * right) + math.exp(scale * wrong)))


def by_hand(scale: float) -> float:
    clips = (surprise(0.8, 0.0, scale) + surprise(0.8, 0.96, scale)) / 2  # along the rows
    captions = (surprise(0.8, 0.96, scale) + surprise(0.8, 0.0, scale)) / 2  # along the columns
    return (clips + captions) / 2


@pytest.mark.parametrize("scale", [1.0, 14.0])
def test_worked_by_hand(scale: float) -> None:
    assert alignment(VIDEO, TEXT, scale).item() == pytest.approx(by_hand(scale))


def test_clips_and_captions_count_alike() -> None:
    # Cosines (1, .8) and (.6, 0): the two directions differ, and the loss is their mean.
    video, text = torch.tensor([[1.0, 0.0], [0.6, 0.8]]), torch.tensor([[1.0, 0.0], [0.8, -0.6]])
    clips = (surprise(1, 0.8, 1) + surprise(0, 0.6, 1)) / 2
    captions = (surprise(1, 0.6, 1) + surprise(0, 0.8, 1)) / 2
    assert clips != pytest.approx(captions, rel=1e-3)
    assert alignment(video, text, 1.0).item() == pytest.approx((clips + captions) / 2)
    assert alignment(text, video, 1.0).item() == pytest.approx((clips + captions) / 2)


def test_equal_captions_share_the_answer() -> None:
    # Clips 0 and 1 have the same caption; the cosines are 1 where the caption is the clip's own and 0 elsewhere.
    embeddings = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    e = math.exp(3.0)
    shared, own = -math.log(e / (2 * e + 1)), -math.log(e / (e + 2))
    assert alignment(embeddings, embeddings, 3.0).item() == pytest.approx((2 * shared + own) / 3)
    # Clips on either side of the caption that both have are drawn to it, and so to each other.
    video = torch.tensor([[1.0, 0.3], [1.0, -0.3], [-1.0, 0.0]], requires_grad=True)
    alignment(video, torch.tensor([[1.0, 0.0], [1.0, 0.0], [-1.0, 0.0]]), 3.0).backward()
    assert video.grad is not None and video.grad[0, 1] > 0 > video.grad[1, 1]


def test_pairs_all_alike_are_told_apart_by_chance_alone() -> None:
    same = torch.randn(1, 6, generator=torch.Generator().manual_seed(0)).expand(5, -1)
    assert alignment(same, same, 20.0).item() == pytest.approx(math.log(5), rel=1e-5)


def test_the_scale_learns() -> None:
    scale = torch.tensor(2.0, requires_grad=True)
    alignment(torch.eye(3), torch.eye(3), scale).backward()
    assert scale.grad is not None and scale.grad < 0  # all pairs are right: surer is better


def test_one_pair_has_no_negatives() -> None:
    with pytest.raises(SfumatoError, match="no negatives: use a batch of at least 2"):
        alignment(VIDEO[:1], TEXT[:1], 1.0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    video, text = (torch.rand(4, 8, generator=generator).to(dtype) for _ in range(2))
    exact = alignment(video.float(), text.float(), 14.0)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cast = alignment(video, text, 14.0)
    assert cast.dtype == torch.float32
    assert cast.item() == exact.item() == alignment(video, text, 14.0).item()
