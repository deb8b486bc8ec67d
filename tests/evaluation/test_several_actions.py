"""A clip that shows several actions at once, as P-HVU's do: asked about each, scored by cMAP."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from sfumato.anonymizers import load
from sfumato.datasets.base import Clips, ClipShape, Labels, Part, SplitBy, VideoDataset
from sfumato.datasets.sample import AttributeSpec, Sample
from sfumato.errors import SfumatoError
from sfumato.evaluation import scoring
from sfumato.evaluation.admission import without_rare
from sfumato.evaluation.exam import Answers, by_precision, exam_score, questions, truth
from sfumato.evaluation.protocols.cross_dataset import CrossDatasetProtocol, Joined
from sfumato.evaluation.protocols.known import UTILITY, JudgeConfig, KnownProtocol
from sfumato.evaluation.protocols.zero_shot import ZeroShotProtocol
from sfumato.evaluation.scoring import Ruler, Sitting, per_seed, utility_score

CPU = torch.device("cpu")
PART = 24  # clips


class Tagged(VideoDataset):
    """Clips of one colour: red says "run", green "jump", blue that there is a ball. Nobody flies, and there is no car."""

    def __init__(self) -> None:
        self.name, self.summary = "tagged", ""
        self.actions, self.persons, self.several_actions = ("fly", "jump", "run"), (), True
        self.attributes = (AttributeSpec("object/ball"), AttributeSpec("object/car"))
        self.shape, self.mirror_safe = ClipShape(4, 16, 16), True

    def __len__(self) -> int:
        return 3 * PART

    def split(self, part: Part, by: SplitBy) -> Tensor:
        first = ("train", "val", "test").index(part) * PART
        return torch.arange(first, first + PART)

    def labels(self, indices: Tensor) -> Labels:
        run, jump, ball = (indices // (1, 2, 4)[n] % 2 for n in range(3))
        shown = {"fly": torch.zeros_like(run), "jump": jump, "run": run}
        has = {"object/ball": ball, "object/car": torch.zeros_like(ball)}
        nobody = torch.full_like(indices, -1)
        columns = [torch.stack([table[name] for name in names], 1) for table, names in (
            (has, [spec.name for spec in self.attributes]), (shown, self.actions),
        )]  # fmt: skip
        return Labels(nobody, nobody, *columns)

    def clips(self, indices: Tensor, **_: Any) -> Clips:
        shown = torch.stack([indices // n % 2 for n in (1, 2, 4)], 1).to(torch.uint8) * 200 + 20
        return Clips(shown[:, None, None, :, None, None].expand(-1, 1, 4, -1, 16, 16).contiguous(), None)

    def fingerprint(self) -> str:
        return f"tagged {self.actions} {self.attributes}"

    def sample(self, index: int) -> Sample:
        raise NotImplementedError


def answers(probabilities: list[list[float]], labels: list[list[int]]) -> Answers:
    """Of the probability that each action is shown."""
    yes = np.array(probabilities)
    table = np.stack([1 - yes, yes], -1).reshape(len(yes), -1)
    return Answers(table, np.array(labels), table, np.array(labels), np.empty(0), 0.0)


def test_every_action_is_a_question() -> None:
    data = Tagged()
    assert questions(UTILITY, data) == (2, 2, 2)
    assert truth(UTILITY, data.labels(torch.tensor([0, 1, 3]))).tolist() == [[0, 0, 0], [0, 0, 1], [0, 1, 1]]
    assert by_precision(UTILITY, (2, 2)) and not by_precision(UTILITY, (2,))


def test_it_is_scored_by_the_mean_average_precision_of_the_actions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "SAMPLES", 50)
    labels = [[1, 1], [0, 0], [1, 0], [0, 1], [1, 0]]
    # The first action's are ranked 1, 0, 1, 0, 1: (1 + 2/3 + 3/5) / 3. The second's 1, 1, 0, 0, 0: 1.
    told = answers([[0.9, 0.9], [0.8, 0.1], [0.7, 0.2], [0.6, 0.8], [0.5, 0.3]], labels)
    ruler = Ruler(Sitting(UTILITY, "net", [told], [told]), (2, 2))
    first = (1 + 2 / 3 + 3 / 5) / 3
    score = utility_score(ruler)
    assert ruler.metric == "cMAP" and score.value == pytest.approx((first + 1) / 2)
    assert score.chance == pytest.approx((3 / 5 + 2 / 5) / 2) and score.raw == score.value
    assert per_seed(ruler) == [score.value]
    chosen = exam_score(UTILITY, (2, 2))(torch.tensor(told.test), torch.tensor(labels))
    assert chosen == pytest.approx((first + 1) / 2)


def test_a_judgement_from_end_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "SAMPLES", 30)
    config = JudgeConfig(models="tiny", epochs=5, batch=4, attacks=("frame",))
    judge = KnownProtocol(Tagged(), config, device=CPU, folder=tmp_path)
    assert judge.dataset.actions == ("jump", "run")
    assert [spec.name for spec in judge.dataset.attributes] == ["object/ball"]
    result = judge.judge([], load("identity"))
    (raw,) = result.lines
    assert raw.utility.chance == pytest.approx(0.5) and raw.utility.value > 0.9
    assert raw.utility_per_seed == [raw.utility.value]
    assert "a clip may show several actions: the action is scored by cMAP" in result.notes
    assert "1 of 3 actions left out: fewer than 5 clips of some part have them" in result.notes
    assert "1 of 2 private tags left out: fewer than 5 clips of some part have them" in result.notes


def test_where_a_clip_shows_one_action_nothing_is_left_out() -> None:
    data = Tagged()
    data.several_actions = False
    assert without_rare(data) == (data, [])


def test_beside_attributes_of_another_data_set_the_actions_are_those_of_the_first() -> None:
    joined = Joined(Tagged(), Tagged())
    labels = joined.labels(torch.tensor([3, 3 * PART + 3]))
    assert joined.several_actions and labels.actions is not None
    assert labels.actions.tolist() == [[0, 1, 1], [-1, -1, -1]] and labels.attributes.tolist() == [[-1, -1], [0, 0]]


def test_who_names_one_action_cannot_be_asked(tmp_path: Path) -> None:
    with pytest.raises(SfumatoError, match="may show several actions, and zero-shot names one"):
        ZeroShotProtocol(Tagged(), JudgeConfig(vlm="none"), device=CPU, folder=tmp_path)


def test_rare_tags_leave_both_data_sets_of_a_judgement_across_two(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody flies, and there is no car: neither may be among the questions that either side is examined about."""
    monkeypatch.setattr(scoring, "SAMPLES", 50)
    config = JudgeConfig(models="tiny", epochs=1, attacks=("frame",))
    judge = CrossDatasetProtocol(Tagged(), config, device=CPU, folder=tmp_path, privacy=Tagged())
    assert sum("left out: fewer than 5 clips" in note for note in judge.notes) == 2
    (raw,) = judge.judge([], load("identity")).lines
    assert np.isfinite(raw.utility.value)
    assert [each.name for each in raw.attacks[0].attributes] == ["object/ball"]
