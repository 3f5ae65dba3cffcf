"""What every metric is: its interface, the checks of its input, and the error for a value that cannot be computed."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from common.arrays import as_numpy
from emma.metrics.registry import register

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]
Mask = NDArray[np.bool_]
#: How often each of N samples stands in each of R resamples: whole numbers ``[R, N]``.
Weights = NDArray[np.integer[Any]]


#: How far a metric's value and its kernel's may lie apart.
MAX_MISMATCH = 1e-9


class UndefinedMetricError(ValueError):
    """The inputs are well formed but do not define the metric; the message says why."""


class MetricMismatchError(RuntimeError):
    """A metric's value and that of the kernel that resamples it differ: one of the two is wrong."""


class Takes(StrEnum):
    """What metrics take; the kinds of label name what they give by the same words."""

    ANGLES = "angles"
    """degrees ``[N]`` against degrees ``[N]``"""
    DECISIONS = "decisions"
    """class scores ``[N, C]`` or labels ``[N]`` against labels ``[N]``"""
    CHOICES = "choices"
    """choices' scores ``[N, C]`` against what each of them would yield ``[N, C]``"""
    NUMBERS = "numbers"
    """real numbers ``[N]`` against real numbers ``[N]``"""
    POSITIVE_SCORE = "positive_score"
    """scores ``[N]`` that rank the positive class against ``{0, 1}`` ``[N]``"""
    VERIFICATION = "verification"
    """scores ``[N]`` of genuine (1) and impostor (0) pairs against ``{0, 1}`` ``[N]``"""
    COMPLEX_TENSOR = "complex_tensor"
    """complex ``[N, ...]`` against the same shape"""
    WAVEFORM = "waveform"
    """real or complex ``[N, T]`` or ``[N, sources, T]`` against the same shape"""
    SEPARATION = "separation"
    """real or complex waveforms ``[N, T]`` against ``[N, 2, T]``, the mixture and the source in it"""
    CAPTION = "caption"
    """N strings against N lists of references"""
    ANSWER = "answer"
    """N strings against N lists of accepted answers"""


@dataclass(frozen=True)
class MetricDetails:
    """A metric's value with what it stands on.

    Attributes:
        value: the metric, as ``metric(preds, target)`` returns it.
        n_scored: number of samples that entered the value; of sources where a sample has several.
        left_out_samples: indices of the samples left out because their reference is silent or zero, once per source.
        left_out_classes: classes left out of a mean over classes because they lack positives or negatives.
    """

    value: float
    n_scored: int
    left_out_samples: tuple[int, ...] = ()
    left_out_classes: tuple[int, ...] = ()


class Metric(ABC):
    """A number for N predictions against N targets, computed in float64.

    Inputs are numpy arrays, torch tensors of any precision and device, or lists. A subclass in a module of
    ``emma.metrics`` that has a ``name`` of its own stands in ``emma.metrics.METRICS``.

    Attributes:
        name: the metric's name in ``emma.metrics.METRICS``.
        direction: ``"higher"`` where higher is better, ``"lower"`` where lower is.
        takes: the forms of input that the metric can measure.
        unit: ``"1"`` for a dimensionless value, else the unit's name.
        bounds: least and greatest value that the metric can take.
        release_keys: parameters of the metric that a release pins, see ``emma.metrics.make_metric``.
    """

    name: ClassVar[str]
    direction: ClassVar[Literal["higher", "lower"]]
    takes: ClassVar[frozenset[Takes]]
    unit: ClassVar[str] = "1"
    bounds: ClassVar[tuple[float, float]] = (-math.inf, math.inf)
    release_keys: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        register(cls)

    @abstractmethod
    def __call__(self, preds: Any, target: Any) -> float:
        """Return the metric of ``preds`` against ``target``.

        Raises:
            UndefinedMetricError: the inputs do not define the value.
            ValueError: the inputs are wrong (NaN, infinity, unequal lengths, labels out of range, ...).
        """

    def details(self, preds: Any, target: Any) -> MetricDetails:
        """Return the value with the samples and classes that it leaves out; raises what the call raises."""
        return MetricDetails(self(preds, target), self.n_samples(target))

    def n_samples(self, target: Any) -> int:
        """Return the number of samples N that ``target`` holds."""
        return len(target)

    def kernel(self, preds: Any, target: Any) -> float:
        """Return the value on the sample itself of the kernel that resamples the metric, NaN where undefined.

        Raises:
            ValueError: the inputs are wrong.
        """
        once = np.ones((1, self.n_samples(target)), np.uint16)
        return float(self.resampled(preds, target, once)[0])

    def checked(self, preds: Any, target: Any) -> float:
        """Return ``metric(preds, target)`` after comparing it with ``kernel``.

        Raises:
            MetricMismatchError: the two differ by more than 1e-9, relative where the value exceeds 1.
            UndefinedMetricError: the inputs do not define the value.
            ValueError: the inputs are wrong.
        """
        value, kernel = self(preds, target), self.kernel(preds, target)
        # An infinity is close to itself alone, and nothing is close to NaN.
        if not math.isclose(value, kernel, rel_tol=0.0, abs_tol=MAX_MISMATCH * max(1.0, abs(value))):
            raise MetricMismatchError(
                f"{self.name}: {value!r}, but {kernel!r} by the kernel that resamples it; "
                f"expected a difference of at most {MAX_MISMATCH:g}"
            )
        return value

    def resampled(self, preds: Any, target: Any, weights: Any) -> Floats:
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
        weights = check_weights(weights, self.n_samples(target))
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
    """A metric that is the mean of one score per sample, or of one per source of each sample."""

    #: why no sample can be scored although there are samples
    nothing_scored = "every sample is left out"
    #: why the score of a sample that counts may be undefined
    sample_undefined = "the score of a sample is undefined"

    @abstractmethod
    def sample_scores(self, preds: Any, target: Any) -> tuple[Floats, Mask]:
        """Return scores float64 ``[N]`` or ``[N, sources]``, NaN where undefined, and a mask of those that count."""

    def __call__(self, preds: Any, target: Any) -> float:
        """Return the mean over the scores that count."""
        return self.details(preds, target).value

    def details(self, preds: Any, target: Any) -> MetricDetails:
        """Return the mean with the indices of the samples that do not count."""
        scores, counts = self.sample_scores(preds, target)
        require_samples(self.name, len(scores))
        if not counts.any():
            raise UndefinedMetricError(f"{self.name} is undefined: {self.nothing_scored}")
        undefined = np.unique(np.nonzero(counts & np.isnan(scores))[0])
        if undefined.size:
            raise UndefinedMetricError(f"{self.name} is undefined: {self.sample_undefined} ({listed(undefined)})")
        left_out = tuple(np.nonzero(~counts)[0].tolist())
        return MetricDetails(float(scores[counts].mean()), int(counts.sum()), left_out)

    def resampled(self, preds: Any, target: Any, weights: Any) -> Floats:
        """Return weighted means of the scores, which do not change with the resample."""
        scores, counts = self.sample_scores(preds, target)
        weights = check_weights(weights, len(scores))
        sources = tuple(range(1, scores.ndim))
        undefined = counts & np.isnan(scores)
        sums = weighted_sums(weights, np.where(counts & ~undefined, scores, 0.0).sum(axis=sources))
        sums[weights[:, undefined.any(axis=sources)].any(axis=1)] = np.nan
        return ratio(sums, weighted_sums(weights, counts.sum(axis=sources)))


