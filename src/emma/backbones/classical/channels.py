"""Line of sight from the K-factor and the delay spread of an OFDM uplink, whose data are not known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emma.backbones.base import IQ, Complex, Embeddings, Floats

_LAGS = (1, 2, 4, 8, 16)
#: Samples that the FFT window starts before the end of the cyclic prefix.
_BACK_OFF = 3
_TINY = 1e-9


def rician_k(gamma: Floats) -> Floats:
    """K of a Rician channel from ``gamma = Var|h|^2 / (E|h|^2)^2``; 0 where gamma is 1 or more.

    Reference: Greenstein, Michelson and Erceg, IEEE Communications Letters 3(6), 1999.
    """
    root = np.sqrt(np.clip(1.0 - np.asarray(gamma), 0.0, 1.0 - 1e-6))
    return root / (1.0 - root)


def symbol_starts(iq: Complex, size: int, prefix: int) -> NDArray[np.intp]:
    """Start ``[B]`` of a symbol's prefix in [0, size + prefix), by the correlation of prefixes with symbol ends."""
    period = size + prefix
    products = np.sum(iq[:, :, size:] * iq[:, :, :-size].conj(), axis=1)
    length = products.shape[1]
    sums = np.cumsum(np.pad(products, ((0, 0), (1, 0))), axis=1)
    windows = sums[:, prefix:] - sums[:, :-prefix]
    whole = -(-windows.shape[1] // period) * period
    folded = np.pad(windows, ((0, 0), (0, whole - windows.shape[1]))).reshape(len(iq), -1, period).sum(axis=1)
    counted = np.bincount(np.arange(length - prefix + 1) % period, minlength=period)
    starts: NDArray[np.intp] = np.argmax(np.abs(folded) / np.maximum(counted, 1), axis=1)
    return starts


class KFactorDelay:
    """Embeds a scene as moment estimates of K over frequency and antennas, and the coherence of the carriers' power.

    Carriers of constant modulus (QPSK) make ``|y|^2`` of a carrier ``|h|^2`` and noise, whose power the empty carriers
    show. Features, all logarithms or ratios: gamma over carriers and antennas, over carriers, over antennas; K of each
    in dB; power covariance at a few carrier lags; RMS delay spread from its curvature; share of the first eigenvalue;
    SNR.
    """

    name = "k_factor_delay"

    def __init__(self, subcarriers: int, active: int, prefix: int) -> None:
        self._size, self._prefix = subcarriers, prefix
        half = active // 2
        index = np.concatenate([np.arange(-half, 0), np.arange(1, active - half + 1)])
        self._active, self._order = index % subcarriers, index
        self._empty = np.setdiff1d(np.arange(subcarriers), [*self._active, 0])
        self.embedding_dim = 6 + len(_LAGS) + 3

    def embed(self, iq: IQ, sample_rate_hz: float, center_frequency_hz: float) -> Embeddings:
        """Float32 ``[B, D]`` of complex64 ``[B, A, T]``; ValueError where T holds no whole symbol."""
        del center_frequency_hz
        carriers, noise = self._carriers(iq.astype(np.complex128))
        power = np.abs(carriers) ** 2  # [B, symbols, A, carriers]
        floor = noise[:, None, None, None]
        mean = np.maximum(power.mean(axis=(1, 2, 3)) - noise, 1e-3 * noise + _TINY)
        # E|y|^4 = |h|^4 + 4 |h|^2 N + 2 N^2 for a known |h|.
        fourth = power**2 - 4 * floor * power + 2 * floor**2
        clean = np.maximum(power - floor, 0.0).mean(axis=1)  # [B, A, carriers]
        whole = fourth.mean(axis=(1, 2, 3)) / mean**2 - 1.0
        antenna = np.maximum(power.mean(axis=(1, 3)) - noise[:, None], _TINY)
        over_carriers = fourth.mean(axis=(1, 3)) / antenna**2 - 1.0
        over_antennas = clean.mean(axis=2).var(axis=1) / mean**2
        gammas = np.stack([whole, np.median(over_carriers, axis=1), over_antennas], axis=1)
        k_db = 10 * np.log10(np.clip(rician_k(gammas), 1e-2, 1e3))
        covariances = self._power_covariance(power - floor, mean)
        # Power covariance is the squared frequency correlation, 1 - (2 pi tau df)^2 about zero.
        drop = np.clip(1.0 - covariances[:, 2] / np.maximum(covariances[:, 0], 0.02), 1e-4, 1.0)
        spread = np.sqrt(drop) / (2 * np.pi * _LAGS[2] * sample_rate_hz / self._size)
        snapshots = carriers.transpose(0, 2, 1, 3).reshape(len(iq), carriers.shape[2], -1)
        eigen = np.linalg.eigvalsh(snapshots @ snapshots.conj().transpose(0, 2, 1) / snapshots.shape[2])
        eigen = np.maximum(eigen - noise[:, None], 0.0)
        share = eigen[:, -1] / (eigen.sum(axis=1) + _TINY)
        features = [np.log(np.maximum(gammas, 1e-2)), k_db, covariances]
        features += [np.log(spread * 1e9)[:, None], np.log(1.02 - share)[:, None]]
        features += [10 * np.log10(mean / (noise + _TINY))[:, None]]
        return np.concatenate(features, axis=1).astype(np.float32)

    def _carriers(self, iq: Complex) -> tuple[Complex, Floats]:
        """Active carriers ``[B, symbols, A, carriers]`` and noise power ``[B]`` of a carrier."""
        period = self._size + self._prefix
        symbols = (iq.shape[2] - period + 1) // period
        if symbols < 1:
            raise ValueError(f"{iq.shape[2]} samples, expected at least {2 * period - 1} for a whole symbol")
        start = symbol_starts(iq, self._size, self._prefix)
        place = (start + self._prefix - _BACK_OFF)[:, None, None] + period * np.arange(symbols)[None, :, None]
        place = place + np.arange(self._size)
        rows = np.arange(len(iq))[:, None, None, None]
        windows = iq[rows, np.arange(iq.shape[1])[:, None], place[:, :, None, :]]
        spectrum = np.fft.fft(windows, axis=3) / np.sqrt(self._size)
        noise = np.mean(np.abs(spectrum[..., self._empty]) ** 2, axis=(1, 2, 3))
        return spectrum[..., self._active], noise

    def _power_covariance(self, power: Floats, mean: Floats) -> Floats:
        """Covariance ``[B, lags]`` of the carriers' power about each antenna's mean, over the squared mean.

        Lags are in carriers; pairs that straddle the empty one at zero frequency count by their true distance.
        """
        power = power.mean(axis=1)
        full = np.zeros((*power.shape[:2], self._order[-1] - self._order[0] + 1))
        there = np.zeros(full.shape[2])
        full[..., self._order - self._order[0]] = power - power.mean(axis=2, keepdims=True)
        there[self._order - self._order[0]] = 1.0
        out = [
            (full[..., lag:] * full[..., :-lag]).sum(axis=2).mean(axis=1) / (there[lag:] * there[:-lag]).sum()
            for lag in _LAGS
        ]
        return np.stack(out, axis=1) / mean[:, None] ** 2


def k_factor_delay(
    weights: Mapping[str, NDArray[Any]] | None = None,
    subcarriers: int = 64,
    active_subcarriers: int = 52,
    cyclic_prefix: int = 16,
) -> KFactorDelay:
    """Build the estimator for an OFDM signal of known numbers of carriers and prefix samples."""
    del weights
    return KFactorDelay(subcarriers, active_subcarriers, cyclic_prefix)
