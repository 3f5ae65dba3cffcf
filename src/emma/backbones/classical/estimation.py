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
        """Float32 ``[B, D]`` of estimates complex64 ``[B, A, K]``; ValueError for another number of either.

        In this view the sample rate is the carriers' spacing.
        """
        del center_frequency_hz
        if iq.shape[1:] != self._shape:
            found, expected = (" x ".join(map(str, shape)) for shape in (iq.shape[1:], self._shape))
            raise ValueError(f"estimates of {found} antennas and carriers, expected {expected}")
        heard = iq.astype(np.complex128)
        mean = heard[:, 0].mean(axis=1)
        turn = np.exp(-1j * np.angle(mean)) / np.maximum(_rms(heard), 1e-30)
        estimate = self._estimate(heard * turn[:, None, None], sample_rate_hz)
        return np.ascontiguousarray(estimate).view(np.float64).reshape(len(iq), -1).astype(np.float32)

    def _estimate(self, heard: Complex, spacing_hz: float) -> Complex:
        """Channels ``[B, A, K]`` of least-squares estimates of unit mean power, carriers ``spacing_hz`` apart."""
        del spacing_hz
        return heard


class LmmseExponential(LeastSquares):
    """Embeds the linear estimates of least mean squared error for the exponential profile that likelihood chooses.

    Of a number of mean delays and of noise levels, those under which the least-squares estimates of the scene are
    likeliest; antennas are alike and independent. For a mean delay of d, carriers f apart have the covariance
    ``1 / (1 + 2 pi j f d)``, and ``R (R + N0 I)^-1`` is applied in the eigenvectors of R.

    References: van de Beek, Edfors, Sandell, Wilson and Borjesson, "On channel estimation in OFDM systems", VTC 1995;
    Edfors, Sandell, van de Beek, Wilson and Borjesson, "OFDM channel estimation by singular value decomposition", IEEE
    Transactions on Communications 46(7), 1998.
    """

    name = "lmmse_exponential"

    def __init__(self, antennas: int, carriers: int) -> None:
        super().__init__(antennas, carriers)
        half = carriers // 2
        number = np.concatenate([np.arange(-half, 0), np.arange(1, carriers - half + 1)])
        self._apart = number[:, None] - number[None]

    def covariances(self, spacing_hz: float) -> Complex:
        """Covariances ``[delays, K, K]`` of the carriers, of unit power."""
        spaced = 2j * np.pi * self._apart * spacing_hz
        return np.stack([1 / (1 + spaced * delay) for delay in _DELAYS_S])

    def _estimate(self, heard: Complex, spacing_hz: float) -> Complex:
        values, vectors = np.linalg.eigh(self.covariances(spacing_hz))
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


def lmmse_exponential(
    weights: Mapping[str, NDArray[Any]] | None = None, antennas: int = 8, carriers: int = 64
) -> LmmseExponential:
    """Build the linear estimate of least mean squared error of a number of antennas and carriers."""
    del weights
    return LmmseExponential(antennas, carriers)
