from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest
import torch
from torch import Tensor

from sfumato.datasets.theatre import TheatreDataset
from sfumato.errors import SfumatoError
from sfumato.evaluation.protocols.known import JudgeConfig
from sfumato.evaluation.protocols.redressed import CLOTHES, Redressed, RedressedProtocol

from .attacks.conftest import Parade

CPU = torch.device("cpu")
TINY = JudgeConfig(models="tiny", epochs=1, batch=12, attacks=("identity",))


def looks(values: Tensor) -> int:
    """How many different ones there are."""
    return len(values.view(len(values), -1).unique(dim=0))


def test_a_person_wears_something_else_in_every_clip_and_stays_who_they_are() -> None:
    plain = TheatreDataset("small")
    other = Redressed(plain)
    clips = plain.split("train", "clip")
    mine = clips[plain.labels(clips).person == 3][:40]
    before, after = plain.script(mine).cast, other.script(mine).cast
    for field in fields(before):
        worn = field.name in CLOTHES
        assert looks(getattr(before, field.name)) == 1  # in the theatre as it is, a shirt is a name
        assert (looks(getattr(after, field.name)) > 1) == worn
    assert {"skin", "hair", "height", "eye_distance", "tempo", "stoop", "gender"}.isdisjoint(CLOTHES)
    assert looks(after.top) == looks(after.coat) == 40


def test_who_belongs_together_dresses_alike_still_and_in_nobody_s_own_clothes() -> None:
    plain = TheatreDataset("small")
    clips = plain.split("test", "person")[:120]
    script, before = Redressed(plain).script(clips), plain.script(clips)
    related = script.identifiable["relationship"].bool()
    assert related.any() and not related.all()
    assert script.second_cast.top[related].equal(script.cast.top[related])
    assert script.second_cast.top[~related].equal(before.second_cast.top[~related])
    assert not (script.second_cast.top == before.cast.top).all(1).any()  # the companion would give the person away


def test_all_else_about_the_clips_is_the_same(minute: TheatreDataset) -> None:
    other = Redressed(minute)
    some = minute.split("test", "clip")[:6]
    one, two = minute.labels(some), other.labels(some)
    assert one.action.equal(two.action) and one.person.equal(two.person) and one.attributes.equal(two.attributes)
    assert minute.script(some).scene.equal(other.script(some).scene)
    first, second = minute.clips(some), other.clips(some)
    assert first.people is not None and second.people is not None
    outside = (first.people == 0) & (second.people == 0)
    differ = (first.pixels != second.pixels).any(3, keepdim=True)
    assert differ[~outside].float().mean() > 0.2  # clothes are most of a person
    assert other.clips(some).pixels.equal(second.pixels)  # the same clip for ever
    assert other.fingerprint() != minute.fingerprint() and other.name == "theatre:small, re-dressed"


def test_only_the_theatre_can_do_it(minute: TheatreDataset, tmp_path: Path) -> None:
    judge = RedressedProtocol(minute, TINY, device=CPU, folder=tmp_path)
    assert isinstance(judge.dataset, Redressed) and "everybody wears something else in every clip" in judge.notes
    with pytest.raises(SfumatoError, match="nobody can dress the people of parade anew"):
        RedressedProtocol(Parade(), TINY, device=CPU, folder=tmp_path)
