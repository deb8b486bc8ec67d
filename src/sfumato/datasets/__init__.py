"""Data sets by name: `theatre`, `theatre:small`, `manifest:PATH/index.csv`, `folder:PATH`. All yield the same Sample."""

from __future__ import annotations

from sfumato.datasets.base import Clips, ClipShape, Labels, VideoDataset
from sfumato.datasets.folder import FolderDataset
from sfumato.datasets.manifest import ManifestDataset
from sfumato.datasets.sample import AttributeSpec, Sample, Segment
from sfumato.datasets.theatre import PRESETS, TheatreDataset
from sfumato.errors import SfumatoError
from sfumato.registry import Registry

__all__ = [
    "DATASETS",
    "AttributeSpec",
    "ClipShape",
    "Clips",
    "Labels",
    "Sample",
    "Segment",
    "VideoDataset",
    "open_dataset",
]

DATASETS: Registry[VideoDataset] = Registry("data set")
for _preset in PRESETS:
    _name = f"theatre:{_preset}" if _preset else "theatre"
    DATASETS.add(_name, TheatreDataset(_preset).summary, lambda preset=_preset: TheatreDataset(preset))
DATASETS.add("manifest:PATH/index.csv", "your own videos, listed in a CSV file", ManifestDataset)
DATASETS.add("folder:PATH", "your own videos, one folder per action", FolderDataset)


def open_dataset(name: str, *, strict: bool = False) -> VideoDataset:
    """The data set of that name; bad rows of a user's own data are left out and listed, or stop it (`strict`).

    >>> open_dataset("theatre:small").shape.frames
    8
    """
    kind, _, rest = name.partition(":")
    files = {"manifest": ManifestDataset, "folder": FolderDataset}
    if kind in files:
        if not rest:
            raise SfumatoError(f"'{name}' names no path", f"write {kind}:PATH")
        return files[kind](rest, strict=strict)
    return DATASETS.make(name)
