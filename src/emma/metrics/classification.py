"""Accuracies of class decisions, with ties between class scores counted as the chance of picking right."""

from dataclasses import dataclass
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
    SampleMean,
    Takes,
    UndefinedMetricError,
    check_weights,
    labels,
    numeric,
    ratio,
    require_samples,
    row_blocks,
    same_length,
)


@dataclass(frozen=True)
class Decisions:
    """What N predictions say of N classes.

    Attributes:
        preds: class scores ``[N, C]`` or labels int64 ``[N]``.
        truth: the true labels ``[N]``.
        chance: chance ``[N]`` that the true class is among the first k.
        tied: mask ``[N]`` of the samples whose true class shares its score with another.
    """

    preds: NDArray[Any]
    truth: Labels
    chance: Floats
    tied: Mask

    def right(self, k: int, among: Mask | None = None) -> float:
        """Return how many samples are right: the library's count, and for the tied their chances."""
        tied, untied = (self.tied, ~self.tied) if among is None else (self.tied & among, ~self.tied & among)
        return library.n_right(self.preds[untied], self.truth[untied], k) + float(self.chance[tied].sum())


def decide(preds: Any, target: Any, k: int = 1, *, allow_labels: bool = True) -> Decisions:
    """Return what class scores or labels decide, after checking both.

    Tied classes are put in random order, so a class with ``above`` higher and ``tied`` equal scores (its own
    among them) is in the first k with probability ``(k - above) / tied``, cut to [0, 1].
    """
    scores = numeric(preds, "preds")
    if scores.ndim == 1 and allow_labels:
        decided, truth = labels(scores, "preds"), labels(target, "target")
        same_length(decided, truth)
        return Decisions(decided, truth, (decided == truth).astype(np.float64), np.zeros(len(truth), bool))
    if scores.ndim == 1 and scores.size == 0:
        scores = scores.reshape(0, k + 1)
    if scores.ndim != 2:
        raise ValueError(f"preds: expected class scores [N, C], not shape {scores.shape}")
    same_length(scores, target)
    if scores.shape[1] < 2:
        raise ValueError("preds: scores of one class alone are always right (a column of labels comes as [N])")
    truth = labels(target, "target", scores.shape[1])
    if k > scores.shape[1]:
        raise ValueError(f"preds: top {k} of {scores.shape[1]} classes is always right")
    own = scores[np.arange(len(scores)), truth]
    # Column by column: summing a two-column array along its rows takes five times as long.
    above, tied = np.zeros(len(scores), np.int64), np.zeros(len(scores), np.int64)
    for column in scores.T:
        above += column > own
        tied += column == own
    return Decisions(scores, truth, np.clip((k - above) / np.maximum(tied, 1), 0.0, 1.0), tied > 1)


class PlainAccuracy(SampleMean):
    """Share of samples whose class is decided right; dimensionless, in [0, 1], higher is better.

    ``preds``: class scores ``[N, C]``, any real, or labels ``[N]``. ``target``: labels ``[N]``.
    A true class tied for the highest score with m - 1 others counts 1/m.

    The value is torchmetrics' count of right decisions (``multiclass_stat_scores``, micro), divided in float64. The
    library gives a tie to its first class: samples whose true class is tied are counted here, by their chance.

    Raises:
        UndefinedMetricError: no samples.
        ValueError: NaN or infinity, unequal lengths, labels that are not whole numbers in [0, C).

    Reference: Sokolova and Lapalme, "A systematic analysis of performance measures for classification tasks",
    Information Processing and Management 2009.

    Example:
        >>> PlainAccuracy()([[2.0, 1.0], [0.5, 0.5]], [0, 1])
        0.75
    """

    # torchmetrics' MulticlassAccuracy itself divides in float32: 1/3 is off by 1e-8.
    name = "PlainAccuracy"
    direction = "higher"
    bounds = (0.0, 1.0)
    takes = frozenset({Takes.DECISIONS})

    def decisions(self, preds: Any, target: Any) -> tuple[Decisions, int]:
        """Return the decisions and how many classes each sample may name."""
        return decide(preds, target), 1

    def details(self, preds: Any, target: Any) -> MetricDetails:
        """Return the library's count of right decisions over N."""
        decisions, k = self.decisions(preds, target)
        n = len(decisions.truth)
        require_samples(self.name, n)
        return MetricDetails(decisions.right(k) / n, n)

    def sample_scores(self, preds: Any, target: Any) -> tuple[Floats, Mask]:
        """Return each sample's chance to be right; every sample counts."""
        chance = self.decisions(preds, target)[0].chance
        return chance, np.ones(len(chance), bool)


