from __future__ import annotations

import pytest

from sfumato.theatre.compositions import compositions
from sfumato.theatre.wording import SUBJECTS, WAYS, sentences


def test_a_composed_caption_in_all_ways() -> None:
    said = sentences("raises the left arm forward, slowly, three times")
    assert len(said) == len(set(said)) == len(WAYS) == 4 * len(SUBJECTS)
    assert said[0] == "a person raises the left arm forward, slowly, three times"
    assert {s for s in said if s.startswith("someone")} == {
        "someone raises the left arm forward, slowly, three times", "someone raises the left arm forward, slowly",
        "someone raises the left arm forward, three times", "someone raises the left arm forward",
    }  # fmt: skip


def test_a_named_action_has_nothing_to_leave_out() -> None:
    assert sentences("sits down") == ("a person sits down", "someone sits down", "somebody sits down") * 4


def test_what_is_said_in_one_way_differs_only_if_it_means_something_else() -> None:
    found = [(c.words, sentences(c.motion.caption)) for c in compositions()]
    for number, (tempo, repetitions) in enumerate(way[0] for way in WAYS):
        meant = {words[:3] + words[3:4] * tempo + words[4:] * repetitions for words, _ in found}
        assert len({said[number] for _, said in found}) == len(meant)


def test_a_caption_that_lacks_one_of_the_two_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="zip"):
        sentences("raises the left arm forward, slowly")
