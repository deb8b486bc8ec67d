"""`vp-ucf101:PATH` and `vp-hmdb51:PATH`: STPrivacy's private attributes for the videos of UCF101 and HMDB51.

Under PATH: a copy as for `ucf101:` or `hmdb51:`, and the pickle `{"class/video.mp4": int64[1, 5]}`; its keys end in .mp4
although the videos are .avi. It is read so that nothing in it is executed.
"""

from __future__ import annotations

from dataclasses import replace

from sfumato.datasets import hmdb51, ucf101
from sfumato.datasets.listed import Annotations, Place
from sfumato.datasets.safe_pickle import read_arrays
from sfumato.datasets.sample import AttributeSpec
from sfumato.errors import SfumatoError

# The order of the five columns is documented nowhere. Correlating them with PA-HMDB51's own labels on the 515 videos
# that both have says this one; LaF-Privacy's Table 8 has face before skin.
COLUMNS = ("skin", "face", "gender", "nudity", "relationship")
# Every value means "can be told from this video", so that `gender` is not male or female.
ATTRIBUTES = tuple(AttributeSpec(name) for name in COLUMNS)
_GET_FROM = "the release of STPrivacy (Li et al. 2023)"


class VPUCF101Dataset(ucf101.UCF101Dataset):
    """VP-UCF101: UCF101 with five private attributes.

    >>> VPUCF101Dataset("data/ucf101").attributes[0].name  # doctest: +SKIP
    'skin'
    """

    kind = "vp-ucf101"
    described = "UCF101 with five private attributes per video (STPrivacy)"

    @classmethod
    def annotations(cls, place: Place) -> Annotations:
        return with_attributes(ucf101.read_lists(place), place, "ucf101_privacy_attribute_label.pickle")


class VPHMDB51Dataset(hmdb51.HMDB51Dataset):
    """VP-HMDB51: HMDB51 with five private attributes.

    >>> VPHMDB51Dataset("data/hmdb51").attributes[0].name  # doctest: +SKIP
    'skin'
    """

    kind = "vp-hmdb51"
    described = "HMDB51 with five private attributes per video (STPrivacy)"

    @classmethod
    def annotations(cls, place: Place) -> Annotations:
        return with_attributes(super().annotations(place), place, "hmdb51_privacy_attribute_label.pickle")


def with_attributes(told: Annotations, place: Place, name: str) -> Annotations:
    """The same rows with their private attributes; a video that the pickle does not name has unknown ones."""
    path = place.label_files(name, get_from=_GET_FROM)[0]
    table = read_arrays(path)
    for row in told.rows:
        values = table.get(row.path.with_suffix(".mp4").as_posix())
        if values is not None and (values.shape != (1, len(COLUMNS)) or not set(values[0].tolist()) <= {0, 1}):
            raise SfumatoError(f"'{path}' has no five yes or no for '{row.path}'", f"get it from {_GET_FROM}")
        words = [""] * len(COLUMNS) if values is None else [("no", "yes")[value] for value in values[0].tolist()]
        row.attributes = dict(zip(COLUMNS, words, strict=True))
    return replace(told, attributes=ATTRIBUTES)
