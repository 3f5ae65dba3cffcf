"""Metrics of a ranking: area under the ROC curve and equal error rate, exact from counts, one sort each."""

from typing import Any

import numpy as np

from emma.metrics.base import (
    Metric,
    MetricDetails,
    UndefinedMetricError,
    check_weights,
    labels,
    numeric,
    ratio,
    require_samples,
    row_blocks,
    same_length,
)

# torchmetrics' curves squash scores outside [0, 1] by a sigmoid that turns large distinct scores into ties, and divide
# counts in float32; handed ranks they still take 25 sorts' time. The counts of the exact curve are these few lines.


class _Order:
    """The samples in rising order of their scores, tied ones together."""

    def __init__(self, scores: np.ndarray, positive: np.ndarray) -> None:
        self.order = np.argsort(scores)
        ranked = scores[self.order]
        rises = ranked[1:] != ranked[:-1]
        # No ties, no gathering: the last of each group is then every sample.
        self.last = None if rises.all() else np.append(np.flatnonzero(rises), len(scores) - 1)
        self.positive = positive[self.order]

    def counts(self, weights: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return numbers of positives and negatives up to each distinct score, from none: int64 ``[..., K + 1]``."""
        if weights is None:
            positives = _from_zero(self.positive)
            everyone = np.arange(positives.size)
        else:
            weights = weights[:, self.order]
            positives, everyone = _from_zero(weights * self.positive), _from_zero(weights)
        if self.last is not None:
            points = np.append(0, self.last + 1)
            positives, everyone = positives[..., points], everyone[..., points]
        return positives, everyone - positives


def _from_zero(counts: np.ndarray) -> np.ndarray:
    """Return running sums along the last axis that start at zero."""
    sums = np.zeros((*counts.shape[:-1], counts.shape[-1] + 1), np.int64)
    np.cumsum(counts, axis=-1, out=sums[..., 1:])
    return sums


def _area(positives: np.ndarray, negatives: np.ndarray) -> np.ndarray:
    """Return the area under the ROC curve, NaN with one class only."""
    # Twice the number of pairs won, ties one half, in whole numbers.
    won = (np.diff(positives) * (negatives[..., 1:] + negatives[..., :-1])).sum(axis=-1)
    return ratio(won, 2.0 * positives[..., -1] * negatives[..., -1])


def _untied_areas(order: _Order, weights: np.ndarray) -> np.ndarray:
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


def _crossing(positives: np.ndarray, negatives: np.ndarray) -> np.ndarray:
    """Return the rate at which false accepts and false rejects meet, NaN with one class only."""
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


def _binary(preds: Any, target: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return scores ``[N]`` in their own precision and the positives as a mask ``[N]``."""
    scores = numeric(preds, "preds")
    if scores.ndim != 1:
        raise ValueError(f"preds: expected scores [N], not shape {scores.shape}")
    same_length(scores, target)
    return scores, labels(target, "target", 2).astype(np.int8)


def _by_blocks(order: _Order, weights: np.ndarray, value: Any) -> np.ndarray:
    """Return ``value(positives, negatives)`` of every resample."""
    values = [value(*order.counts(block)) for block in row_blocks(weights)]
    return np.concatenate(values) if values else np.empty(0)


class AUROC(Metric):
    """Area under the ROC curve: the chance that a positive outscores a negative, ties one half.

    ``preds``: positive-class scores ``[N]``, any real. ``target``: ``{0, 1}`` ``[N]``. In [0, 1] without unit, chance
    0.5, higher is better. Exact, never binned; strictly increasing transforms of the scores leave it unchanged.

    Raises:
        UndefinedMetricError: no samples, or one class only.
        ValueError: NaN or infinity, unequal lengths, a target other than 0 and 1.

    Reference: Davis and Goadrich, "The relationship between Precision-Recall and ROC curves", ICML 2006.

    Example:
        >>> AUROC()([0.1, 0.4, 0.4, 0.9], [0, 0, 1, 1])
        0.875
    """

    name = "AUROC"
    direction = "higher"
    takes = frozenset({"positive_score"})

    def __call__(self, preds: Any, target: Any) -> float:
        """Return the area."""
        scores, positive = _binary(preds, target)
        _require_both(self.name, positive)
        return float(_area(*_Order(scores, positive).counts()))

    def resampled(self, preds: Any, target: Any, weights: np.ndarray) -> np.ndarray:
        """Return areas from one sort and weighted running counts."""
        scores, positive = _binary(preds, target)
        weights = check_weights(weights, len(scores))
        if len(scores) == 0:
            return np.full(len(weights), np.nan)
        order = _Order(scores, positive)
        if order.last is None and int(weights.sum(axis=1, dtype=np.uint64).max(initial=0)) < 2**26:
            return _untied_areas(order, weights)
        return _by_blocks(order, weights, _area)


class AUC(AUROC):
    """Area under the ROC curve of a detector, or the mean of one-versus-rest areas over classes.

    ``preds``: positive-class scores ``[N]`` with ``target`` ``{0, 1}`` ``[N]``, or class scores ``[N, C]`` with labels
    ``[N]``; any real. In [0, 1] without unit, chance 0.5, higher is better. A class without a positive or without a
    negative is left out of the mean; ``details`` names it. Scores are comparable within one fold only: average the
    folds' areas, never pool their scores.

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
    takes = frozenset({"positive_score", "decisions"})

    def __call__(self, preds: Any, target: Any) -> float:
        """Return the area."""
        return self.details(preds, target).value

    def details(self, preds: Any, target: Any) -> MetricDetails:
        """Return the area with the classes left out of its mean."""
        scores = numeric(preds, "preds")
        if scores.ndim != 2:
            return MetricDetails(super().__call__(scores, target), len(scores))
        truth = self._labels(scores, target)
        _require_both(self.name, truth)
        present = np.unique(truth)
        areas = [float(_area(*_Order(scores[:, c], truth == c).counts())) for c in present]
        left_out = tuple(np.setdiff1d(np.arange(scores.shape[1]), present).tolist())
        return MetricDetails(float(np.mean(areas)), len(scores), left_out_classes=left_out)

    def resampled(self, preds: Any, target: Any, weights: np.ndarray) -> np.ndarray:
        """Return areas from one sort per class and weighted running counts."""
        scores = numeric(preds, "preds")
        if scores.ndim != 2:
            return super().resampled(scores, target, weights)
        truth = self._labels(scores, target)
        weights = check_weights(weights, len(truth))
        total, n_defined = np.zeros(len(weights)), np.zeros(len(weights))
        for c in np.unique(truth):
            areas = _by_blocks(_Order(scores[:, c], truth == c), weights, _area)
            total += np.nan_to_num(areas)
            n_defined += ~np.isnan(areas)
        return ratio(total, n_defined)

    @staticmethod
    def _labels(scores: np.ndarray, target: Any) -> np.ndarray:
        same_length(scores, target)
        return labels(target, "target", scores.shape[1])


class EER(Metric):
    """Equal error rate: where false accepts and false rejects meet, interpolated on the exact DET curve.

    ``preds``: similarities or positive-class scores ``[N]``, any real, higher for genuine. ``target``: 1 genuine, 0
    impostor ``[N]``. In [0, 1] without unit, chance 0.5, lower is better. The threshold sweeps over every distinct
    score, tied scores together; between the two neighbouring points where FAR - FRR changes sign the curve is a
    straight line. With FAR(t) = P(score >= t | impostor) and FRR(t) = P(score < t | genuine).

    Raises:
        UndefinedMetricError: no samples, genuine only, or impostors only.
        ValueError: NaN or infinity, unequal lengths, a target other than 0 and 1.

    Reference: Martin, Doddington, Kamm, Ordowski and Przybocki, "The DET curve in assessment of detection task
    performance", Eurospeech 1997.

    Example:
        >>> round(EER()([0.9, 0.4, 0.8, 0.3, 0.2], [1, 1, 0, 0, 0]), 6)
        0.333333
    """

    name = "EER"
    direction = "lower"
    takes = frozenset({"verification"})

    def __call__(self, preds: Any, target: Any) -> float:
        """Return the rate."""
        scores, genuine = _binary(preds, target)
        _require_both(self.name, genuine)
        return float(_crossing(*_Order(scores, genuine).counts()))

    def resampled(self, preds: Any, target: Any, weights: np.ndarray) -> np.ndarray:
        """Return rates from one sort and weighted running counts."""
        scores, genuine = _binary(preds, target)
        weights = check_weights(weights, len(scores))
        if len(scores) == 0:
            return np.full(len(weights), np.nan)
        return _by_blocks(_Order(scores, genuine), weights, _crossing)


def _require_both(name: str, truth: np.ndarray) -> None:
    """Raise UndefinedMetricError for no samples or one class only."""
    require_samples(name, len(truth))
    if truth.min() == truth.max():
        raise UndefinedMetricError(f"{name} is undefined: every target is class {truth[0]}")
