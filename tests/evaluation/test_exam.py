from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from sfumato.datasets.base import Labels, Part, SplitBy
from sfumato.datasets.theatre import TheatreDataset
from sfumato.evaluation.attacks import ATTACKS
from sfumato.evaluation.attacks.architectures import ARCHITECTURES
from sfumato.evaluation.exam import (
    Answers,
    Desk,
    Exam,
    Examinee,
    Memory,
    asked,
    exam_score,
    questions,
    sit,
    truth,
    yes_columns,
)
from sfumato.evaluation.metrics import one_hot_columns
from sfumato.recognizers import Recognizer, make_recognizer
from sfumato.training.fit import FitConfig

CPU = torch.device("cpu")
ACTION = Exam("action", "", "action", "video", "person")
ATTRIBUTES = Exam("video", "", "attributes", "video", "clip")
IDENTITY = Exam("identity", "", "identity", "frame", "clip")
QUICK = Examinee("tiny-frame", FitConfig(epochs=2, batch=8, frames=1))


@pytest.fixture
def answers() -> Answers:
    rng = np.random.default_rng(0)
    return Answers(
        rng.random((3, 2)), np.array([[0], [1], [1]]), rng.random((4, 2)), np.zeros((4, 1), int), rng.random(5), 1.5,
        rng.random(4), {"PSNR": rng.random((2, 4)), "mAP": rng.random((2, 4))},
    )  # fmt: skip


@pytest.mark.parametrize("heads", [(2,), (2, 2, 2), (3,), (2, 4, 2, 3)])
def test_yes_columns_are_those_of_one_hot_columns(heads: tuple[int, ...]) -> None:
    """Sure and right answers, softmaxed side by side, become exactly the yes/no columns of the truth."""
    rng = np.random.default_rng(0)
    labels = np.stack([rng.integers(size, size=30) for size in heads], axis=1)
    certain = np.concatenate([np.eye(size)[labels[:, i]] for i, size in enumerate(heads)], axis=1)
    columns = one_hot_columns(labels, heads)
    assert np.array_equal(yes_columns(certain, heads), columns.labels)
    assert len(columns.owner) == yes_columns(certain, heads).shape[1]


def test_questions_and_truth_follow_the_target(minute: TheatreDataset) -> None:
    assert questions(ACTION, minute) == (2,)
    assert questions(IDENTITY, minute) == (4,)
    assert questions(ATTRIBUTES, minute) == (2, 2, 2, 2, 2)
    labels = Labels(torch.tensor([1, 0]), torch.tensor([3, 2]), torch.tensor([[1, 0], [0, 1]]))
    assert truth(ACTION, labels).tolist() == [[1], [0]]
    assert truth(IDENTITY, labels).tolist() == [[3], [2]]
    assert truth(ATTRIBUTES, labels).tolist() == [[1, 0], [0, 1]]


def test_the_score_that_chooses_is_top1_or_cmap() -> None:
    score = exam_score(ACTION, (2,))
    assert score(torch.tensor([[0.9, 0.1], [0.8, 0.2]]), torch.tensor([[0], [1]])) == 0.5
    # One binary question: P(yes) ranks yes, no, yes: (1/1 + 2/3) / 2.
    chances = torch.tensor([0.9, 0.8, 0.7])
    score = exam_score(ATTRIBUTES, (2,))
    found = score(torch.stack([1 - chances, chances], 1), torch.tensor([[1], [0], [1]]))
    assert found == pytest.approx(5 / 6)


def unknown(monkeypatch: pytest.MonkeyPatch, forget: Callable[[Labels, Tensor], None]) -> None:
    """From now on the theatre does not know what `forget(labels, indices)` strikes out."""
    whole = TheatreDataset.labels

    def labels(self: TheatreDataset, indices: Tensor) -> Labels:
        found = whole(self, indices)
        forget(found, indices)
        return found

    monkeypatch.setattr(TheatreDataset, "labels", labels)


