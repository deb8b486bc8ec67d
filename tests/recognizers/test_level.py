from __future__ import annotations

import pytest

from sfumato.errors import SfumatoError
from sfumato.recognizers import RECOGNIZERS, level_of


def test_every_summary_begins_with_what_the_recognizer_looks_at() -> None:
    assert {entry.name: level_of(entry.name) for entry in RECOGNIZERS} == {
        entry.name: entry.summary.partition(":")[0] for entry in RECOGNIZERS
    }


def test_the_level_of_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(SfumatoError, match="did you mean 'resnet-50'"):
        level_of("resnet50")
