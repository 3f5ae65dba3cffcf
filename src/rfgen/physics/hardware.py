"""Front ends: what a transmitter of one model and a receiver chain do to complex baseband, and how units drift.

Units and receivers are drawn from the recipe's `hardware_seed`, not from the release seed: the same unit is met in
every split, but for HOLDOUT's own (`rfgen.scenes.fingerprint`). A session moves each parameter of a unit by a share of
the population's spread.
"""

from dataclasses import dataclass, fields, replace

import numpy as np

from common.streams import Seed, complex_normal, stream
from rfgen.physics.fields import Model, NonNegative, Range
from rfgen.physics.types import Complexes, Floats


class UnitPopulation(Model):
    """Spread of the units of one model: standard deviations about the model's mean, or ranges.

    `dc_offset` is the root mean square of a complex offset, relative to the signal's.
    """

    cfo_ppm: NonNegative
    gain_imbalance_db: NonNegative
    phase_imbalance_deg: NonNegative
    dc_offset: NonNegative
    amplifier_saturation_db: Range
    amplifier_smoothness: Range
    am_pm_deg: Range
    phase_noise_hz: Range
    transient_depth: Range
    transient_us: Range
    transient_phase_deg: NonNegative


class Drift(Model):
    """How far a unit moves from session to session: a share of each population spread, and its own CFO in ppm."""

    cfo_ppm: NonNegative
    share: NonNegative


class ReceiverPopulation(Model):
    """Spread of the receiver chains, standard deviations; of the complex `dc_offset` and `ripple` the whole one."""

    cfo_ppm: NonNegative
    gain_imbalance_db: NonNegative
    phase_imbalance_deg: NonNegative
    dc_offset: NonNegative
    ripple: NonNegative


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


def transmitter(seed: Seed, name: str, population: UnitPopulation) -> Transmitter:
    """The unit called `name`; the same for one seed whatever the split."""
    rng = stream(seed, "unit", name)
    p = population
    return Transmitter(
        cfo_ppm=p.cfo_ppm * rng.standard_normal(),
        gain_db=p.gain_imbalance_db * rng.standard_normal(),
        phase_deg=p.phase_imbalance_deg * rng.standard_normal(),
        dc=p.dc_offset * _normal(rng),
        saturation_db=rng.uniform(*p.amplifier_saturation_db),
        smoothness=rng.uniform(*p.amplifier_smoothness),
        am_pm_deg=rng.uniform(*p.am_pm_deg),
        linewidth_hz=rng.uniform(*p.phase_noise_hz),
        transient_depth=rng.uniform(*p.transient_depth),
        transient_us=rng.uniform(*p.transient_us),
        transient_phase_deg=p.transient_phase_deg * rng.standard_normal(),
    )


def apply_drift(tx: Transmitter, population: UnitPopulation, drift: Drift, rng: np.random.Generator) -> Transmitter:
    """The unit in another session: every parameter moved by `drift.share` of the population's spread."""
    other = transmitter(int(rng.integers(2**62)), "drift", population)
    nominal = nominal_transmitter(population)
    moved = {
        f.name: getattr(tx, f.name) + drift.share * (getattr(other, f.name) - getattr(nominal, f.name))
        for f in fields(tx)
    }
    moved |= {"cfo_ppm": tx.cfo_ppm + drift.cfo_ppm * rng.standard_normal()}
    positive = ("saturation_db", "smoothness", "linewidth_hz", "transient_depth", "transient_us")
    return replace(tx, **{k: max(v, 1e-3) if k in positive else v for k, v in moved.items()})


def nominal_transmitter(population: UnitPopulation) -> Transmitter:
    """The model's nominal unit, the middle of the population."""
    p = population
    return Transmitter(
        cfo_ppm=0.0,
        gain_db=0.0,
        phase_deg=0.0,
        dc=0j,
        saturation_db=sum(p.amplifier_saturation_db) / 2,
        smoothness=sum(p.amplifier_smoothness) / 2,
        am_pm_deg=sum(p.am_pm_deg) / 2,
        linewidth_hz=sum(p.phase_noise_hz) / 2,
        transient_depth=sum(p.transient_depth) / 2,
        transient_us=sum(p.transient_us) / 2,
        transient_phase_deg=0.0,
    )


def receiver(seed: int, name: str, population: ReceiverPopulation) -> Receiver:
    """The receiver chain called `name`."""
    rng = stream(seed, "receiver", name)
    p = population
    return Receiver(
        cfo_ppm=p.cfo_ppm * rng.standard_normal(),
        gain_db=p.gain_imbalance_db * rng.standard_normal(),
        phase_deg=p.phase_imbalance_deg * rng.standard_normal(),
        dc=p.dc_offset * _normal(rng),
        ripple=(p.ripple * _normal(rng), p.ripple * _normal(rng)),
    )


def _normal(rng: np.random.Generator) -> complex:
    """A circular complex Gaussian number of unit variance."""
    return complex(complex_normal(rng, (1,))[0])


