"""Other people's features of UCF-Crime: lists of `.npy` files, one video each, as they are handed around for MGFN and others.

A list is a text file with one path a line, below the folder of the list; `Abuse001_x264_i3d.npy` is the video
`Abuse001_x264`. An array is (clips, width), or (clips, crops, width), of which the mean over the crops is taken. What happens
in a video, in which part it is, and when, is what UCF-Crime's own label files say: the order in a list means nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sfumato.datasets.annotations import Annotation, add_annotations
from sfumato.datasets.feature_store import FeatureWriter, Manifest
from sfumato.datasets.files import Row
from sfumato.datasets.listed import within
from sfumato.datasets.ucf_crime import UCFCrimeDataset, course_of
from sfumato.errors import SfumatoError

_VIDEO = "_x264"  # how the names of all videos end; what follows says whose features they are
AT_ONCE = 256  # clips: ten crops of an hour do not fit into memory


class ListedFeatures(NamedTuple):
    """The file of one video, where it is listed, and what UCF-Crime says about the video."""

    path: Path
    where: str
    row: Row

    @property
    def video(self) -> str:
        """The video's name, without a suffix."""
        return self.row.path.stem


def read_lists(lists: Sequence[Path], labels: Path) -> list[ListedFeatures]:
    """What lists name, every video once; a path that leaves its folder or names no video of UCF-Crime is refused.

    >>> read_lists([Path("ucf-i3d.list")], Path("ucf-crime"))[0].video  # doctest: +SKIP
    'Abuse001_x264'
    """
    rows = {row.path.stem: row for row in UCFCrimeDataset.annotations(UCFCrimeDataset.at(str(labels))).rows}
    found: dict[str, ListedFeatures] = {}
    for file in lists:
        try:
            lines = file.read_text(encoding="utf-8-sig").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise SfumatoError(f"cannot read the list '{file}' ({error})", "name a text file of paths") from None
        for number, line in enumerate(lines, 1):
            if line.strip():
                listed = _listed(line.strip(), file, f"{file.name} line {number}", rows)
                found.setdefault(listed.video, listed)
    if not found:
        raise SfumatoError("the lists name no file", "write one path of a .npy file on every line")
    return list(found.values())


def _listed(line: str, file: Path, where: str, rows: Mapping[str, Row]) -> ListedFeatures:
    root = file.parent.resolve()
    path = (root / line).resolve()
    if not path.is_relative_to(root):
        raise SfumatoError(f"{where}: '{line}' lies outside the folder of the list", "write paths relative to the list")
    row = rows.get(f"{path.stem.partition(_VIDEO)[0]}{_VIDEO}")
    if row is None:
        raise SfumatoError(f"{where}: '{line}' is no video of UCF-Crime", "name files such as Abuse001_x264_i3d.npy")
    return ListedFeatures(path, where, row)


def describe_brought(encoder: str, width: int, frames: int) -> Manifest:
    """The manifest of features whose encoder is not here: stores that were brought by one name count as of one encoder.

    >>> describe_brought("i3d", width=1024, frames=16).per_clip
    1
    """
    # Of the pictures' size nobody told anything.
    return Manifest(encoder, hashlib.sha256(f"brought: {encoder}".encode()).hexdigest(), (frames, 0, 0), 1, width, 1)


def width_of(path: Path) -> int:
    """How wide the features in a file are.

    >>> width_of(Path("Abuse001_x264_i3d.npy"))  # doctest: +SKIP
    1024
    """
    return int(_array(path).shape[-1])


def store(features: ListedFeatures, writer: FeatureWriter) -> None:
    """Put the features of a video into a store, which knows it by the video's name.

    >>> store(read_lists([Path("ucf-i3d.list")], Path("ucf-crime"))[0], writer)  # doctest: +SKIP
    """
    length = writer.manifest.clip[0] * writer.manifest.frame_step
    with writer.video(features.video) as rows:
        for number, row in enumerate(_rows(_array(features.path), rows.clips), rows.clips):
            rows.add(number * length, row)


def annotate(listed: Sequence[ListedFeatures], writer: FeatureWriter) -> None:
    """Say beside the features what is known about those videos that are stored.

    >>> annotate(read_lists([Path("ucf-i3d.list")], Path("ucf-crime")), writer)  # doctest: +SKIP
    """
    length = writer.manifest.clip[0] * writer.manifest.frame_step
    told = {}
    for features in listed:
        if stored := writer.done.get(features.video):
            row = features.row
            segments, anomalous = course_of(row, within(row.anomalies, stored.clips * length))
            parts = {str(by): part for by, part in row.split.items()}
            told[stored.name] = Annotation(stored.name, row.action, segments=segments, anomalous=anomalous, split=parts)
    add_annotations(writer.folder, told)


def _array(path: Path) -> NDArray[np.float32]:
    """The array in a file, not read yet. Nothing in it is executed."""
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise SfumatoError(f"there is no file '{path}'", "complete the features, or correct the list") from None
    except (OSError, ValueError, EOFError) as error:
        raise SfumatoError(f"'{path}' is no .npy file of numbers ({error})", "get it again") from None
    if not isinstance(array, np.ndarray) or array.ndim not in (2, 3) or array.dtype.kind != "f" or not array.size:
        raise SfumatoError(f"'{path}' is not (clips, width) or (clips, crops, width)", "get it again")
    return array


def _rows(array: NDArray[np.float32], first: int) -> Iterator[Tensor]:
    """Each clip's one vector (1, D), from the clip `first`."""
    for start in range(first, len(array), AT_ONCE):
        some = torch.from_numpy(np.array(array[start : start + AT_ONCE], np.float32))
        yield from (some if some.ndim == 2 else some.mean(1))[:, None]
