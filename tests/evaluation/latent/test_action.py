from __future__ import annotations

import pytest

from sfumato.evaluation.latent.action import ActionProtocol
from sfumato.evaluation.latent.base import LatentConfig

from .toys import ACTION, CONSTANT, CPU, HAT, judged, keep, short


def test_the_action_of_new_people_is_named_or_not() -> None:
    result = judged(short(), "action", kept=keep(ACTION), lost=keep(HAT), constant=CONSTANT)
    raw, kept, lost, constant = (line.utility for line in result.lines)
    assert raw.value == kept.raw > 0.9 and kept.value > 0.9
    assert raw.chance == pytest.approx(1 / 3)
    assert lost.value < 0.7 and lost.raw == raw.value
    assert constant.value == pytest.approx(1 / 3)
    assert result.lines[0].utility_per_seed == [raw.value]


def test_nobody_of_the_test_was_seen_in_training() -> None:
    data = short()
    parts = ActionProtocol(data, LatentConfig("tiny"), CPU).inquiry.parts
    people = [{data.annotations[v].person for v in videos.tolist()} for videos in (parts.train, parts.test)]
    assert len(people[1]) == 6 and not people[0] & people[1]
