"""Anomalies of E-SC-ANOM: what another transmitter adds to normal traffic, and what goes wrong with its own.

Each is a function of (rng, traffic on its carrier, numbers of the kind) and returns what is added to the traffic,
complex128 `[samples]`; a jammer's level is whatever it is, and the scene sets it. Kinds of jammer: R. Poisel, Modern
Communications Jamming Principles and Techniques, 2nd edition, chapter 3.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from pydantic import ConfigDict
from typing_extensions import TypedDict

from common.streams import complex_normal
from rfgen.physics.fields import Model, Positive, Range
from rfgen.physics.hardware import rapp_amplifier
from rfgen.physics.types import Complexes
from rfgen.waveforms import angular
from rfgen.waveforms.bursts import RATE, gfsk


@dataclass(frozen=True)
class OnAir:
    """Traffic `[samples]` on its carrier [Hz], what it opens with, at 0 Hz, and the samples of the window."""

    signal: Complexes
    carrier_hz: float
    preamble: Complexes
    window: slice


class Tone(Model):
    """A tone within +-`reach_hz`."""

    reach_hz: Positive


class Sweep(Model):
    """A tone that sweeps a width, again and again: width and period."""

    width_hz: Range
    period_us: Range
    reach_hz: Positive


class Pulses(Model):
    """A pulsed tone within +-`reach_hz`: lengths of pulses and of the time from one to the next."""

    pulse_us: Range
    interval_us: Range
    reach_hz: Positive


class Barrage(Model):
    """Noise of a width, inside +-`reach_hz`."""

    width_hz: Range
    reach_hz: Positive


class GuardBand(Model):
    """A GFSK emitter in the guard bands: distance from the band's centre, bit rates and filter."""

    centre_hz: Range
    baud: Range
    bt: Positive


class Regrowth(Model):
    """A saturated amplifier: saturation [dB over RMS], smoothness, and AM/PM at saturation [deg]."""

    saturation_db: Range
    smoothness: Range
    am_pm_deg: Range


class Replay(Model):
    """What the traffic opens with, sent again: how far its carrier is off the traffic's, to either side."""

    offset_hz: Range


class Dropped(Model):
    """Traffic that falls silent: for how long."""

    silence_us: Range


Kinds = TypedDict(
    "Kinds",
    {
        "tone": Tone,
        "sweep": Sweep,
        "pulses": Pulses,
        "barrage": Barrage,
        "guard-band": GuardBand,
        "regrowth": Regrowth,
        "replay": Replay,
        "dropped": Dropped,
    },
    total=False,
)
# Pydantic reads it from the type; the stubs of TypedDict do not know the attribute.
Kinds.__pydantic_config__ = ConfigDict(extra="forbid", strict=True)  # type: ignore[attr-defined]

#: Kinds that another transmitter makes, at a level and over paths of its own; the others are the traffic's.
FOREIGN = ("tone", "sweep", "pulses", "barrage", "guard-band", "replay")
#: Families that can show a kind, where not all can: an amplifier changes no constant envelope.
NEEDS: dict[str, tuple[str, ...]] = {"regrowth": ("wifi-frames", "nr-ofdm", "satellite-psk")}


def _carrier(frequency_hz: float, samples: int) -> Complexes:
    carrier: Complexes = np.exp(2j * np.pi * frequency_hz / RATE * np.arange(samples))
    return carrier


def tone(rng: np.random.Generator, traffic: OnAir, p: Tone) -> Complexes:
    """A continuous tone."""
    return _carrier(rng.uniform(-p.reach_hz, p.reach_hz), len(traffic.signal))


def sweep(rng: np.random.Generator, traffic: OnAir, p: Sweep) -> Complexes:
    """A sawtooth of frequency, up or down, that begins anywhere in its period."""
    width, period = rng.uniform(*p.width_hz), rng.uniform(*p.period_us) * 1e-6 * RATE
    room = max(p.reach_hz - width / 2, 0.0)
    place = (np.arange(len(traffic.signal)) / period + rng.random()) % 1.0 - 0.5
    frequency = rng.uniform(-room, room) + rng.choice([-1.0, 1.0]) * width * place
    return angular.frequency_modulate(frequency / RATE)


