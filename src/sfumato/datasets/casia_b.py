"""`casia-b:PATH`: CASIA-B, the walks of 124 people seen by 11 cameras: to know people by their gait.

Under PATH: videos `001-nm-01-090.avi` in any folders, or folders of pictures `001/nm-01/090/`: person, condition (nm normal, bg
with a bag, cl in a coat) and repetition, angle in degrees. Eleven cameras recorded a walk at once: it is one group.
By person: the usual parts (people 1 to 74 to train and to select with, 75 to 124 to test). By clip, of everybody: the gallery is
nm-01 to nm-03 (train) and nm-04 (val), the probes are nm-05 and nm-06 (test; `?probe=bg`, `?probe=cl`: those walks).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import torch
from torch import Tensor

from sfumato.datasets.files import Row
from sfumato.datasets.listed import Annotations, ListedDataset, Place, hold_out
from sfumato.datasets.pictures import SUFFIXES, read_picture
from sfumato.datasets.sample import AttributeSpec
from sfumato.errors import SfumatoError

REPETITIONS = {"nm": 6, "bg": 2, "cl": 2}
# What a walk differs in besides the person; not private.
ATTRIBUTES = (
    AttributeSpec("condition", tuple(REPETITIONS)),
    AttributeSpec("angle", tuple(f"{angle:03d}" for angle in range(0, 181, 18))),
)
PEOPLE, TRAINING_PEOPLE = 124, 74
PUBLISHED = {"videos": 13_640, "train + val": 8_140, "test": 5_500, "persons": PEOPLE}
RATE = 25.0
_NAME = re.compile(r"(\d{3})-([a-z]{2})-(\d\d)-(\d{3})")
_DIGITS = "[0-9][0-9][0-9]"
_FOLDERS = f"{_DIGITS}/[a-z][a-z]-[0-9][0-9]/{_DIGITS}"


class CASIABDataset(ListedDataset):
    """CASIA-B.

    >>> CASIABDataset("data/casia-b?probe=cl").persons[:2]  # doctest: +SKIP
    ('1', '2')
    """

    kind = "casia-b"
    described = "13,640 videos of 124 people walking, 11 angles, gallery and probes (Yu et al. 2006)"
    get_from = "cbsr.ia.ac.cn, Gait Databases (Dataset B)"
    options = ("probe",)

    @classmethod
    def annotations(cls, place: Place) -> Annotations:
        probe = place.choice("probe", tuple(REPETITIONS))
        rows: dict[str, Row] = {}
        for name, path in _walks(place):
            if row := row_of(name, path, probe):
                rows.setdefault(name, row)
        every = list(rows.values())
        hold_out(every, by=("person",), group_of=lambda row: row.person)
        return Annotations(every, (), ATTRIBUTES, (), PUBLISHED)

    @classmethod
    def locate(cls, row: Row, place: Place) -> str:
        folder = place.root / row.path
        if not folder.is_dir():
            return super().locate(row, place)
        if not folder.resolve().is_relative_to(place.root):
            return f"'{row.path}' lies outside the data root"
        row.path = folder
        return ""

    @classmethod
    def look_into(cls, row: Row) -> None:
        if not row.path.is_dir():
            return super().look_into(row)
        pictures = pictures_in(row.path)
        if not pictures:
            raise SfumatoError(f"there is no picture in '{row.path}'", "copy the folder again")
        read_picture(pictures[0], 8)
        row.frames, row.rate = len(pictures), RATE
        return None

    @classmethod
    def look_through(cls, row: Row) -> None:
        """As look_into, but at every picture of a folder; raises the first that is broken, and says how many are."""
        pictures = pictures_in(row.path) if row.path.is_dir() else []
        broken = [wrong for picture in pictures if (wrong := _wrong_with(picture))]
        if broken:
            more = f", nor can {len(broken) - 1} more of {len(pictures)}" if len(broken) > 1 else ""
            raise SfumatoError(f"{broken[0]}{more}", "copy the folder again")
        cls.look_into(row)

    @classmethod
    def every_name(cls) -> list[str]:
        """The names of all videos or folders, which only a check asks for: some people or some angles are a data set as well.

        >>> len(CASIABDataset.every_name()), CASIABDataset.every_name()[0]
        (13640, '001-nm-01-000')
        """
        walks = [f"{condition}-{n:02d}" for condition, most in REPETITIONS.items() for n in range(1, most + 1)]
        every = product(range(1, PEOPLE + 1), walks, ATTRIBUTES[1].values)
        return [f"{person:03d}-{walk}-{angle}" for person, walk, angle in every]

    @classmethod
    def name_of(cls, row: Row) -> str:
        """The name of a row's walk, which a folder of pictures has in three parts."""
        return row.where

    def _clip(self, row: Row, views: int) -> Tensor:
        if not row.path.is_dir():
            return super()._clip(row, views)
        pictures, frames = pictures_in(row.path), self._frames_of(row, views)
        clips = [read_picture(pictures[i], self.sampling.size) for i in frames.flatten().tolist()]
        return torch.stack(clips).view(views, self.sampling.frames, *clips[0].shape)

    def frames(self, index: int) -> Iterator[Tensor]:
        path = self.rows[index].path
        if not path.is_dir():
            return super().frames(index)
        return (read_picture(picture, self.sampling.size) for picture in pictures_in(path))


def _walks(place: Place) -> Iterator[tuple[str, Path]]:
    """The name and the path, below the root, of every video, and then of every folder of pictures."""
    for path in place.media.files.values():
        yield path.stem, path.relative_to(place.root)
    for pattern in (_FOLDERS, f"*/{_FOLDERS}"):
        for folder in sorted(place.root.glob(pattern)):
            path = folder.relative_to(place.root)
            yield "-".join(path.parts[-3:]), path


def pictures_in(folder: Path) -> list[Path]:
    """The frames in a folder, in the order of their names."""
    return sorted(path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES)


def _wrong_with(picture: Path) -> str:
    try:
        read_picture(picture, 8)
    except SfumatoError as error:
        return error.what
    return ""


def row_of(name: str, path: Path, probe: str) -> Row | None:
    """What a name says; None where it is not a name of this set.

    >>> row_of("001-nm-05-090", Path("001-nm-05-090.avi"), "nm").split["clip"]
    'test'
    """
    parts = _NAME.fullmatch(name)
    if not parts:
        return None
    person, condition, repetition, angle = int(parts[1]), parts[2], int(parts[3]), parts[4]
    fits = 1 <= person <= PEOPLE and 1 <= repetition <= REPETITIONS.get(condition, 0)
    if not fits or angle not in ATTRIBUTES[1].values:
        return None
    by_person = "train" if person <= TRAINING_PEOPLE else "test"
    by_clip = "test" if condition == probe else ""
    if condition == "nm" and repetition <= 4:
        by_clip = "train" if repetition <= 3 else "val"
    return Row(
        path, name, "", str(person), {"condition": condition, "angle": angle}, {"person": by_person, "clip": by_clip},
        group=f"{parts[1]}-{condition}-{parts[3]}",
    )  # fmt: skip
