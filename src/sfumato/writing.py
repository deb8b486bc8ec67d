"""Files that appear whole or not at all, and JSON that every reader takes."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def write_whole(path: Path, content: bytes) -> None:
    """Write `content` so that `path` holds either the old or the new bytes, whatever happens, and nothing is left beside.

    >>> write_whole(Path("result.json"), b"{}")  # doctest: +SKIP
    """
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_bytes(content)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def to_json(value: Any, indent: int | None = None) -> bytes:
    """`value` as JSON and a line break; NaN and infinity, which JSON does not have, become null.

    >>> to_json({"loss": float("nan")})
    b'{"loss": null}\\n'
    """
    return f"{json.dumps(_finite(value), ensure_ascii=False, allow_nan=False, indent=indent)}\n".encode()


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