def require_samples(name: str, n: int) -> None:
    """Raise UndefinedMetricError where there is nothing to score."""
    if n == 0:
        raise UndefinedMetricError(f"{name} is undefined: no samples")


def numeric(values: Any, what: str, *, allow_complex: bool = False) -> NDArray[Any]:
    """Return ``values`` as a numeric array of its own precision, or raise a ValueError that says what is wrong."""
    if np.ma.isMaskedArray(values):
        raise ValueError(f"{what}: a masked array has samples without a value; pass only the samples to score")
    try:
        array = as_numpy(values)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"{what}: expected an array of numbers, {error}") from error
    if array.dtype.kind not in ("biufc" if allow_complex else "biuf"):
        raise ValueError(f"{what}: expected {'' if allow_complex else 'real '}numbers, not {array.dtype}")
    if array.dtype.kind in "fc" and not np.isfinite(array).all():
        raise ValueError(f"{what}: NaN or infinity in {listed(np.unique(np.argwhere(~np.isfinite(array))[:, :1]))}")
    return array.astype(np.uint8) if array.dtype.kind == "b" else array


def labels(values: Any, what: str, n_classes: int | None = None) -> Labels:
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
        raise ValueError("target: expected one value per sample, not a single one")
    if len(preds) != len(target):
        raise ValueError(f"preds holds {len(preds)} samples, target {len(target)}")


def check_weights(weights: Any, n: int) -> Weights:
    """Return multiplicities ``[R, N]`` after checking that they are whole numbers from zero up."""
    checked: NDArray[Any] = as_numpy(weights)
    if checked.ndim != 2 or checked.shape[1] != n:
        raise ValueError(f"weights: expected [R, {n}], not shape {checked.shape}")
    if checked.dtype.kind not in "ui" or (checked.dtype.kind == "i" and checked.size and checked.min() < 0):
        raise ValueError("weights: expected whole numbers from zero up")
    return checked


def weighted_sums(weights: Weights, values: NDArray[Any]) -> Floats:
    """Return float64 sums over samples: weights ``[R, N]`` by values ``[N]`` give ``[R]``."""
    # einsum without BLAS: the same bytes on any number of threads, and no float copy of all the weights.
    sums: Floats = np.einsum("rn,n->r", weights, values.astype(np.float64, copy=False), dtype=np.float64)
    return sums


def ratio(numerator: NDArray[Any], denominator: NDArray[Any]) -> Floats:
    """Return the quotients, NaN where the denominator is zero."""
    quotients = np.full(np.shape(numerator), np.nan)
    np.divide(numerator, denominator, out=quotients, where=denominator != 0)
    return quotients


def row_blocks(weights: Weights, cells: int = 2**21) -> list[Weights]:
    """Cut ``[R, N]`` into blocks of rows of about ``cells`` entries, so that memory does not grow with R."""
    rows = max(1, cells // max(1, weights.shape[1]))
    return [weights[start : start + rows] for start in range(0, len(weights), rows)]


def take(samples: Any, picked: NDArray[np.int64]) -> Any:
    """Return the picked samples of an array or of a sequence such as a list of strings."""
    if isinstance(samples, Sequence):
        return [samples[i] for i in picked]
    return as_numpy(samples)[picked]


def listed(indices: NDArray[np.int64], limit: int = 5) -> str:
    """Name the first few samples."""
    names = ", ".join(str(i) for i in indices[:limit].tolist())
    return f"sample {names}" + (f" and {len(indices) - limit} more" if len(indices) > limit else "")
