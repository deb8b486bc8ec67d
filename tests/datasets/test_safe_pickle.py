from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sfumato.datasets.safe_pickle import read_arrays
from sfumato.errors import SfumatoError

from .copies import put


@pytest.mark.parametrize("protocol", [3, 4])
@pytest.mark.parametrize("kind", ["int64", "float64", "uint8", "bool", ">i4"])
def test_arrays_of_numbers_come_back_as_they_were(tmp_path: Path, protocol: int, kind: str) -> None:
    table = {"a/b.mp4": np.array([[1, 0, 1]]).astype(kind), "c": np.asfortranarray([[1, 0, 0], [1, 1, 0]]).astype(kind)}
    read = read_arrays(put(tmp_path / "labels.pkl", pickle.dumps(table, protocol=protocol)))
    assert read.keys() == table.keys()
    for name, array in table.items():
        assert np.array_equal(read[name], array) and read[name].dtype == array.dtype


class Attack:
    """What a pickle would run: a call of a function by its name."""

    def __init__(self, function: Any, *arguments: object) -> None:
        self.call = function, arguments

    def __reduce__(self) -> Any:
        return self.call


def attacks(mark: Path) -> dict[str, bytes]:
    import os

    system, code = Attack(os.system, f"touch {mark}"), f"open({str(mark)!r}, 'w')"
    array = np.array([1])
    return {
        "a command": pickle.dumps({"a": system}),
        "in a key": pickle.dumps({("x", 1): system}),
        "python code": pickle.dumps({"a": Attack(eval, code)}),
        "before the labels": pickle.dumps([system, {"a": array}]),
        "by protocol 0": pickle.dumps({"a": system}, protocol=0),
        "as an object of numpy": pickle.dumps({"a": Attack(np.fromfile, str(mark))}),
        "numpy's own loader": pickle.dumps({"a": Attack(np.load, str(mark))}),
        "an attribute of an allowed module": b"\x80\x04cnumpy\nload\n.",
        "a dotted name": b"\x80\x04\x8c\x05numpy\x8c\x0eos.path.exists\x93.",
        "through what stands for an array": b"\x80\x04cnumpy\nndarray\n)R.",
        "text in an array": pickle.dumps({"a": np.array(["x"])}),
        "objects in an array": pickle.dumps({"a": np.array([{"x": 1}], dtype=object)}),
    }


@pytest.mark.parametrize("kind", attacks(Path("mark")))
def test_a_malicious_pickle_executes_nothing(tmp_path: Path, kind: str) -> None:
    mark = tmp_path / "executed"
    path = put(tmp_path / "labels.pkl", attacks(mark)[kind])
    with pytest.raises(SfumatoError) as error:
        read_arrays(path)
    assert str(path) in error.value.what and error.value.next_step
    assert not mark.exists()


def test_what_was_asked_for_is_named(tmp_path: Path) -> None:
    path = put(tmp_path / "labels.pkl", attacks(tmp_path / "mark")["python code"])
    with pytest.raises(SfumatoError, match=r"it names builtins\.eval"):
        read_arrays(path)


@pytest.mark.parametrize(
    "content",
    [
        b"", b"no pickle", pickle.dumps({"a": np.array([1])})[:-9], pickle.dumps([1, 2]), pickle.dumps({"a": 1}),
        pickle.dumps({1: np.array([1])}),
    ],
)  # fmt: skip
def test_what_is_no_table_of_arrays_is_one_line(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(SfumatoError) as error:
        read_arrays(put(tmp_path / "labels.pkl", content))
    assert "labels.pkl" in error.value.what and error.value.next_step
