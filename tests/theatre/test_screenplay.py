from __future__ import annotations

from functools import cache
from itertools import pairwise

import pytest
import torch
from torch import Tensor

from sfumato.theatre.choreography import anomalies
from sfumato.theatre.screenplay import IDLE, Kind, Span, perform, plan, repertoire

KINDS: tuple[Kind, ...] = ("untrimmed", "surveillance")
MANY = range(200)
FRAMES = 256


@cache
def plans(kind: Kind, frames: int = FRAMES) -> list[tuple[tuple[Span, ...], bool]]:
    return [plan(0, index, frames, kind) for index in MANY]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("frames", [64, FRAMES])
def test_spans_lie_inside_the_video_one_after_the_other(kind: Kind, frames: int) -> None:
    for spans, _ in plans(kind, frames):
        assert all(0 <= span.start < span.end <= frames for span in spans)
        assert all(a.end <= b.start for a, b in pairwise(spans))
        assert all(span.end - span.start >= 16 for span in spans)
    assert all(spans for spans, _ in plans(kind, frames))


@pytest.mark.parametrize("kind", KINDS)
def test_a_video_of_an_hour_can_be_planned(kind: Kind) -> None:
    spans, _ = plan(0, 3, 90_000, kind)
    assert len(spans) > 1500 and spans[-1].end > 89_000


def test_a_video_too_short_for_any_motion_has_none() -> None:
    assert plan(0, 0, 16, "surveillance")[0] == ()


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_seed_and_index_give_the_same_plan(kind: Kind) -> None:
    assert plan(3, 7, FRAMES, kind) == plan(3, 7, FRAMES, kind)
    assert len(set(plans(kind))) == len(MANY)
    assert plan(4, 7, FRAMES, kind) != plan(3, 7, FRAMES, kind)


def test_labels_are_in_the_repertoire_and_pauses_have_none() -> None:
    known = {motion.name for motion in repertoire()} - {IDLE.name}
    seen = {span.label for kind in KINDS for spans, _ in plans(kind) for span in spans}
    assert seen <= known
    assert len(seen) > 15
    assert not any(motion.uses_object for motion in repertoire())


def test_half_of_the_surveillance_plays_have_one_anomaly() -> None:
    strange = [[span for span in spans if span.anomaly] for spans, _ in plans("surveillance")]
    assert 0.4 <= sum(map(bool, strange)) / len(MANY) <= 0.6
    assert max(map(len, strange)) == 1
    names = {motion.name for motion in anomalies()}
    for spans, _ in plans("surveillance"):
        assert all(span.anomaly == (span.label in names) for span in spans)


def test_untrimmed_plays_have_no_anomaly() -> None:
    names = {motion.name for motion in anomalies()}
    assert not any(span.anomaly or span.label in names for spans, _ in plans("untrimmed") for span in spans)


@pytest.mark.parametrize("kind", KINDS)
def test_it_takes_two_to_fight_or_to_shake_hands(kind: Kind) -> None:
    two = {motion.name for motion in repertoire() if motion.two_person}
    assert {"fight", "shake hands"} <= two
    together = [spans for spans, pair in plans(kind) if pair]
    alone = [spans for spans, pair in plans(kind) if not pair]
    assert any(span.label in two for spans in together for span in spans)
    assert not any(span.label in two for spans in alone for span in spans)
    assert not any(span.label == "fall" for spans in together for span in spans)


def test_who_has_fallen_stays_down_until_they_get_up() -> None:
    seen = set()
    for spans, _ in plans("surveillance"):
        for span, then in zip(spans, (*spans[1:], None), strict=True):
            if span.label == "fall":
                assert span.end == (then.start if then else FRAMES)
                assert then is None or (then.label, then.anomaly) == ("get up", False)
                seen.add(then is None)
    assert seen == {True, False}


def tall(people: Tensor) -> int:
    """How many rows of a mask (1, H, W) show somebody."""
    return int(people[0].any(dim=1).sum())


# Plays of one person with nobody beside: one that falls and gets up, one that falls and stays.
@pytest.mark.parametrize("index", [1, 29])
def test_a_fall_ends_lying(index: int) -> None:
    play = perform(0, index, frames=64, side=48, kind="surveillance")
    (fall,) = [span for span in play.spans if span.anomaly]
    standing = tall(play.people[fall.start])
    for frame in (fall.start + 14, fall.end - 1):
        assert tall(play.people[frame]) < standing / 2
    assert tall(play.people[fall.start - 1]) >= 0.9 * standing


def test_a_drawn_play_has_its_shapes_its_people_and_its_plan() -> None:
    play = perform(0, 3, frames=48, side=32)
    assert play.video.shape == (48, 3, 32, 32) and play.people.shape == (48, 1, 32, 32)
    assert play.video.dtype == play.people.dtype == torch.uint8
    assert play.people.unique().tolist() == [0, 1]
    assert play.people.flatten(1).any(dim=1).all()
    assert play.spans == plan(0, 3, 48, "untrimmed")[0]
    again = perform(0, 3, frames=48, side=32)
    assert again.video.equal(play.video) and again.people.equal(play.people)
    assert not perform(0, 4, frames=48, side=32).video.equal(play.video)


def test_motion_is_where_the_spans_are() -> None:
    """The camera drifts slowly and the grain moves everywhere; silhouettes change when somebody acts."""
    play = perform(0, 1, frames=96, side=48)
    change = (play.people[1:] != play.people[:-1]).float().flatten(1).mean(1)
    acting = torch.zeros(96, dtype=torch.bool)
    for span in play.spans:
        acting[max(0, span.start - 2) : span.end + 3] = True  # poses flow into each other over five frames
    assert acting.any() and not acting.all()
    assert change[acting[1:]].mean() > 2 * change[~acting[1:]].mean()


def test_two_people_are_on_stage_when_the_plan_says_so() -> None:
    """Side by side: at the height of their heads, in the upper third of the silhouette, there is a gap between them."""
    pairs = [index for index in MANY if plan(0, index, 16, "untrimmed")[1]][:6]
    for index in pairs:
        first = perform(0, index, frames=16, side=64).people[0, 0].int()
        heads = first[first.any(dim=1)][: int(first.any(dim=1).sum()) // 3]
        runs = (heads.diff(dim=1, prepend=torch.zeros(len(heads), 1, dtype=torch.int32)) == 1).sum(1)
        assert runs.max() >= 2
