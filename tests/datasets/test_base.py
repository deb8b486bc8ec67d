from __future__ import annotations

import pytest

from sfumato.datasets.base import in_words
from sfumato.errors import SfumatoError
from sfumato.recognizers.vlm import fill_prompts


@pytest.mark.parametrize(
    ("label", "said"),
    [
        ("ApplyEyeMakeup", "apply eye makeup"),  # UCF101
        ("CricketBowling", "cricket bowling"),
        ("YoYo", "yo yo"),
        ("TaiChi", "tai chi"),
        ("CleanAndJerk", "clean and jerk"),
        ("brush_hair", "brush hair"),  # HMDB51
        ("wave", "wave"),
        ("Cook.Cut", "cook cut"),  # Toyota Smarthome
        ("WatchTV", "watch TV"),
        ("light-blue", "light blue"),  # LSA64
        ("passing American football (in game)", "passing american football (in game)"),  # Kinetics-400
        ("WatchTVAlone", "watch TV alone"),
        ("__two--blanks_ ", "two blanks"),
        ("walks 1.5 m", "walks 1.5 m"),
        ("A", "a"),
        ("_", ""),
    ],
)
def test_a_label_is_said_in_words(label: str, said: str) -> None:
    assert in_words(label) == said
    assert in_words(said) == said


def test_labels_that_read_alike_are_refused() -> None:
    with pytest.raises(SfumatoError, match="the labels 'brush hair' and 'brush hair' are the same"):
        fill_prompts("a person {}", [in_words("brush_hair"), in_words("BrushHair")])
    with pytest.raises(SfumatoError, match="one of the labels is empty"):
        fill_prompts("a person {}", [in_words("-")])
