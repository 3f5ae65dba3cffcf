"""Metrics of continuous quantities: angles, channel tensors, waveforms."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common.arrays import as_numpy
from emma.metrics.base import (
    Floats,
    Mask,
    Metric,
    MetricDetails,
    SampleMean,
    Takes,
    UndefinedMetricError,
    check_weights,
    numeric,
    ratio,
    require_samples,
    same_length,
    weighted_sums,
)


class MeanAngularError(SampleMean):
    """Mean distance on the circle between predicted and true angles, in degrees; in [0, 180], lower is better.

    ``preds`` and ``target``: degrees ``[N]``, any real; angles whole turns apart are the same. Uniform guessing gives
    90. No library form: torchmetrics has no regression error on the circle, so this is numpy in float64.

    Raises:
        UndefinedMetricError: no samples.
        ValueError: NaN or infinity, unequal lengths, complex numbers.

    Reference: Mardia and Jupp, "Directional Statistics", Wiley 2000, section 2.3 (distance along the circle).

    Example:
        >>> MeanAngularError()([359.0, 1.0], [1.0, 359.0])
        2.0
    """

    name = "MeanAngularError"
    direction = "lower"
    bounds = (0.0, 180.0)
    unit = "degrees"
    takes = frozenset({Takes.ANGLES})

    def sample_scores(self, preds: Any, target: Any) -> tuple[Floats, Mask]:
        """Return each sample's distance; every sample counts."""
        angles = []
        for values, what in ((preds, "preds"), (target, "target")):
            array = numeric(values, what).astype(np.float64)
            if array.ndim != 1:
                raise ValueError(f"{what}: expected degrees [N], not shape {array.shape}")
            # fmod is exact and cannot reach 360, where -1e-17 % 360 does; whole turns go before they can overflow.
            angles.append(np.fmod(array, 360.0))
        same_length(*angles)
        apart = np.fmod(np.abs(angles[0] - angles[1]), 360.0)
        return np.minimum(apart, 360.0 - apart), np.ones(len(apart), bool)


class NMSE(Metric):
    """Normalised mean squared error in dB: error energy over channel energy, summed over all scored samples.

    ``preds`` and ``target``: real or complex ``[N, ...]`` of one shape. Lower is better; 0 dB is the error of
    predicting zero. ``10 log10(sum |preds - target|^2 / sum |target|^2)`` in double precision, cut off at the declared
    -100 dB, which an exact prediction gives, so that means stay finite. A sample whose reference is all zero is left
    out of both sums; ``details`` counts it. No library form: torchmetrics' squares drop the conjugate of complex
    numbers, and ``(1j)**2`` is -1.

    Raises:
        UndefinedMetricError: no samples, or every reference is zero.
        ValueError: NaN or infinity, unequal shapes.

    Reference: Alkhateeb, "DeepMIMO: a generic deep learning dataset for millimeter wave and massive MIMO
    applications", ITA 2019, arXiv:1902.06435, whose convention of normalising by channel energy this follows.

    Example:
        >>> NMSE()([[1.0, 1j]], [[1.0, 0.0]])
        0.0
    """

    name = "NMSE"
    direction = "lower"
    unit = "dB"
    limit_db = -100.0
    takes = frozenset({Takes.COMPLEX_TENSOR})

    def __call__(self, preds: Any, target: Any) -> float:
        """Return the ratio in dB."""
        return self.details(preds, target).value

    def details(self, preds: Any, target: Any) -> MetricDetails:
        """Return the ratio with the indices of the samples left out."""
        error, energy, scored = self._energies(preds, target)
        require_samples(self.name, len(energy))
        if not scored.any():
            raise UndefinedMetricError("NMSE is undefined: every reference is zero")
        value = max(self.limit_db, float(decibels(error[scored].sum() / energy[scored].sum())))
        return MetricDetails(value, int(scored.sum()), tuple(np.flatnonzero(~scored).tolist()))

    def resampled(self, preds: Any, target: Any, weights: Any) -> Floats:
        """Return ratios of weighted sums of the energies."""
        error, energy, scored = self._energies(preds, target)
        weights = check_weights(weights, len(energy))
        shares = ratio(weighted_sums(weights, error * scored), weighted_sums(weights, energy))
        return np.maximum(decibels(shares), self.limit_db)

    @staticmethod
    def _energies(preds: Any, target: Any) -> tuple[Floats, Floats, Mask]:
        """Return error and reference energies ``[N]`` in one unit, and a mask ``[N]`` of the references not zero."""
        estimate, reference = _signals(preds, target)
        # A power of two divides exactly; without it the squares of values such as 1e-200 would vanish.
        scale = np.exp2(np.frexp(np.abs(reference).max(initial=0.0))[1] - 1.0)
        axes = tuple(range(1, reference.ndim))
        error, energy = (np.square(values / scale).sum(axis=axes) for values in (estimate - reference, reference))
        return error, energy, np.asarray(reference.any(axis=axes))


