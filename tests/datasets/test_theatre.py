from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from sfumato.datasets import open_dataset
from sfumato.datasets import theatre as module
from sfumato.datasets.base import Part, SplitBy
from sfumato.datasets.theatre import NOVEL_ATTRIBUTES, VALUE_ATTRIBUTES, VP_ATTRIBUTES, TheatreDataset
from sfumato.errors import SfumatoError
from sfumato.theatre.choreography import actions
from sfumato.theatre.compositions import held_out

PARTS: tuple[Part, ...] = ("train", "val", "test")


@pytest.fixture(scope="module")
def small() -> TheatreDataset:
    return TheatreDataset("small")


def people(data: TheatreDataset, part: Part, by: SplitBy) -> set[int]:
    return set(data.labels(data.split(part, by)).person.tolist())


@pytest.mark.parametrize("by", ["person", "clip"])
@pytest.mark.parametrize("preset", ["", "small", "balanced"])
def test_splits_are_disjoint_and_as_large_as_the_preset_says(preset: str, by: SplitBy) -> None:
    data = TheatreDataset(preset)
    parts = [data.split(part, by) for part in PARTS]
    assert tuple(len(part) for part in parts) == data.preset.sizes
    together = torch.cat(parts)
    assert together.unique().numel() == len(together)
    assert together.min() >= 0 and together.max() < len(data)


def test_both_splits_train_on_the_same_clips_and_cover_the_data_set(small: TheatreDataset) -> None:
    assert small.split("train", "person").equal(small.split("train", "clip"))
    everything = torch.cat([small.split(part, by) for by in ("person", "clip") for part in PARTS]).unique()
    assert everything.equal(torch.arange(len(small)))


def test_the_person_split_shares_nobody_and_the_clip_split_everybody(small: TheatreDataset) -> None:
    train, val, test = (people(small, part, "person") for part in PARTS)
    assert not train & val and not train & test and not val & test
    assert (len(train), len(val), len(test)) == small.preset.cast
    assert people(small, "train", "clip") == people(small, "val", "clip") == people(small, "test", "clip") == train


@pytest.mark.parametrize("preset", ["", "small"])
def test_every_block_is_balanced_in_action_and_person(preset: str) -> None:
    data = TheatreDataset(preset)
    for by in ("person", "clip"):
        for part in PARTS:
            labels = data.labels(data.split(part, by))
            for values in (labels.action, labels.person):
                counts = values.bincount()
                counts = counts[counts > 0]
                assert counts.max() <= 1.25 * counts.min() + 1
            assert labels.action.unique().numel() == len(data.actions)


def test_everybody_does_everything(small: TheatreDataset) -> None:
    labels = small.labels(small.split("train", "person"))
    pairs = torch.stack([labels.person, labels.action], 1).unique(dim=0)
    assert len(pairs) == small.preset.cast[0] * len(small.actions)


def test_labels_have_their_shapes_and_stay_in_range(small: TheatreDataset) -> None:
    indices = torch.tensor([5, 1300, 2000])
    labels = small.labels(indices)
    assert labels.action.shape == labels.person.shape == (3,)
    assert labels.attributes.shape == (3, 5)
    assert labels.action.dtype == labels.person.dtype == labels.attributes.dtype == torch.int64
    assert labels.action.max() < len(small.actions) and labels.person.max() < len(small.persons)
    assert small.labels(indices[1:]).attributes.equal(labels.attributes[1:])


def test_the_second_set_of_attributes_is_disjoint_and_in_range() -> None:
    assert not {a.name for a in VP_ATTRIBUTES} & {a.name for a in NOVEL_ATTRIBUTES}
    wanted = (*NOVEL_ATTRIBUTES, *VALUE_ATTRIBUTES)
    data = TheatreDataset("novel")
    data.attributes = wanted
    values = data.labels(torch.arange(len(data))).attributes
    for column, spec in zip(values.T, wanted, strict=True):
        assert column.min() >= 0 and column.max() < len(spec.values)
        assert column.unique().numel() >= 2