def test_only_clips_with_a_known_answer_are_asked_about(
    minute: TheatreDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forget(labels: Labels, indices: Tensor) -> None:
        labels.person[indices % 4 == 0] = -1

    unknown(monkeypatch, forget)
    everything = minute.split("test", "clip")
    assert asked(ATTRIBUTES, minute, "test").equal(everything)
    assert asked(IDENTITY, minute, "test").equal(everything[everything % 4 != 0])
    found = sit(IDENTITY, QUICK, minute, lambda part: clips_of(minute, IDENTITY, part), seed=0, device=CPU)
    assert (found.test_labels >= 0).all() and len(found.test) == 18


def test_an_attacker_learns_from_clips_of_which_some_answers_are_known(
    minute: TheatreDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forget(labels: Labels, indices: Tensor) -> None:
        labels.attributes[indices % 2 == 0, 1] = -1
        labels.attributes[indices % 4 == 0] = -1

    unknown(monkeypatch, forget)
    train, test = minute.split("train", "clip"), minute.split("test", "clip")
    assert asked(ATTRIBUTES, minute, "train").equal(train[train % 4 != 0])
    assert asked(ATTRIBUTES, minute, "test").equal(test[test % 2 != 0])


def clips_of(data: TheatreDataset, exam: Exam, part: Part) -> Tensor:
    return data.clips(asked(exam, data, part)).pixels


def test_an_exam_is_answered_on_validation_and_test(minute: TheatreDataset) -> None:
    found = sit(ATTRIBUTES, QUICK, minute, lambda part: clips_of(minute, ATTRIBUTES, part), seed=0, device=CPU)
    assert found.validation.shape == found.test.shape == (24, 10)
    assert found.test.reshape(24, 5, 2).sum(2) == pytest.approx(1, abs=1e-5)
    assert np.array_equal(found.test_labels, minute.labels(minute.split("test", "clip")).attributes.numpy())
    assert found.curve.shape == (2,) and found.seconds > 0


def test_the_seed_makes_the_answers(minute: TheatreDataset) -> None:
    clips = {part: clips_of(minute, ACTION, part) for part in ("train", "val", "test")}
    first, again, other = (sit(ACTION, QUICK, minute, clips.__getitem__, seed=s, device=CPU).test for s in (0, 0, 1))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_trap_6_no_test_clip_is_touched_before_the_training_has_ended(minute: TheatreDataset) -> None:
    epochs_done = 0
    asked_for: list[str] = []

    def report(epoch: int, epochs: int, score: float) -> None:
        nonlocal epochs_done
        epochs_done = epoch

    def clips(part: Part) -> Tensor:
        if part == "test" and epochs_done < QUICK.fit.epochs:
            raise AssertionError("the test clips were asked for while the epoch was still to be chosen")
        asked_for.append(part)
        return clips_of(minute, ACTION, part)

    found = sit(ACTION, QUICK, minute, clips, seed=0, device=CPU, report=report)
    assert asked_for.count("test") == 1
    # The model that answers is the one of the best validation epoch: its answers give that epoch's score again.
    right = found.validation.argmax(1) == found.validation_labels[:, 0]
    assert right.mean() == pytest.approx(found.curve.max())


def test_trap_6_what_is_in_the_test_clips_changes_nothing_but_the_answers_to_them(minute: TheatreDataset) -> None:
    clips = {part: clips_of(minute, ACTION, part) for part in ("train", "val", "test")}
    black = {**clips, "test": torch.zeros_like(clips["test"])}
    one, other = (sit(ACTION, QUICK, minute, c.__getitem__, seed=0, device=CPU) for c in (clips, black))
    assert np.array_equal(one.validation, other.validation) and np.array_equal(one.curve, other.curve)
    assert not np.array_equal(one.test, other.test)


def test_answers_come_back_from_disk_as_they_went(tmp_path: Path, answers: Answers) -> None:
    path = tmp_path / "downsample-factor2.5-frame-0.npz"
    answers.save(path)
    assert [p.name for p in tmp_path.iterdir()] == [path.name]
    again = Answers.load(path)
    assert again is not None
    for name, value in vars(answers).items():
        if name != "measures":
            assert np.array_equal(getattr(again, name), value)
    assert list(again.measures) == ["PSNR", "mAP"]
    assert all(np.array_equal(again.measures[name], value) for name, value in answers.measures.items())
    assert isinstance(again.seconds, float)


def test_a_save_that_fails_leaves_nothing_under_the_name(
    tmp_path: Path, answers: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(path: Path, content: bytes) -> int:
        with path.open("wb") as file:
            file.write(content[:10])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", broken)
    with pytest.raises(OSError, match="No space"):
        answers.save(tmp_path / "a.npz")
    assert list(tmp_path.iterdir()) == []


def test_answers_never_run_code(tmp_path: Path, answers: Answers) -> None:
    ran = tmp_path / "ran"

    class Malicious:
        def __reduce__(self) -> tuple[object, tuple[object, ...]]:
            return Path.touch, (ran,)

    answers.save(tmp_path / "a.npz")
    with np.load(tmp_path / "a.npz") as stored:
        fields = {name: stored[name] for name in stored.files}
    for name in ("curve", "measure PSNR"):
        np.savez(tmp_path / "a.npz", **{**fields, name: np.array([Malicious()], dtype=object)})
        assert Answers.load(tmp_path / "a.npz") is None  # refused, so the exam is sat again
    assert not ran.exists()


def test_damaged_or_missing_answers_are_none(tmp_path: Path, answers: Answers) -> None:
    answers.save(tmp_path / "a.npz")
    (tmp_path / "b.npz").write_bytes((tmp_path / "a.npz").read_bytes()[:100])
    assert Answers.load(tmp_path / "a.npz") is not None
    assert Answers.load(tmp_path / "b.npz") is None
    assert Answers.load(tmp_path / "nothing.npz") is None


def test_the_attackers_are_on_the_list() -> None:
    everyday = ["frame", "video", "video-placed", "identity", "identity-frames", "identity-placed"]
    assert ATTACKS.names()[:6] == everyday
    ways = ("patient", "transfer", "pretrained", "reconstruct", "decode", "aggregate", "gait")
    by_others = [exam.name for exam in ARCHITECTURES]
    others = [f"{how}-{name}" for how in ways for name in everyday] + by_others
    others += [f"pretrained-{name}" for name in by_others]
    assert sorted(ATTACKS.names()[6:]) == sorted([*others, "reid", "reid-frames", "face", "face-photos", "ensemble"])
    by: dict[str, SplitBy] = {entry.name: entry.make().by for entry in ATTACKS}
    known = {name for name in by if by[name] == "clip"}
    assert set(by) - known == {"reid", "reid-frames", "face", "face-photos"}  # all other attackers may know the people
    assert {entry.make().level for entry in ATTACKS} == {"frame", "video"}


def test_a_c3d_begins_with_norms_and_no_other_network_is_changed(minute: TheatreDataset) -> None:
    def fresh(name: str) -> Recognizer:
        who = Examinee(name, FitConfig(), width=0.125)
        return Desk(ACTION, who, minute, minute_clips, minute_clips, 0, CPU, None, Memory()).fresh()

    def minute_clips(part: Part) -> Tensor:
        raise AssertionError("no clip is needed for that")

    assert isinstance(fresh("c3d").get_submodule("norm1"), nn.BatchNorm3d)
    usual = make_recognizer("r3d-18", len(minute.actions), clip=(2, 16, 16), width=0.125)
    assert [*fresh("r3d-18").state_dict()] == [*usual.state_dict()]
