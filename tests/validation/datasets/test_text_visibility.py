"""Captions say only what the samples show: each word of the attributes can be read off them, at every SNR regime.

Number, bandwidth, activity and power by an energy detector that knows the thirds of the band; the family, given place
and width, by textbook statistics and a random forest. And an emitter's energy against the closed form of the ideal
energy detector, for which the generator's own numbers are not asked.
"""

from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import cross_val_predict

from emma.backbones.classical.occupancy import band_detector
from emma.data.extends import read_extended
from rfgen.recipe import Recipe
from rfgen.scenes.text.attributes import embedding

TASK, RATE = "E-S2T-CAP", 20e6
REGIMES = ("low", "mid", "high")
CHUNKS = 10


@pytest.fixture(scope="module")
def recipe() -> Recipe:
    data = read_extended(Path(__file__).parents[3] / "config" / "releases" / "v1.0.yaml")["rfgen"]
    return Recipe.from_mapping(data | {"tasks": {TASK: data["tasks"][TASK]}, "environments": {}})


@pytest.fixture(scope="module")
def made(recipe) -> dict[str, tuple[np.ndarray, list]]:
    """Samples ``[N, T]`` and attributes of 400 scenes of each regime."""
    task, found = recipe.tasks[TASK], {}
    for regime in REGIMES:
        parts = [task.made(recipe, TASK, "TRAIN", (regime, "2.4GHz", number), 7) for number in range(CHUNKS)]
        iq = np.concatenate([part.iq[:, 0] for part in parts]).astype(np.complex128)
        found[regime] = iq, [scene for part in parts for scene in part.attributes]
    return found


@pytest.mark.parametrize("regime", REGIMES)
def test_all_but_the_family_is_read_by_an_energy_detector(made, regime: str) -> None:
    iq, scenes = made[regime]
    words, truth = band_detector().embed(iq[:, None].astype(np.complex64), RATE, 2.4e9), embedding(scenes)
    assert np.mean(words[:, :4].argmax(axis=1) == truth[:, :4].argmax(axis=1)) > 0.97
    found, stated = words[:, 4:].reshape(-1, 3, 8), truth[:, 4:].reshape(-1, 3, 13)
    # Of the truth: there, five families, three bandwidths, two activities, two powers.
    both = (found[:, :, 0] > 0) & (stated[:, :, 0] > 0)
    several = both & (truth[:, :2].sum(axis=1) == 0)[:, None]
    right = {
        "bandwidth": (found[:, :, 1:4] == stated[:, :, 6:9]).all(axis=2)[both],
        "activity": (found[:, :, 4:6] == stated[:, :, 9:11]).all(axis=2)[both],
        "power": (found[:, :, 6:8] == stated[:, :, 11:13]).all(axis=2)[several],
    }
    for word, hits in right.items():
        assert hits.mean() > 0.9, (word, hits.mean())


