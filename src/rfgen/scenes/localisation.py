"""E-LOC-AOA and E-LOC-LOS: an OFDM terminal through its rays to an array."""

import numpy as np

from common.streams import Seed, stream
from rfgen import arrays
from rfgen.propagation import Links, path_gains, through
from rfgen.recipe import Array, Recipe
from rfgen.scenes.common import Chunk, levelled, metadata, noisy, shifted, snr_range
from rfgen.waveforms import ofdm


def positions(array: Array) -> np.ndarray:
    """Element positions of a recipe's array, `[elements, 2]` in wavelengths."""
    make = arrays.circular if array.kind == "circular" else arrays.linear
    return make(array.elements, array.spacing_wavelengths)


def uplink(recipe: Recipe, task: str, n: int, length: int, rng: np.random.Generator) -> np.ndarray:
    """Random OFDM data `[n, length]` with a random symbol phase."""
    p = recipe.tasks[task]
    active = ofdm.carriers(p.active_subcarriers, p.subcarriers)
    symbol = p.subcarriers + p.cyclic_prefix
    values = ofdm.random_values(rng, (n, length // symbol + 2, len(active)), p.constellation)
    data = ofdm.modulate(values, active, p.subcarriers, p.cyclic_prefix)
    start = rng.integers(symbol, size=n)
    return np.take_along_axis(data, start[:, None] + np.arange(length), axis=1)


def make(recipe: Recipe, task: str, split: str, key: tuple, *, links: Links, seed: Seed) -> Chunk:
    """One chunk of localisation scenes, one for each link."""
    environment, band, number = key
    p = recipe.tasks[task]
    rng = stream(seed, task, split, environment, band, number)
    n = len(links.link_id)
    snr_db = rng.uniform(*snr_range(recipe, task, split), n)
    # As much again in front as the scene is long: echoes of what was sent before the window reach into it.
    signal = uplink(recipe, task, n, 2 * p.samples, rng)
    gains, delays = path_gains(links, positions(p.array), rng)
    timing = rng.random(n) / p.sample_rate_hz
    received = through(signal, gains, delays + timing[:, None], p.sample_rate_hz)[..., p.samples :]
    cfo = rng.uniform(-p.cfo_ppm, p.cfo_ppm, n) * 1e-6 * recipe.bands_hz[band] / p.sample_rate_hz
    iq = levelled(noisy(shifted(received, cfo), snr_db, rng), recipe, rng)
    pool = split == "PRETRAIN"
    labels = {
        "label_azimuth_deg": links.bearing_deg if task == "E-LOC-AOA" and not pool else [None] * n,
        "label_class": [("LOS" if x else "NLOS") if task == "E-LOC-LOS" and not pool else None for x in links.los],
        "detail": ["LOS" if x else "NLOS" for x in links.los],
    }
    columns = {"environment": [environment] * n, "link_id": links.link_id, **labels}
    return Chunk(key, iq, metadata(recipe, task, split, band, snr_db, **columns))