class SISDR(SampleMean):
    """Scale-invariant signal-to-distortion ratio in dB, averaged over samples and their sources; higher is better.

    ``preds`` and ``target``: real or complex waveforms of one shape, ``[T]`` (one sample), ``[N, T]``, or
    ``[N, sources, T]`` in the order of the references; no mean is taken off. With
    ``alpha = <target, preds> / |target|^2`` (the inner product conjugates its first argument), the ratio of
    ``|alpha target|^2`` to ``|preds - alpha target|^2``. Each waveform's value is cut to the declared [-100, 100] dB,
    so that an exact match or an orthogonal estimate leaves the mean finite. Scaling either input moves nothing. A
    waveform with a silent (all zero) reference is left out; ``details`` counts it.

    The values are torchmetrics' (``scale_invariant_signal_distortion_ratio``) in float64, on signals scaled up, since
    its epsilon bends small ones. It has no complex form: its squares drop the conjugate. Complex estimates are turned
    until their inner product with the reference is real, which makes the complex ratio a real one.

    Raises:
        UndefinedMetricError: no samples, every reference silent, or a silent estimate (0/0) of one that is not.
        ValueError: NaN or infinity, unequal shapes.

    Reference: Le Roux, Wisdom, Erdogan and Hershey, "SDR: half-baked or well done?", ICASSP 2019, arXiv:1811.02508.

    Example:
        >>> round(SISDR()([[1.0, 1.0, 0.1, 0.1]], [[1.0, 1.0, 0.0, 0.0]]), 9)
        20.0
    """

    name = "SISDR"
    direction = "higher"
    unit = "dB"
    takes = frozenset({Takes.WAVEFORM})
    limit_db = 100.0
    nothing_scored = "every reference is silent"
    sample_undefined = "a silent estimate has no scale"

    def n_samples(self, target: Any) -> int:
        """Return N, which is one for a single waveform."""
        return 1 if as_numpy(target).ndim == 1 and len(target) > 0 else len(target)

    def sample_scores(self, preds: Any, target: Any) -> tuple[Floats, Mask]:
        """Return each waveform's ratio, NaN for silent estimates; those with a silent reference do not count."""
        estimate, reference = _signals(preds, target)
        if len(reference) == 0:
            return np.empty(0), np.empty(0, bool)
        if reference.ndim > 4:
            shape = reference.shape[:-1]
            raise ValueError(f"preds, target: expected waveforms [T], [N, T] or [N, sources, T], not shape {shape}")
        shape = reference.shape[:-2] or (1,)
        flat = (math.prod(shape), *reference.shape[-2:])
        values, counts = self._ratios(estimate.reshape(flat), reference.reshape(flat))
        return values.reshape(shape), counts.reshape(shape)

    def _ratios(self, estimate: Floats, reference: Floats) -> tuple[Floats, Mask]:
        """Return ratios of waveforms ``[N, T, 2]``, NaN for silent estimates, and which references are not silent."""
        estimate, reference = _unit_energy(estimate), _unit_energy(reference)
        real = (reference * estimate).sum(axis=(1, 2), keepdims=True)
        imaginary = (reference[..., :1] * estimate[..., 1:] - reference[..., 1:] * estimate[..., :1]).sum(
            1, keepdims=True
        )
        size = np.hypot(real, imaginary)
        cosine, sine = (np.divide(part, size, out=np.full_like(size, at_zero), where=size > 0)
                        for part, at_zero in ((real, 1.0), (imaginary, 0.0)))  # fmt: skip
        turned = cosine * estimate + sine * np.stack([estimate[..., 1], -estimate[..., 0]], axis=-1)
        import torch
        from torchmetrics.functional.audio import scale_invariant_signal_distortion_ratio

        # The library adds its epsilon to energies: next to 2**40 it is nothing.
        flat = [torch.from_numpy(2.0**20 * signal.reshape(len(signal), -1)) for signal in (turned, reference)]
        values = scale_invariant_signal_distortion_ratio(flat[0], flat[1]).numpy().clip(-self.limit_db, self.limit_db)
        silent_estimate, silent_reference = (~signal.any(axis=(1, 2)) for signal in (estimate, reference))
        return np.where(silent_estimate, np.nan, values), np.asarray(~silent_reference)


