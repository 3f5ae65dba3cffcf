"""Random streams that depend on a seed and a name alone, the same on every machine and in any order.

There are two constructions, both Philox behind SHA-256. ``stream`` names the generator's draws by the JSON of seed and
key; the shipped scenes rest on its bytes. ``random_generator`` names the evaluation's draws (bootstrap
resamples) by typed words with their lengths; the published intervals rest on its bytes. They never give the
same stream, and neither can take over from the other without changing shipped numbers. New code takes ``stream``.
"""

from __future__ import annotations

import hashlib
import json
import operator

import numpy as np
from numpy.typing import NDArray

#: A whole number, or text (a secret).
Seed = int | str
#: What ``random_generator`` takes: a seed, or several words in order.
DrawSeed = Seed | tuple[Seed, ...]


def entropy(seed: Seed, *key: Seed) -> int:
    """The 256-bit integer that a seed and a key name.

    `seed` is an integer or a string (a secret); `key` holds strings and integers. ValueError for another type.
    """
    if isinstance(seed, bool) or not isinstance(seed, int | str):
        raise ValueError(f"seed: expected an integer or a string, got {type(seed).__name__}")  # noqa: TRY004
    text = json.dumps([seed, *key], ensure_ascii=True, separators=(",", ":"))
    return int.from_bytes(hashlib.sha256(text.encode()).digest(), "big")


def stream(seed: Seed, *key: Seed) -> np.random.Generator:
    """A Philox generator of the stream that (seed, key) names."""
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(entropy(seed, *key))))


def random_generator(seed: DrawSeed) -> np.random.Generator:
    """Return a Philox generator whose stream depends on ``seed`` alone, on every machine and in every process.

    Args:
        seed: a whole number, a string, or a tuple of both; ``7`` and ``(7,)`` are one seed, ``7`` and ``"7"`` are two.

    Raises:
        ValueError: any other kind of seed.
    """
    parts = seed if isinstance(seed, tuple) else (seed,)
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, str):
            word = "s" + part
        else:
            try:
                word = f"i{operator.index(part)}"
            except TypeError as error:
                raise ValueError(f"seed: expected whole numbers and strings, not {part!r}") from error
        encoded = word.encode()
        # The length goes first, so that ("a", "b") and ("ab",) differ.
        digest.update(len(encoded).to_bytes(8, "little") + encoded)
    words = np.frombuffer(digest.digest(), "<u4").tolist()
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(words)))


def complex_normal(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.complex128]:
    """Circular complex Gaussian samples of unit variance, complex128 of `shape`."""
    samples: NDArray[np.complex128] = rng.standard_normal((*shape, 2)).view(np.complex128)[..., 0] * np.sqrt(0.5)
    return samples
