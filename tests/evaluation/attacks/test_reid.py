from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from sfumato.datasets.base import Labels
from sfumato.evaluation.attacks.reid import REID, GalleryProbe, embed, probes
from sfumato.evaluation.exam import Desk, Examinee, Memory, asked
from sfumato.recognizers import make_recognizer
from sfumato.training.fit import FitConfig

from .conftest import CPU, Parade

SETTINGS = FitConfig(batch=3)


def test_every_other_recording_of_a_person_is_the_gallery() -> None:
    data = Parade((16, 16, 36), recording=3)
    gallery, probe = probes(REID, data, "test")
    assert (gallery != probe).all()
    indices = asked(REID, data, "test")
    person, recording = data.labels(indices).person, data.recordings(indices)
    for who in person.unique():
        for side, first in ((gallery, 0), (probe, 1)):
            mine = recording[person == who].unique_consecutive()[first::2]
            assert recording[side & (person == who)].unique().equal(mine)
    assert GalleryProbe().items(REID, data, "test").equal(indices[probe])
    assert GalleryProbe().items(REID, data, "train").equal(asked(REID, data, "train"))


class Recited(torch.nn.Module):
    """A recognizer whose features are the angle that the first pixel of a clip says, in degrees."""

    def features(self, video: Tensor) -> Tensor:
        angle = torch.deg2rad(video[:, 0, 0, 0, 0] * 255)
        return torch.stack([angle.cos(), angle.sin()], 1)


class Few(Parade):
    """Given persons in the test part, clips whose first pixel is given."""

    def __init__(self, persons: list[int], angles: list[int]) -> None:
        super().__init__((4, 4, len(persons)))
        self.who, self.angles = torch.tensor(persons), angles

    def labels(self, indices: Tensor) -> Labels:
        found = super().labels(indices)
        here = indices >= self.ends[3]
        found.person[here] = self.who[indices[here] - self.ends[3]]
        return found

    def pixels(self, part: Any) -> Tensor:
        shown = torch.zeros(len(self.angles), 1, 2, 3, 16, 16, dtype=torch.uint8)
        shown[:, 0, :, 0, 0, 0] = torch.tensor(self.angles, dtype=torch.uint8)[:, None]
        return shown


def reply(data: Few, seed: int = 0) -> Any:
    desk = Desk(REID, Examinee("tiny-video", SETTINGS), data, data.pixels, data.pixels, seed, CPU, None, Memory())
    return GalleryProbe().answer(desk, Recited(), "test")


def test_rank_1_average_precision_and_chance_worked_by_hand() -> None:
    # Person 9: gallery at 0° and 60°, probes at 5° and 50°. Person 11: gallery at 40°, a probe at 30°. 10: gallery only.
    found = reply(Few([9, 9, 11, 9, 9, 11, 10], [0, 5, 40, 60, 50, 30, 90]))
    assert found.labels.tolist() == [[0], [0], [2]]  # numbered by who is there
    # 5°: 0, 40, 60, 90 → right. 50°: 40 and 60 are equally near; below they are told apart. 30°: 40, then 0 and 60.
    assert found.probabilities[[0, 2]].argmax(1).tolist() == [0, 2]
    assert found.probabilities.sum(1) == pytest.approx(1)
    assert found.blind.tolist() == [0.5, 0.5, 0.25]  # of four gallery clips two are of person 9, one of person 11
    precision, chance = found.measures["mAP"]
    assert precision[0] == pytest.approx((1 + 2 / 3) / 2) and precision[2] == 1
    # One match among four: the mean of 1, 1/2, 1/3, 1/4.
    assert chance[2] == pytest.approx(25 / 48)


def test_what_cannot_be_told_apart_is_ranked_at_random() -> None:
    """Four persons, all clips alike: always the same name would be a bet on the order of the files."""
    persons = [8 + n % 4 for n in range(160)]
    found = reply(Few(persons, [7] * 160))
    assert len(set(found.probabilities.argmax(1))) == 4
    precision, chance = found.measures["mAP"]
    assert precision.mean() == pytest.approx(chance.mean(), abs=0.02)
    again, other = reply(Few(persons, [7] * 160)), reply(Few(persons, [7] * 160), seed=1)
    assert np.array_equal(found.probabilities, again.probabilities)
    assert not np.array_equal(found.probabilities, other.probabilities)


def test_the_epoch_is_chosen_by_whom_it_finds_again_among_people_it_never_saw() -> None:
    data = Parade((4, 16, 4))
    person = data.labels(asked(REID, data, "val")).person
    scores = []
    for angles in (20 * (person - 4), torch.zeros(16)):  # everybody told apart, nobody
        clips = torch.zeros(16, 1, 2, 3, 16, 16, dtype=torch.uint8)
        clips[..., 0, 0] = angles.view(-1, 1, 1, 1)
        # Names of training persons, which are all wrong here, do not count.
        desk = Desk(REID, Examinee("", SETTINGS), data, lambda _, c=clips: c, None, 0, CPU, None, Memory())  # type: ignore
        scores.append(GalleryProbe().choice(desk, Recited())(torch.zeros(16, 12), person[:, None]))
    assert scores[0] == 1 and scores[1] < 0.7


def test_two_persons_with_two_recordings_are_needed_in_validation_and_in_test() -> None:
    approach = GalleryProbe()
    assert approach.lacks(REID, Parade()) == ""
    once = Parade((16, 4, 16))  # every validation person once: nobody can be found again
    assert approach.lacks(REID, once) == "has 0 val persons with two recordings or more, 2 are needed"
    alone = Few([9, 9, 9, 10], [0, 0, 0, 0])
    alone.ends = [4, 20, 24, 40, 44]
    assert approach.lacks(REID, alone) == "has 1 test persons with two recordings or more, 2 are needed"


@pytest.mark.parametrize("name", ["tiny-video", "tiny-frame"])
def test_embeddings_have_length_one_and_depend_on_no_batch(name: str) -> None:
    data = Parade((8, 8, 8), views=2)
    pixels = data.clips(torch.arange(7)).pixels
    torch.manual_seed(0)
    model = make_recognizer(name, 4, clip=(2, 16, 16)).train()
    found = embed(model, pixels, SETTINGS, CPU)
    assert found.norm(dim=1) == pytest.approx(torch.ones(7)) and found.shape == (7, model.feature_width)
    assert found == pytest.approx(embed(model, pixels, FitConfig(batch=7), CPU), abs=1e-5)
    views = [embed(model, pixels[:, [view]], SETTINGS, CPU) for view in (0, 1)]
    mean = (views[0] + views[1]) / 2
    assert found == pytest.approx(mean / mean.norm(dim=1, keepdim=True), abs=1e-5)
    one = embed(model, pixels, FitConfig(test_frames=1), CPU)
    assert one == pytest.approx(embed(model, pixels[:, :, :1], FitConfig(), CPU), abs=1e-5)
