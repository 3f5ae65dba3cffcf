"""Front ends: what a transmitter of one model and a receiver chain do to complex baseband, and how units drift.

Units and receivers are drawn from the recipe's `hardware_seed`, not from the release seed: the same unit is met in
every split. A session moves each parameter of a unit by a share of the population's spread.
"""

from dataclasses import dataclass, fields, replace

import numpy as np

from common.streams import stream
from rfgen.recipe import Drift, ReceiverPopulation, UnitPopulation


@dataclass(frozen=True)
class Transmitter:
    """One unit's impairments.

    CFO [ppm], I/Q gain [dB] and phase [deg] imbalance, DC offset relative to the RMS, Rapp saturation [dB over RMS] and
    smoothness, AM/PM at saturation [deg], phase noise linewidth [Hz], turn-on transient (depth, time constant [us],
    phase [deg]).
    """

    cfo_ppm: float
    gain_db: float
    phase_deg: float
    dc: complex
    saturation_db: float
    smoothness: float
    am_pm_deg: float
    linewidth_hz: float
    transient_depth: float
    transient_us: float
    transient_phase_deg: float


@dataclass(frozen=True)
class Receiver:
    """One receiver chain: CFO [ppm], I/Q imbalance, DC offset relative to the RMS and a three-tap ripple."""

    cfo_ppm: float
    gain_db: float
    phase_deg: float
    dc: complex
    ripple: tuple[complex, complex]


def unit(seed: int, name: str, population: UnitPopulation) -> Transmitter:
    """The unit called `name`; the same for one seed whatever the split."""
    rng = stream(seed, "unit", name)
    p = population
    return Transmitter(
        cfo_ppm=p.cfo_ppm * rng.standard_normal(),
        gain_db=p.gain_imbalance_db * rng.standard_normal(),
        phase_deg=p.phase_imbalance_deg * rng.standard_normal(),
        dc=p.dc_offset * complex(*rng.standard_normal(2)),
        saturation_db=rng.uniform(*p.amplifier_saturation_db),
        smoothness=rng.uniform(*p.amplifier_smoothness),
        am_pm_deg=rng.uniform(*p.am_pm_deg),
        linewidth_hz=rng.uniform(*p.phase_noise_hz),
        transient_depth=rng.uniform(*p.transient_depth),
        transient_us=rng.uniform(*p.transient_us),
        transient_phase_deg=p.transient_phase_deg * rng.standard_normal(),
    )


def drifted(tx: Transmitter, population: UnitPopulation, drift: Drift, rng: np.random.Generator) -> Transmitter:
    """The unit in another session: every parameter moved by `drift.share` of the population's spread."""
    other = unit(int(rng.integers(2**62)), "drift", population)
    middle = unit_mean(population)
    moved = {
        f.name: getattr(tx, f.name) + drift.share * (getattr(other, f.name) - getattr(middle, f.name))
        for f in fields(tx)
    }
    moved |= {"cfo_ppm": tx.cfo_ppm + drift.cfo_ppm * rng.standard_normal()}
    positive = ("saturation_db", "smoothness", "linewidth_hz", "transient_depth", "transient_us")
    return replace(tx, **{k: max(v, 1e-3) if k in positive else v for k, v in moved.items()})


def unit_mean(population: UnitPopulation) -> Transmitter:
    """The model's nominal unit, the middle of the population."""
    p = population
    middles = (p.amplifier_saturation_db, p.amplifier_smoothness, p.am_pm_deg, p.phase_noise_hz, p.transient_depth)
    return Transmitter(0.0, 0.0, 0.0, 0j, *[sum(limits) / 2 for limits in (*middles, p.transient_us)], 0.0)


def receiver(seed: int, name: str, population: ReceiverPopulation) -> Receiver:
    """The receiver chain called `name`."""
    rng = stream(seed, "receiver", name)
    p = population
    return Receiver(
        cfo_ppm=p.cfo_ppm * rng.standard_normal(),
        gain_db=p.gain_imbalance_db * rng.standard_normal(),
        phase_deg=p.phase_imbalance_deg * rng.standard_normal(),
        dc=p.dc_offset * complex(*rng.standard_normal(2)),
        ripple=(p.ripple * complex(*rng.standard_normal(2)), p.ripple * complex(*rng.standard_normal(2))),
    )


def imbalance(signal: np.ndarray, gain_db: float, phase_deg: float) -> np.ndarray:
    """I/Q imbalance: mu x + nu conj(x) with mu, nu = (1 +- g e^{j phi}) / 2; image rejection |mu / nu|^2."""
    g = 10 ** (gain_db / 20) * np.exp(1j * np.radians(phase_deg))
    return (1 + g) / 2 * signal + (1 - g) / 2 * np.conj(signal)


def amplifier(signal: np.ndarray, saturation_db: float, smoothness: float, am_pm_deg: float) -> np.ndarray:
    """Rapp AM/AM with smoothness p and AM/PM that grows to `am_pm_deg` at saturation, for a signal of unit RMS."""
    level = np.abs(signal) / 10 ** (saturation_db / 20)
    gain = (1 + level ** (2 * smoothness)) ** (-1 / (2 * smoothness))
    return signal * gain * np.exp(1j * np.radians(am_pm_deg) * level**2 / (1 + level**2))


def transmit(
    signal: np.ndarray, tx: Transmitter, carrier_hz: float, sample_rate_hz: float, rng: np.random.Generator
) -> np.ndarray:
    """Frames `[n, samples]` of unit RMS, that start at sample 0, as the unit sends them; complex128."""
    n, samples = signal.shape
    time = np.arange(samples) / sample_rate_hz
    settle = np.exp(-time * 1e6 / tx.transient_us)
    envelope = (1 - tx.transient_depth * settle) * np.exp(1j * np.radians(tx.transient_phase_deg) * settle)
    baseband = imbalance(signal, tx.gain_db, tx.phase_deg) + tx.dc
    sent = amplifier(baseband, tx.saturation_db, tx.smoothness, tx.am_pm_deg) * envelope
    steps = np.sqrt(2 * np.pi * tx.linewidth_hz / sample_rate_hz) * rng.standard_normal((n, samples))
    turn = 2 * np.pi * tx.cfo_ppm * 1e-6 * carrier_hz * time
    return sent * np.exp(1j * (turn + np.cumsum(steps, axis=1)))


def receive(signal: np.ndarray, rx: Receiver, carrier_hz: float, sample_rate_hz: float) -> np.ndarray:
    """Samples `[n, samples]` (noise included) through a receiver chain; complex128."""
    time = np.arange(signal.shape[-1]) / sample_rate_hz
    mixed = signal * np.exp(-2j * np.pi * rx.cfo_ppm * 1e-6 * carrier_hz * time)
    rippled = mixed.copy()
    for delay, tap in enumerate(rx.ripple, start=1):
        rippled[..., delay:] += tap * mixed[..., :-delay]
    scale = np.sqrt(np.mean(np.abs(rippled) ** 2, axis=-1, keepdims=True))
    return imbalance(rippled, rx.gain_db, rx.phase_deg) + rx.dc * scale