def test_the_same_clips_about_other_attributes(small: TheatreDataset) -> None:
    view = small.about(["object", "scene", "nose"])
    assert [(a.name, len(a.values)) for a in view.attributes] == [("object", 6), ("scene", 8)]
    assert small.attributes == VP_ATTRIBUTES
    indices = torch.tensor([3, 1700])
    samples = [small.sample(int(i)) for i in indices]
    labels = view.labels(indices)
    assert labels.attributes.tolist() == [[s.attributes["object"], s.attributes["scene"]] for s in samples]
    assert labels.action.equal(small.labels(indices).action)
    assert view.clips(indices).pixels[:, 0].equal(torch.stack([s.clip for s in samples]))
    prints = [d.fingerprint() for d in (small, view, small.about(["scene"]), small.about(["object"]))]
    assert len(set(prints)) == 4
    assert view.about(["face"]).attributes == VP_ATTRIBUTES[:1]  # a view shows all that is known, too
    with pytest.raises(SfumatoError, match=r"theatre:small has no labels of nose, hat: .*face, skin.*scene.*object"):
        small.about(["nose", "hat"])


def test_scenes_and_objects_are_private_in_the_same_clips(small: TheatreDataset) -> None:
    scenes = TheatreDataset("small-scenes")
    assert [(a.name, len(a.values)) for a in scenes.attributes] == [("scene", 8), ("object", 6)]
    indices = torch.tensor([3, 1300, 2400])
    assert scenes.clips(indices).pixels.equal(small.clips(indices).pixels)
    mine, theirs = scenes.labels(indices), small.about(["scene", "object"]).labels(indices)
    assert mine.action.equal(theirs.action) and mine.person.equal(theirs.person)
    assert mine.attributes.equal(theirs.attributes)
    assert scenes.split("test", "person").equal(small.split("test", "person"))
    assert scenes.fingerprint() != small.fingerprint()  # other answers are kept apart


def test_the_presets_are_what_their_names_say(small: TheatreDataset) -> None:
    assert (small.shape.frames, small.shape.height, small.shape.width) == (8, 64, 64)
    assert len(small.actions) == 10
    full = TheatreDataset()
    assert (full.shape.frames, full.shape.height, full.shape.width) == (16, 112, 112)
    assert full.actions == tuple(m.name for m in actions())
    assert TheatreDataset("novel").attributes == NOVEL_ATTRIBUTES
    motions = TheatreDataset("motions")
    assert len(motions.actions) >= 200
    assert motions.sample(5).caption == f"a person {motions.actions[motions.sample(5).action]}"
    balanced = TheatreDataset("balanced")
    shares = balanced.labels(torch.arange(4000)).attributes.float().mean(0)
    assert (shares - 0.5).abs().max() < 0.03


def test_small_novel_shares_neither_actions_nor_attributes_with_small() -> None:
    small, novel = TheatreDataset("small"), TheatreDataset("small-novel")
    assert not set(small.actions) & set(novel.actions)
    assert not {a.name for a in small.attributes} & {a.name for a in novel.attributes}
    assert (novel.shape, len(novel.actions), len(novel)) == (small.shape, len(small.actions), len(small))


def test_a_sample_holds_everything(small: TheatreDataset) -> None:
    sample = small.sample(3)
    assert (sample.clip.shape, sample.clip.dtype) == ((8, 3, 64, 64), torch.uint8)
    assert sample.people is not None and sample.people.shape == (8, 1, 64, 64)
    assert sample.source == "theatre:small/3"
    every = (*VP_ATTRIBUTES, *NOVEL_ATTRIBUTES, *VALUE_ATTRIBUTES)
    assert set(sample.attributes) == {a.name for a in every}
    assert all(0 <= sample.attributes[a.name] < len(a.values) for a in every)
    labels = small.labels(torch.tensor([3]))
    assert (sample.action, sample.person) == (labels.action.item(), labels.person.item())
    assert [sample.attributes[a.name] for a in small.attributes] == labels.attributes[0].tolist()
    assert sample.caption == f"a person {small.motions[sample.action].caption}"


