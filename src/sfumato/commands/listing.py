"""What there is, by name: behind `sfumato list`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from functools import partial
from typing import Any

from sfumato.errors import SfumatoError
from sfumato.registry import Entry


def inventory(what: str) -> list[tuple[str, str]]:
    """(name, summary) of everything of one kind.

    >>> inventory("protocols")[0][0]
    'known'
    """
    return [(entry.name, entry.summary) for entry in _entries(what)]


def knobs(name: str) -> list[dict[str, Any]]:
    """What can be set of an anonymizer of videos of that name: {name, default, low, high, summary}, its strength first.

    >>> knobs("downsample")[0]["default"]
    4.0
    """
    from sfumato.anonymizers.shelf import shelved
    from sfumato.anonymizers.storage import knobs_of, usable_names

    if name not in [*usable_names(), *shelved()]:
        return []
    try:
        return [asdict(knob) for knob in knobs_of(name)]
    except SfumatoError:  # damaged weights: who asks for them is told so
        return []


def _entries(what: str) -> Iterable[Entry]:
    if what == "anonymizers":
        from sfumato.anonymizers import ANONYMIZERS, load
        from sfumato.anonymizers.latent_storage import load_latent
        from sfumato.anonymizers.shelf import LATENT, first_sentence, shelved
        from sfumato.anonymizers.storage import usable_names

        trained = [Entry(name, first_sentence(folder), partial(load, name)) for name, folder in shelved().items()]
        of_features = [
            Entry(name, f"of features, for `sfumato index`: {first_sentence(folder)}", partial(load_latent, name))
            for name, folder in shelved(kind=LATENT).items()
        ]
        return [*trained, *of_features, *(ANONYMIZERS.find(name) for name in usable_names())]
    if what == "datasets":
        from sfumato.datasets import DATASETS

        return DATASETS
    if what == "recognizers":
        from sfumato.recognizers import RECOGNIZERS

        return RECOGNIZERS
    if what == "attacks":
        from sfumato.evaluation.attacks import ATTACKS, FAMILIES

        return [*ATTACKS, *FAMILIES]
    if what == "protocols":
        from sfumato.evaluation.protocols import PROTOCOLS

        return PROTOCOLS
    from sfumato.methods import METHODS

    return METHODS
