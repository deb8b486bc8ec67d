"""Who is perceived as female or male in NTU RGB+D and Toyota Smarthome: a table that the user writes, by eye.

Neither set says it and nobody has published it; SPLAVU's authors set it themselves. `perceived_gender.csv` has the columns
person and perceived_gender and lines such as `1,F`.
"""

from __future__ import annotations

from collections.abc import Iterable

from sfumato.datasets.files import Row
from sfumato.datasets.kinetics400 import read_table
from sfumato.datasets.listed import Place
from sfumato.datasets.sample import AttributeSpec
from sfumato.errors import SfumatoError

FILE = "perceived_gender.csv"
ATTRIBUTE = AttributeSpec("perceived_gender", ("female", "male"))
_WORDS = {"f": "female", "female": "female", "m": "male", "male": "male"}


def label_genders(rows: Iterable[Row], place: Place, *, needed: bool = False) -> tuple[AttributeSpec, ...]:
    """Label every row by its person, and say with what; without a table nothing is labelled, unless it is `needed`.

    >>> label_genders(rows, NTU60Dataset.at("data/ntu60"))  # doctest: +SKIP
    (AttributeSpec(name='perceived_gender', values=('female', 'male')),)
    """
    if not place.find(FILE):
        if needed:
            raise SfumatoError(
                f"there is no '{FILE}' in '{place.labels}'",
                "nobody has published it: write 'person,perceived_gender' and, by eye, a line such as '1,F' for each "
                "person, and put it there or say ?annotations=FOLDER",
            )
        return ()
    genders = {}
    for where, line in read_table(place, (FILE,), ("person", "perceived_gender")):
        person, word = line["person"].strip().lstrip("Pp").lstrip("0"), line["perceived_gender"].strip().lower()
        if not person.isdecimal() or word not in _WORDS:
            raise SfumatoError(f"{where} does not say who is F or M", "write such as '1,F'")
        genders[person] = _WORDS[word]
    for row in rows:
        row.attributes = {ATTRIBUTE.name: genders.get(row.person, "")}
    return (ATTRIBUTE,)
