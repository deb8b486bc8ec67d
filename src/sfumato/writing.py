"""Files that appear whole or not at all, JSON that tells when it was edited, and what this package was when it wrote them."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from sfumato.errors import SfumatoError


def part_of(path: Path) -> Path:
    """Where what will become `path` is written first: hidden beside it, another one in every process.

    >>> part_of(Path("out/result.json")).parent
    PosixPath('out')
    """
    return path.with_name(f".{path.name}.{os.getpid()}.part")


def write_whole(path: Path, content: bytes) -> None:
    """Write `content` so that `path` holds either the old or the new bytes, whatever happens, and nothing is left beside.

    >>> write_whole(Path("result.json"), b"{}")  # doctest: +SKIP
    """
    part = part_of(path)
    try:
        part.write_bytes(content)
        part.replace(path)
    except OSError as error:
        error.filename, error.filename2 = str(path), None  # whoever reads of it has never heard of the other file
        raise
    finally:
        part.unlink(missing_ok=True)


def write_model(folder: Path, names: tuple[str, str], config: Mapping[str, Any], weights: bytes) -> Path:
    """Weights and then their settings, under these names, into `folder`, which is returned.

    The settings are written last and carry the checksum of the weights, so that a save that was cut short is noticed
    when it is loaded, never taken for whole.

    >>> write_model(Path("my-unet"), ("model.safetensors", "config.json"), {"width": 16}, b"…")  # doctest: +SKIP
    """
    checked = {**config, "weights_sha256": hashlib.sha256(weights).hexdigest()}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / names[0], weights)
        write_whole(folder / names[1], (json.dumps(checked, indent=2, ensure_ascii=False) + "\n").encode())
    except OSError as error:
        raise SfumatoError(
            f"cannot write to '{folder}' ({error.strerror})", "free some space or choose another folder"
        ) from error
    return folder


def read_checked(path: Path, checksum: str, settings: str) -> bytes:
    """The weights that `write_model` left there, or a SfumatoError when they are not those of its file of settings.

    >>> read_checked(Path("my-unet/model.safetensors"), "5fa9…", "config.json")  # doctest: +SKIP
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise SfumatoError(f"cannot read '{path}'", "save or download it again") from error
    if hashlib.sha256(content).hexdigest() != checksum:
        raise SfumatoError(f"'{path}' is not the file that {settings} was saved with", "save or download it again")
    return content


@lru_cache
def source_digest(*patterns: str) -> str:
    """SHA-256 over the package's own source files of these patterns: what other code has made is not what this would make.

    >>> source_digest("video/*.py") == source_digest("datasets/*.py")
    False
    """
    package, found = Path(__file__).parent, hashlib.sha256()
    for file in sorted({file for pattern in patterns for file in package.glob(pattern)}):
        found.update(file.relative_to(package).as_posix().encode() + b"\0" + file.read_bytes())
    return found.hexdigest()


def to_json(value: Any, indent: int | None = None) -> bytes:
    """`value` as JSON and a line break; NaN and infinity, which JSON does not have, become null.

    >>> to_json({"loss": float("nan")})
    b'{"loss": null}\\n'
    """
    return f"{json.dumps(_finite(value), ensure_ascii=False, allow_nan=False, indent=indent)}\n".encode()


def checksum(content: Mapping[str, Any]) -> str:
    """SHA-256 of plain JSON content, however it is laid out in the file.

    >>> checksum({"a": 1, "b": 2}) == checksum({"b": 2, "a": 1})
    True
    """
    plain = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return f"sha256:{hashlib.sha256(plain.encode()).hexdigest()}"


def sealed(content: Mapping[str, Any]) -> bytes:
    """A document as JSON, with a checksum of all it says beside it.

    >>> json.loads(sealed({"loss": 0.5})).keys()
    dict_keys(['loss', 'checksum'])
    """
    plain = json.loads(to_json(content))
    return to_json({**plain, "checksum": checksum(plain)}, indent=1)


def unsealed(stored: Mapping[str, Any], path: Path, again: str) -> dict[str, Any]:
    """What `sealed` was given, from the JSON it wrote to `path`; refused where that was edited. again: how to get another.

    >>> unsealed(json.loads(sealed({"loss": 0.5})), Path("result.json"), "train again")
    {'loss': 0.5}
    """
    content = {name: value for name, value in stored.items() if name != "checksum"}
    if "checksum" not in stored:
        raise SfumatoError(f"'{path}' has no checksum", f"it was edited, or is from before there were any; {again}")
    if stored["checksum"] != checksum(content):
        raise SfumatoError(f"'{path}' was changed after it was written: its checksum is another", again)
    return content


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
