"""Files that appear whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path


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