def standardised(tx: Transmitter, population: UnitPopulation) -> Floats:
    """A unit's parameters as distances from the model's mean in standard deviations of the population, `[12]`.

    The DC offset gives two numbers, in phase and in quadrature; a parameter that does not spread gives 0.
    """
    p, nominal = population, nominal_transmitter(population)
    spreads = {
        "cfo_ppm": p.cfo_ppm,
        "gain_db": p.gain_imbalance_db,
        "phase_deg": p.phase_imbalance_deg,
        "dc": p.dc_offset / np.sqrt(2),
        "saturation_db": _deviation(p.amplifier_saturation_db),
        "smoothness": _deviation(p.amplifier_smoothness),
        "am_pm_deg": _deviation(p.am_pm_deg),
        "linewidth_hz": _deviation(p.phase_noise_hz),
        "transient_depth": _deviation(p.transient_depth),
        "transient_us": _deviation(p.transient_us),
        "transient_phase_deg": p.transient_phase_deg,
    }
    values: list[float] = []
    for name, spread in spreads.items():
        moved = complex(getattr(tx, name) - getattr(nominal, name)) / (spread or np.inf)
        values += [moved.real, moved.imag] if name == "dc" else [moved.real]
    return np.array(values)


def _deviation(limits: tuple[float, float]) -> float:
    """Standard deviation of the uniform law between two limits."""
    return (limits[1] - limits[0]) / float(np.sqrt(12))


def iq_imbalance(signal: Complexes, gain_db: float, phase_deg: float) -> Complexes:
    """I/Q imbalance: mu x + nu conj(x) with mu, nu = (1 +- g e^{j phi}) / 2; image rejection |mu / nu|^2."""
    g = 10 ** (gain_db / 20) * np.exp(1j * np.radians(phase_deg))
    mixed: Complexes = (1 + g) / 2 * signal + (1 - g) / 2 * np.conj(signal)
    return mixed


def rapp_amplifier(signal: Complexes, saturation_db: float, smoothness: float, am_pm_deg: float) -> Complexes:
    """Rapp's AM/AM with its smoothness, and Saleh's AM/PM, for a signal of unit RMS.

    The phase turns by `am_pm_deg` where the input's level is the saturation level, and by twice that far above it.
    References: C. Rapp, "Effects of HPA-nonlinearity on a 4-DPSK/OFDM-signal", ECSC 1991; A. Saleh,
    "Frequency-independent and frequency-dependent nonlinear models of TWT amplifiers", IEEE Trans. Commun. 29, 1981,
    equation (4) with alpha twice the angle and beta 1.
    """
    level = np.abs(signal) / 10 ** (saturation_db / 20)
    gain = (1 + level ** (2 * smoothness)) ** (-1 / (2 * smoothness))
    turn = np.radians(am_pm_deg) * 2 * level**2 / (1 + level**2)
    amplified: Complexes = signal * gain * np.exp(1j * turn)
    return amplified


def transmit(
    signal: Complexes, tx: Transmitter, carrier_hz: float, sample_rate_hz: float, rng: np.random.Generator
) -> Complexes:
    """Frames `[n, samples]` of unit RMS, that start at sample 0, as the unit sends them; complex128."""
    n, samples = signal.shape
    time = np.arange(samples) / sample_rate_hz
    settle = np.exp(-time * 1e6 / tx.transient_us)
    envelope = (1 - tx.transient_depth * settle) * np.exp(1j * np.radians(tx.transient_phase_deg) * settle)
    baseband = iq_imbalance(signal, tx.gain_db, tx.phase_deg) + tx.dc
    sent = rapp_amplifier(baseband, tx.saturation_db, tx.smoothness, tx.am_pm_deg) * envelope
    steps = np.sqrt(2 * np.pi * tx.linewidth_hz / sample_rate_hz) * rng.standard_normal((n, samples))
    turn = 2 * np.pi * tx.cfo_ppm * 1e-6 * carrier_hz * time
    turned: Complexes = sent * np.exp(1j * (turn + np.cumsum(steps, axis=1)))
    return turned


def receive(signal: Complexes, rx: Receiver, carrier_hz: float, sample_rate_hz: float) -> Complexes:
    """Samples `[n, samples]` (noise included) through a receiver chain; complex128."""
    time = np.arange(signal.shape[-1]) / sample_rate_hz
    mixed = signal * np.exp(-2j * np.pi * rx.cfo_ppm * 1e-6 * carrier_hz * time)
    rippled = mixed.copy()
    for delay, tap in enumerate(rx.ripple, start=1):
        rippled[..., delay:] += tap * mixed[..., :-delay]
    scale = np.sqrt(np.mean(np.abs(rippled) ** 2, axis=-1, keepdims=True))
    received: Complexes = iq_imbalance(rippled, rx.gain_db, rx.phase_deg) + rx.dc * scale
    return received
