"""What the convolutional families share: scaled widths, the choice of norm, and how weights begin."""

from __future__ import annotations

import math

from torch import nn

from sfumato.errors import SfumatoError


def scaled(channels: int, width: float) -> int:
    """`channels` times `width`, to the nearest multiple of 8 and at least 8; untouched at width 1.

    >>> scaled(64, 0.3), scaled(45, 1.0)
    (16, 45)
    """
    if width <= 0:
        raise SfumatoError(f"width = {width:g} leaves no channels", "use a number above 0, such as 0.5")
    return channels if width == 1 else max(8, round(channels * width / 8) * 8)


def make_norm(kind: str, channels: int, dims: int, eps: float = 1e-5) -> nn.Module:
    """A norm over (N, channels, *dims axes): "batch", or "group" with up to 32 groups of at least four channels.

    Group norm has no running statistics, which an anonymizer trained against a frozen network could learn to fool
    without removing anything (SPEC.md section 1). A group of one channel would lose that channel's mean.

    >>> make_norm("group", 48, dims=3).num_groups
    8
    """
    if kind == "batch":
        return nn.BatchNorm3d(channels, eps) if dims == 3 else nn.BatchNorm2d(channels, eps)
    if kind == "group":
        groups = math.gcd(32, channels)
        while groups > 1 and channels // groups < 4:
            groups //= 2
        return nn.GroupNorm(groups, channels, eps)
    raise SfumatoError(f"there is no norm '{kind}'", "use 'batch' or 'group'")


def initialise_transformer(network: nn.Module) -> None:
    """Small truncated normal weights for every linear layer, biases 0. In place.

    >>> initialise_transformer(nn.Linear(4, 4))
    """
    for module in network.modules():
        if isinstance(module, nn.Linear):
            nn.init.trunc_normal_(module.weight, std=0.02)
            nn.init.zeros_(module.bias)


def initialise(network: nn.Module) -> None:
    """Kaiming fan-out for every convolution, small normal weights for every linear layer, biases 0. In place.

    >>> initialise(nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU()))
    """
    for module in network.modules():
        if isinstance(module, nn.Conv2d | nn.Conv3d):
            # Counted per group: a depthwise kernel feeds one channel, not all of them.
            fan_out = module.out_channels // module.groups * math.prod(module.kernel_size)
            nn.init.normal_(module.weight, std=math.sqrt(2 / fan_out))
        elif isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=0.01)
        else:
            continue
        if module.bias is not None:
            nn.init.zeros_(module.bias)
