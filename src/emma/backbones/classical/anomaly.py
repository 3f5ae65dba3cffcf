"""Anomalies in a monitored band: the statistics of a spectrum that a textbook would compare with those of normal days.

Levels are relative to the scene's own, so that no gain enters.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emma.backbones.base import Complex, Floats
from emma.backbones.classical.sensing import Detector

_TINY = 1e-12
#: Bands that the sampled width is divided into.
BANDS = 64
#: Lengths of the segments that flatness is taken over, and the whole scene.
_SEGMENTS = (256, 1024)


def energies(iq: Complex, sample_rate_hz: float = 1.0) -> Floats:
    """Log power of equal bands over the scene's ``[B, 64]``, in order of the FFT: a bank of radiometers.

    ValueError where the samples are no multiple of the number of bands.
    """
    del sample_rate_hz
    if iq.shape[2] % BANDS:
        raise ValueError(f"{iq.shape[2]} samples, expected a multiple of {BANDS}")
    power = np.mean(np.abs(np.fft.fft(iq, axis=2)) ** 2, axis=1)
    bands = power.reshape(len(iq), BANDS, -1).mean(axis=2)
    logs: Floats = np.log(bands / (bands.mean(axis=1, keepdims=True) + _TINY) + _TINY)
    return logs


def flatness(iq: Complex, sample_rate_hz: float = 1.0) -> Floats:
    """Log flatness and log peak over the mean ``[B, 6]`` of periodograms over segments of 256, 1,024 and all samples.

    Flatness is the geometric over the arithmetic mean: 0 in the logarithm for a flat spectrum. Reference: Gray and
    Markel, IEEE Transactions on Acoustics, Speech, and Signal Processing 22(3), 1974. ValueError where the samples are
    no multiple of 1,024.
    """
    del sample_rate_hz
    samples = iq.shape[2]
    if samples % _SEGMENTS[-1]:
        raise ValueError(f"{samples} samples, expected a multiple of {_SEGMENTS[-1]}")
    found = []
    for length in (*_SEGMENTS, samples):
        power = np.abs(np.fft.fft(iq.reshape(*iq.shape[:2], -1, length), axis=3)) ** 2
        power = power.mean(axis=(1, 2)) + _TINY
        mean = np.log(power.mean(axis=1))
        found += [np.log(power).mean(axis=1) - mean, np.log(power.max(axis=1)) - mean]
    return np.stack(found, axis=1)


def kurtosis(iq: Complex, sample_rate_hz: float = 1.0) -> Floats:
    """Log spectral kurtosis ``[B, 64]``: in every band the mean squared power of segments over their squared mean.

    Twice the squared mean for Gaussian noise, once for a steady tone, more for what comes and goes. Reference: Nita and
    Gary, Publications of the Astronomical Society of the Pacific 119, 2007. ValueError where the samples are no
    multiple of 64.
    """
    del sample_rate_hz
    if iq.shape[2] % BANDS:
        raise ValueError(f"{iq.shape[2]} samples, expected a multiple of {BANDS}")
    power = np.abs(np.fft.fft(iq.reshape(*iq.shape[:2], -1, BANDS), axis=3)) ** 2
    ratio = (power**2).mean(axis=2) / (power.mean(axis=2) ** 2 + _TINY)
    logs: Floats = np.log(ratio.mean(axis=1) + _TINY)
    return logs


def band_energies(weights: Mapping[str, NDArray[Any]] | None = None) -> Detector:
    """Build the bank of radiometers."""
    del weights
    return Detector("band_energies", BANDS, energies, 1)


def spectral_flatness(weights: Mapping[str, NDArray[Any]] | None = None) -> Detector:
    """Build flatness and peaks."""
    del weights
    return Detector("spectral_flatness", 2 * (len(_SEGMENTS) + 1), flatness, 1)


def spectral_kurtosis(weights: Mapping[str, NDArray[Any]] | None = None) -> Detector:
    """Build the spectral kurtosis."""
    del weights
    return Detector("spectral_kurtosis", BANDS, kurtosis, 1)
