"""E-ID-DRONE: emitters, half of them drones, through channels that do not know which they are."""

import numpy as np

from common.streams import Seed, stream
from rfgen.propagation import Links, path_gains, through
from rfgen.recipe import Drone, Recipe
from rfgen.scenes.common import Chunk, levelled, metadata, noisy, shifted, snr_range
from rfgen.waveforms.emitters import FAMILIES

# Samples made on either side of the window, so that neither echoes nor resampling end inside it.
LEAD, TAIL = 640, 264


def emit(p: Drone, family: str, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """A stretch of `LEAD + samples + TAIL` of a family that is on for at least the stated share of the window."""
    while True:
        signal, on = FAMILIES[family](rng, LEAD + p.samples + TAIL, p.families[family])
        if family == "noise" or on[LEAD : LEAD + p.samples].mean() >= p.occupied_share:
            return signal, on


def make(recipe: Recipe, task: str, split: str, key: tuple, *, links: Links, seed: Seed) -> Chunk:
    """One chunk of drone scenes, one for each link; half of them present, families in turn, in random order."""
    environment, band, number = key
    p: Drone = recipe.tasks[task]
    rng = stream(seed, task, split, environment, band, number)
    n = len(links.link_id)
    snr_db = rng.uniform(*snr_range(recipe, task, split), n)
    half = n // 2
    turn = number * half
    families = [p.present[(turn + i) % len(p.present)] for i in range(half)]
    families += [p.absent[(turn + i) % len(p.absent)] for i in range(n - half)]
    families = [families[i] for i in rng.permutation(n)]
    made = [emit(p, family, rng) for family in families]
    signal, on = np.stack([m[0] for m in made]), np.stack([m[1] for m in made])
    offset = (
        rng.uniform(-p.offset_hz, p.offset_hz, n) + rng.uniform(-p.cfo_ppm, p.cfo_ppm, n) * 1e-6 * recipe.bands_hz[band]
    ) / p.sample_rate_hz
    signal = shifted(signal[:, None], offset)[:, 0] * np.exp(2j * np.pi * rng.random(n))[:, None]
    gains, delays = path_gains(links, np.zeros((1, 2)), rng)
    received = through(signal, gains, delays, p.sample_rate_hz)[..., LEAD : LEAD + p.samples]
    iq = levelled(noisy(received, snr_db, rng, on[:, LEAD : LEAD + p.samples]), recipe, rng)
    present = [None if split == "PRETRAIN" else ("present" if f in p.present else "absent") for f in families]
    columns = {"environment": [environment] * n, "link_id": links.link_id, "label_class": present, "detail": families}
    return Chunk(key, iq, metadata(recipe, task, split, band, snr_db, **columns))
