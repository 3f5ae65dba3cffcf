"""Modulations and noise against detection theory: maximum likelihood, cumulants, the energy detector."""

import numpy as np
import pytest

from common.streams import complex_normal, stream
from rfgen.scenes.base import add_awgn
from rfgen.waveforms import linear

NAMES = ("BPSK", "QPSK")


def received(name: str, trials: int, symbols: int, esn0_db: float) -> np.ndarray:
    """Symbol-spaced observations of unit noise power."""
    rng = stream(0, "theory", name, symbols, str(esn0_db))
    points = linear.constellation(name)
    sent = points[rng.integers(len(points), size=(trials, symbols))]
    return np.sqrt(10 ** (esn0_db / 10)) * sent + complex_normal(rng, sent.shape)


def log_likelihood(r: np.ndarray, name: str, esn0_db: float, phase: float = 0.0) -> np.ndarray:
    """Log likelihood of each row, up to a constant that the constellations share."""
    points = np.sqrt(10 ** (esn0_db / 10)) * linear.constellation(name) * np.exp(1j * phase)
    distance = -(np.abs(r[..., None] - points) ** 2)
    top = distance.max(axis=-1)
    return np.sum(top + np.log(np.mean(np.exp(distance - top[..., None]), axis=-1)), axis=1)


def averaged(r: np.ndarray, name: str, esn0_db: float) -> np.ndarray:
    """Log of the likelihood averaged over an unknown phase."""
    by_phase = np.stack([log_likelihood(r, name, esn0_db, p) for p in np.pi * np.arange(32) / 32])
    top = by_phase.max(axis=0)
    return top + np.log(np.exp(by_phase - top).mean(axis=0))


@pytest.mark.parametrize(
    ("esn0_db", "symbols", "coherent", "unknown", "moment"),
    [(0.0, 16, 0.907, 0.825, 0.770), (0.0, 64, 0.995, 0.986, 0.973), (-10.0, 128, 0.699, 0.602, 0.585)],
)
def test_bpsk_against_qpsk(esn0_db: float, symbols: int, coherent: float, unknown: float, moment: float) -> None:
    trials = 20000 if symbols == 16 else 6000
    r = {name: received(name, trials, symbols, esn0_db) for name in NAMES}
    # Three Monte-Carlo errors of an accuracy over 2 x trials, beside the table's own 0.006.
    slack = 0.006 + 3 * np.sqrt(coherent * (1 - coherent) / (2 * trials))
    margin = {n: log_likelihood(r[n], "BPSK", esn0_db) - log_likelihood(r[n], "QPSK", esn0_db) for n in NAMES}
    assert np.mean([np.mean(margin["BPSK"] > 0), np.mean(margin["QPSK"] < 0)]) == pytest.approx(coherent, abs=slack)

    few = min(trials, 3000)
    slack = 0.006 + 3 * np.sqrt(unknown * (1 - unknown) / (2 * few))
    margin = {n: averaged(r[n][:few], "BPSK", esn0_db) - averaged(r[n][:few], "QPSK", esn0_db) for n in NAMES}
    assert np.mean([np.mean(margin["BPSK"] > 0), np.mean(margin["QPSK"] < 0)]) == pytest.approx(unknown, abs=slack)

    # The best threshold on |mean r^2|.
    square = {n: np.abs(np.mean(r[n] ** 2, axis=1)) for n in NAMES}
    both = np.concatenate([square["BPSK"], square["QPSK"]])
    rank = np.argsort(both)
    is_qpsk = np.repeat([0, 1], trials)[rank]
    best = np.max(np.cumsum(is_qpsk) + trials - np.cumsum(1 - is_qpsk)) / (2 * trials)
    slack = 0.006 + 4 * np.sqrt(moment * (1 - moment) / (2 * trials))
    assert best == pytest.approx(moment, abs=slack)


CUMULANTS = {
    "BPSK": (-2.0, 2.0),
    "QPSK": (-1.0, 1.0),
    "8PSK": (-1.0, 0.0),
    "16QAM": (-0.68, 0.68),
    "64QAM": (-0.619, 0.619),
}


def cumulants(s: np.ndarray) -> tuple[float, float]:
    """C42 and |C40| of unit-power symbols."""
    m20, m21 = np.mean(s**2), np.mean(np.abs(s) ** 2)
    c42 = np.mean(np.abs(s) ** 4) - np.abs(m20) ** 2 - 2 * m21**2
    return float(c42 / m21**2), float(np.abs(np.mean(s**4) - 3 * m20**2) / m21**2)


