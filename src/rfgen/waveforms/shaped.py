"""Families of the text tasks, functions of (rng, samples, width_hz) at 20 MS/s.

Each returns complex128 `[samples]` of about unit power, on from end to end, centred at 0 Hz and about `width_hz` wide:
99 % of its power lie within 0.5 to 1.3 of it (the extremes are FM and narrow sweeps). Phases of symbols, frames and
sweeps are random.
"""

from collections.abc import Callable

import numpy as np

from rfgen.physics.types import Complexes
from rfgen.waveforms import angular, ofdm
from rfgen.waveforms.bursts import RATE, random_window
from rfgen.waveforms.bursts import gfsk as keyed
from rfgen.waveforms.primaries import Satellite, satellite

__all__ = ["FAMILIES", "RATE"]

# OFDM of 256 points and a prefix of 1.6 us, as IEEE 802.11ax has it (27.3.9): carriers 78.125 kHz apart.
_SIZE, _PREFIX = 256, 32
_ROLLOFF = (0.2, 0.35)
_EDGE = 0.55
# The message of FM reaches to so much of the width; its deviation is the standard deviation of the frequency.
_MESSAGE, _DEVIATION = 0.1, 1 / 5
# A sweep lasts about so long.
_SWEEP_S = 24e-6


def multicarrier(rng: np.random.Generator, samples: int, width_hz: float) -> Complexes:
    """OFDM with cyclic prefix, carriers of QPSK or 16QAM about an empty one in the middle."""
    count = max(2, round(width_hz / RATE * _SIZE) - 1)
    values = ofdm.random_values(rng, (samples // (_SIZE + _PREFIX) + 2, count), str(rng.choice(["QPSK", "16QAM"])))
    stream = ofdm.modulate(values, ofdm.carriers(count, _SIZE), _SIZE, _PREFIX)
    # The steps from symbol to symbol reach far beyond few carriers, where a transmitter's filter ends.
    spectrum = np.fft.fft(stream)
    spectrum[np.abs(np.fft.fftfreq(len(stream))) * RATE > _EDGE * width_hz] = 0
    return random_window(np.fft.ifft(spectrum), rng, samples)


def single_carrier(rng: np.random.Generator, samples: int, width_hz: float) -> Complexes:
    """QPSK or 8PSK in root-raised-cosine pulses, `width_hz` from edge to edge."""
    rolloff = rng.uniform(*_ROLLOFF)
    baud = width_hz / (1 + rolloff)
    signal, _ = satellite(rng, samples, Satellite(baud=(baud, baud), rolloff=(rolloff, rolloff)))
    return signal


def gaussian_keying(rng: np.random.Generator, samples: int, width_hz: float) -> Complexes:
    """GFSK of index and bandwidth-time product 1/2: 99 % of its power within about one bit rate."""
    return keyed(rng, samples, width_hz, 0.5, 0.5)


def noise_modulated(rng: np.random.Generator, samples: int, width_hz: float) -> Complexes:
    """FM by band-limited Gaussian noise, a stand-in for speech or picture."""
    message = angular.band_limited_noise(rng, 1, samples, np.array([_MESSAGE * width_hz / RATE]))
    signal: Complexes = angular.frequency_modulate(message * _DEVIATION * width_hz / RATE)[0]
    return signal


def sweeps(rng: np.random.Generator, samples: int, width_hz: float) -> Complexes:
    """Linear sweeps over the width, up or down, one after the other."""
    bandwidth, spreading = width_hz / RATE, round(np.log2(width_hz * _SWEEP_S))
    symbols = np.zeros(int(samples * bandwidth / 2**spreading) + 2, int)
    signal = angular.chirps(symbols, samples, bandwidth, spreading, rng.random())
    return signal if rng.random() < 0.5 else signal.conj()


FAMILIES: dict[str, Callable[[np.random.Generator, int, float], Complexes]] = {
    "OFDM": multicarrier,
    "PSK": single_carrier,
    "GFSK": gaussian_keying,
    "FM": noise_modulated,
    "chirp": sweeps,
}
