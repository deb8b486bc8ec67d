"""The anonymizers that can be asked for by name. A new one is added with one line here."""

from __future__ import annotations

from sfumato.anonymizers.base import Anonymizer
from sfumato.anonymizers.blur import Blur
from sfumato.anonymizers.downsample import Downsample
from sfumato.anonymizers.identity import Identity
from sfumato.anonymizers.masked_transformer import MaskedTransformer
from sfumato.anonymizers.noisy_features import NoisyFeatures
from sfumato.anonymizers.people import BlackenPeople, StrongBlurPeople, WeakBlurPeople
from sfumato.anonymizers.pixelate import Pixelate
from sfumato.anonymizers.settings import default_settings
from sfumato.anonymizers.tubelets import Tubelets
from sfumato.anonymizers.unet import UNet
from sfumato.anonymizers.unet_plus_plus import UNetPlusPlus
from sfumato.registry import Registry

ANONYMIZERS: Registry[Anonymizer] = Registry("anonymizer")


def register(kind: type[Anonymizer]) -> None:
    """Make `kind` known under its own name, its constructor's arguments as its settings.

    >>> register(Blur)
    """
    for key, default in default_settings(kind).items():
        if not isinstance(default, bool | int | float | str):
            raise TypeError(f"{kind.__name__}: {key} needs a default, because a setting has the type of its default")
    ANONYMIZERS.add(kind.name, kind.summary, kind)


for _kind in (
    Identity, Downsample, Pixelate, Blur, NoisyFeatures, BlackenPeople, WeakBlurPeople, StrongBlurPeople,
    UNet, UNetPlusPlus, Tubelets, MaskedTransformer,
):  # fmt: skip
    register(_kind)
