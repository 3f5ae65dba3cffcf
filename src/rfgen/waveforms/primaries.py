"""Primary users of E-SC-SENSE, functions of (rng, samples, numbers of the family) at 20 MS/s.

Each returns `(signal, half_width_hz)`: complex128 `[samples]` of about unit power, on from end to end and centred at
0 Hz, and how far it reaches to either side; symbol, frame and pulse phases are random.
"""

from collections.abc import Callable

import numpy as np
from pydantic import ConfigDict
from typing_extensions import TypedDict

from rfgen.physics.fields import Model, Positive, Range, Rates
from rfgen.physics.types import Complexes
from rfgen.waveforms import angular, linear, ofdm
from rfgen.waveforms.bursts import FINE, RATE, fine_length, from_fine, gfsk, random_window

__all__ = ["FAMILIES", "RATE", "Primaries", "Primary"]

#: Signal and half of its width in Hz.
Primary = tuple[Complexes, float]
_PSK = ("QPSK", "8PSK")
_QAM = ("QPSK", "16QAM", "64QAM")


class Wlan(Model):
    """OFDM of 20 MHz has no numbers."""


class NewRadio(Model):
    """5G-like OFDM: carrier spacings to choose from, and the width that is filled."""

    spacing_hz: Rates
    width_hz: Range


class Satellite(Model):
    """A single carrier of PSK: symbol rate and roll-off."""

    baud: Range
    rolloff: Range


class Gmsk(Model):
    """GMSK: bit rate and bandwidth-time product."""

    baud: Positive
    bt: Positive


class Microphone(Model):
    """Narrow FM: message tones and the peak deviations that go with them, one pair a scene."""

    tone_hz: Rates
    deviation_hz: Rates


class Radar(Model):
    """A long chirped pulse about the window: its length and the width that it sweeps."""

    pulse_us: Range
    width_hz: Range


Primaries = TypedDict(
    "Primaries",
    {
        "wlan-ofdm": Wlan,
        "nr-ofdm": NewRadio,
        "satellite-psk": Satellite,
        "gsm-gmsk": Gmsk,
        "microphone-fm": Microphone,
        "radar-chirp": Radar,
    },
    total=False,
)
# Pydantic reads it from the type; the stubs of TypedDict do not know the attribute.
Primaries.__pydantic_config__ = ConfigDict(extra="forbid", strict=True)  # type: ignore[attr-defined]


def wlan(rng: np.random.Generator, samples: int, p: Wlan) -> Primary:
    """Data symbols of IEEE 802.11 OFDM: 52 of 64 carriers, prefix of 16 samples."""
    symbols = samples // (ofdm.WIFI_SIZE + ofdm.WIFI_PREFIX) + 2
    values = ofdm.random_values(rng, (symbols, 52), str(rng.choice(_QAM)))
    stream = ofdm.modulate(values, ofdm.carriers(52, ofdm.WIFI_SIZE), ofdm.WIFI_SIZE, ofdm.WIFI_PREFIX)
    return random_window(stream, rng, samples), 26.5 * RATE / ofdm.WIFI_SIZE


def new_radio(rng: np.random.Generator, samples: int, p: NewRadio) -> Primary:
    """5G-like OFDM with the normal prefix, 9/128 of a symbol (3GPP TS 38.211, 5.3.1), in whole resource blocks.

    The longer prefix at every half millisecond is left out: the window rarely meets one.
    """
    spacing = float(rng.choice(p.spacing_hz))
    size, length = round(FINE / spacing), fine_length(samples)
    count = 12 * max(1, round(rng.uniform(*p.width_hz) / (12 * spacing)))
    symbols = length // (size + size * 9 // 128) + 2
    values = ofdm.random_values(rng, (symbols, count), str(rng.choice(_QAM)))
    stream = ofdm.modulate(values, ofdm.carriers(count, size), size, size * 9 // 128)
    signal, _ = from_fine(stream, np.ones(len(stream), bool), rng, samples)
    return signal, (count + 1) * spacing / 2


def satellite(rng: np.random.Generator, samples: int, p: Satellite) -> Primary:
    """A single carrier as in ETSI EN 302 307-1 (DVB-S2): PSK in root-raised-cosine pulses."""
    baud, rolloff = rng.uniform(*p.baud), rng.uniform(*p.rolloff)
    sent = ofdm.random_values(rng, (1, int(samples * baud / RATE) + 16), str(rng.choice(_PSK)))
    signal = linear.pulse_shape(sent, samples, np.array([RATE / baud]), np.array([rolloff]), rng.random(1))[0]
    return signal, (1 + rolloff) * baud / 2


def gmsk(rng: np.random.Generator, samples: int, p: Gmsk) -> Primary:
    """GMSK as in 3GPP TS 45.004: modulation index 1/2."""
    return gfsk(rng, samples, p.baud, 0.5, p.bt), 0.5 * p.baud


def microphone(rng: np.random.Generator, samples: int, p: Microphone) -> Primary:
    """A wireless microphone: FM by one tone, of the silent, soft and loud speaker.

    Reference: C. Clanton, M. Kenkel and Y. Tang, "Wireless microphone signal simulation method", IEEE 802.22-07/0124r0.
    """
    case = int(rng.integers(len(p.tone_hz)))
    tone, deviation = p.tone_hz[case], p.deviation_hz[case]
    message = np.cos(2 * np.pi * (tone / RATE * np.arange(samples) + rng.random()))
    return angular.frequency_modulate(message * deviation / RATE), tone + deviation


def radar(rng: np.random.Generator, samples: int, p: Radar) -> Primary:
    """A linear chirp, up or down, whose pulse covers the window: the long pulses of FCC KDB 905462 D02, table 6."""
    length, width = max(rng.uniform(*p.pulse_us) * 1e-6 * RATE, samples), rng.uniform(*p.width_hz)
    time = np.arange(samples) + rng.uniform(0, length - samples) - length / 2
    slope = rng.choice([-1.0, 1.0]) * width / RATE / length
    return np.exp(1j * np.pi * slope * time**2), width / 2


FAMILIES: dict[str, Callable[..., Primary]] = {
    "wlan-ofdm": wlan,
    "nr-ofdm": new_radio,
    "satellite-psk": satellite,
    "gsm-gmsk": gmsk,
    "microphone-fm": microphone,
    "radar-chirp": radar,
}