def test_clips_come_in_the_order_asked_whatever_the_chunks(small: TheatreDataset) -> None:
    indices = torch.tensor([900, 3, 1500, 7, 8, 9, 10, 11, 12, 13])
    told: list[tuple[int, int]] = []
    clips = small.clips(indices, views=4, progress=lambda done, total: told.append((done, total)))
    assert clips.pixels.shape == (10, 1, 8, 3, 64, 64)  # one window long: one view, whatever is asked
    assert clips.people is not None and clips.people.shape == (10, 1, 8, 1, 64, 64)
    assert told == [(8, 10), (10, 10)]
    for row in (0, 1, 9):
        sample = small.sample(int(indices[row]))
        assert clips.pixels[row, 0].equal(sample.clip)
        assert clips.people[row, 0].equal(sample.people)


def test_drawing_leaves_the_number_of_threads_as_it_was(small: TheatreDataset) -> None:
    before = torch.get_num_threads()
    small.clips(torch.arange(10))
    assert torch.get_num_threads() == before


def test_an_empty_stage_can_be_asked_for(small: TheatreDataset) -> None:
    clips = small.clips(torch.tensor([4]), actors=False)
    assert clips.people is not None and not clips.people.any()


def test_the_fingerprint_tells_data_sets_apart(monkeypatch: pytest.MonkeyPatch, small: TheatreDataset) -> None:
    same = TheatreDataset("small").fingerprint()
    assert same == small.fingerprint()
    others = {
        TheatreDataset("small", seed=1).fingerprint(),
        TheatreDataset("novel").fingerprint(),
        TheatreDataset("motions").fingerprint(),
    }
    monkeypatch.setitem(module.PRESETS, "small", replace(small.preset, sizes=(1200, 240, 401)))
    others.add(TheatreDataset("small").fingerprint())
    assert len({same, *others}) == 5


def test_another_seed_is_another_cast(small: TheatreDataset) -> None:
    other = TheatreDataset("small", seed=1)
    assert not other.sample(0).clip.equal(small.sample(0).clip)


@pytest.mark.parametrize(("name", "near"), [("theatre:smal", "theatre:small"), ("theater", "theatre")])
def test_an_unknown_name_is_answered_with_the_nearest(name: str, near: str) -> None:
    with pytest.raises(SfumatoError, match=f"did you mean '{near}'") as error:
        open_dataset(name)
    assert str(error.value).endswith("all 31: sfumato list datasets") and len(str(error.value)) < 200


@pytest.mark.parametrize("preset", ["", "-novel"])
def test_tiny_is_small_seen_from_further_away(preset: str) -> None:
    small, tiny = TheatreDataset(f"small{preset}"), TheatreDataset(f"tiny{preset}")
    some = torch.tensor([0, len(small) - 1])
    seen, thumbnails = (data.clips(some).pixels[:, 0].float() for data in (small, tiny))
    assert thumbnails.shape[-2:] == (32, 32) and len(tiny) == len(small)
    assert tiny.labels(some).attributes.equal(small.labels(some).attributes)
    shrunk = seen.unflatten(-1, (32, 2)).unflatten(-3, (32, 2)).mean((-1, -3))
    assert (shrunk - thumbnails).abs().mean() < 16 < 32 < (shrunk - thumbnails.flip(0)).abs().mean()


@pytest.mark.parametrize(("preset", "like"), [("unseen", ""), ("small-unseen", "small")])
def test_unseen_has_the_held_out_actions_in_clips_of_the_same_shape(preset: str, like: str) -> None:
    data, other = TheatreDataset(preset), TheatreDataset(like)
    assert data.phrases() == data.actions == tuple(c.motion.caption for c in held_out())
    assert (data.shape, len(data), data.attributes) == (other.shape, len(other), other.attributes)
    labels = data.labels(data.split("test", "person"))
    assert labels.action.bincount().min() >= len(labels.action) // len(data.actions) - 1


def test_what_says_left_or_right_must_not_be_mirrored() -> None:
    assert TheatreDataset().mirror_safe and TheatreDataset("small").mirror_safe
    assert not any(TheatreDataset(name).mirror_safe for name in ("motions", "unseen", "small-unseen"))
