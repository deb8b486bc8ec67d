"""Data sets by name: `theatre`, `theatre:small`, `manifest:PATH/index.csv`, `folder:PATH`, `footage:PATH`, and the papers'
own, such as `ucf101:PATH`. All yield the same Sample."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from sfumato.datasets.base import Clips, ClipShape, Labels, VideoDataset
from sfumato.datasets.casia_b import CASIABDataset
from sfumato.datasets.celebv_hq import CelebVHQDataset
from sfumato.datasets.folder import FolderDataset
from sfumato.datasets.footage import open_footage
from sfumato.datasets.hmdb51 import HMDB51Dataset
from sfumato.datasets.kinetics400 import Kinetics400Dataset
from sfumato.datasets.kth import KTHDataset
from sfumato.datasets.listed import ListedDataset
from sfumato.datasets.lsa64 import LSA64Dataset
from sfumato.datasets.manifest import ManifestDataset
from sfumato.datasets.ntu60 import NTU60Dataset
from sfumato.datasets.p_hvu import PHVUDataset
from sfumato.datasets.pa_hmdb51 import PAHMDB51Dataset
from sfumato.datasets.sample import AttributeSpec, Sample, Segment
from sfumato.datasets.shards import ShardDataset
from sfumato.datasets.theatre import PRESETS, TheatreDataset
from sfumato.datasets.thumos14 import THUMOS14Dataset
from sfumato.datasets.toyota_smarthome import ToyotaSmarthomeDataset
from sfumato.datasets.ucf101 import UCF101Dataset
from sfumato.datasets.ucf_crime import UCFCrimeDataset
from sfumato.datasets.vispr import VISPRDataset
from sfumato.datasets.vp import VPHMDB51Dataset, VPUCF101Dataset
from sfumato.errors import SfumatoError
from sfumato.registry import Registry
from sfumato.video import find_videos

__all__ = [
    "DATASETS",
    "LISTED",
    "AttributeSpec",
    "ClipShape",
    "Clips",
    "Labels",
    "Sample",
    "Segment",
    "VideoDataset",
    "open_dataset",
    "reads_files",
]

DATASETS: Registry[VideoDataset] = Registry("data set")
for _preset in PRESETS:
    _name = f"theatre:{_preset}" if _preset else "theatre"
    DATASETS.add(_name, TheatreDataset(_preset).summary, lambda preset=_preset: TheatreDataset(preset))
DATASETS.add("manifest:PATH/index.csv", "your own videos, listed in a CSV file", ManifestDataset)
DATASETS.add("folder:PATH", "your own videos, one folder per action", FolderDataset)
DATASETS.add("footage:PATH", "your own recordings without any labels, for methods that need none (laf)", open_footage)
DATASETS.add("shards:PATH", "videos packed by `sfumato data prepare --shards`", ShardDataset)

# The papers' data sets, by name.
LISTED: dict[str, type[ListedDataset]] = {
    dataset.kind: dataset
    for dataset in (
        UCF101Dataset, HMDB51Dataset, VPUCF101Dataset, VPHMDB51Dataset, PAHMDB51Dataset, VISPRDataset, PHVUDataset,
        Kinetics400Dataset, THUMOS14Dataset, UCFCrimeDataset, NTU60Dataset, ToyotaSmarthomeDataset, CASIABDataset,
        CelebVHQDataset, KTHDataset, LSA64Dataset,
    )
}  # fmt: skip
for _dataset in LISTED.values():
    DATASETS.add(f"{_dataset.kind}:PATH", _dataset.described, _dataset)
_FROM_FILES: dict[str, Callable[..., VideoDataset]] = {
    "manifest": ManifestDataset, "folder": FolderDataset, "footage": open_footage, "shards": ShardDataset, **LISTED,
}  # fmt: skip


def reads_files(name: str) -> bool:
    """Whether a data set of that name is made of files, as those of the theatre are not.

    >>> reads_files("ucf101:data/ucf101")
    True
    """
    return name.partition(":")[0] in _FROM_FILES


def open_dataset(name: str, *, strict: bool = False) -> VideoDataset:
    """The data set of that name; bad rows and files are left out and listed, or stop it (`strict`).

    >>> open_dataset("theatre:small").shape.frames
    8
    """
    kind, _, rest = name.partition(":")
    if kind in _FROM_FILES:
        if not rest:
            raise SfumatoError(f"'{name}' names no path", f"write {kind}:PATH")
        return _FROM_FILES[kind](rest, strict=strict)
    if name not in DATASETS and (meant := _meant(name)):
        raise SfumatoError(f"there is no data set '{name}'", f"did you mean '{meant}'? others: sfumato list datasets")
    return DATASETS.make(name)


def _meant(name: str) -> str:
    """The data set that a path alone stands for, as far as what lies there tells; "" for none."""
    text, mark, options = name.partition("?")
    path, options = Path(text), mark + options
    if text and path.is_file() and path.suffix.lower() == ".csv":
        return f"manifest:{text}{options}"
    if not text or not path.is_dir():
        return ""
    if (path / "index.json").is_file():
        return f"shards:{text}{options}"
    if tables := sorted(path.glob("*.csv")):
        return f"manifest:{tables[0]}{options}"
    try:
        flat = any(video.parent == path for video in find_videos(path))
    except SfumatoError:  # there is none
        return ""
    return f"{'footage' if flat else 'folder'}:{text}{options}"
