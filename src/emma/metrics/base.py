"""What every metric is: its interface, the checks of its input, and the error for a value that cannot be computed."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np


class UndefinedMetricError(ValueError):
    """The inputs are well formed but do not define the metric; the message says why."""


@dataclass(frozen=True)
class MetricDetails:
    """A metric's value with what it stands on.

    Attributes:
        value: the metric, as ``metric(preds, target)`` returns it.
        n_scored: number of samples that entered the value.
        left_out_samples: indices of the samples left out because their reference is silent or zero.
        left_out_classes: classes left out of a mean over classes because they lack positives or negatives.
    """

    value: float
    n_scored: int
    left_out_samples: tuple[int, ...] = ()
    left_out_classes: tuple[int, ...] = ()


class Metric(ABC):
    """A number for N predictions against N targets, computed in float64.

    Attributes:
        name: the metric's name in ``emma.metrics.METRICS``.
        direction: ``"higher"`` where higher is better, ``"lower"`` where lower is.
        takes: the forms of input that the metric can measure.
        unit: ``"1"`` for a dimensionless value, else the unit's name.
    """

    name: ClassVar[str]
    direction: ClassVar[Literal["higher", "lower"]]
    takes: ClassVar[frozenset[str]]
    unit: ClassVar[str] = "1"

    @abstractmethod
    def __call__(self, preds: Any, target: Any) -> float:
        """Return the metric of ``preds`` against ``target``.

        Raises:
            UndefinedMetricError: the inputs do not define the value.
            ValueError: the inputs are wrong (NaN, infinity, unequal lengths, labels out of range, ...).
        """

    def details(self, preds: Any, target: Any) -> MetricDetails:
        """Return the value with the samples and classes that it leaves out; raises what the call raises."""
        return MetricDetails(self(preds, target), len(target))

    def resampled(self, preds: Any, target: Any, weights: np.ndarray) -> np.ndarray:
        """Return the metric on each of R resamples of the N samples.

        Args:
            preds: as for the call.
            target: as for the call.
            weights: whole numbers ``[R, N]``: how often each sample stands in each resample.

        Returns:
            float64 ``[R]``; NaN for a resample that does not define the metric.

        Raises:
            ValueError: the inputs or the weights are wrong.
        """
        weights = check_weights(weights, len(target))
        values = np.full(len(weights), np.nan)
        for row, times in enumerate(weights):
            picked = np.repeat(np.arange(len(times)), times)
            try:
                values[row] = self(take(preds, picked), take(target, picked))
            except UndefinedMetricError:
                continue
        return values

    def __repr__(self) -> str:
        """Name the metric as code."""
        return f"{type(self).__name__}()"


class SampleMean(Metric):
    """A metric that is the mean of one score per sample."""

    #: why no sample can be scored although there are samples
    nothing_scored = "every sample is left out"
    #: why the score of a sample that counts may be undefined
    sample_undefined = "the score of a sample is undefined"

    @abstractmethod
    def sample_scores(self, preds: Any, target: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return scores float64 ``[N]``, NaN where undefined, and a mask ``[N]`` of the samples that count."""

    def __call__(self, preds: Any, target: Any) -> float:
        """Return the mean over the samples that count."""
        return self.details(preds, target).value

    def details(self, preds: Any, target: Any) -> MetricDetails:
        """Return the mean with the indices of the samples that do not count."""
        scores, counts = self.sample_scores(preds, target)
        require_samples(self.name, len(scores))
        if not counts.any():
            raise UndefinedMetricError(f"{self.name} is undefined: {self.nothing_scored}")
        undefined = np.flatnonzero(counts & np.isnan(scores))
        if undefined.size:
            raise UndefinedMetricError(f"{self.name} is undefined: {self.sample_undefined} ({listed(undefined)})")
        left_out = tuple(np.flatnonzero(~counts).tolist())
        return MetricDetails(float(scores[counts].mean()), int(counts.sum()), left_out)

    def resampled(self, preds: Any, target: Any, weights: np.ndarray) -> np.ndarray:
        """Return weighted means of the scores, which do not change with the resample."""
        scores, counts = self.sample_scores(preds, target)
        weights = check_weights(weights, len(scores))
        undefined = counts & np.isnan(scores)
        sums = weighted_sums(weights, np.where(counts & ~undefined, scores, 0.0))
        sums[weights[:, undefined].any(axis=1)] = np.nan
        return ratio(sums, weighted_sums(weights, counts))


