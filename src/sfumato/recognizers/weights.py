"""Weights from a file into a recognizer: nothing in the file is run, and nothing is loaded unless all of it fits."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from sfumato.errors import SfumatoError
from sfumato.recognizers.base import Recognizer
from sfumato.recognizers.layers import initialise

# Training programs put the state dict under one of these, next to their optimizer's state.
WRAPPERS = ("state_dict", "model_state", "model")
NAMED_AT_MOST = 5


def load_weights(recognizer: Recognizer, path: str | Path, *, new_head: bool = False) -> None:
    """Load `path` (.safetensors, or .pt / .pth written by torch.save) into `recognizer`, in place.

    Every parameter must be in the file with its shape, and nothing else. With `new_head` the last layer begins
    anew, whatever the file holds for it: that is how weights for 400 classes serve a task with 10.

    >>> load_weights(make_recognizer("r3d-18", 51, clip=(16, 112, 112)), "r3d_18.pth", new_head=True)  # doctest: +SKIP
    """
    path = Path(path)
    given = _read(path)
    wanted = recognizer.state_dict()
    if new_head:
        prefix = recognizer.head_name + "."
        given = {name: value for name, value in given.items() if not name.startswith(prefix)}
        wanted = {name: value for name, value in wanted.items() if not name.startswith(prefix)}
    _check(path, given, wanted, recognizer)
    recognizer.load_state_dict(dict(given), strict=False)
    if new_head:
        initialise(recognizer.head)


def read_file(path: Path) -> Any:
    """What is in a .safetensors file, or in a .pt or .pth file of tensors and plain containers; on the CPU.

    >>> read_file(Path("checkpoint.pt"))["epoch"]  # doctest: +SKIP
    30
    """
    if not path.is_file():
        raise SfumatoError(f"there is no file '{path}'", "give the path of a .safetensors, .pt or .pth file")
    try:
        return _read_safetensors(path) if path.suffix == ".safetensors" else _read_torch(path)
    except Exception as error:  # a damaged or hostile file can trip a reader in any way
        raise SfumatoError(
            f"cannot read weights from '{path}' ({_first_line(error)})",
            "use a .safetensors file, or a .pt file that holds tensors and nothing else",
        ) from error


def _read(path: Path) -> Mapping[str, Tensor]:
    """The file's state dict: names to tensors, on the CPU."""
    loaded = read_file(path)
    for wrapper in WRAPPERS:
        if isinstance(loaded, Mapping) and isinstance(loaded.get(wrapper), Mapping):
            loaded = loaded[wrapper]
    if not isinstance(loaded, Mapping) or not all(isinstance(value, Tensor) for value in loaded.values()):
        raise SfumatoError(f"'{path}' holds no state dict", "save one with torch.save(model.state_dict(), path)")
    return loaded


def _read_safetensors(path: Path) -> Mapping[str, Any]:
    from safetensors.torch import load_file

    tensors: dict[str, Tensor] = load_file(path)
    return tensors


def _read_torch(path: Path) -> Any:
    # weights_only: unpickling anything but tensors and plain containers is refused before it runs.
    return torch.load(path, map_location="cpu", weights_only=True)


def _check(path: Path, given: Mapping[str, Tensor], wanted: Mapping[str, Tensor], recognizer: Recognizer) -> None:
    """Raise a SfumatoError that names what is missing, unexpected or of another shape."""
    # Older and converted checkpoints do not count batches; PyTorch then starts the count at 0.
    missing = [name for name in wanted if name not in given and not name.endswith("num_batches_tracked")]
    unexpected = [name for name in given if name not in wanted]
    misshaped = [
        f"{name} {tuple(given[name].shape)} for {tuple(value.shape)}"
        for name, value in wanted.items()
        if name in given and given[name].shape != value.shape
    ]
    problems = (("missing", missing), ("unexpected", unexpected), ("misshaped", misshaped))
    found = "; ".join(f"{kind}: {_some(names)}" for kind, names in problems if names)
    if not found:
        return
    prefix = recognizer.head_name + "."
    only_head = all(name.startswith(prefix) for _, names in problems for name in names)
    raise SfumatoError(
        f"the weights in '{path}' do not fit this recognizer ({found})",
        "pass new_head=True to begin with a new last layer"
        if only_head
        else "make the recognizer with the name and the options these weights were trained with",
    )


def _some(names: list[str]) -> str:
    rest = len(names) - NAMED_AT_MOST
    return ", ".join(names[:NAMED_AT_MOST]) + (f" and {rest} more" if rest > 0 else "")


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def checksum(module: nn.Module) -> str:
    """A sum over every bit of a module's parameters and buffers.

    >>> checksum(nn.Linear(2, 2)) == checksum(nn.Linear(2, 2))
    False
    """
    total = hashlib.sha256()
    # Not `state_dict`: the mean and the deviation of the pixels count too, and are in none.
    for name, value in chain(module.named_parameters(), module.named_buffers()):
        total.update(name.encode())
        total.update(value.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return total.hexdigest()
