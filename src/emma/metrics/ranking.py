"""Metrics of a ranking: area under the ROC curve and equal error rate, exact from counts."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emma.metrics import library
from emma.metrics.base import (
    Floats,
    Labels,
    Mask,
    Metric,
    MetricDetails,
    Takes,
    UndefinedMetricError,
    Weights,
    check_weights,
    labels,
    numeric,
    ratio,
    require_samples,
    row_blocks,
    same_length,
)

#: Cumulative counts of samples, the last axis over the distinct scores.
Counts = NDArray[np.int64]

# The value itself is torchmetrics' (see emma.metrics.library), which takes several sorts' time: what follows is the
# kernel that resamples it, one sort for all resamples.


class _Order:
    """The samples in rising order of their scores, tied ones together."""

    def __init__(self, scores: NDArray[Any], positive: Mask) -> None:
        self.order = np.argsort(scores)
        ranked = scores[self.order]
        rises = ranked[1:] != ranked[:-1]
        # No ties, no gathering: the last of each group is then every sample.
        self.last = None if rises.all() else np.append(np.flatnonzero(rises), len(scores) - 1)
        self.positive = positive[self.order].astype(np.int8)

    def counts(self, weights: Weights) -> tuple[Counts, Counts]:
        """Return numbers of positives and negatives up to each distinct score, from none: int64 ``[R, K + 1]``."""
        weights = weights[:, self.order]
        positives, everyone = _from_zero(weights * self.positive), _from_zero(weights)
        if self.last is not None:
            points = np.append(0, self.last + 1)
            positives, everyone = positives[..., points], everyone[..., points]
        return positives, everyone - positives


def _from_zero(counts: Weights) -> Counts:
    """Return running sums along the last axis that start at zero."""
    sums = np.zeros((*counts.shape[:-1], counts.shape[-1] + 1), np.int64)
    np.cumsum(counts, axis=-1, out=sums[..., 1:])
    return sums


def _area(positives: Counts, negatives: Counts) -> Floats:
    """Return the area under the ROC curve, NaN with one class only."""
    # Twice the number of pairs won, ties one half, in whole numbers.
    won = (np.diff(positives) * (negatives[..., 1:] + negatives[..., :-1])).sum(axis=-1)
    return ratio(won, 2.0 * positives[..., -1] * negatives[..., -1])


def _untied_areas(order: _Order, weights: Weights) -> Floats:
    """Return the area of every resample where no scores tie and resamples hold fewer than 2**26 samples.

    The same whole numbers as ``_area`` divides, from fewer passes: a positive wins over the negatives below it.
    """
    positive = order.positive.astype(bool)
    below = np.cumsum(~positive)[positive]
    blocks = []
    for block in row_blocks(weights, 2**19):
        wins = np.take(block, order.order[positive], axis=1).astype(np.float64)
        beaten = np.zeros((len(block), len(positive) - len(below) + 1), np.int32)
        np.cumsum(np.take(block, order.order[~positive], axis=1), axis=1, out=beaten[:, 1:])
        # Products of two sums below 2**26 are exact in float64.
        won = np.einsum("rn,rn->r", wins, np.take(beaten, below, axis=1).astype(np.float64))
        blocks.append(ratio(won, wins.sum(axis=1) * beaten[:, -1]))
    return np.concatenate(blocks) if blocks else np.empty(0)


def _crossing(positives: Counts, negatives: Counts) -> Floats:
    """Return the rate at which FAR and FRR are equal on the line between two thresholds, NaN with one class only."""
    genuine, impostors = positives[..., -1:], negatives[..., -1:]
    # FAR - FRR, times both class sizes, for the threshold above each distinct score: whole numbers from + to -.
    gap = (impostors - negatives) * genuine - positives * impostors
    after = np.maximum(np.argmax(gap <= 0, axis=-1), 1)[..., None]
    before = after - 1
    gap_before, gap_after = np.take_along_axis(gap, before, -1), np.take_along_axis(gap, after, -1)
    rejects_before = np.take_along_axis(positives, before, -1)
    rejects = np.take_along_axis(positives, after, -1) - rejects_before
    share = ratio(gap_before, gap_before - gap_after)
    return np.where(impostors > 0, ratio(rejects_before + share * rejects, genuine), np.nan)[..., 0]


def _binary(preds: Any, target: Any) -> tuple[NDArray[Any], Mask]:
    """Return scores ``[N]`` in their own precision and the positives as a mask ``[N]``."""
    scores = numeric(preds, "preds")
    if scores.ndim != 1:
        raise ValueError(f"preds: expected scores [N], not shape {scores.shape}")
    same_length(scores, target)
    return scores, labels(target, "target", 2).astype(bool)


def _by_blocks(order: _Order, weights: Weights, value: Callable[[Counts, Counts], Floats]) -> Floats:
    """Return ``value(positives, negatives)`` of every resample."""
    values = [value(*order.counts(block)) for block in row_blocks(weights)]
    return np.concatenate(values) if values else np.empty(0)


class AUROC(Metric):
    """Area under the ROC curve: the chance that a positive outscores a negative, ties one half.

    ``preds``: positive-class scores ``[N]`` with ``target`` ``{0, 1}`` ``[N]``, or class scores ``[N, C]`` with labels
    ``[N]``, which give the mean of the one-versus-rest areas; any real. Dimensionless, in [0, 1], chance 0.5,
    higher is better. Exact, never binned; strictly increasing transforms of the scores leave it unchanged. A class
    without a positive or without a negative is left out of the mean; ``details`` names it.

    The value is torchmetrics' (``binary_auroc``, ``multiclass_auroc``), handed ranks: for scores outside [0, 1] the
    library applies a sigmoid, which makes ties of large scores. It divides in float64; an area is then rounded to the
    whole number of half pairs that it stands for. The library's mean over classes counts an absent class as 0: the mean
    is taken here.

    Raises:
        UndefinedMetricError: no samples, or one class only.
        ValueError: NaN or infinity, unequal lengths, a target outside {0, 1} or [0, C).

    Reference: Davis and Goadrich, "The relationship between Precision-Recall and ROC curves", ICML 2006.

    Example:
        >>> AUROC()([0.1, 0.4, 0.4, 0.9], [0, 0, 1, 1])
        0.875
    """

    name = "AUROC"
    direction = "higher"
    bounds = (0.0, 1.0)
    takes = frozenset({Takes.POSITIVE_SCORE, Takes.DECISIONS})

    def __call__(self, preds: Any, target: Any) -> float:
        """Return the area."""
        return self.details(preds, target).value

    def details(self, preds: Any, target: Any) -> MetricDetails:
        """Return the area with the classes left out of its mean."""
        scores = numeric(preds, "preds")
        if scores.ndim != 2:
            scores, positive = _binary(scores, target)
            _require_both(self.name, positive.astype(np.int64))
            return MetricDetails(library.area(scores, positive), len(scores))
        truth = self._labels(scores, target)
        _require_both(self.name, truth)
        present, code = np.unique(truth, return_inverse=True)
        areas = library.areas_one_vs_rest(scores[:, present], code)
        left_out = tuple(np.setdiff1d(np.arange(scores.shape[1]), present).tolist())
        return MetricDetails(float(np.mean(areas)), len(scores), left_out_classes=left_out)

    def resampled(self, preds: Any, target: Any, weights: Any) -> Floats:
        """Return areas from one sort per class and weighted running counts."""
        scores = numeric(preds, "preds")
        if scores.ndim != 2:
            scores, positive = _binary(scores, target)
            return self._resampled_binary(scores, positive, check_weights(weights, len(scores)))
        truth = self._labels(scores, target)
        weights = check_weights(weights, len(truth))
        total, n_defined = np.zeros(len(weights)), np.zeros(len(weights))
        for c in np.unique(truth):
            areas = _by_blocks(_Order(scores[:, c], truth == c), weights, _area)
            total += np.nan_to_num(areas)
            n_defined += ~np.isnan(areas)
        return ratio(total, n_defined)

    @staticmethod
    def _resampled_binary(scores: NDArray[Any], positive: Mask, weights: Weights) -> Floats:
        if len(scores) == 0:
            return np.full(len(weights), np.nan)
        order = _Order(scores, positive)
        if order.last is None and int(weights.sum(axis=1, dtype=np.uint64).max(initial=0)) < 2**26:
            return _untied_areas(order, weights)
        return _by_blocks(order, weights, _area)

    @staticmethod
    def _labels(scores: NDArray[Any], target: Any) -> Labels:
        same_length(scores, target)
        return labels(target, "target", scores.shape[1])


class AUC(AUROC):
    """Area under the ROC curve of a detector: ``AUROC`` under the name that detection and sensing tasks use.

    ``preds``: positive-class scores ``[N]`` with ``target`` ``{0, 1}`` ``[N]``, or class scores ``[N, C]`` with labels
    ``[N]``; any real. Dimensionless, in [0, 1], chance 0.5, higher is better. Scores are comparable within one fold
    only: average the folds' areas, never pool their scores. Library, ties and absent classes as for ``AUROC``.

    Raises:
        UndefinedMetricError: no samples, or one class only.
        ValueError: NaN or infinity, unequal lengths, a target outside {0, 1} or [0, C).

    Reference: Davis and Goadrich, "The relationship between Precision-Recall and ROC curves", ICML 2006.

    Example:
        >>> AUC()([20, 21], [0, 1])
        1.0
        >>> AUC().details([[3, 1, 0], [2, 4, 0], [1, 0, 5]], [0, 1, 1]).left_out_classes
        (2,)
    """

    name = "AUC"


class EER(Metric):
    """Equal error rate of a verification system: the error rate at the threshold where FAR equals FRR.

    ``preds``: similarity scores of verification trials ``[N]``, any real, higher for genuine. ``target``: 1 genuine, 0
    impostor ``[N]``. Dimensionless, in [0, 1], chance 0.5, lower is better. With the false acceptance rate FAR(t) =
    P(score >= t | impostor) and the false rejection rate FRR(t) = P(score < t | genuine). The threshold t runs over
    every distinct score; between the two neighbouring operating points where FAR - FRR changes sign the detection error
    tradeoff (DET) curve is interpolated linearly.

    The operating points are torchmetrics' (``binary_roc``, handed ranks, its rates turned back into counts). The
    interpolation has no library form: ``binary_eer`` takes the nearest operating point instead.

    Raises:
        UndefinedMetricError: no trials, genuine ones only, or impostor ones only.
        ValueError: NaN or infinity, unequal lengths, a target other than 0 and 1.

    Reference: Martin, Doddington, Kamm, Ordowski and Przybocki, "The DET curve in assessment of detection task
    performance", Eurospeech 1997.

    Example:
        >>> round(EER()([0.9, 0.4, 0.8, 0.3, 0.2], [1, 1, 0, 0, 0]), 6)
        0.333333
    """

    name = "EER"
    direction = "lower"
    bounds = (0.0, 1.0)
    takes = frozenset({Takes.VERIFICATION})

    def __call__(self, preds: Any, target: Any) -> float:
        """Return the rate."""
        scores, genuine = _binary(preds, target)
        _require_both(self.name, genuine.astype(np.int64))
        return float(_crossing(*library.counts_below(scores, genuine)))

    def resampled(self, preds: Any, target: Any, weights: Any) -> Floats:
        """Return rates from one sort and weighted running counts."""
        scores, genuine = _binary(preds, target)
        weights = check_weights(weights, len(scores))
        if len(scores) == 0:
            return np.full(len(weights), np.nan)
        return _by_blocks(_Order(scores, genuine), weights, _crossing)


def _require_both(name: str, truth: Labels) -> None:
    """Raise UndefinedMetricError for no samples or one class only."""
    require_samples(name, len(truth))
    if truth.min() == truth.max():
        raise UndefinedMetricError(f"{name} is undefined: every target is class {truth[0]}")
