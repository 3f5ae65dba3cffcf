"""What every scene shares: noise at a stated SNR, a random gain after unit power, metadata columns."""

from dataclasses import dataclass

import numpy as np

from common.streams import complex_normal
from rfgen.recipe import Recipe

COLUMNS = (
    "task",
    "split",
    "environment",
    "device",
    "session",
    "receiver",
    "frequency_band",
    "snr_regime",
    "snr_db",
    "sample_rate_hz",
    "center_frequency_hz",
    "link_id",
    "label_azimuth_deg",
    "label_class",
    "detail",
)


@dataclass(frozen=True)
class Chunk:
    """Scenes made together: `iq` complex64 `[n, antennas, samples]`, `metadata` column name -> n values."""

    key: tuple
    iq: np.ndarray
    metadata: dict[str, list | np.ndarray]

    def __len__(self) -> int:
        return len(self.iq)


def metadata(
    recipe: Recipe, task: str, split: str, band: str, snr_db: np.ndarray, **columns: list | np.ndarray
) -> dict:
    """All metadata columns of n scenes in the order of `COLUMNS`; those not given are null."""
    n = len(snr_db)
    known = {
        "task": [task] * n,
        "split": [split] * n,
        "frequency_band": [band] * n,
        "snr_regime": recipe.snr_regime(snr_db),
        "snr_db": np.asarray(snr_db, float),
        "sample_rate_hz": np.full(n, recipe.tasks[task].sample_rate_hz),
        "center_frequency_hz": np.full(n, recipe.bands_hz[band]),
        **columns,
    }
    return {name: known.get(name, [None] * n) for name in COLUMNS}


def noisy(signal: np.ndarray, snr_db: np.ndarray, rng: np.random.Generator, on: np.ndarray | None = None) -> np.ndarray:
    """`signal` `[n, antennas, samples]` scaled to its SNR in the whole sampled band, plus unit white noise.

    Power is the mean over antennas and, with a boolean `on` `[n, samples]`, over the samples where the emitter is on.
    A silent signal stays silent.
    """
    power = np.abs(signal) ** 2
    if on is None:
        mean = power.mean(axis=(1, 2))
    else:
        mean = np.sum(power.mean(axis=1) * on, axis=1) / np.maximum(on.sum(axis=1), 1)
    scale = np.sqrt(10 ** (np.asarray(snr_db) / 10) / np.where(mean > 0, mean, 1.0))
    return signal * scale[:, None, None] + complex_normal(rng, signal.shape)


def levelled(signal: np.ndarray, recipe: Recipe, rng: np.random.Generator) -> np.ndarray:
    """Unit mean power, then a random gain, so that a scene's power tells nothing; complex64."""
    rms = np.sqrt(np.mean(np.abs(signal) ** 2, axis=(1, 2)))
    gain = 10 ** (rng.uniform(*recipe.gain_db, len(signal)) / 20)
    return (signal * (gain / rms)[:, None, None]).astype(np.complex64)


def snr_range(recipe: Recipe, task: str, split: str) -> tuple[float, float]:
    """SNR limits [dB] of a task in a split."""
    return recipe.pretrain.snr_db if split == "PRETRAIN" else recipe.tasks[task].snr_db


def shifted(signal: np.ndarray, frequency: np.ndarray) -> np.ndarray:
    """`signal` `[n, antennas, samples]` moved by `frequency` `[n]` cycles per sample."""
    return signal * np.exp(2j * np.pi * frequency[:, None] * np.arange(signal.shape[-1]))[:, None]