class SISDRImprovement(SampleMean):
    """By how many dB an estimate's scale-invariant ratio exceeds its mixture's, averaged; higher is better.

    ``preds``: estimates ``[N, T]``. ``target``: ``[N, 2, T]``, each sample's mixture and the source in it; real or
    complex. A sample's value is ``SISDR`` of the estimate less ``SISDR`` of the mixture, both against the source, in
    [-200, 200] dB. A sample with a silent (all zero) source is left out.

    Raises:
        UndefinedMetricError: no samples, every source silent, or a silent estimate or mixture of one that is not.
        ValueError: NaN or infinity, shapes that do not fit.

    Reference: as ``SISDR``; the improvement as in Luo and Mesgarani, "Conv-TasNet", IEEE/ACM Transactions on Audio,
    Speech, and Language Processing 27(8), 2019.

    Example:
        >>> round(SISDRImprovement()([[1.0, 0.1]], [[[1.0, 1.0], [1.0, 0.0]]]), 9)
        20.0
    """

    name = "SISDRImprovement"
    direction = "higher"
    unit = "dB"
    takes = frozenset({Takes.SEPARATION})
    nothing_scored = SISDR.nothing_scored
    sample_undefined = "a silent estimate or mixture has no scale"

    def sample_scores(self, preds: Any, target: Any) -> tuple[Floats, Mask]:
        """Return each sample's gain, NaN for silent estimates; those with a silent source do not count."""
        estimate, known = as_numpy(preds), as_numpy(target)
        if not len(estimate) and not len(known):
            return np.empty(0), np.empty(0, bool)
        if known.ndim != 3 or known.shape[1] != 2 or estimate.shape != (len(known), known.shape[2]):
            raise ValueError(
                f"preds, target: expected estimates [N, T] against [N, 2, T], not {estimate.shape} and {known.shape}"
            )
        own, before = (SISDR().sample_scores(signal, known[:, 1]) for signal in (estimate, known[:, 0]))
        return own[0] - before[0], own[1]


def decibels(power_ratio: NDArray[np.float64] | np.float64) -> Floats:
    """Return ten times the decimal logarithm, -inf at zero."""
    with np.errstate(divide="ignore"):
        return np.asarray(10.0 * np.log10(power_ratio))


def _signals(preds: Any, target: Any) -> tuple[Floats, Floats]:
    """Return both as float64 ``[N, ..., 2]`` of real and imaginary parts, after checking that their shapes agree."""
    signals = []
    for values, what in ((preds, "preds"), (target, "target")):
        array = numeric(values, what, allow_complex=True)
        if array.ndim == 0:
            raise ValueError(f"{what}: expected one row per sample, not a single number")
        signals.append(np.stack([array.real, array.imag], axis=-1).astype(np.float64))
    if signals[0].shape != signals[1].shape:
        shapes = " and ".join(str(signal.shape[:-1]) for signal in signals)
        raise ValueError(f"preds, target: expected one shape, not {shapes}")
    return signals[0], signals[1]


def _unit_energy(signals: Floats) -> Floats:
    """Return ``[N, T, 2]`` with each non-silent sample scaled to unit energy."""
    # The largest value goes first: squares of values such as 1e-200 would vanish.
    largest = np.abs(signals).max(axis=(1, 2), keepdims=True, initial=0.0)
    signals = signals / np.where(largest > 0, largest, 1.0)
    norm = np.sqrt(np.square(signals).sum(axis=(1, 2), keepdims=True))
    return np.asarray(signals / np.where(norm > 0, norm, 1.0))
