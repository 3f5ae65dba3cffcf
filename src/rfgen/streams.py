"""Random streams that depend on a seed and a name alone, so that chunks can be made in any order."""

import hashlib
import json

import numpy as np

Seed = int | str


def entropy(seed: Seed, *key: str | int) -> int:
    """The 256-bit integer that a seed and a key name.

    `seed` is an integer or a string (a secret); `key` holds strings and integers. ValueError for another type.
    """
    if isinstance(seed, bool) or not isinstance(seed, int | str):
        raise ValueError(f"seed: expected an integer or a string, got {type(seed).__name__}")  # noqa: TRY004
    text = json.dumps([seed, *key], ensure_ascii=True, separators=(",", ":"))
    return int.from_bytes(hashlib.sha256(text.encode()).digest(), "big")


def stream(seed: Seed, *key: str | int) -> np.random.Generator:
    """A Philox generator of the stream that (seed, key) names."""
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(entropy(seed, *key))))


def complex_normal(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Circular complex Gaussian samples of unit variance, complex128 of `shape`."""
    return rng.standard_normal((*shape, 2)).view(np.complex128)[..., 0] * np.sqrt(0.5)
