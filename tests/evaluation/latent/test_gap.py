from __future__ import annotations

import pytest

from sfumato.errors import SfumatoError
from sfumato.evaluation.latent.base import LatentConfig
from sfumato.evaluation.latent.gap import GapProtocol
from sfumato.training.feature_data import FeatureSet

from .toys import ACTION, CONSTANT, CPU, HAT, judged, keep, scores, short


def unfair() -> FeatureSet:
    """Men (every second person) do their actions along the places that a head learns; women show each as the next one."""
    data = short(perceived_gender=lambda person, n: ("female", "male")[person % 2])
    for video, told in enumerate(data.annotations):
        if told.part("person") == "test" and told.attributes["perceived_gender"] == "female":
            rows = data.vectors[int(data.first[video])]
            rows[0, ACTION] = rows[0, ACTION].roll(1)
    return data


def test_who_is_served_worse_is_found_and_hiding_the_action_is_fair_to_all() -> None:
    result = judged(unfair(), "gap", blind=CONSTANT, kept=keep(ACTION))
    raw = {name.removeprefix("natural "): score for name, score in scores(result, "identity").items()}
    assert raw["accuracy of male"].value > 0.9 and raw["accuracy of female"].value < 0.1
    assert raw["subclass gap"].value == pytest.approx(raw["accuracy of male"].value - raw["accuracy of female"].value)
    assert raw["accuracy"].value == pytest.approx(0.5, abs=0.1) and raw["accuracy"].chance == pytest.approx(1 / 3)
    assert raw["subclass gap"].chance == 0
    blind = scores(result, "blind")
    assert blind["natural subclass gap"].value < 0.2
    assert scores(result, "kept")["natural subclass gap"].raw == raw["subclass gap"].value


def test_all_training_videos_are_learned_from_whether_their_gender_is_told_or_not() -> None:
    data = unfair()
    for number in range(0, 30):
        data.annotations[number].attributes.pop("perceived_gender")  # type: ignore[attr-defined]
    protocol = GapProtocol(data, LatentConfig("tiny"), CPU)
    assert (protocol.lacks, len(protocol.parts.train), len(protocol.parts.test)) == ("", 60, 30)


def test_without_two_genders_nothing_is_asked() -> None:
    with pytest.raises(SfumatoError, match="does not tell two perceived genders of its test videos"):
        judged(short(), "gap", hat=keep(HAT))
