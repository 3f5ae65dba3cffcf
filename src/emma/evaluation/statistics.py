"""Bootstrap intervals, paired comparisons and corrections for many comparisons, in numpy alone."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from common.arrays import as_numpy
from common.streams import DrawSeed as Seed
from common.streams import random_generator

if TYPE_CHECKING:
    from emma.metrics.base import Metric


def bootstrap_weights(
    n: int, *, n_resamples: int, seed: Seed, groups: Any = None, strata: Any = None
) -> NDArray[np.unsignedinteger[Any]]:
    """Return how often each of n samples stands in each resample drawn with replacement.

    Args:
        n: number of samples.
        n_resamples: number of resamples R.
        seed: see ``random_generator``.
        groups: labels ``[n]``: whole groups are drawn, as many as there are, with all their samples.
        strata: labels ``[n]``: each stratum is drawn for itself, from its own samples or groups.

    Returns:
        whole numbers ``[R, n]`` (uint16, or uint32 for more than 65,535 units). Rows sum to n, except
        where groups differ in size.

    Raises:
        ValueError: labels of another length than n, a group in two strata, a negative count.
    """
    if n < 0 or n_resamples < 1:
        raise ValueError(f"bootstrap: expected n >= 0 and n_resamples >= 1, not {n} and {n_resamples}")
    unit = np.arange(n) if groups is None else _codes(groups, n, "groups")
    n_units = int(unit.max()) + 1 if n else 0
    stratum = np.zeros(n_units, np.int64)
    if strata is not None:
        of_sample = _codes(strata, n, "strata")
        stratum[unit] = of_sample
        if (stratum[unit] != of_sample).any():
            raise ValueError("strata: a group lies in two strata")
    rng = random_generator(seed)
    counter = np.uint16 if n_units <= np.iinfo(np.uint16).max else np.uint32
    times: NDArray[np.unsignedinteger[Any]] = np.zeros((n_resamples, n_units), counter)
    for code in range(int(stratum.max()) + 1 if n_units else 0):
        members = np.flatnonzero(stratum == code)
        size = len(members)
        # Few draws at a time, so that they stay in a processor's cache; the stream does not depend on how many.
        rows = max(1, 2**15 // size)
        for start in range(0, n_resamples, rows):
            stop = min(start + rows, n_resamples)
            drawn = rng.integers(size, size=(stop - start, size))
            if rows > 8:
                drawn += np.arange(stop - start)[:, None] * size
                counted = np.bincount(drawn.ravel(), minlength=drawn.size).reshape(-1, size)
            else:
                counted = np.array([np.bincount(row, minlength=size) for row in drawn])
            if size == n_units:
                times[start:stop] = counted
            else:
                times[start:stop, members] = counted
    return times if groups is None else times[:, unit]


def bootstrap_interval(
    metric: "Metric",
    preds: Any,
    target: Any,
    *,
    seed: Seed,
    groups: Any = None,
    n_resamples: int = 1000,
    level: float = 0.95,
) -> tuple[float, float]:
    """Return the percentile bootstrap interval of a metric, over the resamples that define it.

    Args:
        metric: any metric of ``emma.metrics``.
        preds: as the metric takes them, N samples.
        target: as the metric takes them, N samples.
        seed: see ``random_generator``.
        groups: labels ``[N]`` of what is drawn as a whole, such as sessions; by default the samples are drawn.
        n_resamples: number of resamples.
        level: coverage, in (0, 1).

    Returns:
        lower and upper bound, in the metric's unit.

    Raises:
        ValueError: wrong input, or fewer than half of the resamples define the metric.

    Reference: Efron and Tibshirani, "An Introduction to the Bootstrap", Chapman and Hall 1993, chapter 13.
    """
    weights = bootstrap_weights(metric.n_samples(target), n_resamples=n_resamples, seed=seed, groups=groups)
    return _interval_of(metric.resampled(preds, target, weights), level)


@dataclass(frozen=True)
class PairedDifference:
    """A metric of one set of predictions less that of another on the same samples.

    Attributes:
        difference: ``metric(preds_a) - metric(preds_b)``, in the metric's unit.
        interval: percentile bootstrap interval of the difference.
        p_one_sided: small where a is better than b, in the metric's own direction.
        p_two_sided: small where a and b differ.
        n_defined: number of resamples that define the difference.
    """

    difference: float
    interval: tuple[float, float]
    p_one_sided: float
    p_two_sided: float
    n_defined: int


def paired_bootstrap_difference(
    metric: "Metric",
    preds_a: Any,
    preds_b: Any,
    target: Any,
    *,
    seed: Seed,
    groups: Any = None,
    strata: Any = None,
    mean_over_strata: bool = False,
    n_resamples: int = 1000,
    level: float = 0.95,
) -> PairedDifference:
    """Compare two sets of predictions on the same samples: both see the same resamples.

    The p-values are shares of resamples on the far side of no difference, each count raised by one, so that none is
    zero: ``p_one_sided = (1 + #{a not better than b}) / (1 + R)``; ``p_two_sided`` is twice the smaller side, at
    most 1.

    Args:
        metric: any metric of ``emma.metrics``.
        preds_a: predictions of the first, N samples.
        preds_b: predictions of the second, for the same samples in the same order.
        target: N samples.
        seed: see ``random_generator``.
        groups: labels ``[N]`` of what is drawn as a whole.
        strata: labels ``[N]``; resamples keep the size of every stratum.
        mean_over_strata: compare unweighted means over strata of the metric within each (a task's score over its
            held-out values) instead of the metric over all samples.
        n_resamples: number of resamples R.
        level: coverage of the interval, in (0, 1).

    Raises:
        UndefinedMetricError: the metric is undefined on the samples themselves.
        ValueError: wrong input, or fewer than half of the resamples define the difference.

    Reference: Davison and Hinkley, "Bootstrap Methods and their Application", Cambridge 1997, section 4.2.
    """
    if len(preds_a) != len(preds_b):
        raise ValueError(f"preds_a holds {len(preds_a)} samples, preds_b {len(preds_b)}")
    n = len(target)
    weights = bootstrap_weights(n, n_resamples=n_resamples, seed=seed, groups=groups, strata=strata)
    if mean_over_strata:
        if strata is None:
            raise ValueError("mean_over_strata: needs strata")
        codes = _codes(strata, n, "strata")
        parts = [np.flatnonzero(codes == code) for code in range(int(codes.max()) + 1 if n else 0)]
    else:
        parts = [np.arange(n)]

    def mean(score: Any, preds: Any, *columns: NDArray[np.unsignedinteger[Any]]) -> Any:
        return sum(
            score(_take(preds, part), _take(target, part), *(c[:, part] for c in columns)) for part in parts
        ) / len(parts)

    difference = mean(metric, preds_a) - mean(metric, preds_b)
    resampled = mean(metric.resampled, preds_a, weights) - mean(metric.resampled, preds_b, weights)
    interval = _interval_of(resampled, level)
    defined = resampled[~np.isnan(resampled)]
    gain = defined if metric.direction == "higher" else -defined
    p_better, p_worse = ((1 + int(count)) / (1 + defined.size) for count in ((gain <= 0).sum(), (gain >= 0).sum()))
    return PairedDifference(
        float(difference), interval, p_better, min(1.0, 2.0 * min(p_better, p_worse)), int(defined.size)
    )


def standard_error(values: Sequence[float]) -> float | None:
    """Return the standard error of the mean (deviation with n - 1, over the root of n), None for fewer than two values.

    Raises:
        ValueError: NaN or infinity among the values.

    Example:
        >>> standard_error([1.0, 3.0])
        1.0
    """
    array = np.asarray(values, np.float64)
    if not np.isfinite(array).all():
        raise ValueError("standard error: NaN or infinity among the values")
    return float(array.std(ddof=1) / math.sqrt(array.size)) if array.size > 1 else None


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values adjusted for their number by Holm's step-down rule, in the order given.

    Raises:
        ValueError: a p-value outside [0, 1].

    Reference: Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of Statistics 1979.

    Example:
        >>> holm([0.01, 0.04, 0.03])
        [0.03, 0.06, 0.06]
    """
    p = np.asarray(p_values, np.float64)
    if not ((p >= 0) & (p <= 1)).all():
        raise ValueError(f"p-values: expected numbers in [0, 1], not {list(p_values)}")
    order = np.argsort(p, kind="stable")
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1)), 1.0)
    return [float(value) for value in adjusted]


