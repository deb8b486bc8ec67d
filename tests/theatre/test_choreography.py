from __future__ import annotations

import pytest
import torch

from sfumato.theatre.choreography import LOOP_KEYS, Motion, Tracks, actions, anomalies, reversed_pairs
from sfumato.theatre.compositions import REPETITIONS, TEMPOS, compositions
from sfumato.theatre.pose import INDEX, REST, channels

ONE = torch.ones(1)


def pose(tracks: Tracks, motion: int, way: float, loop: float, amplitude: float = 1.0) -> torch.Tensor:
    return tracks.pose(torch.tensor([motion]), ONE * way, ONE * loop, ONE * amplitude)[0]


def test_there_are_twenty_actions_with_names_and_captions_of_their_own() -> None:
    found = actions()
    assert len(found) >= 20
    assert len({m.name for m in found}) == len({m.caption for m in found}) == len(found)
    assert {"fall", "fight"} <= {m.name for m in anomalies()}
    assert not {m.name for m in anomalies()} & {m.name for m in found}


def test_two_person_actions_give_the_second_person_something_to_do() -> None:
    pairs = [m for m in actions() if m.two_person]
    assert len(pairs) >= 3
    assert all(m.partner_way or m.partner_loop for m in pairs)
    assert not any(m.partner_way or m.partner_loop for m in actions() if not m.two_person)


def test_the_pairs_that_only_time_tells_apart_are_there() -> None:
    names = {(actions()[a].name, actions()[b].name) for a, b in reversed_pairs()}
    assert {("sit down", "stand up"), ("pick up", "put down"), ("push", "pull")} <= names
    assert len(names) >= 6


@pytest.mark.parametrize("partner", [False, True])
def test_a_reversed_action_is_the_exact_reversal_in_time(partner: bool) -> None:
    tracks = Tracks(actions(), partner=partner)
    for first, second in reversed_pairs():
        a, b = actions()[first], actions()[second]
        assert (a.cycles, a.distance, a.uses_object) == (b.cycles, b.distance, b.uses_object)
        for phase in torch.linspace(0, 1, 33).tolist():
            # The last key pose of a loop becomes its first: a quarter turn, on top of a first phase drawn at random.
            backwards = (LOOP_KEYS - 1) / LOOP_KEYS - phase
            there, back = pose(tracks, first, phase, phase), pose(tracks, second, 1 - phase, backwards)
            assert there.allclose(back, atol=1e-5), (a.name, phase)


def test_a_reversed_action_is_not_the_same_forwards() -> None:
    tracks = Tracks(actions())
    for first, second in reversed_pairs():
        assert not pose(tracks, first, 0.0, 0.0).allclose(pose(tracks, second, 0.0, 0.0), atol=1e-3)


def test_the_way_passes_its_key_poses_and_goes_straight_between_them() -> None:
    tracks = Tracks([Motion("nod", "nods", way=({"nod": 0}, {"nod": 40}, {"nod": 10}))])
    nods = [pose(tracks, 0, phase, 0)[INDEX["nod"]].rad2deg().item() for phase in (0, 0.25, 0.5, 0.75, 1)]
    assert nods == pytest.approx([0, 20, 40, 25, 10], abs=1e-3)


def test_the_loop_comes_back_to_where_it_began() -> None:
    tracks = Tracks([Motion("shake", "shakes", loop=({"shake": 20}, {}, {"shake": -20}, {}), cycles=1)])
    turns = [pose(tracks, 0, 0, turn)[INDEX["shake"]].rad2deg().item() for turn in (0, 0.25, 0.5, 0.75, 1, 2.5)]
    assert turns == pytest.approx([20, 0, -20, 0, 20, -20], abs=1e-3)


def test_a_loop_of_another_length_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="4 key poses"):
        Tracks([Motion("nod", "nods", loop=({}, {"nod": 10}))])


def test_amplitude_scales_the_movement_but_neither_lying_nor_holding() -> None:
    tracks = Tracks([Motion("x", "x", way=({"pitch": 30, "lie": 80, "hold": 1, "L.arm": (90, 0)},))])
    small, large = pose(tracks, 0, 0, 0, 0.5), pose(tracks, 0, 0, 0, 1.0)
    assert small[INDEX["pitch"]].item() == pytest.approx(large[INDEX["pitch"]].item() / 2)
    assert (small[INDEX["lie"]], small[INDEX["hold"]]) == (large[INDEX["lie"]], large[INDEX["hold"]])
    rest = channels(REST).float()[INDEX["L.arm.f"]]
    assert (small - rest)[INDEX["L.arm.f"]].item() == pytest.approx((large - rest)[INDEX["L.arm.f"]].item() / 2)


def test_there_are_two_hundred_compositions_each_with_its_own_caption_and_words() -> None:
    found = compositions()
    assert len(found) >= 200
    assert len({c.motion.caption for c in found}) == len({c.words for c in found}) == len(found)
    for c in found:
        # The whole body goes without saying: a person "steps forward".
        assert all(word in c.motion.caption for word in c.words if word != "whole body")
        assert c.motion.sided and c.motion.repeats == c.repetitions
        assert c.motion.span == pytest.approx(c.repetitions * TEMPOS[c.tempo]) and c.motion.span <= 0.91
    assert {c.repetitions for c in found} == set(REPETITIONS)


def test_compositions_of_other_words_are_other_motions() -> None:
    found = [c for c in compositions() if (c.tempo, c.repetitions) == ("quickly", 1)]
    goals = Tracks([c.motion for c in found]).loop[:, 2]
    apart = torch.cdist(goals, goals) + torch.eye(len(goals)) * 9
    assert apart.min() > 0.05


def test_a_composition_starts_and_ends_at_rest() -> None:
    found = [c.motion for c in compositions()][::17]
    tracks = Tracks(found)
    for i, motion in enumerate(found):
        for turn in (0.0, float(motion.repeats)):
            assert pose(tracks, i, 0, turn).allclose(tracks.rest, atol=1e-5)
