"""TriDet (Shi et al., CVPR 2023): which actions an untrimmed video holds, and from when to when, from its clips' features.

`network.py` is the network, `loss.py` what it learns from, `segments.py` the arithmetic of spans and the way to an answer.
Time is counted in clips: clip i covers [i, i + 1), and a span may begin and end anywhere.
"""

from sfumato.recognizers.temporal_detection.loss import (
    assign,
    centre_sampling,
    detection_loss,
    focal_loss,
)
from sfumato.recognizers.temporal_detection.network import TriDet, trident_distances
from sfumato.recognizers.temporal_detection.segments import (
    Detections,
    Grid,
    Predictions,
    Segments,
    detect,
    distance_iou,
    make_grid,
    soft_nms,
    temporal_iou,
)

__all__ = [
    "Detections",
    "Grid",
    "Predictions",
    "Segments",
    "TriDet",
    "assign",
    "centre_sampling",
    "detect",
    "detection_loss",
    "distance_iou",
    "focal_loss",
    "make_grid",
    "soft_nms",
    "temporal_iou",
    "trident_distances",
]
