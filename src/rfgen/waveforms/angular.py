"""Angle modulations, chirps and analogue signals."""

import numpy as np

from rfgen.physics.types import Complexes, Floats, Ints


def band_limited_noise(rng: np.random.Generator, n: int, samples: int, cutoff: Floats) -> Floats:
    """Gaussian messages `[n, samples]`, zero mean, unit variance on average, flat to `cutoff` `[n]` cycles per sample.

    They are parts of stretches twice as long: a message that comes back to its start would tell where it ends.
    """
    frequency = np.fft.rfftfreq(2 * samples)
    shape = ((frequency <= cutoff[:, None]) & (frequency > 0)).astype(float)
    shape[:, 1] = 1.0  # the lowest line stays, however low the cutoff
    spectrum = (rng.standard_normal((n, len(frequency), 2)).view(complex)[..., 0]) * shape
    message = np.fft.irfft(spectrum, 2 * samples)
    unit: Floats = (message / message.std(axis=1, keepdims=True))[:, :samples]
    return unit


def frequency_modulate(deviation: Floats) -> Complexes:
    """Unit-modulus signal of an instantaneous frequency `[n, samples]` in cycles per sample."""
    signal: Complexes = np.exp(2j * np.pi * np.cumsum(deviation, axis=-1))
    return signal


def fsk_frequency(
    symbols: Ints, samples: int, samples_per_symbol: Floats, start: Floats, bt: Floats | None = None
) -> Floats:
    """Frequency of a two-level FSK in units of its deviation, float64 `[n, samples]`.

    `symbols` is `[n, K]` of -1 and 1; with `bt` `[n]` each step is smoothed by a Gaussian of that bandwidth-time
    product (GFSK), whose step response is an error function of time.
    """
    u = np.arange(samples) / samples_per_symbol[:, None] + start[:, None] + 2
    index = np.floor(u).astype(np.int64)
    if bt is None:
        return np.take_along_axis(symbols, index, axis=1).astype(float)
    # A Gaussian filter of 3 dB bandwidth B has sigma_t = sqrt(ln 2) / (2 pi B).
    sigma = (np.sqrt(np.log(2)) / (2 * np.pi * bt))[:, None]
    out = np.zeros(u.shape)
    for k in (-2, -1, 0, 1, 2):
        t = u - index - k
        weight = 0.5 * (_erf(t / (np.sqrt(2) * sigma)) - _erf((t - 1) / (np.sqrt(2) * sigma)))
        out += np.take_along_axis(symbols, index + k, axis=1) * weight
    return out


def gaussian_step_integral(t: Floats, bt: Floats | None) -> Floats:
    """Share of a symbol's turn that is done at time `t` `[n, ...]` in symbols from its start, in [0, 1].

    The integral of the frequency pulse of `fsk_frequency`: straight, or with `bt` `[n]` smoothed by its Gaussian.
    """
    if bt is None:
        return np.clip(t, 0.0, 1.0)
    sigma = (np.sqrt(np.log(2)) / (2 * np.pi * bt)).reshape(-1, *[1] * (t.ndim - 1))

    def ramp(x: Floats) -> Floats:
        normal: Floats = 0.5 * (1 + _erf(x / (np.sqrt(2) * sigma)))
        risen: Floats = x * normal + sigma * np.exp(-((x / sigma) ** 2) / 2) / np.sqrt(2 * np.pi)
        return risen

    return ramp(t) - ramp(t - 1)


def _erf(x: Floats) -> Floats:
    """Error function to 1.5e-7, Abramowitz and Stegun 7.1.26."""
    t = 1 / (1 + 0.3275911 * np.abs(x))
    poly = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    value: Floats = np.sign(x) * (1 - poly * np.exp(-(x**2)))
    return value


def oqpsk_half_sine(chips: Ints, samples: int, samples_per_chip: float, start: float) -> Complexes:
    """Offset QPSK with half-sine pulses of two chips (IEEE 802.15.4, 2.4 GHz PHY), unit modulus, `[samples]`.

    `chips` are -1 and 1, even ones on the in-phase arm, odd ones on the quadrature arm half a pulse later.
    """
    u = np.arange(samples) / samples_per_chip + start + 2
    even = 2 * np.floor(u / 2).astype(np.int64)
    odd = 2 * np.floor((u - 1) / 2).astype(np.int64) + 1
    return chips[even] * np.sin(np.pi * (u - even) / 2) + 1j * chips[odd] * np.sin(np.pi * (u - odd) / 2)


def chirps(symbols: Ints, samples: int, bandwidth: float, spreading: int, start: float) -> Complexes:
    """Chirp spread spectrum: up-chirps over `bandwidth` cycles per sample, shifted by symbols in [0, 2^spreading).

    The shift is cyclic. A symbol lasts 2^spreading / bandwidth samples; `start` in [0, 1) symbols; complex128
    `[samples]`.
    """
    u = np.arange(samples) * bandwidth / 2**spreading + start
    index = np.floor(u).astype(np.int64)
    position = (u - index + symbols[index] / 2**spreading) % 1.0
    return frequency_modulate((position - 0.5) * bandwidth)
