"""`celebv-hq:PATH`: CelebV-HQ, faces with an expression and 40 attributes, as STPrivacy's FAPDER uses it.

Under PATH: `M2Ohb0FAaJU_1.mp4`, … in any folders, and celebvhq_info.json: of every clip the YouTube video, a yes or no for each
name in `appearance_mapping`, and its emotion, or several with their seconds. The action is the expression, of several the
one that is shown longest; five attributes are private, all 40 are labelled. 60% of the clips are train and val, 40% test,
drawn as for PA-HMDB51: clips of one YouTube video stay together.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sfumato.datasets.files import Row, Tags
from sfumato.datasets.listed import Annotations, ListedDataset, Place, both, hold_out
from sfumato.datasets.pa_hmdb51 import draw_training
from sfumato.datasets.sample import AttributeSpec
from sfumato.errors import SfumatoError

EXPRESSIONS = ("neutral", "happy", "sad", "anger", "fear", "surprise", "contempt", "disgust")
PRIVATE = ("young", "pointy_nose", "male", "rosy_cheeks", "brown_hair")
_ALSO = {"sadness": "sad"}


class CelebVHQDataset(ListedDataset):
    """CelebV-HQ.

    >>> CelebVHQDataset("data/celebv-hq").attributes[0].name  # doctest: +SKIP
    'young'
    """

    kind = "celebv-hq"
    described = "35,666 clips of faces, eight expressions, five private attributes (Zhu et al. 2022, STPrivacy)"
    get_from = "github.com/CelebV-HQ/CelebV-HQ"

    @classmethod
    def annotations(cls, place: Place) -> Annotations:
        path, text = place.read("celebvhq_info.json")
        try:
            told = json.loads(text)
            names = tuple(str(name).lower() for name in told["meta_info"]["appearance_mapping"])
            rows = [_row(clip, about, names, path.name) for clip, about in told["clips"].items()]
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise SfumatoError(
                f"'{path}' is not in CelebV-HQ's format ({error})", f"get it from {place.get_from}"
            ) from None
        if missing := [name for name in PRIVATE if name not in names]:
            raise SfumatoError(f"'{path}' has no attribute '{missing[0]}'", f"get it from {place.get_from}")
        draw_training(rows)
        hold_out(rows)
        specs = tuple(AttributeSpec(name) for name in names)
        return Annotations(rows, EXPRESSIONS, specs, PRIVATE, {"videos": 35_666, "actions": 8})


def _row(clip: str, about: Mapping[str, Any], names: tuple[str, ...], where: str) -> Row:
    appearance = about["attributes"]["appearance"]
    if len(appearance) != len(names) or not set(appearance) <= {0, 1}:
        raise ValueError(f"{clip} has no {len(names)} yes or no")
    has = frozenset(name for name, value in zip(names, appearance, strict=True) if value)
    action = _shown_longest(about["attributes"]["emotion"]["labels"])
    # Until it is drawn for training a clip is test.
    return Row(
        Path(f"{clip}.mp4"), where, action, attributes=Tags(names, has), split=both("test"), group=about["ytb_id"]
    )


def _shown_longest(labels: str | list[Mapping[str, Any]]) -> str:
    """The expression of a clip; of a list, the one with most seconds."""
    if isinstance(labels, str):
        name = labels
    else:
        seconds: dict[str, float] = defaultdict(float)
        for label in labels:
            seconds[label["emotion"]] += label["end_sec"] - label["start_sec"]
        name = max(seconds, key=seconds.__getitem__)
    name = _ALSO.get(name, name)
    if name not in EXPRESSIONS:
        raise ValueError(f"expression '{name}'")
    return name
