"""Latent consistency against numbers worked by hand."""

from __future__ import annotations

import pytest
import torch

from sfumato.objectives.latent import latent_consistency


def test_by_hand() -> None:
    features = torch.tensor([[[1.0, 2.0], [0.0, 0.0]], [[3.0, 3.0], [9.0, 9.0]]])
    anonymized = torch.tensor([[[1.0, 4.0], [1.0, 1.0]], [[3.0, 3.0], [0.0, 0.0]]])
    # (0 + 4)/2 = 2, (1 + 1)/2 = 1, 0 and 81
    assert latent_consistency(features, anonymized).item() == pytest.approx((2 + 1 + 0 + 81) / 4)
    there = torch.tensor([[True, True], [True, False]])
    assert latent_consistency(features, anonymized, there).item() == pytest.approx((2 + 1 + 0) / 3)


def test_what_is_not_there_has_no_say_even_if_it_is_no_number() -> None:
    features, there = torch.zeros(1, 2, 3), torch.tensor([[True, False]])
    anonymized = torch.zeros(1, 2, 3)
    anonymized[0, 1] = torch.nan
    anonymized.requires_grad_()
    loss = latent_consistency(features, anonymized, there)
    loss.backward()
    assert loss.item() == 0 and anonymized.grad is not None and anonymized.grad[0, 0].eq(0).all()
    assert latent_consistency(features, features, torch.zeros(1, 2, dtype=torch.bool)).item() == 0
