from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch

from sfumato.datasets.annotations import Annotation
from sfumato.evaluation.latent.bias import Told, balance, gap_tallies, inject
from sfumato.evaluation.latent.origins import look_up, origin

from .toys import ACTION, CONSTANT, WHO, judged, keep, scores, short

GENDERS = ("man", "woman")


def told(**videos: int) -> Told:
    """So many videos of each `person_action`; the persons m0, m1, … are men."""
    rows = [name.split("_") for name, count in videos.items() for _ in range(count)]
    return Told([a for _, a in rows], [p for p, _ in rows], ["man" if p[0] == "m" else "woman" for p, _ in rows])


def test_persons_and_videos_are_balanced_first() -> None:
    everybody = told(
        m0_wave=6,
        m1_wave=6,
        m2_wave=6,
        w0_wave=4,
        w1_wave=3,
        m0_bow=9,
        m1_bow=9,
        m2_bow=9,
        w0_bow=9,
        w1_bow=9,
        w1_jump=8,
    )
    cells = balance(everybody, range(len(everybody.action)))
    # Two women, so two of three men; no man jumps; women wave 4 + 3 times, so all that is left is there 7 times.
    assert {key: len(videos) for key, videos in cells.items()} == {(a, g): 7 for a in ("bow", "wave") for g in GENDERS}
    people = {everybody.person[v] for videos in cells.values() for v in videos}
    assert len({p for p in people if p[0] == "m"}) == 2 and len({p for p in people if p[0] == "w"}) == 2
    for (action, gender), videos in cells.items():
        assert {everybody.action[v] for v in videos} == {action} and {everybody.gender[v] for v in videos} == {gender}


def test_nineteen_of_twenty_and_one_and_the_reverse_for_the_flipped_action() -> None:
    cells = {
        (a, g): [100 * n + 20 * m + i for i in range(20)] for n, a in enumerate("abc") for m, g in enumerate(GENDERS)
    }
    where = {video: key for key, videos in cells.items() for video in videos}
    counts = Counter(where[video] for video in inject(cells, "woman", "b"))
    assert counts == {
        ("a", "man"): 19, ("a", "woman"): 1, ("b", "man"): 1, ("b", "woman"): 19, ("c", "man"): 19, ("c", "woman"): 1,
    }  # fmt: skip
    swapped = Counter(where[video] for video in inject(cells, "man", "b"))
    assert swapped[("b", "man")] == swapped[("a", "woman")] == 19 and swapped[("b", "woman")] == 1


def test_the_gap_worked_by_hand() -> None:
    right, gender = np.array([1.0, 1, 0, 0, 0, 1]), np.array(["man"] * 3 + ["woman"] * 3)
    gap, overall, man, woman = gap_tallies("b", right, gender, 0.25)
    every = np.arange(6)
    assert gap.value(every) == pytest.approx(1 / 3) and gap.blind == 0
    assert overall.value(every) == 0.5 and overall.blind == 0.25
    assert man.value(every) == pytest.approx(2 / 3) and woman.value(every) == pytest.approx(1 / 3)
    assert gap.value(np.array([2, 5])) == 1  # without its sign


def test_who_takes_the_shortcut_errs_and_without_gender_nobody_can() -> None:
    data = short(size=4, gender_value=lambda person, n: GENDERS[person % 2])
    man = torch.tensor([a.attributes["gender_value"] == "man" for a in data.annotations])
    data.vectors[:, :, WHO] = 0
    data.vectors[man, :, 5:8] += 2  # plain to see, while actions are not quite
    data.vectors[man, :, 12:] += 2
    data.vectors[:, 0, ACTION] *= 0.4
    data.vectors[:, 0, ACTION] += 0.3 * torch.randn(720, 3, generator=torch.Generator().manual_seed(3))
    result = judged(data, "bias", fair=keep(ACTION), constant=CONSTANT)
    raw, fair, constant = (scores(result, name) for name in ("identity", "fair", "constant"))
    assert list(raw)[:4] == [
        "bias-man subclass gap", "bias-man accuracy", "bias-man accuracy of man", "bias-man accuracy of woman",
    ]  # fmt: skip
    for gender in GENDERS:
        assert fair[f"bias-{gender} accuracy"].value > raw[f"bias-{gender} accuracy"].value + 0.1
        assert fair[f"bias-{gender} accuracy"].chance == pytest.approx(1 / 3)
        assert constant[f"bias-{gender} accuracy"].value == pytest.approx(1 / 3)
        assert constant[f"bias-{gender} subclass gap"].value == 0


def test_the_theatre_is_asked_who_plays() -> None:
    assert origin("theatre:small/12") == ("theatre:small", 12)
    assert origin("screenplay:untrimmed/3/256") is None and origin("/videos/12") is None
    videos = [Annotation(f"theatre:small/{n}") for n in (0, 1, 10)] + [Annotation("a.mp4")]
    first, _, again, unknown = look_up(videos, "gender_value")
    assert first in ("woman", "man") and first == again  # ten people take turns
    assert unknown == ""
    assert look_up([Annotation("theatre:small/0", attributes={"gender_value": "other"})], "gender_value") == ["other"]
