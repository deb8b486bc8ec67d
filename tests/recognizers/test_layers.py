"""Layers that families share."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from sfumato.recognizers.layers import ClipNorm


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last_3d])
@pytest.mark.parametrize("training", [True, False])
def test_clips_are_normalised_as_torch_does(layout: torch.memory_format, training: bool) -> None:
    clips = torch.randn(3, 5, 4, 6, 7, generator=torch.Generator().manual_seed(0)) * 2 + 1
    found: list[list[Tensor]] = []
    for norm in (nn.BatchNorm3d(5, momentum=0.3), ClipNorm(5, momentum=0.3)):
        assert norm.weight is not None and norm.running_mean is not None and norm.running_var is not None
        nn.init.uniform_(norm.weight, generator=torch.Generator().manual_seed(1))
        norm(torch.ones(2, 5, 1, 2, 2))  # running statistics of something else
        video = clips.contiguous(memory_format=layout).clone().requires_grad_()
        out = norm.train(training)(video)
        (out * torch.linspace(-1, 1, out.numel()).view(out.shape)).sum().backward()
        assert video.grad is not None and norm.weight.grad is not None
        found.append([out, video.grad, norm.weight.grad, norm.running_mean, norm.running_var])
    for theirs, ours in zip(*found, strict=True):
        assert torch.allclose(theirs, ours, rtol=1e-4, atol=1e-5)


def test_channels_last_clips_stay_so() -> None:
    clips = torch.randn(2, 5, 4, 6, 7).contiguous(memory_format=torch.channels_last_3d)
    assert ClipNorm(5)(clips).is_contiguous(memory_format=torch.channels_last_3d)


def test_what_is_no_clip_is_refused() -> None:
    with pytest.raises(ValueError, match="5D"):
        ClipNorm(5)(torch.randn(2, 5, 4, 6))
