"""A backbone of textbook statistics: spatial covariance, spectrum, delays, cumulants, envelope, impairments."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emma.backbones.base import IQ, Complex, Embeddings, Floats

_ELEMENTS = 8
_LAGS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64)
_QUANTILES = np.linspace(0.02, 0.98, 13)
_SEGMENTS = 32
_BINS = 32
_TINY = 1e-12


class DSP:
    """Hand-made features, in float64; the width is the same for any number of antennas and samples."""

    name = "dsp"

    def __init__(self) -> None:
        self.embedding_dim = self.embed(np.ones((1, 1, 256), np.complex64), 1.0, 1.0).shape[1]

    def embed(self, iq: IQ, sample_rate_hz: float, center_frequency_hz: float) -> Embeddings:
        """Features ``[B, D]`` of complex64 ``[B, A, T]``; antennas beyond the eighth do not enter the covariance."""
        del sample_rate_hz, center_frequency_hz
        x = iq.astype(np.complex128)
        x /= np.sqrt(np.mean(np.abs(x) ** 2, axis=(1, 2), keepdims=True) + _TINY)
        blocks = [
            _spatial(x),
            _spectral(x),
            _autocorrelation(x),
            _cumulants(x),
            _envelope(x),
            _frequency(x),
            _lines(x),
        ]
        return np.concatenate(blocks, axis=1).astype(np.float32)


def build(weights: Mapping[str, NDArray[Any]] | None = None) -> DSP:
    """Build the statistics backbone, which has no weights."""
    del weights
    return DSP()


def _spatial(iq: Complex) -> Floats:
    """Sample covariance of the array, trace 1, and its log eigenvalues; zeros for one antenna."""
    batch, antennas, samples = iq.shape
    out = np.zeros((batch, _ELEMENTS * _ELEMENTS + _ELEMENTS))
    if antennas == 1:
        return out
    used = min(antennas, _ELEMENTS)
    array = iq[:, :used]
    covariance = array @ array.conj().transpose(0, 2, 1) / samples
    covariance /= np.trace(covariance, axis1=1, axis2=2).real[:, None, None] + _TINY
    upper, lower = np.triu_indices(used), np.triu_indices(used, 1)
    values = np.concatenate([covariance[:, *upper].real, covariance[:, *lower].imag], axis=1)
    out[:, : values.shape[1]] = values
    eigenvalues = np.linalg.eigvalsh(covariance)[:, ::-1]
    out[:, _ELEMENTS * _ELEMENTS : _ELEMENTS * _ELEMENTS + used] = np.log(np.maximum(eigenvalues, 1e-9))
    return out


def _spectral(iq: Complex) -> Floats:
    """Log power in bands, in order and sorted; ripple of the spectrum and its autocorrelation (delay statistics)."""
    power = np.mean(np.abs(np.fft.fftshift(np.fft.fft(iq, axis=2), axes=2)) ** 2, axis=1)
    bands = power.reshape(len(iq), _BINS, -1).mean(axis=2)
    bands = np.log(bands / np.maximum(bands.mean(axis=1, keepdims=True), _TINY) + 1e-6)
    fine = power / (power.mean(axis=1, keepdims=True) + _TINY)
    ripple = fine - 1.0
    delays = np.abs(np.fft.fft(ripple, axis=1))[:, 1:25] / fine.shape[1]
    flatness = np.mean(np.log(fine + 1e-6), axis=1, keepdims=True)
    return np.concatenate([bands, np.sort(bands, axis=1), np.log(delays + 1e-6), flatness], axis=1)


def _autocorrelation(iq: Complex) -> Floats:
    """Complex autocorrelation at short lags, and the strongest magnitude in octaves of longer ones."""
    samples = iq.shape[2]
    padded = np.abs(np.fft.fft(iq, 2 * samples, axis=2)) ** 2
    lagged = np.fft.ifft(padded, axis=2)[:, :, :samples].mean(axis=1)
    lagged /= lagged[:, :1].real + _TINY
    # Long lags show cyclic prefixes. Unbiased in the overlap, so that a long lag is not faint for its length alone.
    overlap = samples / (samples - np.arange(samples))
    magnitude = np.abs(lagged) * overlap
    edges = np.unique(np.geomspace(16, 3 * samples // 4, 14).astype(int))
    octaves = np.stack([magnitude[:, a:b].max(axis=1) for a, b in itertools.pairwise(edges)], axis=1)
    octaves = np.pad(octaves, ((0, 0), (0, 13 - octaves.shape[1])))
    short = lagged[:, list(_LAGS)]
    return np.concatenate([short.real, short.imag, np.abs(short), octaves], axis=1)


def _cumulants(iq: Complex) -> Floats:
    """Moments and cumulants up to order six of the unit-power signal (Swami and Sadler, 2000), and mean and E[x^2]."""
    x = iq - iq.mean(axis=2, keepdims=True)
    x /= np.sqrt(np.mean(np.abs(x) ** 2, axis=2, keepdims=True)) + _TINY
    m20, m40, m41 = ((x**2).mean(axis=2), (x**4).mean(axis=2), (x**3 * x.conj()).mean(axis=2))
    m42, m63 = (np.abs(x) ** 4).mean(axis=2), (np.abs(x) ** 6).mean(axis=2)
    c42 = m42 - np.abs(m20) ** 2 - 2.0
    c63 = m63 - 9.0 * m42 + 12.0
    level = iq.mean(axis=2)
    parts = [np.abs(m20), m20.real, m20.imag, np.abs(m40 - 3 * m20**2), np.abs(m41 - 3 * m20), c42]
    parts += [np.sign(c63) * np.log1p(np.abs(c63)), level.real, level.imag, np.abs(level)]
    return np.stack([part.mean(axis=1) for part in parts], axis=1)


def _envelope(iq: Complex) -> Floats:
    """Quantiles of the envelope, and the log power of equal segments in time, in order and sorted."""
    envelope = np.abs(iq)
    quantiles = np.quantile(envelope, _QUANTILES, axis=2).mean(axis=2).T
    segments = (envelope**2).mean(axis=1).reshape(len(iq), _SEGMENTS, -1).mean(axis=2)
    segments = np.log(segments + 1e-4)
    return np.concatenate([quantiles, segments, np.sort(segments, axis=1)], axis=1)


def _angle(values: Complex) -> Floats:
    """Angle in (-pi, pi], of zero 0.

    Of quantised samples some are zero and some opposite: the signs of zeros and the last digits of products, which
    differ between a scene alone and in a batch, would turn their angles by pi and by 2 pi.
    """
    angle: Floats = np.angle(values + 0.0)
    angle[angle < 1e-9 - np.pi] = np.pi
    return angle


def _frequency(iq: Complex) -> Floats:
    """Quantiles of the instantaneous frequency, its spread, and the hop of segment centroids."""
    steps = iq[:, :, 1:] * iq[:, :, :-1].conj()
    angle = _angle(steps)
    quantiles = np.quantile(angle, _QUANTILES, axis=2).mean(axis=2).T
    batch, antennas, samples = iq.shape
    frames = steps[:, :, : samples - samples // 16].reshape(batch, antennas, 15, -1).sum(axis=3)
    centroids = _angle(frames.mean(axis=1))
    coherence = np.abs(frames).mean(axis=1) / (np.abs(steps).mean(axis=(1, 2))[:, None] * (samples // 16) + _TINY)
    spread = [centroids.std(axis=1), np.abs(np.diff(centroids, axis=1)).mean(axis=1), angle.std(axis=2).mean(axis=1)]
    return np.concatenate([quantiles, np.stack(spread, axis=1), np.sort(coherence, axis=1)], axis=1)


def _lines(iq: Complex) -> Floats:
    """Strength of spectral lines of x, x^2, x^4 and |x|^2 over the mean spectrum: carrier, BPSK, QPSK, symbol clock."""
    features = []
    for signal in (iq, iq**2, iq**4, np.abs(iq) ** 2 - np.mean(np.abs(iq) ** 2, axis=2, keepdims=True)):
        spectrum = np.abs(np.fft.fft(signal, axis=2)).mean(axis=1)
        top = np.sort(spectrum, axis=1)[:, -3:]
        features.append(np.log((top + _TINY) / (spectrum.mean(axis=1, keepdims=True) + _TINY)))
    return np.concatenate(features, axis=1)
