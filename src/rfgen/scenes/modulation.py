"""E-ID-AMC: eleven modulations with random symbol rate, pulse, carrier offset, phase and timing."""

import numpy as np

from common.streams import Seed, stream
from rfgen.recipe import Modulation, Recipe
from rfgen.scenes.common import Chunk, levelled, metadata, noisy, shifted
from rfgen.waveforms import angular, linear

TASK = "E-ID-AMC"
ANALOGUE, FSK = ("AM-DSB", "FM"), ("2FSK", "GFSK")


def regimes(recipe: Recipe, split: str) -> dict[str, tuple[float, float]]:
    """SNR limits [dB] by regime in a split."""
    if split == "PRETRAIN":
        return {recipe.snr_regime(np.array(recipe.pretrain.snr_db[:1]))[0]: recipe.pretrain.snr_db}
    return recipe.tasks[TASK].regimes_db


def signals(p: Modulation, name: str, n: int, rng: np.random.Generator) -> np.ndarray:
    """`n` noise-free signals of one modulation, complex128 `[n, samples]`, about unit power."""
    samples = p.samples
    sps, start = rng.uniform(*p.samples_per_symbol, n), rng.random(n)
    if name in ANALOGUE:
        message = angular.smooth_noise(rng, n, samples, 0.5 / sps)
        if name == "FM":
            return angular.frequency_modulated(message * rng.uniform(*p.fm_deviation_symbols, (n, 1)) / sps[:, None])
        depth = rng.uniform(*p.am_index, (n, 1))
        peak = np.abs(message).max(axis=1, keepdims=True)
        return (1 + depth * message / peak).astype(complex)
    symbols = int(samples / p.samples_per_symbol[0]) + 16
    if name in FSK:
        bits = 2 * rng.integers(2, size=(n, symbols)) - 1
        bt = rng.uniform(*p.gfsk_bt, n) if name == "GFSK" else None
        index = rng.uniform(*p.fsk_index, (n, 1)) if name == "2FSK" else np.full((n, 1), p.gfsk_index)
        return angular.frequency_modulated(
            angular.fsk_frequency(bits, samples, sps, start, bt) * index / 2 / sps[:, None]
        )
    points = linear.constellation(name)
    return linear.shaped(
        points[rng.integers(len(points), size=(n, symbols))], samples, sps, rng.uniform(*p.rolloff, n), start
    )


def make(recipe: Recipe, split: str, key: tuple, seed: Seed) -> Chunk:
    """One chunk: the same number of scenes of every modulation, in random order."""
    regime, band, number = key
    p: Modulation = recipe.tasks[TASK]
    rng = stream(seed, TASK, split, regime, band, number)
    each = p.chunk // len(p.classes)
    signal = np.concatenate([signals(p, name, each, rng) for name in p.classes])
    order = rng.permutation(p.chunk)
    names = [p.classes[i // each] for i in order]
    signal = signal[order][:, None] * np.exp(2j * np.pi * rng.random(p.chunk))[:, None, None]
    cfo = rng.uniform(-p.cfo_ppm, p.cfo_ppm, p.chunk) * 1e-6 * recipe.bands_hz[band] / p.sample_rate_hz
    snr_db = rng.uniform(*regimes(recipe, split)[regime], p.chunk)
    iq = levelled(noisy(shifted(signal, cfo), snr_db, rng), recipe, rng)
    label = [None] * p.chunk if split == "PRETRAIN" else names
    return Chunk(key, iq, metadata(recipe, TASK, split, band, snr_db, label_class=label, detail=names))