@pytest.mark.parametrize("name", CUMULANTS)
def test_cumulants_of_the_constellations(name: str) -> None:
    assert cumulants(linear.constellation(name)) == pytest.approx(CUMULANTS[name], abs=1e-3)


@pytest.mark.parametrize("name", CUMULANTS)
def test_cumulants_survive_the_pulse(name: str) -> None:
    """Matched filtering of the generator's pulses brings the symbols back, so that their cumulants are the table's."""
    rng, sps, symbols = stream(0, "cumulants", name), 8, 4000
    points = linear.constellation(name)
    one = np.ones(1)
    sent = points[rng.integers(len(points), size=(1, symbols + 20))]
    signal = linear.pulse_shape(sent, symbols * sps, sps * one, 0.35 * one, 0 * one)[0]
    taps = linear.root_raised_cosine(np.arange(-6 * sps, 6 * sps + 1) / sps, 0.35) / sps
    symbols_back = np.convolve(signal, taps, mode="same")[::sps][8:-8]
    assert np.abs(symbols_back - sent[0, 14 : 14 + len(symbols_back)]).max() < 0.03
    assert cumulants(symbols_back) == pytest.approx(CUMULANTS[name], abs=0.06)


@pytest.mark.parametrize(("snr_db", "expected"), [(-20.0, 0.169), (-15.0, 0.391), (-10.0, 0.961)])
def test_energy_detector_with_known_noise(v01, snr_db: float, expected: float) -> None:
    """Scenes before their gain is drawn: the noise is of unit power and the SNR is the one stated."""
    trials, samples = 4000, 1024
    rng = stream(0, "energy", str(snr_db))
    params = v01.recipe.tasks["E-ID-AMC"]
    names = list(params.classes)
    signal = np.concatenate([params.signals(name, 4, rng) for name in names])
    energy = {}
    for label, scale in (("signal", 1.0), ("noise", 0.0)):
        draws = [
            add_awgn(scale * signal[:, None], np.full(len(signal), snr_db), rng)
            for _ in range(-(-trials // len(signal)))
        ]
        energy[label] = np.concatenate([np.mean(np.abs(x[:, 0]) ** 2, axis=1) for x in draws])
    # The threshold from theory: energy of n unit samples is Gamma(n, 1/n); its 0.9 quantile by Wilson and Hilferty.
    z = 1.2815516
    threshold = (1 - 1 / (9 * samples) + z / (3 * np.sqrt(samples))) ** 3
    n = len(energy["noise"])
    assert np.mean(energy["noise"] > threshold) == pytest.approx(0.1, abs=4 * np.sqrt(0.09 / n))
    slack = 0.003 + 4 * np.sqrt(expected * (1 - expected) / n)
    assert np.mean(energy["signal"] > threshold) == pytest.approx(expected, abs=slack)


def test_an_uncertain_noise_level_hides_the_signal() -> None:
    """Below the SNR wall, -3.3 dB for 1 dB, the highest noise looks stronger than a signal over the lowest."""
    wall_db = 10 * np.log10(10**0.1 - 10**-0.1)
    assert wall_db == pytest.approx(-3.3, abs=0.05)
    rng = stream(0, "wall")
    for step_db, seen in ((-1.0, False), (1.0, True)):
        signal = np.ones((100, 1, 16384))
        low = add_awgn(signal, np.full(100, wall_db + step_db + 1.0), rng) * 10**-0.05
        high = complex_normal(rng, signal.shape) * 10**0.05
        assert (np.mean(np.abs(low) ** 2) > np.mean(np.abs(high) ** 2)) == seen


def test_every_modulation_is_about_unit_power_and_inside_the_band(v01) -> None:
    params = v01.recipe.tasks["E-ID-AMC"]
    for name in params.classes:
        signal = params.signals(name, 64, stream(0, "band", name))
        assert np.mean(np.abs(signal) ** 2) == pytest.approx(1, abs=0.45)
        spectrum = np.abs(np.fft.fft(signal * np.hanning(params.samples))) ** 2
        frequency = np.abs(np.fft.fftfreq(params.samples))
        inside = spectrum[:, frequency < 0.3].sum(axis=1) / spectrum.sum(axis=1)
        assert inside.min() > 0.95, name
