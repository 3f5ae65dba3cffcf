"""Interferers of E-SC-SEP, functions of (rng, samples, numbers of the family) at 20 MS/s.

Each returns complex128 `[samples]` of about unit power, on from end to end and about 0 Hz; phases are random.
"""

from collections.abc import Callable

import numpy as np
from pydantic import ConfigDict
from typing_extensions import TypedDict

from rfgen.physics.fields import Counts, Model, NonNegative, Range
from rfgen.physics.types import Complexes
from rfgen.waveforms import angular
from rfgen.waveforms.bursts import RATE, gfsk
from rfgen.waveforms.primaries import NewRadio, new_radio

__all__ = ["FAMILIES", "RATE", "Interferers"]


class Gfsk(Model):
    """Gaussian FSK: bit rate, modulation index and bandwidth-time product."""

    baud: Range
    index: Range
    bt: Range


class NoiseFm(Model):
    """FM by a Gaussian message, such as speech or a picture: its bandwidth and the RMS deviation."""

    message_hz: Range
    deviation_hz: Range


class Sweep(Model):
    """Linear chirps one after the other, as of an FMCW radar: the width that each sweeps, and how long it takes."""

    width_hz: Range
    sweep_us: Range


class Tones(Model):
    """Unmodulated carriers: numbers to choose from, the width that they lie in, and how far their levels lie apart."""

    count: Counts
    width_hz: Range
    spread_db: NonNegative


Interferers = TypedDict(
    "Interferers",
    {"nr-ofdm": NewRadio, "gfsk": Gfsk, "fm": NoiseFm, "chirp": Sweep, "multi-tone": Tones},
    total=False,
)
# Pydantic reads it from the type; the stubs of TypedDict do not know the attribute.
Interferers.__pydantic_config__ = ConfigDict(extra="forbid", strict=True)  # type: ignore[attr-defined]


def ofdm(rng: np.random.Generator, samples: int, p: NewRadio) -> Complexes:
    """5G-like OFDM (`rfgen.waveforms.primaries.new_radio`)."""
    return new_radio(rng, samples, p)[0]


def keyed(rng: np.random.Generator, samples: int, p: Gfsk) -> Complexes:
    """Random bits in Gaussian FSK."""
    return gfsk(rng, samples, rng.uniform(*p.baud), rng.uniform(*p.index), rng.uniform(*p.bt))


def noise_fm(rng: np.random.Generator, samples: int, p: NoiseFm) -> Complexes:
    """FM by band-limited noise."""
    message = angular.band_limited_noise(rng, 1, samples, np.array([rng.uniform(*p.message_hz) / RATE]))[0]
    return angular.frequency_modulate(message * rng.uniform(*p.deviation_hz) / RATE)


def sweep(rng: np.random.Generator, samples: int, p: Sweep) -> Complexes:
    """A frequency that rises, or falls, along a line and then starts again."""
    place = np.arange(samples) / (rng.uniform(*p.sweep_us) * 1e-6 * RATE) + rng.random()
    slope = rng.choice([-1.0, 1.0]) * rng.uniform(*p.width_hz) / RATE
    return angular.frequency_modulate(slope * (place % 1.0 - 0.5))


def tones(rng: np.random.Generator, samples: int, p: Tones) -> Complexes:
    """Carriers at random frequencies and levels."""
    count = int(rng.choice(p.count))
    frequency = rng.uniform(*p.width_hz) / RATE * (rng.random(count) - 0.5)
    level = 10 ** (rng.uniform(-p.spread_db, 0.0, count) / 20)
    phase = np.exp(2j * np.pi * (frequency[:, None] * np.arange(samples) + rng.random((count, 1))))
    summed: Complexes = (level[:, None] * phase).sum(axis=0) / np.sqrt(np.sum(level**2))
    return summed


FAMILIES: dict[str, Callable[..., Complexes]] = {
    "nr-ofdm": ofdm,
    "gfsk": keyed,
    "fm": noise_fm,
    "chirp": sweep,
    "multi-tone": tones,
}
