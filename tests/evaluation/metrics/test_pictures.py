from __future__ import annotations

import pytest
import torch

from sfumato.evaluation.metrics import psnr


def test_psnr_of_each_frame_by_hand() -> None:
    one = torch.full((1, 3, 3, 4, 4), 0.5)
    other = one.clone()
    other[0, 1] += 0.1  # mean squared difference .01
    other[0, 2, 0, 0, 0] += 0.48  # .48² of one of 48 values: .0048
    assert psnr(one, other).tolist() == [pytest.approx([100, 20, -10 * torch.tensor(0.0048).log10().item()], abs=1e-3)]
