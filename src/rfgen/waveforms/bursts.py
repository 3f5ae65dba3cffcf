"""What emitter families share: stretches of bursts and pauses at 20 MS/s, hops, keyed carriers, change of rate."""

from collections.abc import Callable

import numpy as np

from rfgen.physics.fields import Model, Positive, Range
from rfgen.physics.types import Bools, Complexes
from rfgen.waveforms import angular

RATE = 20e6
# OFDM of 15 kHz spacing is made at 30.72 MS/s, 2048 points per symbol, and resampled.
FINE, SIZE = 30.72e6, 2048
# Cyclic prefixes of the seven symbols of a slot at that rate (3GPP TS 36.211, Table 6.12-1).
SLOT_PREFIX = (160, 144, 144, 144, 144, 144, 144)
# Samples made and cut off on either side by a change of rate, at least: its wrap stays outside, to -60 dB.
_GUARD = 1024

#: Signal and where it is on: complex128 and bool `[samples]`.
Emission = tuple[Complexes, Bools]


class Hops(Model):
    """Bursts on random channels within +-`width_hz`: time on and time between."""

    dwell_us: Range
    gap_us: Range
    width_hz: Positive


def resample(signal: Complexes, samples: int) -> Complexes:
    """Band-limited change of the number of samples over the same time, circular."""
    spectrum = np.fft.fftshift(np.fft.fft(signal))
    cut = (len(signal) - samples) // 2
    return np.fft.ifft(np.fft.ifftshift(spectrum[cut : cut + samples])) * (samples / len(signal))


def _whole_length(samples: int) -> int:
    """`samples` and the guards, up to a number that is whole at the fine rate too (250 for 384)."""
    return -(-(samples + 2 * _GUARD) // 250) * 250


def fine_length(samples: int) -> int:
    """Samples at the fine rate, guards included, that `from_fine` makes `samples` of."""
    return _whole_length(samples) * 384 // 250


def random_window(stretch: Complexes, rng: np.random.Generator, length: int) -> Complexes:
    """`length` samples of a stretch, from a random place on."""
    start = int(rng.integers(len(stretch) - length + 1))
    return stretch[start : start + length]


def from_fine(stretch: Complexes, on: Bools, rng: np.random.Generator, samples: int) -> Emission:
    """`samples` at 20 MS/s of a stretch at 30.72 MS/s, from a random place on."""
    length, whole = fine_length(samples), _whole_length(samples)
    start = int(rng.integers(len(stretch) - length + 1))
    inside = slice(_GUARD, _GUARD + samples)
    signal = resample(stretch[start : start + length], whole)[inside]
    index = np.minimum((np.arange(whole) * (length / whole)).astype(np.int64), length - 1)[inside]
    active = on[start : start + length][index]
    return signal * active, active


def hops(rng: np.random.Generator, samples: int, burst: Callable[[int], Complexes], p: Hops) -> Emission:
    """Bursts, made by length, on random channels with pauses between; only those that the window meets are made."""
    total = samples + int((p.dwell_us[1] + p.gap_us[1]) * 1e-6 * RATE)
    window = int(rng.integers(total - samples + 1))
    stretch, on = np.zeros(samples, complex), np.zeros(samples, bool)
    position = -window
    while position < samples:
        length = int(rng.uniform(*p.dwell_us) * 1e-6 * RATE)
        frequency, phase = rng.uniform(-p.width_hz, p.width_hz) / RATE, rng.random()
        if position + length > 0:
            inside = slice(max(position, 0), min(position + length, samples))
            channel = np.exp(2j * np.pi * (frequency * np.arange(length) + phase))
            stretch[inside] = (burst(length) * channel)[inside.start - position : inside.stop - position]
            on[inside] = True
        position += length + int(rng.uniform(*p.gap_us) * 1e-6 * RATE)
    return stretch, on


def gfsk(rng: np.random.Generator, length: int, baud: float, index: float, bt: float) -> Complexes:
    """Random bits in Gaussian FSK, unit modulus `[length]`."""
    bits = 2 * rng.integers(2, size=int(length * baud / RATE) + 8) - 1
    return keyed(rng, length, bits, baud, index, bt)


def keyed(rng: np.random.Generator, length: int, levels: np.ndarray, baud: float, index: float, bt: float) -> Complexes:
    """Given levels -1 and 1 in Gaussian FSK, at least `length baud / RATE + 8`, unit modulus `[length]`."""
    sps = np.array([RATE / baud])
    frequency = angular.fsk_frequency(levels[None], length, sps, rng.random(1), np.array([bt]))
    signal: Complexes = angular.frequency_modulate(frequency * index / 2 / sps[0])[0]
    return signal
