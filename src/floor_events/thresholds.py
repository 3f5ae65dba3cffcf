"""Operating thresholds, rates and average precision."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

CALIBRATED = "calibrated"
NO_POSITIVES = "no_calibration_positives"


@dataclass(frozen=True)
class Threshold:
    """A frozen operating point: `value` in [0, 1] or None, `status`, and what calibration it rests on.

    `positives` is the number of calibration positives, `recall` the fraction of them at or above the value.
    """

    value: float | None
    status: str
    positives: int
    recall: float | None


def select_threshold(positive_scores: NDArray[np.float64], recall: float) -> Threshold:
    """The largest threshold whose recall over the calibration positives is at least `recall` in (0, 1].

    With n positives it is the k-th largest score, k = ceil(recall n - 1e-9); tied scores all trigger, so the recall
    reached may be higher. Without positives the value is None: no number stands in for it.
    """
    count = len(positive_scores)
    if count == 0:
        return Threshold(None, NO_POSITIVES, 0, None)
    kth = max(1, math.ceil(recall * count - 1e-9))
    value = float(np.sort(positive_scores)[count - kth])
    return Threshold(value, CALIBRATED, count, int((positive_scores >= value).sum()) / count)


def rate(count: int | None, denominator: int) -> float | None:
    """Count over denominator; None where either is missing or the denominator is zero."""
    return None if count is None or denominator == 0 else count / denominator


def average_precision(scores: NDArray[np.float64], positive: NDArray[np.bool_]) -> float | None:
    """Non-interpolated average precision of `scores` [n] for the bool `positive` [n]; tied scores are one step.

    None where nothing is positive.
    """
    total = int(positive.sum())
    if total == 0:
        return None
    order = np.argsort(-scores, kind="stable")
    ranked = scores[order]
    step_end = np.append(np.flatnonzero(ranked[1:] != ranked[:-1]), len(ranked) - 1)
    found = np.cumsum(positive[order])[step_end]
    gained = np.diff(found, prepend=0)
    # A plain sum: a BLAS dot product may round differently from one machine, or thread count, to another.
    return float(np.sum(gained / total * (found / (step_end + 1))))
