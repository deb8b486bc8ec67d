from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from sfumato.datasets.annotations import Annotation
from sfumato.datasets.sample import Segment
from sfumato.evaluation.latent.anomaly import AnomalyProtocol, anomalous_labels, frame_labels, resampled_auc
from sfumato.evaluation.latent.base import LatentConfig
from sfumato.evaluation.latent.baselines import magnitude_scores
from sfumato.evaluation.metrics import frame_auc

from .toys import ACTION, CONSTANT, CPU, FRAMES, WIDTH, feature_set, judged, keep, long, scores


def told(*videos: tuple[bool | None, tuple[Segment, ...] | None]) -> object:
    """Videos of two clips, 16 frames."""
    rows = torch.zeros(2, 3, WIDTH)
    return feature_set([(Annotation(str(n), segments=s, anomalous=a), rows) for n, (a, s) in enumerate(videos)])


def test_in_plays_a_fall_is_the_anomaly_and_getting_up_is_not() -> None:
    play = (Segment(0, 4, "bow"), Segment(4, 8, "fall"), Segment(8, 12, "get up"))
    data = told((True, play), (False, (Segment(0, 4, "bow"),)))
    assert anomalous_labels(data) == {"fall"}
    first, second = frame_labels(data)
    assert first.tolist() == [0] * 4 + [1] * 4 + [0] * 8 and second.tolist() == [0] * 16


def test_elsewhere_it_is_what_ordinary_videos_never_show() -> None:
    data = told((True, (Segment(0, 4, "walk"), Segment(4, 8, "robbery"))), (False, (Segment(0, 4, "walk"),)))
    assert anomalous_labels(data) == {"robbery"}


def test_where_an_anomaly_is_not_told_no_frame_is_known() -> None:
    data = told((True, None), (None, None), (False, None), (True, (Segment(0, 99, "abuse"),)))
    first, second, third, fourth = frame_labels(data)
    assert first is None and second is None
    assert third.tolist() == [0] * 16 and fourth.tolist() == [1] * 16


def test_a_resample_is_what_the_metric_says_of_the_same_videos_repeated() -> None:
    rng = np.random.default_rng(0)
    scored = [rng.integers(4, size=n) / 4 for n in (5, 9, 7)]
    labels = [rng.integers(2, size=len(s)) for s in scored]
    auc = resampled_auc(scored, labels)
    for items in (np.arange(3), np.array([2, 2, 0]), np.array([1])):
        assert auc(items) == pytest.approx(frame_auc([scored[i] for i in items], [labels[i] for i in items]))


def test_what_is_planted_is_found_better_than_by_length_and_a_constant_finds_nothing() -> None:
    data = long(60)
    result = judged(data, "anomaly", epochs=20, lost=keep(ACTION), constant=CONSTANT)
    raw, lost, constant = (scores(result, name)["AD AUC"] for name in ("identity", "lost", "constant"))
    protocol = AnomalyProtocol(data, LatentConfig("tiny"), CPU)
    test = protocol.parts.test
    lengths = frame_auc(magnitude_scores(data, test), [protocol.frames[v] for v in test.tolist()])
    assert raw.value > max(0.85, lengths + 0.05)
    assert raw.chance == 0.5 and lost.raw == raw.value
    assert lost.value < raw.value - 0.1
    assert abs(constant.value - 0.5) < 0.2
    assert len(test) == 12 and len(protocol.frames[0]) == 20 * FRAMES


def test_only_labels_of_videos_are_learned_from() -> None:
    data = long(60)
    blind = long(60)
    # Where the anomalies of training videos are is not told, and changes nothing.
    blind.annotations = [
        replace(a, segments=None) if a.part("person") == "train" else a for a in blind.annotations
    ]  # fmt: skip
    first, second = (judged(d, "anomaly", epochs=3) for d in (data, blind))
    assert scores(first, "identity")["AD AUC"].value == scores(second, "identity")["AD AUC"].value
