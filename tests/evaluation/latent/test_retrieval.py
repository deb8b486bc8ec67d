from __future__ import annotations

import numpy as np
import pytest

from sfumato.evaluation.latent.retrieval import chance_recall, compare, recall_at

from .toys import ACTION, CONSTANT, judged, keep, scores, short


def test_recall_worked_by_hand() -> None:
    similarity = [[0.9, 0.8, 0.7, 0.6], [0.1, 0.2, 0.3, 0.4]]
    matches = [[0, 0, 1, 0], [0, 0, 0, 1]]
    assert recall_at(similarity, matches, 1).tolist() == [0, 1]
    assert recall_at(similarity, matches, 2).tolist() == [0, 1]
    assert recall_at(similarity, matches, 3).tolist() == [1, 1]
    assert recall_at(similarity, matches, 10).tolist() == [1, 1]


def test_chance_worked_by_hand() -> None:
    # Of 5, 2 match; of 3 drawn none does in C(3, 3) / C(5, 3) = 1/10.
    assert chance_recall([2], 5, 3) == pytest.approx([0.9])
    assert chance_recall([1], 5, 1) == pytest.approx([0.2])
    assert chance_recall([3], 4, 2) == pytest.approx([1])
    assert chance_recall([1], 4, 10) == pytest.approx([1])


def test_what_cannot_be_told_apart_is_ranked_at_random() -> None:
    same = np.ones((200, 1))
    first = compare(same, np.ones((10, 1)), seed=0).argmax(1)
    assert len(set(first.tolist())) == 10


def test_the_action_finds_itself_or_chance_does() -> None:
    result = judged(short(), "retrieval", kept=keep(ACTION), constant=CONSTANT)
    kept, constant = scores(result, "kept"), scores(result, "constant")
    assert list(kept) == ["retrieval R@1", "retrieval R@5", "retrieval R@10", "retrieval mAP"]
    assert kept["retrieval mAP"].value > 0.99 and kept["retrieval R@1"].value == 1
    for name, score in constant.items():
        assert score.low - 0.1 <= score.chance <= score.high + 0.1
        assert score.raw == scores(result, "identity")[name].value
    # 20 of 60 training videos show the action: 1 − (40·39·38·37·36)/(60·59·58·57·56)
    assert constant["retrieval R@5"].chance == pytest.approx(1 - 40 * 39 * 38 * 37 * 36 / (60 * 59 * 58 * 57 * 56))
    assert constant["retrieval R@1"].chance == pytest.approx(1 / 3)