def shown(samples: np.ndarray, offset_hz: float, width_hz: float) -> np.ndarray:
    """Textbook statistics of one emitter, moved to 0 Hz and cut out at 1.4 of its width."""
    n = len(samples)
    spectrum = np.fft.fft(samples * np.exp(-2j * np.pi * offset_hz / RATE * np.arange(n)))
    spectrum[np.abs(np.fft.fftfreq(n) * RATE) > 0.7 * width_hz] = 0
    whole = np.fft.ifft(spectrum)
    half = max(32, int(0.75 * n * width_hz / RATE))
    signal = np.fft.ifft(np.concatenate([spectrum[:half], spectrum[-half:]]))
    signal /= np.sqrt(np.mean(np.abs(signal) ** 2))
    power = np.abs(signal) ** 2
    on = np.convolve(power, np.ones(5) / 5, "same") > 0.5
    # Envelope: constant or not. Cyclic prefix: what recurs 256 samples later, and every 288.
    prefix = whole[:-256] * whole[256:].conj()
    period = np.abs(np.fft.fft(prefix))[1:400]
    envelope = [np.mean(power[on] ** 2) / np.mean(power[on]) ** 2, np.std(np.sqrt(power[on]))]
    cyclic = [np.abs(np.convolve(prefix, np.ones(32) / 32, "same")).max(), period.max() / period.mean()]
    cyclic[0] /= np.mean(np.abs(whole) ** 2)
    shape = np.abs(np.fft.fftshift(np.fft.fft(signal))) ** 2
    shape = shape[: len(shape) // 16 * 16].reshape(16, -1).mean(axis=1)
    # Lines of powers of the signal (PSK, FSK) and of its envelope (symbol clock).
    bounded = signal / np.maximum(np.abs(signal), 0.2)
    powers = [np.abs(np.fft.fft(series)) for series in (bounded**2, bounded**4, power - 1)]
    lines = [line[3:].max() / line.mean() for line in powers]
    # Frequency over time: levels, and how it comes back (sweeps).
    frequency = np.angle(signal[1:] * signal[:-1].conj()) / np.pi * on[1:]
    levels = np.histogram(frequency[on[1:]], 12, (-1, 1))[0] / max(on.sum(), 1)
    returns = np.fft.ifft(np.abs(np.fft.fft(frequency)) ** 2).real[1:12]
    product = np.abs(np.fft.fft(whole[50:] * whole[:-50].conj()))
    sweep = [np.median(np.diff(frequency)), product.max() / product.mean()]
    return np.concatenate([envelope, cyclic, shape / shape.sum(), lines, levels, returns, sweep])


def test_the_family_shows(made) -> None:
    rows = [
        (shown(samples, e.offset_hz, e.width_hz), e.family, regime)
        for regime in REGIMES
        for samples, scene in zip(*made[regime], strict=True)
        for e in scene.emitters
    ]
    features, family, regime = (np.array(column) for column in zip(*rows, strict=True))
    forest = RandomForestClassifier(200, random_state=0, n_jobs=1)
    right = cross_val_predict(forest, np.nan_to_num(features), family, cv=5) == family
    share = {name: right[regime == name].mean() for name in REGIMES}
    assert share["low"] > 0.85
    assert min(share["mid"], share["high"]) > 0.97


def test_energy_follows_the_closed_form(made, recipe) -> None:
    """Power in an emitter's band over that of an empty third, against the stated SNR: Urkowitz, Proc. IEEE 55, 1967.

    Of M independent samples of a noise-like signal the mean power scatters by its size over the root of M.
    """
    off = []
    for samples, scene in zip(*made["low"], strict=True):
        free = sorted({"low", "centre", "high"} - {e.place for e in scene.emitters})
        spectrum = np.abs(np.fft.fft(samples)) ** 2
        frequency = np.fft.fftfreq(len(samples)) * RATE
        for e in scene.emitters:
            if e.activity == "steady" and e.family in {"PSK", "OFDM"} and free:
                middle = {"low": -1, "centre": 0, "high": 1}[free[0]] * RATE / 3
                noise = spectrum[np.abs(frequency - middle) < RATE / 8].mean()
                inside = np.abs(frequency - e.offset_hz) < 0.6 * e.width_hz
                ratio = 10 ** (e.snr_db / 10) * len(samples) / inside.sum()
                scatter = (1 + ratio) * np.sqrt(1 / inside.sum() + 4 / len(samples))
                off.append((spectrum[inside].mean() / noise - 1 - ratio) / scatter)
    assert len(off) > 40
    assert np.abs(off).max() < 4.5
    assert abs(np.mean(off)) < 4 / np.sqrt(len(off))


def test_the_faintest_emitter_that_the_recipe_allows_is_seen(recipe) -> None:
    """Weakest, widest, shortest on air, at the least SNR: an ideal energy detector finds it in nine of ten scenes."""
    task = recipe.tasks[TASK]
    snr = 10 ** ((task.regimes_db["low"][0] - task.below_db["weak"][1]) / 10)
    width, on, off = task.bandwidths_hz["wide"][1], task.bursts.on_us[0], task.bursts.off_us[1]
    samples = task.samples * width / RATE * on / (on + off)
    ratio = snr * RATE / width
    threshold = stats.norm.isf(0.01)
    assert stats.norm.sf((threshold - ratio * np.sqrt(samples)) / (1 + ratio)) > 0.9