def pulses(rng: np.random.Generator, traffic: OnAir, p: Pulses) -> Complexes:
    """A tone that is on for one pulse in each interval."""
    length, interval = rng.uniform(*p.pulse_us), rng.uniform(*p.interval_us)
    time_us = np.arange(len(traffic.signal)) / RATE * 1e6 + rng.uniform(0, interval)
    return _carrier(rng.uniform(-p.reach_hz, p.reach_hz), len(time_us)) * (time_us % interval < length)


def barrage(rng: np.random.Generator, traffic: OnAir, p: Barrage) -> Complexes:
    """Gaussian noise, flat over its width; a part of a stretch twice as long, so that its ends do not meet."""
    samples, width = len(traffic.signal), rng.uniform(*p.width_hz)
    room = max(p.reach_hz - width / 2, 0.0)
    spectrum = complex_normal(rng, (2 * samples,)) * (np.abs(np.fft.fftfreq(2 * samples)) <= width / 2 / RATE)
    noise: Complexes = np.fft.ifft(spectrum)[:samples] * _carrier(rng.uniform(-room, room), samples)
    return noise


def guard_band(rng: np.random.Generator, traffic: OnAir, p: GuardBand) -> Complexes:
    """A narrow emitter on either side, where no traffic is."""
    samples, baud = len(traffic.signal), rng.uniform(*p.baud)
    centre = rng.choice([-1.0, 1.0]) * rng.uniform(*p.centre_hz)
    return gfsk(rng, samples, baud, 0.5, p.bt) * _carrier(centre, samples)


def regrowth(rng: np.random.Generator, traffic: OnAir, p: Regrowth) -> Complexes:
    """What a saturated amplifier adds to the traffic: all of its output that does not correlate with the input.

    The amplifier runs at twice the rate, so that what it adds beyond the band is filtered off as by a receiver and
    does not fold into it. Reference: J. J. Bussgang, MIT RLE Technical Report 216, 1952.
    """
    numbers = rng.uniform(*p.saturation_db), rng.uniform(*p.smoothness), rng.uniform(*p.am_pm_deg)
    samples = len(traffic.signal)
    on = traffic.signal != 0
    rms = np.sqrt(np.sum(np.abs(traffic.signal) ** 2) / max(on.sum(), 1))
    unit = traffic.signal / (rms or 1.0)
    spectrum = np.fft.fftshift(np.fft.fft(unit))
    left = samples - samples // 2
    fine = np.fft.ifft(np.fft.ifftshift(np.pad(spectrum, (left, samples - left)))) * 2
    amplified = np.fft.fftshift(np.fft.fft(rapp_amplifier(fine, *numbers)))[left : left + samples]
    out = np.fft.ifft(np.fft.ifftshift(amplified)) / 2
    # No product of vectors: a threaded library would round by the number of threads.
    gain = np.sum(out * unit.conj()) / max(np.sum(np.abs(unit) ** 2), 1e-12)
    added: Complexes = (out / gain - unit) * rms
    return added


def replay(rng: np.random.Generator, traffic: OnAir, p: Replay) -> Complexes:
    """The preamble once more, anywhere in the window, off the traffic's carrier."""
    heard = np.zeros(len(traffic.signal), complex)
    window, length = traffic.window, len(traffic.preamble)
    start = int(rng.integers(window.start, window.stop - length + 1))
    heard[start : start + length] = traffic.preamble
    offset = rng.choice([-1.0, 1.0]) * rng.uniform(*p.offset_hz)
    return heard * _carrier(traffic.carrier_hz + offset, len(heard))


def dropped(rng: np.random.Generator, traffic: OnAir, p: Dropped) -> Complexes:
    """The traffic's opposite for a stretch of the window, which is silent then."""
    window, length = traffic.window, round(rng.uniform(*p.silence_us) * 1e-6 * RATE)
    start = int(rng.integers(window.start, window.stop - length + 1))
    lost = np.zeros(len(traffic.signal), complex)
    lost[start : start + length] = -traffic.signal[start : start + length]
    return lost


KINDS: dict[str, Callable[..., Complexes]] = {
    "tone": tone,
    "sweep": sweep,
    "pulses": pulses,
    "barrage": barrage,
    "guard-band": guard_band,
    "regrowth": regrowth,
    "replay": replay,
    "dropped": dropped,
}
