"""What there is, by name: behind `sfumato list`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
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


def show_inventory(what: str, as_json: bool) -> None:
    """Name and summary of everything of one kind; of anonymizers also what can be set.

    >>> show_inventory("methods", as_json=False)
    """
    rows: list[dict[str, Any]] = [{"name": name, "summary": summary} for name, summary in inventory(what)]
    if what != "anonymizers":
        _show(rows, as_json)
    elif as_json:
        _show([{**row, "knobs": knobs(row["name"])} for row in rows], as_json)
    else:
        _show([{**row, "--strength": _strength(knobs(row["name"]))} for row in rows], as_json)


def _strength(settable: Sequence[dict[str, Any]]) -> str:
    """The first knob in a few words; "" where there is none.

    >>> _strength([{"name": "sigma", "low": 0.1, "high": 128.0, "default": 8.0}])
    'sigma: 0.1 to 128, else 8'
    """
    return "".join(
        f"{knob['name']}: {knob['low']:g} to {knob['high']:g}, else {knob['default']:g}" for knob in settable[:1]
    )


def show_counts(kinds: Sequence[str], as_json: bool) -> None:
    """How many there are of each kind.

    >>> show_counts(["methods", "attacks"], as_json=False)
    """
    _show([{"name": kind, "count": len(inventory(kind))} for kind in kinds], as_json)


def _show(rows: Sequence[dict[str, Any]], as_json: bool) -> None:
    """Rows with the same fields, as a table or as a JSON array."""
    if as_json:
        print(json.dumps(rows, ensure_ascii=False, indent=1))
        return
    from rich.table import Table

    from sfumato.commands.console import out

    table = Table(*rows[0], box=None, header_style="bold")
    for row in rows:
        table.add_row(*map(str, row.values()))
    out.print(table)


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
