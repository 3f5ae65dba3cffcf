"""Channel estimates from pilots, in the scale and phase of E-CH-CSI's label; they take ``view: csi``.

What is estimated is divided by its root mean square over antennas and carriers, and turned by the phase that the
least-squares estimate has at the first antenna, the mean over its carriers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emma.backbones.base import IQ, Complex, Embeddings, Floats

#: Ratios of signal and noise [dB] of a carrier between which likelihood decides.
_SNR_DB = np.arange(-2.0, 28.0)
#: Mean delays [s] of exponential profiles between which likelihood decides.
_DELAYS_S = np.geomspace(1e-8, 1e-6, 13)


class LeastSquares:
    """Embeds the least-squares estimates of a scene as they are: real and imaginary part in turn."""

    name = "least_squares"

    def __init__(self, antennas: int, carriers: int) -> None:
        self._shape, self.embedding_dim = (antennas, carriers), 2 * antennas * carriers

    def embed(self, iq: IQ, sample_rate_hz: float, center_frequency_hz: float) -> Embeddings:
        """Float32 ``[B, D]`` of estimates complex64 ``[B, A, K]``; ValueError for another number of either."""
        del center_frequency_hz
        if iq.shape[1:] != self._shape:
            found, expected = (" x ".join(map(str, shape)) for shape in (iq.shape[1:], self._shape))
            raise ValueError(f"estimates of {found} antennas and carriers, expected {expected}")
        heard = iq.astype(np.complex128)
        mean = heard[:, 0].mean(axis=1)
        turn = np.exp(-1j * np.angle(mean)) / np.maximum(_rms(heard), 1e-30)
        estimate = self._estimate(heard * turn[:, None, None], sample_rate_hz)
        return np.ascontiguousarray(estimate).view(np.float64).reshape(len(iq), -1).astype(np.float32)

    def _estimate(self, heard: Complex, sample_rate_hz: float) -> Complex:
        """Channels ``[B, A, K]`` of least-squares estimates of unit mean power."""
        del sample_rate_hz
        return heard


class Lmmse(LeastSquares):
    """Embeds the linear estimates of least mean squared error for a delay profile and a noise that likelihood chooses.

    A profile is ``exponential``, of any of several mean delays, or ``uniform`` over the prefix, which is robust against
    what profile there is; antennas are alike and independent. The carriers' covariance over a distance of f is the
    Fourier transform of the profile, and ``R (R + N0 I)^-1`` is applied in its eigenvectors.

    References: van de Beek, Edfors, Sandell, Wilson and Borjesson, "On channel estimation in OFDM systems", VTC 1995
    (exponential); Li, Cimini and Sollenberger, "Robust channel estimation for OFDM systems with rapid dispersive fading
    channels", IEEE Transactions on Communications 46(7), 1998 (uniform).
    """

    def __init__(self, antennas: int, carriers: int, subcarriers: int, prefix: int, profile: str) -> None:
        super().__init__(antennas, carriers)
        if profile not in {"exponential", "uniform"}:
            raise ValueError(f"profile: {profile} is unknown, expected exponential or uniform")
        self.name = f"lmmse_{profile}"
        self._size, self._prefix, self._profile = subcarriers, prefix, profile
        half = carriers // 2
        number = np.concatenate([np.arange(-half, 0), np.arange(1, carriers - half + 1)])
        self._apart = number[:, None] - number[None]

    def covariances(self, sample_rate_hz: float) -> Complex:
        """Covariances ``[profiles, K, K]`` of the carriers, of unit power."""
        spaced = self._apart * sample_rate_hz / self._size
        if self._profile == "exponential":
            return np.stack([1 / (1 + 2j * np.pi * spaced * delay) for delay in _DELAYS_S])
        span = self._prefix / sample_rate_hz
        uniform: Complex = np.sinc(spaced * span) * np.exp(-1j * np.pi * spaced * span)
        return uniform[None]

    def _estimate(self, heard: Complex, sample_rate_hz: float) -> Complex:
        values, vectors = np.linalg.eigh(self.covariances(sample_rate_hz))
        noise = 10 ** (-_SNR_DB / 10)
        # Of unit power are channel and noise together.
        spectra = (np.maximum(values, 0.0)[:, None] + noise[:, None]) / (1 + noise[:, None])
        turned = np.einsum("pkm,nak->npam", vectors.conj(), heard, optimize=True)
        power = np.sum(np.abs(turned) ** 2, axis=2)
        likelihood = -np.einsum("npm,psm->nps", power, 1 / spectra, optimize=True)
        likelihood -= heard.shape[1] * np.log(spectra).sum(axis=2)
        best = likelihood.reshape(len(heard), -1).argmax(axis=1)
        profile, level = np.unravel_index(best, likelihood.shape[1:])
        gain = np.maximum(values[profile], 0.0) / (np.maximum(values[profile], 0.0) + noise[level, None])
        # The channel itself is to have unit power.
        gain *= np.sqrt(1 + noise[level, None])
        kept = turned[np.arange(len(heard)), profile] * gain[:, None]
        estimate: Complex = np.einsum("nkm,nam->nak", vectors[profile], kept, optimize=True)
        return estimate


def _rms(channel: Complex) -> Floats:
    """Root mean squares ``[B]``."""
    rms: Floats = np.sqrt(np.mean(np.abs(channel) ** 2, axis=(1, 2)))
    return rms


def least_squares(
    weights: Mapping[str, NDArray[Any]] | None = None, antennas: int = 8, carriers: int = 64
) -> LeastSquares:
    """Build the least-squares estimate of a number of antennas and carriers."""
    del weights
    return LeastSquares(antennas, carriers)


def lmmse(
    weights: Mapping[str, NDArray[Any]] | None = None,
    antennas: int = 8,
    carriers: int = 64,
    subcarriers: int = 80,
    cyclic_prefix: int = 32,
    profile: str = "exponential",
) -> Lmmse:
    """Build the linear estimate of least mean squared error for an OFDM signal of known numerology."""
    del weights
    return Lmmse(antennas, carriers, subcarriers, cyclic_prefix, profile)