def require_samples(name: str, n: int) -> None:
    """Raise UndefinedMetricError where there is nothing to score."""
    if n == 0:
        raise UndefinedMetricError(f"{name} is undefined: no samples")


def numeric(values: Any, what: str, *, allow_complex: bool = False) -> np.ndarray:
    """Return ``values`` as a numeric array of its own precision, or raise a ValueError that says what is wrong."""
    if np.ma.isMaskedArray(values):
        raise ValueError(f"{what}: a masked array has samples without a value; pass only the samples to score")
    try:
        array = np.asarray(values)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"{what}: expected an array of numbers, {error}") from error
    if array.dtype.kind not in ("biufc" if allow_complex else "biuf"):
        raise ValueError(f"{what}: expected {'' if allow_complex else 'real '}numbers, not {array.dtype}")
    if array.dtype.kind in "fc" and not np.isfinite(array).all():
        raise ValueError(f"{what}: NaN or infinity in {listed(np.unique(np.argwhere(~np.isfinite(array))[:, :1]))}")
    return array.astype(np.uint8) if array.dtype.kind == "b" else array


def labels(values: Any, what: str, n_classes: int | None = None) -> np.ndarray:
    """Return class labels ``[N]`` as int64, each in ``[0, n_classes)``."""
    array = numeric(values, what)
    if array.ndim != 1:
        raise ValueError(f"{what}: expected labels [N], not shape {array.shape}")
    if array.dtype.kind == "f" and (array != np.floor(array)).any():
        raise ValueError(f"{what}: labels are whole numbers (class scores come as [N, C])")
    if array.size:
        limit = 2**31 if n_classes is None else n_classes
        for label in (array.min().item(), array.max().item()):
            if not 0 <= label < limit:
                raise ValueError(f"{what}: label {label:g} lies outside [0, {limit})")
    return array.astype(np.int64, copy=False)


def same_length(preds: Any, target: Any) -> None:
    """Raise a ValueError unless both hold the same number of samples."""
    if not isinstance(target, Sequence) and np.ndim(target) == 0:
        raise ValueError("target: expected one value a sample, not a single one")
    if len(preds) != len(target):
        raise ValueError(f"preds holds {len(preds)} samples, target {len(target)}")


def check_weights(weights: Any, n: int) -> np.ndarray:
    """Return multiplicities ``[R, N]`` after checking that they are whole numbers from zero up."""
    weights = np.asarray(weights)
    if weights.ndim != 2 or weights.shape[1] != n:
        raise ValueError(f"weights: expected [R, {n}], not shape {weights.shape}")
    if weights.dtype.kind not in "ui" or (weights.dtype.kind == "i" and weights.size and weights.min() < 0):
        raise ValueError("weights: expected whole numbers from zero up")
    return weights


def weighted_sums(weights: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return float64 sums over samples: weights ``[R, N]`` by values ``[N]`` give ``[R]``."""
    # einsum without BLAS: the same bytes on any number of threads, and no float copy of all the weights.
    return np.einsum("rn,n->r", weights, values.astype(np.float64, copy=False), dtype=np.float64)


def ratio(numerator: np.ndarray, denominator: np.ndarray) -> np.ndarray:
    """Return the quotients, NaN where the denominator is zero."""
    return np.divide(numerator, denominator, out=np.full(np.shape(numerator), np.nan), where=denominator != 0)


def row_blocks(weights: np.ndarray, cells: int = 2**21) -> list[np.ndarray]:
    """Cut ``[R, N]`` into blocks of rows of about ``cells`` entries, so that memory does not grow with R."""
    rows = max(1, cells // max(1, weights.shape[1]))
    return [weights[start : start + rows] for start in range(0, len(weights), rows)]


def take(samples: Any, picked: np.ndarray) -> Any:
    """Return the picked samples of an array or of a sequence such as a list of strings."""
    if isinstance(samples, Sequence):
        return [samples[i] for i in picked]
    return np.asarray(samples)[picked]


def listed(indices: np.ndarray, limit: int = 5) -> str:
    """Name the first few samples."""
    names = ", ".join(str(i) for i in indices[:limit].tolist())
    return f"sample {names}" + (f" and {len(indices) - limit} more" if len(indices) > limit else "")
