"""Channels-last is a layout of the memory, and nothing else."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

from sfumato.recognizers import RECOGNIZERS, Recognizer, make_recognizer
from sfumato.training.device import settle

CPU, CLIP = torch.device("cpu"), (4, 32, 32)
LAYOUTS = {4: torch.channels_last, 5: torch.channels_last_3d}
CONVOLUTIONAL = [name for name in RECOGNIZERS.names() if "vit" not in name]


def small(name: str) -> Recognizer:
    torch.manual_seed(0)
    depths = {"vit-s": 1, "vit-b": 1, "mvit-v2-s": 6}
    shallow = {"depth": depths[name]} if name in depths else {}
    return make_recognizer(name, 5, clip=CLIP, width=0.125, **shallow)


def video() -> Tensor:
    return torch.rand(2, CLIP[0], 3, *CLIP[1:], generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("name", RECOGNIZERS.names())
def test_logits_and_gradients_are_those_of_contiguous_weights(name: str) -> None:
    plain = small(name).eval()
    laid_out = settle(copy.deepcopy(plain), CPU)
    for parameter in plain.parameters():
        assert parameter.is_contiguous()
    logits = [network(video()) for network in (plain, laid_out)]
    assert logits[0].abs().max() > 1e-6
    close(logits[1], logits[0])
    for answer in logits:
        answer.square().sum().backward()
    for (key, one), (other_key, other) in zip(plain.named_parameters(), laid_out.named_parameters(), strict=True):
        assert key == other_key and one.grad is not None and other.grad is not None
        close(other.grad, one.grad)


def close(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4 * expected.abs().max().item())


@pytest.mark.parametrize("name", CONVOLUTIONAL)
def test_the_first_convolution_gets_clips_in_the_layout_of_its_weights(name: str) -> None:
    network = settle(small(name), CPU).eval()
    seen: list[Tensor] = []
    first = next(module for module in network.modules() if isinstance(module, nn.Conv2d | nn.Conv3d))
    first.register_forward_pre_hook(lambda _module, inputs: seen.append(inputs[0]))
    with torch.no_grad():
        network(video())
    for tensor in (seen[0], first.weight):
        assert tensor.is_contiguous(memory_format=LAYOUTS[tensor.ndim])


def test_weights_go_from_one_layout_to_the_other_through_a_state_dict() -> None:
    plain, laid_out = small("tiny-video").eval(), settle(small("tiny-video"), CPU).eval()
    nn.init.normal_(plain.body[0].weight)  # type: ignore[index, union-attr]
    laid_out.load_state_dict(plain.state_dict())
    first = laid_out.body[0].weight  # type: ignore[index, union-attr]
    assert first.is_contiguous(memory_format=torch.channels_last_3d)
    with torch.no_grad():
        close(laid_out(video()), plain(video()))
