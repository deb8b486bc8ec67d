from __future__ import annotations

import numpy as np
import pytest

from sfumato.errors import SfumatoError
from sfumato.evaluation.latent.baselines import clip_classifier
from sfumato.evaluation.latent.detection import Untrimmed, mean_map, resampled_map
from sfumato.evaluation.metrics import Found, Truth, detection_map

from .toys import CONSTANT, judged, long, scores, short


def drawn(videos: int, seed: int = 0) -> tuple[list[Found], list[Truth]]:
    """Segments of two classes, and detections that hit some of them more or less."""
    rng, found, truth = np.random.default_rng(seed), [], []
    for _ in range(videos):
        starts = rng.integers(0, 20, size=3)
        spans = np.stack([starts, starts + rng.integers(2, 6, size=3)], 1).astype(float)
        labels = rng.integers(2, size=3)
        near = np.concatenate([spans + rng.normal(0, 0.7, size=(3, 1)), spans + rng.normal(0, 3, size=(3, 1))])
        found.append(Found(near, np.tile(labels, 2), rng.random(6)))
        truth.append(Truth(spans, labels))
    return found, truth


def test_a_resample_is_what_the_metric_says_of_the_same_videos_repeated() -> None:
    found, truth = drawn(8)
    at = resampled_map(found, truth, classes=2)
    for items in (np.arange(8), np.array([0, 0, 0, 3]), np.array([7, 1, 1, 5, 2, 2])):
        whole = detection_map([found[i] for i in items], [truth[i] for i in items], classes=2)
        assert at(items) == pytest.approx(whole.at, abs=1e-9)
    assert mean_map(found, truth, 2) == pytest.approx(detection_map(found, truth, 2).average)


def test_segments_are_counted_in_clips() -> None:
    data = long(10)
    videos = Untrimmed(data)
    segment = data.annotations[0].segments[0]
    assert list(videos.labels) == ["bow", "fall", "jump", "wave"]
    assert videos.truth[0].spans.tolist() == [[segment.start / 8, segment.end / 8]]


def test_what_is_planted_is_found_better_than_by_single_clips_and_a_constant_finds_nothing() -> None:
    data = long(30)
    result = judged(data, "detection", epochs=6, constant=CONSTANT)
    raw, constant = (scores(result, name) for name in ("identity", "constant"))
    videos = Untrimmed(data)
    rights = videos.rights(videos.parts.test)
    baseline = mean_map(clip_classifier(data, videos, seed=0), rights, len(videos.labels))
    assert raw["TAD mAP"].value > max(0.4, baseline + 0.1)
    # The same answer about every video is as good as the one about the next.
    assert constant["TAD mAP"].value == pytest.approx(constant["TAD mAP"].chance)
    assert constant["TAD mAP"].raw == raw["TAD mAP"].value > constant["TAD mAP"].value + 0.3
    assert raw["TAD mAP"].chance < 0.3
    assert [name for name in raw if name != "TAD mAP"] == [f"TAD mAP@{t}" for t in (0.3, 0.4, 0.5, 0.6, 0.7)]
    mean = np.mean([raw[f"TAD mAP@{t}"].value for t in (0.3, 0.4, 0.5, 0.6, 0.7)])
    assert raw["TAD mAP"].value == pytest.approx(mean)
    assert raw["TAD mAP"].low < raw["TAD mAP"].value < raw["TAD mAP"].high


def test_videos_without_segments_are_refused() -> None:
    with pytest.raises(SfumatoError, match="tells no segments"):
        judged(short(), "detection")
