from __future__ import annotations

from dataclasses import fields

import pytest
import torch
from torch import Tensor

from sfumato.theatre.cast import Cast, people
from sfumato.theatre.choreography import actions
from sfumato.theatre.compositions import compositions
from sfumato.theatre.script import BALANCED, BYSTANDER, COMPANION, NOBODY, PARTNER, VP_PREVALENCE, Script, write

COUNT = 8000
MOTIONS = actions()
INDEX = torch.arange(COUNT)
MOTION = INDEX % len(MOTIONS)
PERSON = INDEX % 40


def script(prevalence: dict[str, float] = VP_PREVALENCE, seed: int = 0, motion: Tensor = MOTION) -> Script:
    return write(seed, INDEX, PERSON, motion, MOTIONS, prevalence)


def shares(flag: Tensor, by: Tensor) -> Tensor:
    """The mean of `flag` within each value of `by`."""
    return torch.stack([flag[by == value].float().mean() for value in by.unique()])


@pytest.mark.parametrize("prevalence", [VP_PREVALENCE, BALANCED], ids=["vp", "balanced"])
def test_attributes_are_as_frequent_as_they_should_be(prevalence: dict[str, float]) -> None:
    found = script(prevalence).identifiable
    assert list(found) == ["face", "skin", "gender", "nudity", "relationship"]
    for name, flag in found.items():
        # Three standard errors of a share among 8,000 are 0.017.
        assert float(flag.float().mean()) == pytest.approx(prevalence[name], abs=0.017)
    assert VP_PREVALENCE == {"face": 0.620, "skin": 0.903, "gender": 0.916, "nudity": 0.268, "relationship": 0.211}


def test_no_attribute_tells_the_action_or_the_person() -> None:
    s = script(BALANCED)
    second_set = {n: s.values()[n] for n in ("tattoo", "sport_object", "landmark")}
    for flag in (*s.identifiable.values(), *second_set.values()):
        p = float(flag.float().mean())
        for group in (MOTION, PERSON):
            kinds, counts = group.unique(), group.bincount()
            chi_square = float((counts * (shares(flag, group) - p) ** 2 / (p * (1 - p))).sum())
            # Mean k − 1, variance 2(k − 1): five standard deviations above.
            degrees = len(kinds) - 1
            assert chi_square < degrees + 5 * (2 * degrees) ** 0.5


def test_attributes_are_independent_of_each_other() -> None:
    s = script(BALANCED)
    table = torch.stack([*s.identifiable.values(), s.tattoo, s.scene.float(), s.object_kind.float()]).float()
    off_diagonal = torch.corrcoef(table) - torch.eye(len(table))
    assert off_diagonal.abs().max() < 0.05


def test_nothing_but_the_movement_depends_on_the_motion() -> None:
    one, other = script(), script(motion=MOTION.roll(1))
    assert all(one.identifiable[name].equal(other.identifiable[name]) for name in VP_PREVALENCE)
    assert all(one.values()[name].equal(other.values()[name]) for name in one.values())
    for name in ("place", "scene", "landmark", "object_place", "tattoo"):
        assert getattr(one, name).equal(getattr(other, name))
    assert all(getattr(one.cast, f.name).equal(getattr(other.cast, f.name)) for f in fields(Cast))


def test_looks_depend_on_the_person_alone() -> None:
    s = script()
    assert all(getattr(s.cast, f.name).equal(getattr(people(0, PERSON), f.name)) for f in fields(Cast))
    for person in (0, 7):
        mine = s.cast.select((person == PERSON).nonzero().view(-1))
        assert mine.top.unique(dim=0).shape[0] == mine.height.unique().numel() == 1


def test_seed_and_index_make_the_script_and_batch_mates_do_not() -> None:
    rows = torch.tensor([70, 12])
    some = write(0, INDEX[rows], PERSON[rows], MOTION[rows], MOTIONS, VP_PREVALENCE)
    whole, other = script(), script(seed=1)
    for name in ("facing", "place", "start", "first_phase", "object_place"):
        assert getattr(some, name).equal(getattr(whole, name)[rows])
        assert not getattr(other, name).equal(getattr(whole, name))


def test_a_hidden_face_is_masked_or_turned_away_and_a_shown_one_is_neither() -> None:
    s = script(BALANCED)
    shown = s.identifiable["face"] == 1
    two = torch.tensor([m.two_person for m in MOTIONS])[MOTION]
    towards = torch.cos(s.facing)
    assert not s.masked[shown].any() and (towards[shown] > 0).all()
    turned = ~shown & (s.masked == 0)
    assert turned.any() and (towards[turned] < -0.7).all()
    assert s.masked[~shown & two].all()


def test_who_else_is_on_stage() -> None:
    s = script(BALANCED)
    two = torch.tensor([m.two_person for m in MOTIONS])[MOTION]
    related = s.identifiable["relationship"] == 1
    assert (s.second[two] == PARTNER).all() and not (s.second[~two] == PARTNER).any()
    assert (s.second[~two & related] == COMPANION).all()
    assert set(s.second[~two & ~related].unique().tolist()) == {NOBODY, BYSTANDER}
    # A relationship shows in clothes alike; somebody else wears something else.
    alike = (s.cast.top == s.second_cast.top).all(1)
    assert alike.equal(related)


def test_a_counted_motion_fits_into_the_clip_and_is_never_mirrored() -> None:
    motions = tuple(c.motion for c in compositions())
    index = torch.arange(len(motions))
    s = write(0, index, index % 9, index, motions, VP_PREVALENCE)
    span = torch.tensor([m.span for m in motions])
    assert s.counted.all() and (s.mirror == 1).all()
    assert (1 - s.start - s.finish).allclose(span, atol=1e-5)
    assert s.turns.long().tolist() == [m.repeats for m in motions]
    assert s.start.min() >= 0 and s.finish.min() >= -1e-6


def test_time_runs_alike_in_both_directions() -> None:
    """Else a clip's pauses would tell an action from its reversal."""
    s = script()
    assert abs(float(s.start.mean() - s.finish.mean())) < 0.005
    assert abs(float(s.start.std() - s.finish.std())) < 0.005