def percentile_interval(values: Any, level: float) -> tuple[float, float] | None:
    """Return the central percentile interval of bootstrap replicates, over those that are defined.

    Args:
        values: replicates ``[R]``, NaN where a resample does not define the statistic.
        level: coverage, in (0, 1).

    Returns:
        lower and upper bound; None where fewer than half of the replicates are defined. Infinite replicates count: a
        bound among them is a value that occurred, where finite ones are interpolated linearly.

    Raises:
        ValueError: a level outside (0, 1).

    Reference: Efron and Tibshirani, "An Introduction to the Bootstrap", Chapman and Hall 1993, chapter 13.

    Example:
        >>> percentile_interval([0.0, 1.0, 2.0, 3.0, 4.0, float("nan")], 0.5)
        (1.0, 3.0)
        >>> percentile_interval([0.5, float("nan"), float("nan")], 0.95)
    """
    if not 0 < level < 1:
        raise ValueError(f"level: expected a number in (0, 1), not {level}")
    replicates = as_numpy(values).astype(np.float64, copy=False)
    defined = replicates[~np.isnan(replicates)]
    if 2 * defined.size < replicates.size or defined.size == 0:
        return None
    tail = 50.0 * (1.0 - level)
    # Between two infinities there is nothing to interpolate: take a value that occurred.
    method: Literal["linear", "inverted_cdf"] = "linear" if np.isfinite(defined).all() else "inverted_cdf"
    low, high = np.percentile(defined, [tail, 100.0 - tail], method=method).tolist()
    return low, high


def _interval_of(replicates: NDArray[np.float64], level: float) -> tuple[float, float]:
    """Return the percentile interval, or raise a ValueError where too few replicates are defined."""
    interval = percentile_interval(replicates, level)
    if interval is None:
        n_defined = np.count_nonzero(~np.isnan(replicates))
        raise ValueError(f"bootstrap: only {n_defined} of {replicates.size} resamples define the metric")
    return interval


def _codes(values: Any, n: int, what: str) -> NDArray[np.int64]:
    """Return labels ``[n]`` as whole numbers from zero up, in their sorted order."""
    array = as_numpy(values)
    if array.shape != (n,):
        raise ValueError(f"{what}: expected {n} labels, not shape {array.shape}")
    return np.unique(array, return_inverse=True)[1].reshape(n)


def _take(samples: Any, picked: NDArray[np.int64]) -> Any:
    """Return the picked samples of an array or of a list."""
    return [samples[i] for i in picked] if isinstance(samples, list | tuple) else as_numpy(samples)[picked]
