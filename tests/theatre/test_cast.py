from __future__ import annotations

from dataclasses import fields

import torch

from sfumato.theatre.cast import AGE_NAMES, BUILD_NAMES, HAIR_NAMES, SKIN_TONES, TONE_NAMES, Cast, people

MANY = torch.arange(3000)


def equal(a: Cast, b: Cast) -> bool:
    return all(getattr(a, f.name).equal(getattr(b, f.name)) for f in fields(Cast))


def test_a_person_is_the_same_alone_and_among_others() -> None:
    together = people(0, torch.tensor([8, 3, 5, 3]))
    assert equal(together.select(torch.tensor([1])), people(0, torch.tensor([3])))
    assert equal(together.select(torch.tensor([1])), together.select(torch.tensor([3])))


def test_two_people_and_two_casts_differ_in_looks_and_in_moving() -> None:
    one = people(0, torch.tensor([3]))
    for other in (people(0, torch.tensor([4])), people(1, torch.tensor([3]))):
        for name in ("top", "bottom", "height", "tempo", "amplitude", "sway_tempo"):
            assert not getattr(one, name).equal(getattr(other, name))


def test_every_value_that_has_a_name_occurs() -> None:
    cast = people(0, MANY)
    named = {"tone": TONE_NAMES, "hair_kind": HAIR_NAMES, "age": AGE_NAMES, "build": BUILD_NAMES}
    for what, names in named.items():
        assert getattr(cast, what).unique().tolist() == list(range(len(names)))
    assert abs(float(cast.gender.float().mean()) - 0.5) < 0.05


def test_looks_follow_from_what_a_person_is() -> None:
    cast = people(0, MANY)
    assert (cast.skin - torch.tensor(SKIN_TONES)[cast.tone]).abs().max() <= 0.021
    assert cast.height[cast.age == 0].max() < cast.height[cast.age > 0].min()
    assert not (cast.beard[(cast.gender == 0) | (cast.age == 0)] > 0).any()
    assert cast.hair_length[cast.gender == 0].min() > cast.hair_length[cast.gender == 1].max()
    # Age group and build are seen, not given away by gender.
    for name in ("tone", "build", "age"):
        mean = [getattr(cast, name)[cast.gender == g].float().mean() for g in (0, 1)]
        assert abs(mean[0] - mean[1]) < 0.2


def test_bodies_have_human_proportions() -> None:
    body = people(0, MANY).body()
    assert body.height.min() > 1.1 and body.height.max() < 1.95
    assert (body.shoulder > body.hip).all() and (body.girth > 0.6).all()
