"""Data sets of pictures instead of videos: a clip is one picture, or the same one held (`?frames=16`)."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from sfumato.datasets.files import Row
from sfumato.datasets.listed import ListedDataset, Place
from sfumato.errors import SfumatoError

SUFFIXES = frozenset({".jpg", ".jpeg", ".png"})
_END_OF_JPEG = b"\xff\xd9"


class PictureDataset(ListedDataset):
    """Listed pictures as clips of one frame, or as static clips of as many as are asked for."""

    suffixes = SUFFIXES
    from_videos = False

    @classmethod
    def at(cls, source: str) -> Place:
        place = super().at(source)
        place.options.setdefault("frames", "1")
        return place

    @classmethod
    def look_into(cls, row: Row) -> None:
        row.frames = 1
        if not _whole(row.path):
            read_picture(row.path, 8)

    def _clip(self, row: Row, views: int) -> Tensor:
        picture = read_picture(row.path, self.sampling.size)
        return picture.expand(views, self.sampling.frames, -1, -1, -1)


def _whole(path: Path) -> bool:
    """Whether a JPEG file begins and ends as one; what does not must be decoded to know."""
    if path.stat().st_size < 4:
        return False
    with path.open("rb") as file:
        if file.read(2) != b"\xff\xd8":
            return False
        file.seek(-2, os.SEEK_END)
        return file.read(2) == _END_OF_JPEG


def read_picture(path: Path, size: int) -> Tensor:
    """A picture, upright, resized to a square: uint8 (3, size, size), RGB.

    >>> read_picture(Path("2017_10001018.jpg"), 112).shape  # doctest: +SKIP
    torch.Size([3, 112, 112])
    """
    from PIL import Image, ImageOps

    try:
        with Image.open(path) as picture:
            picture.draft("RGB", (2 * size, 2 * size))  # a JPEG need not be decoded larger than that
            upright = ImageOps.exif_transpose(picture).convert("RGB")
            small = upright.resize((size, size), Image.Resampling.BILINEAR)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise SfumatoError(f"'{path}' cannot be read as a picture ({error})", "copy the file again") from None
    return torch.from_numpy(np.array(small)).permute(2, 0, 1).contiguous()