class Top1Accuracy(PlainAccuracy):
    """Closed-set recognition accuracy: ``PlainAccuracy`` under the name that identification tasks use.

    ``preds``: class scores ``[N, C]``, any real, or labels ``[N]``. ``target``: labels ``[N]``.
    Dimensionless, in [0, 1], higher is better; ties as for ``PlainAccuracy``.

    Raises:
        UndefinedMetricError: no samples.
        ValueError: NaN or infinity, unequal lengths, labels that are not whole numbers in [0, C).

    Reference: Russakovsky et al., "ImageNet large scale visual recognition challenge", IJCV 2015, arXiv:1409.0575.

    Example:
        >>> Top1Accuracy()([[0, 0, 0, 0, 0]], [0])
        0.2
    """

    name = "Top1Accuracy"


class TopKAccuracy(PlainAccuracy):
    """Share of samples whose true class is among the k highest scores; dimensionless, in [0, 1], higher is better.

    ``preds``: class scores ``[N, C]``, any real, C >= k. ``target``: labels ``[N]``. Ties at the k-th place count
    as the chance of a random order, so the value never falls as k grows.

    The value is torchmetrics' count of hits (``multiclass_stat_scores`` with ``top_k``), divided in float64. The
    library breaks ties by position: samples whose true class is tied are counted here, by their chance.

    Raises:
        UndefinedMetricError: no samples.
        ValueError: k below 1 or above C, NaN or infinity, unequal lengths, labels outside [0, C).

    Reference: Russakovsky et al., "ImageNet large scale visual recognition challenge", IJCV 2015, arXiv:1409.0575.

    Example:
        >>> TopKAccuracy(3)([[0, 0, 0, 0, 0]], [0])
        0.6
    """

    name = "TopKAccuracy"
    release_keys = ("k",)

    def __init__(self, k: int = 5) -> None:
        if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
            raise ValueError(f"k: expected a whole number from 1 up, not {k!r}")
        self.k = int(k)

    def __repr__(self) -> str:
        """Name the metric as code."""
        return f"TopKAccuracy({self.k})"

    def decisions(self, preds: Any, target: Any) -> tuple[Decisions, int]:
        """Return the decisions and k."""
        return decide(preds, target, self.k, allow_labels=False), self.k


class BalancedAccuracy(Metric):
    """Mean recall over the classes present in the target; dimensionless, in [0, 1], higher is better.

    ``preds``: class scores ``[N, C]``, any real, or labels ``[N]``. ``target``: labels ``[N]``. Chance is one over the
    number of classes present, whatever their shares. Ties between scores as for ``PlainAccuracy``.

    Each recall is torchmetrics' count of right decisions among the samples of the class, divided in float64. The mean
    over the classes present has no library form: the library's macro average counts a class that is predicted but
    absent from the target as recall 0.

    Raises:
        UndefinedMetricError: no samples, or one class only (a constant decision would score 1).
        ValueError: NaN or infinity, unequal lengths, labels that are not whole numbers in [0, C).

    Reference: Brodersen, Ong, Stephan and Buhmann, "The balanced accuracy and its posterior distribution", ICPR 2010.

    Example:
        >>> BalancedAccuracy()([0, 1, 2, 2], [0, 0, 2, 2])
        0.75
    """

    name = "BalancedAccuracy"
    direction = "higher"
    bounds = (0.0, 1.0)
    takes = frozenset({Takes.DECISIONS})

    def __call__(self, preds: Any, target: Any) -> float:
        """Return the mean of the recalls."""
        decisions = decide(preds, target)
        truth = decisions.truth
        require_samples(self.name, len(truth))
        present, support = np.unique(truth, return_counts=True)
        if len(present) == 1:
            raise UndefinedMetricError(f"BalancedAccuracy is undefined: every target is class {truth[0]}")
        right = np.array([decisions.right(1, truth == c) for c in present])
        return float((right / support).mean())

    def resampled(self, preds: Any, target: Any, weights: Any) -> Floats:
        """Return mean recalls from weighted counts per class."""
        decisions = decide(preds, target)
        right, truth = decisions.chance, decisions.truth
        weights = check_weights(weights, len(truth))
        if len(truth) == 0:
            return np.full(len(weights), np.nan)
        order = np.argsort(truth, kind="stable")
        starts = np.flatnonzero(np.diff(truth[order], prepend=-1))
        values = []
        for block in row_blocks(weights):
            sorted_weights = block[:, order].astype(np.float64)
            support = np.add.reduceat(sorted_weights, starts, axis=1)
            recall = ratio(np.add.reduceat(sorted_weights * right[order], starts, axis=1), support)
            present = (support > 0).sum(axis=1)
            values.append(np.where(present > 1, np.nansum(recall, axis=1) / np.maximum(present, 1), np.nan))
        return np.concatenate(values) if values else np.empty(0)
