"""Cumulants of a modulated signal in unknown white noise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emma.backbones.base import IQ, Complex, Embeddings, Floats

_TINY = 1e-9
_SMOOTH = 17
#: The signal's band ends where the smoothed spectrum falls to this multiple of the noise floor.
_EDGE = 2.0


def noise_floor(iq: Complex) -> Floats:
    """Noise power ``[B]`` of white noise in the whole band, from the lower quartile of the spectrum of ``[B, T]``.

    The power of a noise bin is exponential, with its lower quartile at -ln 0.75 of its mean. Where a signal fills a
    part of the band the estimate is high, by a factor under 2 while that part is under 0.4.
    """
    window = np.hanning(iq.shape[1] + 2)[1:-1]
    power = np.abs(np.fft.fft(iq * window, axis=1)) ** 2 / np.sum(window**2)
    noise: Floats = np.quantile(power, 0.25, axis=1) / -np.log(0.75)
    return noise


def cumulants(x: Complex, noise: Floats) -> dict[str, Floats]:
    """Moments and cumulants ``[B]`` of signals ``[B, T]`` that hold noise of power ``noise``, over the signal's power.

    Gaussian noise adds to C21 alone. ``C20`` and ``M40`` are the strongest lines of the second and the fourth power, so
    that a carrier offset does not turn them away. ``C40`` is taken at the offset that the fourth power's line gives;
    since that line is at four times the offset, two frequencies answer for the second power there.

    Reference: Swami and Sadler, IEEE Transactions on Communications 48(3), 2000.
    """
    m21 = np.mean(np.abs(x) ** 2, axis=1)
    c21 = np.maximum(m21 - noise, 0.02 * m21 + _TINY)
    size, rows = 2 * x.shape[1], np.arange(len(x))
    second = np.fft.fft(x**2, 2 * size, axis=1) / x.shape[1]
    fourth = np.fft.fft(x**4, size, axis=1) / x.shape[1]
    c20, peak = np.abs(second).max(axis=1), np.abs(fourth).argmax(axis=1)
    beside = second[rows[:, None], np.stack([peak, peak + size], axis=1)]
    m20 = beside[rows, np.abs(beside).argmax(axis=1)]
    m40 = fourth[rows, peak]
    m42, m63 = np.mean(np.abs(x) ** 4, axis=1), np.mean(np.abs(x) ** 6, axis=1)
    values = {"C20": c20, "M40": np.abs(m40), "C40": np.abs(m40 - 3 * m20**2)}
    values |= {"C42": m42 - c20**2 - 2 * m21**2, "C63": m63 - 9 * m42 * m21 + 12 * m21**3}
    return {name: value / c21 ** (int(name[1]) // 2) for name, value in values.items()}


class Cumulants:
    """Embeds a scene as cumulants of its signal within the band that it occupies, and of its frequency.

    Features: C20, M40, C40, C42 and C63 (compressed by sign and log1p), the same of the signal without its mean
    (the carrier of AM and OOK), the mean itself, spread and kurtosis of the instantaneous frequency, occupied
    bandwidth, SNR.
    """

    name = "cumulants"
    embedding_dim = 16

    def embed(self, iq: IQ, sample_rate_hz: float, center_frequency_hz: float) -> Embeddings:
        """Float32 ``[B, 16]`` of complex64 ``[B, A, T]``; the first antenna is used."""
        del sample_rate_hz, center_frequency_hz
        x = iq[:, 0].astype(np.complex128)
        x /= np.sqrt(np.mean(np.abs(x) ** 2, axis=1, keepdims=True) + _TINY)
        noise = noise_floor(x)
        x, share = _filtered(x, noise)
        noise = noise * share
        carrier = np.fft.fft(x, 4 * x.shape[1], axis=1)
        peak = np.abs(carrier).argmax(axis=1)
        turn = np.exp(-2j * np.pi * peak[:, None] / carrier.shape[1] * np.arange(x.shape[1]))
        level = np.mean(x * turn, axis=1, keepdims=True)
        power = np.maximum(np.mean(np.abs(x) ** 2, axis=1) - noise, _TINY)
        features = [*cumulants(x, noise).values(), *cumulants(x * turn - level, noise).values()]
        features = [np.sign(value) * np.log1p(np.abs(value)) for value in features]
        steps = x[:, 1:] * x[:, :-1].conj()
        centred = np.angle(steps * np.exp(-1j * np.angle(steps.sum(axis=1, keepdims=True))))
        # Faint moments have no frequency of their own: weigh by power.
        weight = np.abs(steps) / (np.abs(steps).sum(axis=1, keepdims=True) + _TINY)
        second = np.sum(weight * centred**2, axis=1) + _TINY
        features += [np.abs(level[:, 0]) / np.sqrt(power), 0.5 * np.log(second)]
        features += [np.log(np.sum(weight * centred**4, axis=1) / second**2 + _TINY)]
        features += [np.log(second / (share + _TINY) ** 2), np.log(share + 1e-3), 10 * np.log10(power / (noise + 1e-6))]
        return np.stack(features, axis=1).astype(np.float32)


def _filtered(x: Complex, noise: Floats) -> tuple[Complex, Floats]:
    """Signals ``[B, T]`` within the contiguous band about their centre that stands out of the noise, and its share."""
    spectrum = np.fft.fftshift(np.fft.fft(x, axis=1), axes=1)
    power = np.abs(spectrum) ** 2 / x.shape[1]
    sums = np.cumsum(np.pad(power, ((0, 0), (_SMOOTH // 2 + 1, _SMOOTH // 2)), mode="edge"), axis=1)
    smooth = (sums[:, _SMOOTH:] - sums[:, :-_SMOOTH]) / _SMOOTH
    smooth = np.pad(smooth, ((0, 0), (0, power.shape[1] - smooth.shape[1])), mode="edge")
    above = smooth > _EDGE * noise[:, None]
    index = np.arange(power.shape[1])
    excess = np.maximum(smooth - noise[:, None], 0.0) * above + _TINY
    centre = np.sum(excess * index, axis=1) / excess.sum(axis=1)
    width = np.sqrt(np.sum(excess * (index - centre[:, None]) ** 2, axis=1) / excess.sum(axis=1))
    # A flat band of half-width w has deviation w / sqrt(3); a little more keeps the skirts.
    half = np.clip(1.4 * np.sqrt(3) * width, 24, power.shape[1] / 2)
    kept = np.abs(index - centre[:, None]) <= half[:, None]
    inside = np.fft.ifft(np.fft.ifftshift(spectrum * kept, axes=1), axis=1)
    return inside, kept.mean(axis=1)


def build(weights: Mapping[str, NDArray[Any]] | None = None) -> Cumulants:
    """Build the cumulants, which have no weights."""
    del weights
    return Cumulants()
