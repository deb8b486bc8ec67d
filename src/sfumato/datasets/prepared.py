"""What `sfumato data prepare` made of one of the papers' data sets, in the place of the data set itself.

Small videos keep their names, with the label files beside them, so that the loader of the data set reads them like the
original. Shards hold the labels of one loader with one choice of options (`of` in index.json), and stand for no other.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode

from sfumato.datasets.shards import INDEX, read_index
from sfumato.errors import SfumatoError

# What small videos were made with, beside them.
SETTINGS = "prepared.json"
CUTTING = ("frames", "size", "skip", "least")  # options that say how clips are cut, whatever the labels are


def check_small(folder: Path, size: int) -> None:
    """Refuse small videos from which clips of `size` pixels cannot be cut as from the original; others are fine.

    >>> check_small(Path("ucf101-128"), 224)  # doctest: +SKIP
    SfumatoError: 'ucf101-128' holds pictures of short side 128, not 224
    """
    if (folder / SETTINGS).is_file():
        try:
            _check(folder, json.loads((folder / SETTINGS).read_text(encoding="utf-8")), size)
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise SfumatoError(f"'{folder / SETTINGS}' is damaged", "prepare the videos again") from error


def is_packed(folder: Path) -> bool:
    """Whether a folder holds shards.

    >>> is_packed(Path("ucf101"))
    False
    """
    return (folder / INDEX).is_file()


def packed_as(kind: str, folder: Path, options: str) -> str:
    """The shards in a folder by name, for clips of the data set `kind` with these options; refused if they hold others.

    >>> packed_as("ucf101", Path("ucf101-128"), "split=1&size=112")  # doctest: +SKIP
    'shards:ucf101-128?size=112'
    """
    index, wanted = read_index(folder), dict(parse_qsl(options))
    cutting = {name: wanted.pop(name) for name in CUTTING if name in wanted}
    try:
        made_of, chosen, usual = (index["labels"]["of"][key] for key in ("kind", "options", "usual"))
        needed = {**usual, **wanted}
        other = "" if (made_of, chosen) == (kind, needed) else _told(made_of, chosen)
    except (TypeError, KeyError):  # of nobody's data set, or made before this was written down
        needed, other = wanted, "something else"
    if other:
        raise SfumatoError(
            f"'{folder}' holds shards of {other}, not of {_told(kind, needed)}",
            "prepare shards of that, or give the videos themselves",
        )
    _check(folder, index["settings"], int(cutting.get("size", 0)))
    return f"shards:{folder}?{urlencode(cutting)}"


def _told(kind: str, options: Mapping[str, str]) -> str:
    return f"{kind}?{urlencode(options)}" if options else kind


def _check(folder: Path, settings: Mapping[str, Any], size: int) -> None:
    if size > settings["short_side"]:
        raise SfumatoError(
            f"'{folder}' holds pictures of short side {settings['short_side']}, not {size}",
            "ask for a smaller size, or prepare it with a larger --short-side",
        )
    if settings.get("fps"):
        raise SfumatoError(
            f"'{folder}' holds videos brought to {settings['fps']} frames per second, and their own are counted",
            "prepare it without --fps",
        )
