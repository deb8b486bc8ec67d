"""mAP of temporal detections, by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sfumato.evaluation.metrics.detection import TIOU, Found, Truth, detection_ap, detection_map, temporal_overlap


def found(*answers: tuple[float, float, float], label: int = 0) -> Found:
    """Detections of one class as (start, end, score)."""
    return Found([each[:2] for each in answers], [label] * len(answers), [each[2] for each in answers])


def truth(*spans: tuple[float, float], label: int = 0) -> Truth:
    return Truth(list(spans), [label] * len(spans))


def ap(answers: list[Found], rights: list[Truth], threshold: float = 0.5) -> float:
    return float(detection_ap(answers, rights, classes=1, thresholds=[threshold])[0, 0])


def test_overlap_by_hand() -> None:
    table = temporal_overlap([[0, 4], [5, 5]], [[0, 4], [2, 6], [4, 8], [1, 2], [5, 5]])
    assert table[0] == pytest.approx([1, 1 / 3, 0, 1 / 4, 0])
    assert table[1] == pytest.approx([0, 0, 0, 0, 0])


def test_thresholds_are_those_of_thumos14_and_reaching_one_is_enough() -> None:
    assert TIOU == (0.3, 0.4, 0.5, 0.6, 0.7)
    score = detection_map([found((0, 5, 0.9))], [truth((0, 10))], classes=1)
    assert score.at.tolist() == [1, 1, 1, 0, 0]
    assert score.average == pytest.approx(3 / 5)


def test_average_precision_is_interpolated() -> None:
    # By score: right, wrong, wrong, right, right; one segment of four is never found. Precisions 1, 2/4, 3/5: at the
    # second hit's recall the best to be had is 3/5.
    answers = found((0, 4, 0.9), (90, 94, 0.8), (80, 84, 0.7), (10, 14, 0.6), (20, 24, 0.5))
    assert ap([answers], [truth((0, 4), (10, 14), (20, 24), (30, 34))]) == pytest.approx((1 + 3 / 5 + 3 / 5) / 4)


def test_detections_are_ranked_over_all_videos() -> None:
    answers = [found((0, 4, 0.5), (50, 54, 0.7)), found((50, 54, 0.9), (0, 4, 0.8))]
    rights = [truth((0, 4)), truth((0, 4))]
    # Wrong, right (2nd video), wrong, right (1st video): precisions 1/2 and 2/4. Video by video it would be more.
    assert ap(answers, rights) == pytest.approx((1 / 2 + 1 / 2) / 2)
    assert ap(answers[::-1], rights) == pytest.approx(1 / 2)


def test_a_second_detection_of_a_segment_is_wrong() -> None:
    twice = found((0, 4, 0.9), (0, 4, 0.8), (10, 14, 0.7))
    assert ap([twice], [truth((0, 4), (10, 14))]) == pytest.approx((1 + 2 / 3) / 2)


def test_a_detection_takes_the_free_segment_with_the_best_overlap() -> None:
    rights = [truth((0, 10), (2, 12))]
    # [2, 11] has 8/11 and 9/10: it takes the second, and the first stays free.
    assert ap([found((2, 11, 0.9), (0, 9, 0.8))], rights, threshold=0.7) == pytest.approx(1)
    # The second detection of [2, 12] may have [0, 10] with 8/12, if that is enough.
    again = [found((2, 12, 0.9), (2, 12, 0.8))]
    assert ap(again, rights, threshold=0.6) == pytest.approx(1)
    assert ap(again, rights, threshold=0.7) == pytest.approx(1 / 2)


def test_the_better_score_takes_first_even_with_less_overlap() -> None:
    # The first has 6/10, the second 10/10, but comes too late.
    assert ap([found((0, 6, 0.9), (0, 10, 0.8))], [truth((0, 10))]) == pytest.approx(1)
    assert ap([found((0, 6, 0.9), (0, 10, 0.8))], [truth((0, 10))], threshold=0.7) == pytest.approx(1 / 2)


def test_a_segment_in_another_video_or_of_another_class_does_not_help() -> None:
    assert ap([found((0, 4, 0.9)), found()], [truth(), truth((0, 4))]) == 0
    table = detection_ap([found((0, 4, 0.9), label=1)], [truth((0, 4))], classes=2, thresholds=[0.5])
    assert table[0, 0] == 0 and math.isnan(table[0, 1])


def test_a_detection_in_a_video_without_the_class_is_wrong() -> None:
    answers = [found((0, 4, 0.8)), found((0, 4, 0.9))]
    assert ap(answers, [truth((0, 4)), truth()]) == pytest.approx(1 / 2)


def test_the_mean_is_over_classes_that_occur() -> None:
    answers = [Found([[0, 4], [10, 14], [20, 24]], [0, 1, 2], [0.5, 0.5, 0.9])]
    rights = [Truth([[0, 4], [30, 34]], [0, 1])]  # class 0 found, class 1 missed, class 2 and 3 never there
    score = detection_map(answers, rights, classes=4, thresholds=[0.3, 0.5])
    assert score.at.tolist() == [0.5, 0.5] and score.average == 0.5
    nobody = detection_map([found()], [truth()], classes=2)
    assert np.isnan(nobody.at).all() and math.isnan(nobody.average)


def test_nothing_found_is_nothing_reached() -> None:
    assert ap([found(), found()], [truth((0, 4)), truth()]) == 0


def test_equal_scores_keep_the_order_given() -> None:
    wrong = [(50.0, 54.0, 0.4), (50.0, 54.0, 0.5)] * 50
    assert ap([found((0, 4, 0.5), *wrong)], [truth((0, 4))]) == 1
    assert ap([found(*wrong, (0, 4, 0.5))], [truth((0, 4))]) == pytest.approx(1 / 51)


def test_a_mean_over_random_detections_matches_a_plain_count() -> None:
    """The same by an independent and slow way: recall and precision at every cut, the area under the falling envelope."""
    random = np.random.default_rng(0)
    rights = [Truth(np.sort(random.uniform(0, 30, (4, 2))), random.integers(0, 2, 4)) for _ in range(5)]
    answers = [
        Found(np.sort(random.uniform(0, 30, (20, 2))), random.integers(0, 2, 20), random.random(20)) for _ in range(5)
    ]
    expected = []
    for label in range(2):
        pool = [
            (score, video, span)
            for video, each in enumerate(answers)
            for span, name, score in zip(*map(np.asarray, each), strict=True)
            if name == label
        ]
        free = {
            (video, i): span
            for video, each in enumerate(rights)
            for i, (span, name) in enumerate(zip(*map(np.asarray, each), strict=True))
            if name == label
        }
        total, curve, hits = len(free), [], 0
        for rank, (_, video, (start, end)) in enumerate(sorted(pool, key=lambda each: -each[0]), 1):
            ratios = {
                key: max(0.0, min(end, e) - max(start, s)) / (max(end, e) - min(start, s))
                for key, (s, e) in free.items()
                if key[0] == video
            }
            best = max(ratios, key=lambda key: ratios[key], default=None)
            if best is not None and ratios[best] >= 0.3:
                hits += 1
                del free[best]
            curve.append((hits / total, hits / rank))
        levels = [k / total for k in range(1, total + 1)]
        expected.append(np.mean([max((p for r, p in curve if r >= level - 1e-9), default=0) for level in levels]))
    reached = detection_ap(answers, rights, classes=2, thresholds=[0.3])[0]
    assert reached == pytest.approx(expected) and (reached > 0.05).all() and (reached < 1).all()


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        (Found([[0, 4]], [0], []), "as many of each"),
        (Found([[4, 0]], [0], [0.5]), "ends before it starts"),
        (Found([[0, 4]], [0], [math.nan]), "not finite"),
        (Found([[0, math.inf]], [0], [0.5]), "not finite"),
        (Found([[0, 4]], [2], [0.5]), "2 classes"),
    ],
)
def test_what_cannot_be_counted_is_refused(answers: Found, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        detection_ap([answers], [truth((0, 4))], classes=2)


def test_every_video_needs_both() -> None:
    with pytest.raises(ValueError, match="1 videos' detections, but 2"):
        detection_ap([found()], [truth(), truth()], classes=1)
    with pytest.raises(ValueError, match="0 videos'"):
        detection_ap([], [], classes=1)
