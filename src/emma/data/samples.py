"""Samples as a converter stores them: 16-bit integers with one scale per scene, and complex numbers again."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from common.errors import InputError
from common.hashing import sha256

#: The largest integer: full scale is the larger of \\|I\\| and \\|Q\\| over the scene.
FULL_SCALE = 32767


class Stored(NamedTuple):
    """Samples of n scenes: int16 ``[n, antennas, samples, 2]`` (I, Q), and the value of one step, float32 ``[n]``."""

    pairs: NDArray[np.int16]
    scale: NDArray[np.float32]


def convert(iq: NDArray[np.complexfloating]) -> Stored:
    """Samples ``[n, antennas, samples]`` as integers, each rounded to the nearest step of its scene (a tie to even).

    Reproducible where arithmetic differs in its last bits, which the rounding takes out. A silent scene has scale 0.
    """
    parts = np.stack([iq.real, iq.imag], axis=-1).astype(np.float64)
    peak = np.abs(parts).max(axis=(1, 2, 3), initial=0.0)
    scale = (peak / FULL_SCALE).astype(np.float32)
    step = np.where(scale > 0, scale, 1).astype(np.float64)[:, None, None, None]
    whole = np.rint(parts / step).clip(-FULL_SCALE, FULL_SCALE)
    return Stored(whole.astype(np.int16), scale)


def revert(stored: Stored) -> NDArray[np.complex64]:
    """The samples that stored ones stand for, complex64 ``[n, antennas, samples]``."""
    parts = stored.pairs.astype(np.float32) * stored.scale[:, None, None, None]
    samples: NDArray[np.complex64] = parts.view(np.complex64)[..., 0]
    return samples


def iq_hashes(stored: Stored) -> list[str]:
    """``iq_sha256`` of n scenes: over the integers alone, little-endian, in row order."""
    pairs = np.ascontiguousarray(stored.pairs, dtype="<i2")
    return [sha256(scene.data) for scene in pairs.view(np.uint8).reshape(len(pairs), -1)]


def check_iq(path: str | Path, iq: NDArray[np.complexfloating]) -> None:
    """Raise InputError unless every sample is finite."""
    bad = ~np.isfinite(iq.real + iq.imag).all(axis=(1, 2))
    if bad.any():
        raise InputError(
            f"{path}: iq: NaN or infinity in scene {int(np.flatnonzero(bad)[0])} of a chunk, expected finite"
        )
