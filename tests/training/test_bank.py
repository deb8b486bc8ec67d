"""The clips a method may see, and what is known about them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from torch import Tensor

from sfumato.datasets import AttributeSpec, Clips, ClipShape, Labels, Sample, VideoDataset, open_dataset
from sfumato.datasets.base import Part, Progress, SplitBy
from sfumato.datasets.files import FileDataset, Row, Sampling
from sfumato.errors import SfumatoError
from sfumato.training.bank import load_bank, training_indices, watched_indices
from sfumato.video import VideoWriter

CPU = torch.device("cpu")
PARTS: tuple[Part, ...] = ("train", "val", "test")


class Plain(VideoDataset):
    """Clips of one frame whose parts are given; the pixels of clip n are n."""

    name, summary, actions, mirror_safe = "plain", "", ("bow", "wave"), False
    attributes = (AttributeSpec("hair", ("dark", "fair", "red")), AttributeSpec("glasses"))
    shape = ClipShape(1, 2, 2)

    def __init__(self, by_person: Sequence[Part], by_clip: Sequence[Part], people: Sequence[int]) -> None:
        self.parts: dict[SplitBy, Sequence[Part]] = {"person": by_person, "clip": by_clip}
        self.people = torch.tensor(people)
        self.persons = tuple(f"person {n}" for n in range(1 + max(people)))

    def __len__(self) -> int:
        return len(self.people)

    def split(self, part: Part, by: SplitBy) -> Tensor:
        return torch.tensor([n for n, found in enumerate(self.parts[by]) if found == part], dtype=torch.int64)

    def labels(self, indices: Tensor) -> Labels:
        return Labels(indices % 2, self.people[indices], torch.stack([indices % 3, indices % 2], 1))

    def clips(
        self, indices: Tensor, *, views: int = 1, device: torch.device | str = "cpu", progress: Progress | None = None
    ) -> Clips:
        return Clips(indices.to(torch.uint8).view(-1, 1, 1, 1, 1, 1).expand(-1, views, 1, 3, 2, 2).to(device), None)

    def fingerprint(self) -> str:
        return self.name

    def sample(self, index: int) -> Sample:
        return Sample(self.clips(torch.tensor([index])).pixels[0, 0], index % 2, int(self.people[index]), "", {})


def crossed() -> Plain:
    """Nine people with three clips each; the parts of both splits cross in every way."""
    people = [n // 3 for n in range(27)]
    return Plain([PARTS[person // 3] for person in people], [PARTS[n % 3] for n in range(27)], people)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> FileDataset:
    """Nine short videos that each have their own pair of parts; of three people, the last one unknown."""
    root = tmp_path_factory.mktemp("files")
    rows = []
    for n in range(9):
        path = root / f"{n}.mp4"
        with VideoWriter(path, 25, (16, 16)) as writer:
            for t in range(4 + n):
                writer.write(np.full((16, 16, 3), 20 * n + 4 * t, np.uint8))
        split: dict[SplitBy, str] = {"person": PARTS[n // 3], "clip": PARTS[n % 3]}
        rows.append(Row(path, path.name, ("bow", "wave")[n % 2], ("a", "b", "")[n // 3], {"hat": "ny"[n % 2]}, split))
    return FileDataset("files", rows, ["hat"], Sampling(frames=2, size=16), strict=True, problems=[])


def no_test_clip(dataset: VideoDataset) -> None:
    """An anonymizer never learns from a clip that some judge of it will use."""
    seen = set(training_indices(dataset).tolist())
    for by in ("person", "clip"):
        assert not seen & set(dataset.split("test", by).tolist())
        assert not seen & set(dataset.split("val", by).tolist())
        assert seen <= set(dataset.split("train", by).tolist())


def test_no_clip_of_any_judge_is_trained_on(files: FileDataset) -> None:
    for dataset in (open_dataset("theatre:small"), files, crossed()):
        no_test_clip(dataset)


def test_every_clip_that_both_splits_train_on_is_trained_on(files: FileDataset) -> None:
    assert training_indices(open_dataset("theatre:small")).equal(torch.arange(1200))
    assert training_indices(files).tolist() == [0]
    assert training_indices(crossed()).tolist() == [0, 3, 6]


def test_new_people_of_the_test_are_unknown_to_the_anonymizer() -> None:
    data = open_dataset("theatre:small")
    trained = set(data.labels(training_indices(data)).person.tolist())
    assert not trained & set(data.labels(data.split("test", "person")).person.tolist())


def test_splits_without_a_common_training_clip_are_refused() -> None:
    data = Plain(["train", "val", "test"], ["test", "train", "val"], [0, 1, 2])
    with pytest.raises(SfumatoError) as error:
        training_indices(data)
    assert error.value.what == "no clip of plain is in the training part of both its splits"
    assert error.value.next_step == "mark some rows 'train' in split_person and in split_clip"


def test_the_action_is_watched_on_new_people() -> None:
    data = crossed()
    watched = watched_indices(data, "person", 100)
    assert watched.equal(data.split("val", "person"))
    assert not set(data.people[watched].tolist()) & set(data.people[training_indices(data)].tolist())


def test_what_f_b_reads_is_watched_on_other_clips_of_known_people() -> None:
    data = crossed()
    watched = watched_indices(data, "clip", 100)
    assert watched.tolist() == [1, 4, 7]  # the second clips of the three people trained on
    assert not set(watched.tolist()) & set(training_indices(data).tolist())


def test_nobody_known_to_watch_says_what_to_do() -> None:
    data = Plain(["train", "val", "test"], ["train", "val", "test"], [0, 1, 2])
    with pytest.raises(
        SfumatoError, match="no validation clips of people it trains on: mark other clips of them 'val'"
    ):
        watched_indices(data, "clip", 8)


def test_where_people_have_no_names_every_validation_clip_is_watched() -> None:
    data = Plain(["train", "val", "test"], ["train", "val", "test"], [-1, -1, -1])
    assert watched_indices(data, "clip", 8).tolist() == [1]


def test_clips_of_unknown_people_are_watched_beside_those_of_known_ones() -> None:
    parts: list[Part] = ["train", "train", "val", "val", "val"]
    data = Plain(parts, parts, [0, 1, 1, -1, 2])  # person 2 is new: f_B cannot know them
    assert watched_indices(data, "clip", 8).tolist() == [2, 3]
    assert load_bank(data, torch.arange(5), device=CPU).answers[:, -1].tolist() == [0, 1, 1, -1, -1]


def test_people_are_numbered_among_those_trained_on() -> None:
    parts: list[Part] = ["train", "train", "val"]
    bank = load_bank(Plain(parts, parts, [5, 2, 3]), torch.arange(3), device=CPU)
    assert bank.heads[-1] == 2 and bank.answers[:, -1].tolist() == [1, 0, -1]


def test_a_few_watched_clips_are_spread_over_their_part() -> None:
    data = open_dataset("theatre:small")
    part = data.split("val", "person")
    for limit in (1, 2, 7, 239, 240, 500):
        watched = watched_indices(data, "person", limit)
        assert watched.unique().numel() == len(watched) == min(limit, 240)
        assert torch.isin(watched, part).all()
    assert watched_indices(data, "person", 3).tolist() == [part[0], part[120], part[-1]]
    assert data.labels(watched_indices(data, "person", 128)).action.unique().numel() == len(data.actions)


def test_a_bank_holds_the_clips_in_order_with_all_that_is_known() -> None:
    data = crossed()
    bank = load_bank(data, torch.tensor([4, 0, 7]), device=CPU)
    assert (len(bank), bank.name, bank.mirror_safe) == (3, "plain", False)
    assert (bank.pixels.shape, bank.pixels.dtype) == ((3, 1, 3, 2, 2), torch.uint8)
    assert bank.pixels[:, 0, 0, 0, 0].tolist() == [4, 0, 7]
    assert bank.actions.tolist() == [0, 0, 1]
    # hair, glasses, and last who it is: of nine people three are trained on
    assert bank.heads == (3, 2, 3)
    assert bank.answers.tolist() == [[1, 0, 1], [0, 0, 0], [1, 1, 2]]
    assert [bank.questions(which) for which in ("attributes", "identity", "both")] == [(0, 1), (2,), (0, 1, 2)]
    strangers = load_bank(data, torch.tensor([9, 26]), device=CPU)  # person 3 and 8, whom nobody can learn to name
    assert strangers.answers[:, 2].tolist() == [-1, -1]


@pytest.mark.parametrize("people", [[-1, -1, -1], [0, 0, 0], [0, -1, 0]])
def test_one_person_or_nobody_known_is_no_question(people: list[int]) -> None:
    bank = load_bank(Plain(PARTS, PARTS, people), torch.arange(3), device=CPU)
    assert bank.heads == (3, 2)
    assert bank.answers.shape == (3, 2)
    assert (bank.questions("identity"), bank.questions("attributes"), bank.questions("both")) == ((), (0, 1), (0, 1))


def test_a_bank_of_the_theatre() -> None:
    data = open_dataset("theatre:small")
    told: list[tuple[int, int]] = []
    bank = load_bank(data, torch.tensor([3, 1]), device=CPU, progress=lambda *done: told.append(done))
    assert bank.pixels.equal(data.clips(torch.tensor([3, 1])).pixels[:, 0])
    assert bank.heads == (2, 2, 2, 2, 2, 10)  # ten people are trained on
    known = data.labels(torch.tensor([3, 1]))
    assert bank.answers[:, :-1].equal(known.attributes) and bank.answers[:, -1].equal(known.person)
    assert bank.actions.equal(known.action)
    assert bank.times.equal(torch.arange(8).expand(2, -1))
    assert bank.mirror_safe
    assert told[-1] == (2, 2)


def test_a_bank_of_files_knows_the_frames_of_the_source(files: FileDataset) -> None:
    bank = load_bank(files, torch.tensor([8, 4, 0]), device=CPU)
    # 12, 8 and 4 frames: two of them, half the video apart, from the middle.
    assert bank.times.tolist() == [[2, 8], [1, 5], [0, 2]]
    grey = bank.pixels.float().mean((2, 3, 4))
    expected = 20 * torch.tensor([[8.0], [4], [0]]) + 4 * bank.times
    assert (grey - expected).abs().max() < 4
    assert bank.heads == (2,)  # one person is trained on: there is no question who it is
    assert bank.answers.tolist() == [[0], [0], [0]]
    assert not bank.mirror_safe


def test_without_labels_nobody_looks_at_any(monkeypatch: pytest.MonkeyPatch) -> None:
    def locked(self: Plain, indices: Tensor) -> Labels:
        raise AssertionError("labels were read")

    monkeypatch.setattr(Plain, "labels", locked)
    data = crossed()
    with pytest.raises(AssertionError, match="labels were read"):
        load_bank(data, training_indices(data), device=CPU)
    bank = load_bank(data, training_indices(data), device=CPU, labels=False)
    assert bank.pixels[:, 0, 0, 0, 0].tolist() == training_indices(data).tolist()
    assert bank.actions.tolist() == [-1] * len(bank)
    assert (bank.answers.shape, bank.heads, bank.questions("both")) == ((len(bank), 0), (), ())
    assert watched_indices(data, "clip", 99, labels=False).equal(data.split("val", "clip"))


def test_clips_that_the_device_has_no_room_for_stay_on_the_cpu_and_are_taken_from_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data, asked = crossed(), []
    monkeypatch.setattr("sfumato.training.bank.home_of", lambda size, device: asked.append(size))
    bank = load_bank(data, training_indices(data), device=torch.device("meta"))
    assert asked == [1.5 * bank.pixels.numel()]
    assert bank.pixels.device == CPU and bank.answers.device.type == "meta"
    rows, frames = torch.tensor([2, 0]), torch.tensor([0, 0])
    assert bank.take(rows).equal(bank.pixels[[2, 0]])
    assert bank.take(rows, frames).equal(bank.pixels[[2, 0], [0, 0]])
