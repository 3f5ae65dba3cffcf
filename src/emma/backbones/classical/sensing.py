"""Spectrum sensing: the statistics by which a textbook decides whether a primary user is on air.

Survey of all four: T. Yucek and H. Arslan, IEEE Communications Surveys & Tutorials 11(1), 2009.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emma.backbones.base import IQ, Complex, Embeddings, Floats

_TINY = 1e-12
#: Least eigenvalue of a matrix of trace 1 or so, which rounding does not reach.
_LEAST = 1e-9


class Detector:
    """Embeds a scene as one detector's statistics, functions of (complex128 ``[B, A, T]``, sample rate)."""

    def __init__(self, name: str, width: int, statistics: Callable[[Complex, float], Floats], antennas: int) -> None:
        self.name, self.embedding_dim = name, width
        self._statistics, self._antennas = statistics, antennas

    def embed(self, iq: IQ, sample_rate_hz: float, center_frequency_hz: float) -> Embeddings:
        """Float32 ``[B, D]`` of complex64 ``[B, A, T]``; ValueError for fewer antennas than the detector needs."""
        del center_frequency_hz
        if iq.shape[1] < self._antennas:
            raise ValueError(f"{iq.shape[1]} antennas, expected {self._antennas} or more")
        return self._statistics(iq.astype(np.complex128), sample_rate_hz).astype(np.float32)


def energy(iq: Complex, sample_rate_hz: float = 1.0) -> Floats:
    """Mean power in dB ``[B, 1]``: the detector for a known noise level (Urkowitz, Proc. IEEE 55, 1967).

    A random gain leaves nothing of it.
    """
    del sample_rate_hz
    level: Floats = 10 * np.log10(np.mean(np.abs(iq) ** 2, axis=(1, 2))[:, None] + _TINY)
    return level


def eigenvalue_ratio(iq: Complex, sample_rate_hz: float = 1.0) -> Floats:
    """Log ratio ``[B, 1]`` of the sample covariance's largest and smallest eigenvalue, for any noise level.

    Reference: Zeng and Liang, IEEE Transactions on Communications 57(6), 2009.
    """
    del sample_rate_hz
    covariance = iq @ iq.conj().transpose(0, 2, 1)
    trace = np.trace(covariance, axis1=1, axis2=2).real[:, None, None]
    values = np.maximum(np.linalg.eigvalsh(covariance / (trace + _TINY)), _LEAST)
    ratio: Floats = np.log(values[:, -1:] / values[:, :1])
    return ratio


def coherence(iq: Complex, sample_rate_hz: float = 1.0) -> Floats:
    """Of the antennas' coherence matrix ``[B, 2]``: minus log determinant, and log largest eigenvalue.

    No gain of an antenna enters. The determinant is the likelihood ratio for uneven noise: Ramirez, Vazquez-Vilar,
    Lopez-Valcarce, Via and Santamaria, IEEE Transactions on Signal Processing 59(8), 2011.
    """
    del sample_rate_hz
    covariance = iq @ iq.conj().transpose(0, 2, 1)
    scale = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2).real + _TINY)
    values = np.linalg.eigvalsh(covariance / (scale[:, :, None] * scale[:, None, :]))
    logs = np.log(np.maximum(values, _LEAST))
    return np.stack([-logs.sum(axis=1), logs[:, -1]], axis=1)


def prefix_correlation(iq: Complex, useful_s: tuple[float, ...], sample_rate_hz: float) -> Floats:
    """Magnitude ``[B, K]`` of the mean correlation with what comes one useful OFDM symbol later, over the power.

    The antennas' products share their phase, which the carrier offset makes, and are added before the magnitude is
    taken. ValueError where a useful length is the scene's or longer.
    Reference: Chaudhari, Koivunen and Poor, IEEE Transactions on Signal Processing 57(7), 2009.
    """
    lags = [round(useful * sample_rate_hz) for useful in useful_s]
    if max(lags) >= iq.shape[2]:
        raise ValueError(f"{iq.shape[2]} samples, expected more than an OFDM symbol's {max(lags)}")
    power = np.mean(np.abs(iq) ** 2, axis=2, keepdims=True) + _TINY
    unit = iq / np.sqrt(power)
    found = [np.abs(np.mean(unit[:, :, lag:] * unit[:, :, :-lag].conj(), axis=(1, 2))) for lag in lags]
    return np.stack(found, axis=1)


def energy_detector(weights: Mapping[str, NDArray[Any]] | None = None) -> Detector:
    """Build the energy detector."""
    del weights
    return Detector("energy_detector", 1, energy, 1)


def max_min_eigenvalue(weights: Mapping[str, NDArray[Any]] | None = None) -> Detector:
    """Build the ratio of eigenvalues."""
    del weights
    return Detector("max_min_eigenvalue", 1, eigenvalue_ratio, 2)


def antenna_coherence(weights: Mapping[str, NDArray[Any]] | None = None) -> Detector:
    """Build the coherence of the antennas."""
    del weights
    return Detector("antenna_coherence", 2, coherence, 2)


def cyclic_prefix(
    weights: Mapping[str, NDArray[Any]] | None = None, useful_us: str = "3.2,16.666667,33.333333"
) -> Detector:
    """Build the correlation of cyclic prefixes for useful symbol lengths in microseconds."""
    del weights
    useful = tuple(float(length) * 1e-6 for length in useful_us.split(","))
    return Detector("cyclic_prefix", len(useful), lambda iq, rate: prefix_correlation(iq, useful, rate), 1)
