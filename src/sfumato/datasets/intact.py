"""Whether a file is as long as it says itself: a download that broke off is found without reading it through."""

from __future__ import annotations

from pathlib import Path

_BOXES = {b"ftyp", b"moov", b"mdat", b"free", b"skip", b"wide", b"moof", b"styp", b"sidx", b"uuid", b"pnot"}


def cut_short(path: Path) -> bool:
    """Whether bytes are missing at the end of an AVI or MP4 file; False for what does not state its length.

    >>> cut_short(Path("v_Archery_g01_c01.avi"))  # doctest: +SKIP
    False
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(12)
        if head[:4] == b"RIFF":
            return 8 + int.from_bytes(head[4:8], "little") > size
        at = 0
        while at + 8 <= size:  # MP4: boxes one after another, each with its length in front
            file.seek(at)
            head = file.read(16)
            if head[4:8] not in _BOXES:
                return False
            length = int.from_bytes(head[:4], "big")
            length = int.from_bytes(head[8:16], "big") if length == 1 else length or size - at
            if length < 8 or at + length > size:
                return True
            at += length
    return False
