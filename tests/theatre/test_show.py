from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from sfumato.theatre.choreography import actions, reversed_pairs
from sfumato.theatre.compositions import compositions
from sfumato.theatre.script import VP_PREVALENCE, Script, write
from sfumato.theatre.show import Footage, Show

SIDE, FRAMES = 64, 8
SHOW = Show(actions(), SIDE, FRAMES)
SOME = torch.arange(100, 127)  # as many as there are actions


def script(index: Tensor, seed: int = 0, motion: Tensor | None = None, person: Tensor | None = None) -> Script:
    motion = index % len(actions()) if motion is None else motion
    return write(seed, index, index % 30 if person is None else person, motion, actions(), VP_PREVALENCE)


def draw(index: Tensor, *, actors: bool = True, **given: Tensor) -> Footage:
    return SHOW.draw(script(index, **given), actors=actors)


@pytest.fixture(scope="module")
def footage() -> Footage:
    return draw(SOME)


@pytest.fixture(scope="module")
def empty() -> Footage:
    return draw(SOME, actors=False)


def test_clips_and_masks_have_their_shapes(footage: Footage) -> None:
    assert footage.clips.shape == (len(SOME), FRAMES, 3, SIDE, SIDE)
    assert footage.people.shape == (len(SOME), FRAMES, 1, SIDE, SIDE)
    assert footage.clips.dtype == footage.people.dtype == torch.uint8
    assert footage.people.unique().tolist() == [0, 1]


def test_the_same_seed_and_index_give_the_same_bytes(footage: Footage) -> None:
    for n in (0, 9, 26):
        alone = draw(SOME[n : n + 1])
        assert alone.clips[0].equal(footage.clips[n])
        assert alone.people[0].equal(footage.people[n])
    backwards = draw(SOME.flip(0)[:6])
    assert backwards.clips.equal(footage.clips.flip(0)[:6])


def test_a_script_drawn_twice_gives_the_same_film() -> None:
    written = script(SOME[:2])
    first = SHOW.draw(written)
    assert SHOW.draw(written).clips.equal(first.clips)


def test_another_index_or_seed_gives_another_clip(footage: Footage) -> None:
    for other in (draw(SOME[:3] + 27 * 30), SHOW.draw(script(SOME[:3], seed=1))):
        assert ((other.clips != footage.clips[:3]).float().mean((1, 2, 3, 4)) > 0.5).all()


def test_another_person_or_motion_gives_another_clip(footage: Footage) -> None:
    two = SOME[:2]
    assert not draw(two, motion=torch.tensor([20, 21])).clips.equal(footage.clips[:2])
    assert not draw(two, person=torch.tensor([3, 4])).clips.equal(footage.clips[:2])


def test_the_empty_stage_knows_neither_the_action_nor_the_person(empty: Footage) -> None:
    others = draw(SOME, actors=False, motion=(SOME + 5) % 27, person=SOME * 7 % 50)
    assert others.clips.equal(empty.clips)
    assert not empty.people.any()
    # The attributes are dice of the same script: with others thrown, the stage stays as it is.
    written = script(SOME)
    flags = {name: 1 - flag for name, flag in written.identifiable.items()}
    assert SHOW.draw(replace(written, identifiable=flags), actors=False).clips.equal(empty.clips)


def test_the_mask_is_where_people_change_the_picture(footage: Footage, empty: Footage) -> None:
    change = (footage.clips.float() - empty.clips.float()).abs().amax(2, keepdim=True)
    inside = footage.people.bool()
    assert (change[inside] > 8).float().mean() > 0.9
    # Outside lie only the object, shadows and soft edges.
    assert (change[~inside] > 8).float().mean() < 0.08
    assert (change[~inside] == 0).float().mean() > 0.85


def test_the_actor_is_in_every_frame_and_mostly_inside_the_picture(footage: Footage) -> None:
    area = footage.people.float().mean((2, 3, 4))
    assert area.min() > 0.02 and area.max() < 0.6
    border = footage.people.clone()
    border[..., 2:-2, 2:-2] = 0
    assert border.sum() < 0.03 * footage.people.sum()


def test_every_action_moves(footage: Footage) -> None:
    motion = (footage.clips[:, 1:].float() - footage.clips[:, :-1].float()).abs().mean((1, 2, 3, 4))
    assert motion.min() > 1


def test_no_frame_tells_an_action_from_its_reversal() -> None:
    """Filmed by a camera that stands still, the one clip shows the other's silhouettes in reversed order."""
    first, second = torch.tensor([p for p in reversed_pairs() if not actions()[p[0]].loop]).T
    way = torch.linspace(0, 1, FRAMES).expand(len(first), -1)
    middle = torch.full_like(way, 0.5)

    def silhouettes(motion: Tensor) -> Tensor:
        written = script(torch.arange(len(motion)), motion=motion)
        return SHOW.draw_timed(written, middle, motion[:, None].expand_as(way).long(), way, middle).people

    forwards, backwards = silhouettes(first), silhouettes(second)
    assert (forwards != backwards.flip(1)).float().mean() < 1e-4  # rounding at the outline
    assert (forwards != backwards).float().mean() > 0.01


def test_compositions_can_be_played_too() -> None:
    motions = tuple(c.motion for c in compositions()[:4])
    index = torch.arange(4)
    played = Show(motions, 32, 4).draw(write(0, index, index, index, motions, VP_PREVALENCE))
    assert played.clips.shape == (4, 4, 3, 32, 32)
    assert played.people.any(dim=-1).any(dim=-1).all()
