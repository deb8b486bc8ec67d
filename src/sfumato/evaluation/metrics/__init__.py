"""The numbers: accuracy, attributes (cMAP, F1, gain over chance), residual leakage, trade-off (NHV, combined score), detection,
anomalies, re-identification, reconstruction, and their intervals.

Pure functions on arrays, in float64; each score has its chance line beside it.
"""

from sfumato.evaluation.metrics.accuracy import average_clips, chance_top1, top1
from sfumato.evaluation.metrics.anomaly import CHANCE_AUC, frame_auc
from sfumato.evaluation.metrics.attributes import (
    Columns,
    Mean,
    always_yes_f1,
    attribute_ap,
    average_precision,
    by_attribute,
    chance_ap,
    cmap,
    coin_f1,
    f1,
    macro_f1,
    mean_defined,
    one_hot_columns,
)
from sfumato.evaluation.metrics.bootstrap import (
    MIN_GROUPS,
    Headline,
    Interval,
    bootstrap,
    bootstrap_draws,
    bootstrap_max,
    count_units,
    max_draws,
    paired_difference,
    percentile_interval,
    resampled_ap,
    resampled_cmap,
    resampler,
    strongest,
)
from sfumato.evaluation.metrics.combined import combined_score
from sfumato.evaluation.metrics.detection import Found, Truth, detection_ap, detection_map
from sfumato.evaluation.metrics.gain import Gain, gain_over_random, random_f1
from sfumato.evaluation.metrics.hypervolume import REFERENCE, leakage_removed, nhv, pareto_front, utility_kept
from sfumato.evaluation.metrics.leakage import FLOORS, above_chance, reaches_floor, residual_leakage
from sfumato.evaluation.metrics.pictures import psnr
from sfumato.evaluation.metrics.retrieval import best_match, chance_retrieval_ap, retrieval_ap
from sfumato.evaluation.metrics.student import student

__all__ = [
    "CHANCE_AUC",
    "FLOORS",
    "MIN_GROUPS",
    "REFERENCE",
    "Columns",
    "Found",
    "Gain",
    "Headline",
    "Interval",
    "Mean",
    "Truth",
    "above_chance",
    "always_yes_f1",
    "attribute_ap",
    "average_clips",
    "average_precision",
    "best_match",
    "bootstrap",
    "bootstrap_draws",
    "bootstrap_max",
    "by_attribute",
    "chance_ap",
    "chance_retrieval_ap",
    "chance_top1",
    "cmap",
    "coin_f1",
    "combined_score",
    "count_units",
    "detection_ap",
    "detection_map",
    "f1",
    "frame_auc",
    "gain_over_random",
    "leakage_removed",
    "macro_f1",
    "max_draws",
    "mean_defined",
    "nhv",
    "one_hot_columns",
    "paired_difference",
    "pareto_front",
    "percentile_interval",
    "psnr",
    "random_f1",
    "reaches_floor",
    "resampled_ap",
    "resampled_cmap",
    "resampler",
    "residual_leakage",
    "retrieval_ap",
    "strongest",
    "student",
    "top1",
    "utility_kept",
]
