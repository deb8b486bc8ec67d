"""Label files that were published as pickles, read so that nothing in them is ever executed.

A pickle is a program. This reader runs it with an empty toolbox: the only things it can make are dicts, strings,
numbers and arrays of numbers, and those arrays are stand-ins of ours until the whole file is read. Whatever else a file
names is refused before it is called; not even NumPy's own loading code sees the file's bytes.
"""

from __future__ import annotations

import pickle
import struct
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import SfumatoError

_NUMBERS = {"b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8"}
_BROKEN = (
    pickle.UnpicklingError, AttributeError, EOFError, ImportError, IndexError, KeyError, MemoryError, OverflowError,
    RecursionError, TypeError, UnicodeDecodeError, ValueError, struct.error,
)  # fmt: skip


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """A pickled `{name: array of numbers}`; a file that holds or does anything else is a SfumatoError.

    >>> read_arrays(Path("hmdb51_privacy_attribute_label.pickle"))["wave/a.mp4"]  # doctest: +SKIP
    array([[1, 0, 1, 0, 0]])
    """
    try:
        with path.open("rb") as file:
            content = _Reader(file).load()
    except _Refused as refused:
        raise SfumatoError(f"'{path}' is no list of labels: it names {refused}", "get the file again") from None
    except _BROKEN as error:
        raise SfumatoError(f"'{path}' is damaged ({type(error).__name__})", "get the file again") from None
    if not isinstance(content, dict):
        raise SfumatoError(f"'{path}' is no list of labels", "give a pickled dictionary of arrays")
    for name, value in content.items():
        if not isinstance(name, str) or not isinstance(value, _Array) or value.content is None:
            raise SfumatoError(f"'{path}' is no list of labels: {name!r:.60} has none", "get the file again")
    return {name: value.content for name, value in content.items()}


class _Refused(Exception):
    """What a pickle asked for and does not get."""


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        known = {"_reconstruct": _reconstruct, "ndarray": "ndarray", "dtype": _Number}
        if module in ("numpy", "numpy.core.multiarray", "numpy._core.multiarray") and name in known:
            return known[name]
        raise _Refused(f"{module}.{name}")


def _reconstruct(kind: object, shape: object, code: object) -> _Array:
    return _Array()


class _Number:
    """Stands for a dtype: the kind of number and its byte order."""

    def __init__(self, code: str, align: bool = False, copy: bool = False) -> None:
        if code not in _NUMBERS:
            raise _Refused(f"an array of {code!r:.20}")
        self.code, self.order = code, "="

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        if state[1] not in ("<", ">", "|", "="):
            raise _Refused(f"the byte order {state[1]!r:.20}")
        self.order = state[1]


class _Array:
    """Stands for an array: its state is taken as plain bytes of plain numbers."""

    def __init__(self) -> None:
        self.content: NDArray[Any] | None = None

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, number, by_column, raw = state
        if not isinstance(number, _Number) or not isinstance(raw, bytes):
            raise _Refused("an array of something else than numbers")
        flat = np.frombuffer(raw, np.dtype(number.order + number.code))
        self.content = flat.reshape(shape, order="F" if by_column else "C")
