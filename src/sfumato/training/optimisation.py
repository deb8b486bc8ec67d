"""How parameters move: which are held still, how fast the others learn."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor, nn, optim

from sfumato.training.processes import average_gradients


def adam(module: nn.Module, rate: float, weight_decay: float, device: torch.device) -> optim.Optimizer:
    """AdamW over what `module` learns; on a GPU in one kernel instead of one per parameter.

    >>> adam(model, 1e-3, 0.02, torch.device("cpu"))
    """
    learned = [parameter for parameter in module.parameters() if parameter.requires_grad]
    return optim.AdamW(learned, lr=rate, weight_decay=weight_decay, fused=device.type == "cuda")


def descend(loss: Tensor, *optimizers: optim.Optimizer) -> None:
    """One step of each optimizer down the gradient of `loss`, averaged over processes.

    >>> descend(loss, torch.optim.AdamW(model.parameters()))
    """
    for optimizer in optimizers:
        optimizer.zero_grad(set_to_none=True)
    loss.backward()
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            average_gradients(group["params"])
        optimizer.step()


def count_moved(*optimizers: optim.Optimizer) -> int:
    """How many parameters they move.

    >>> count_moved(torch.optim.AdamW(torch.nn.Linear(3, 4).parameters()))
    16
    """
    return sum(value.numel() for each in optimizers for group in each.param_groups for value in group["params"])


def set_rate(optimizer: optim.Optimizer, rate: float) -> None:
    """Let everything `optimizer` moves learn at `rate` from now on.

    >>> set_rate(torch.optim.AdamW(model.parameters()), 1e-4)
    """
    for group in optimizer.param_groups:
        group["lr"] = rate


class frozen:
    """While it lasts, these modules are in eval mode and their parameters get no gradient.

    >>> with frozen([f_T, f_B]): loss.backward()  # reaches f_A alone
    """

    def __init__(self, modules: Iterable[nn.Module]) -> None:
        self.modules = list(modules)

    def __enter__(self) -> None:
        self.asked = [[p.requires_grad for p in m.parameters()] for m in self.modules]
        for module in self.modules:
            module.eval().requires_grad_(False)

    def __exit__(self, *_: object) -> None:
        for module, asked in zip(self.modules, self.asked, strict=True):
            for parameter, wanted in zip(module.parameters(), asked, strict=True):
                parameter.requires_grad_(wanted)


def one_cycle(share: float) -> float:
    """A learning rate's factor when `share` of the training is done: up from 1/25 over the first .3, then down to 0.

    >>> one_cycle(0.3)
    1.0
    """
    if share < 0.3:
        return 1 / 25 + (1 - 1 / 25) * (1 - math.cos(math.pi * share / 0.3)) / 2
    return (1 + math.cos(math.pi * (share - 0.3) / 0.7)) / 2
