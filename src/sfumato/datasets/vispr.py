"""`vispr:PATH`: VISPR, pictures with 68 private attributes; seven are asked about: VISPR1 (`?subset=1`) or VISPR2 (`?subset=2`).

Under PATH: pictures in any folders, train2017.txt, val2017.txt and test2017.txt (a JSON per line), attributes.tsv, and those JSON
files, `{"image_path": …, "labels": ["a4_gender", …]}`. Without the JSON files, SPAct's train_labels.pkl and test_labels.pkl
do for VISPR1; val is unlabelled then. A clip is one picture; `?frames=16` makes static clips.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from sfumato.datasets.files import Row, Tags
from sfumato.datasets.listed import Annotations, Place, both, read_text
from sfumato.datasets.pictures import PictureDataset
from sfumato.datasets.safe_pickle import read_arrays
from sfumato.datasets.sample import AttributeSpec
from sfumato.errors import SfumatoError

# The penalty paper's Table 4, which writes a65_rel_soci. The pickles have VISPR1's columns in this order.
SUBSETS = {
    "1": (
        "a17_color", "a4_gender", "a9_face_complete", "a10_face_partial", "a12_semi_nudity", "a64_rel_personal",
        "a65_rel_social",
    ),
    "2": (
        "a6_hair_color", "a16_race", "a59_sports", "a1_age_approx", "a2_weight_approx", "a73_landmark", "a11_tattoo",
    ),
}  # fmt: skip
PUBLISHED = {"train": 10_000, "val": 4_167, "test": 8_000}


class VISPRDataset(PictureDataset):
    """VISPR.

    >>> VISPRDataset("data/vispr?subset=2").attributes[0].name  # doctest: +SKIP
    'a6_hair_color'
    """

    kind = "vispr"
    described = "22,167 pictures with private attributes, VISPR1 or VISPR2 (Orekondy et al. 2017)"
    get_from = "tribhuvanesh.github.io/vpa"
    options = ("subset",)

    @classmethod
    def annotations(cls, place: Place) -> Annotations:
        private = SUBSETS[place.choice("subset", tuple(SUBSETS))]
        rows = []
        for part in PUBLISHED:
            path, text = place.read(f"{part}2017.txt")
            for number, line in enumerate(text.split(), 1):
                rows.append(Row(Path(line), f"{path.name} line {number}", "", split=both(part)))
        names = _from_json(rows, place) or _from_pickles(rows, place, private)
        for row in rows:
            if not row.path.is_absolute() and ".." not in row.path.parts:  # else refused, by the name in the list
                row.path = Path(f"{row.path.stem}.jpg")
        published = {"videos": sum(PUBLISHED.values()), **PUBLISHED}
        return Annotations(rows, (), tuple(AttributeSpec(name) for name in names), private, published)


def _from_json(rows: list[Row], place: Place) -> tuple[str, ...]:
    """Label the rows from a file each, and name all attributes; nothing where the first file is not there."""
    folder = place.find("train2017.txt")[0].parent
    if not rows or not (folder / rows[0].path).is_file():
        return ()
    _, text = place.read("attributes.tsv")
    names = tuple(line.split("\t")[1] for line in text.splitlines()[1:] if line.strip())
    for row in rows:
        path = folder / row.path
        if row.path.is_absolute() or ".." in row.path.parts:  # refused with its picture
            row.attributes = dict.fromkeys(names, "")
            continue
        try:
            row.attributes = Tags(names, frozenset(json.loads(read_text(path))["labels"]))
        except (KeyError, TypeError, ValueError):
            raise SfumatoError(f"'{path}' is not in VISPR's format", "get the file again") from None
    return names


def _from_pickles(rows: list[Row], place: Place, private: tuple[str, ...]) -> tuple[str, ...]:
    """Label the rows of train and test from two pickled tables."""
    if private != SUBSETS["1"]:
        raise SfumatoError(
            f"there is no '{rows[0].path if rows else 'annotations'}' in '{place.labels}'",
            f"get it from {place.get_from}; only VISPR1 can do with the pickled labels",
        )
    get_from = f"{place.get_from} (the annotations), or train_labels.pkl and test_labels.pkl from the release of SPAct"
    table: dict[str, NDArray[Any]] = {}
    for part in ("train", "test"):
        table |= read_arrays(place.label_files(f"{part}_labels.pkl", get_from=get_from)[0])
    for row in rows:
        values = table.get(row.path.stem)
        if values is not None and values.shape != (len(private),):
            raise SfumatoError(f"the labels of '{row.path.stem}' are not seven numbers", "get the pickles again")
        words = [""] * len(private) if values is None else [("no", "yes")[int(value > 0)] for value in values]
        row.attributes = dict(zip(private, words, strict=True))
    return private
