from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from sfumato.evaluation.metrics import average_precision, best_match, chance_retrieval_ap, retrieval_ap


def test_the_nearest_clip_of_each_person() -> None:
    found = best_match([[0.2, 0.9, 0.4], [0.1, 0.0, -0.3]], [0, 0, 2], persons=3)
    assert found.tolist() == [[0.9, -np.inf, 0.4], [0.1, -np.inf, -0.3]]


def test_each_probe_ranks_the_gallery_for_itself() -> None:
    similarity, matches = [[0.9, 0.8, 0.7], [0.1, 0.3, 0.2]], np.array([[0, 1, 1], [1, 0, 0]])
    found = retrieval_ap(similarity, matches)
    assert found == pytest.approx([(1 / 2 + 2 / 3) / 2, 1 / 3])
    assert found[0] == average_precision(similarity[0], matches[0])
    assert np.isnan(retrieval_ap([[0.5, 0.4]], [[0, 0]])).all()


@pytest.mark.parametrize(("matches", "gallery"), [(1, 1), (1, 4), (2, 4), (3, 5), (4, 4)])
def test_chance_is_the_mean_over_every_order(matches: int, gallery: int) -> None:
    labels = [int(k < matches) for k in range(gallery)]
    every = [average_precision(list(order), labels) for order in permutations(range(gallery))]
    assert chance_retrieval_ap(np.array([matches]), gallery) == pytest.approx([np.mean(every)])
