"""The papers' methods: each trains an anonymizer, none judges itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple, dataclass
from typing import Any

from sfumato.registry import Registry

__all__ = ["METHODS", "Method", "find_method"]


@dataclass(frozen=True)
class Method:
    """A config and a training that takes it: `train(config, stage)` leaves f_A in the stage's run folder.

    on_features: f_A anonymizes features, and the stage is a `FeatureStage`, with data by name, instead of banks of clips.
    needs_labels: without, no label of the data is ever read. check(config), and then fits(config, data set): raise what is
    wrong before any clip is loaded.
    """

    name: str
    config: type[Any]
    train: Callable[[Any, Any], dict[str, Any]]
    on_features: bool = False
    needs_labels: bool = True
    check: Callable[[Any], object] = lambda config: None
    fits: Callable[[Any, Any], object] = lambda config, dataset: None


def _spact() -> Method:
    from sfumato.methods.spact.config import SPActConfig
    from sfumato.methods.spact.train import train

    return Method("spact", SPActConfig, train)


def _vita() -> Method:
    from sfumato.methods.vita.config import VITAConfig
    from sfumato.methods.vita.train import train

    return Method("vita", VITAConfig, train)


def _tedspad() -> Method:
    from sfumato.methods.tedspad.config import TeDSPADConfig
    from sfumato.methods.tedspad.train import train

    return Method("tedspad", TeDSPADConfig, train)


def _penalty() -> Method:
    from sfumato.methods.penalty.config import PenaltyConfig
    from sfumato.methods.penalty.train import train

    return Method("penalty", PenaltyConfig, train)


def _stprivacy() -> Method:
    from sfumato.methods.stprivacy.config import STPrivacyConfig
    from sfumato.methods.stprivacy.train import train

    return Method("stprivacy", STPrivacyConfig, train)


def _laf() -> Method:
    from sfumato.methods.laf.config import LaFConfig
    from sfumato.methods.laf.teacher import load_teacher, require_shape
    from sfumato.methods.laf.train import train

    return Method(
        "laf", LaFConfig, train, needs_labels=False, check=lambda config: load_teacher(config.vlm),
        fits=lambda config, data: require_shape(load_teacher(config.vlm), astuple(data.shape), data.name),
    )  # fmt: skip


def _splavu() -> Method:
    from sfumato.methods.splavu.config import SPLAVUConfig
    from sfumato.methods.splavu.train import train

    return Method("splavu", SPLAVUConfig, train, on_features=True)


METHODS: Registry[Method] = Registry("method")
METHODS.add(
    "spact",
    "sparse black-and-white mosaic, no adversary; as published, by recipes/spact-paper.toml: adversary without privacy labels",
    _spact,
)
METHODS.add("vita", "adversary that is told the privacy labels, restarted and in an ensemble", _vita)
METHODS.add(
    "tedspad",
    "as spact, with moments of one video kept apart in time; as published, with an adversary: recipes/tedspad-paper.toml",
    _tedspad,
)
METHODS.add("penalty", "SPAct's published adversary, with a price on changing the picture beyond a limit", _penalty)
METHODS.add(
    "stprivacy", "tubelets that no action needs are dropped, the others repainted against an adversary", _stprivacy
)
METHODS.add("laf", "no labels, no adversary: look different while a frozen vision-language model sees the same", _laf)
METHODS.add("splavu", "features instead of pixels: an adapter behind a frozen encoder, for every task at once", _splavu)


def find_method(name: str) -> Method:
    """The method of that name, or an error that lists the known ones.

    >>> find_method("spact").config.__name__
    'SPActConfig'
    """
    return METHODS.make(name)
