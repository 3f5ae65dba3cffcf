"""Random features of second-order statistics: what an untrained wide layer brings, without any search for a network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common.streams import stream
from emma.backbones.base import IQ, Embeddings, Floats
from emma.backbones.classical.arrays import covariance_numbers

#: Bins of the spectrum, and what the numbers of a covariance are multiplied by to be of its size.
_BINS, _COVARIANCE = 64, 8.0


class RandomFeatures:
    """Rectified random mixtures of the antennas' covariance and the log spectrum.

    Features ``max(0, W z + b)`` with Gaussian W and uniform b (Rahimi and Recht, NeurIPS 2008), z the covariance at
    trace 1 where there are several antennas, and the logarithm of the power in 64 bands over its mean.
    """

    name = "random_features"

    def __init__(self, width: int, seed: int) -> None:
        self.embedding_dim, self._seed = width, seed

    def embed(self, iq: IQ, sample_rate_hz: float, center_frequency_hz: float) -> Embeddings:
        """Float32 ``[B, width]`` of complex64 ``[B, A, T]``; ValueError for fewer than 64 samples."""
        del sample_rate_hz, center_frequency_hz
        if iq.shape[2] < _BINS:
            raise ValueError(f"{iq.shape[2]} samples, expected {_BINS} or more")
        x = iq.astype(np.complex128)
        power = np.mean(np.abs(np.fft.fftshift(np.fft.fft(x, axis=2), axes=2)) ** 2, axis=1)
        edges = np.linspace(0, iq.shape[2], _BINS + 1).astype(int)
        bands = np.add.reduceat(power, edges[:-1], axis=1) / np.diff(edges)
        mean = bands.mean(axis=1, keepdims=True)
        level = np.divide(bands, mean, out=np.ones_like(bands), where=mean > 0)
        parts: list[Floats] = [0.5 * np.log(level + 1e-3)]
        if iq.shape[1] > 1:
            parts.append(_COVARIANCE * covariance_numbers(x))
        given = np.concatenate(parts, axis=1)
        rng = stream(self._seed, "random features", given.shape[1])
        weights = rng.standard_normal((given.shape[1], self.embedding_dim)) * (2.0 / np.sqrt(given.shape[1]))
        mixed = given @ weights + rng.uniform(-1.0, 1.0, self.embedding_dim)
        rectified: Embeddings = np.maximum(mixed, 0.0).astype(np.float32)
        return rectified


def random_features(
    weights: Mapping[str, NDArray[Any]] | None = None, width: int = 512, seed: int = 0
) -> RandomFeatures:
    """Build a layer of ``width`` features drawn from ``seed``."""
    del weights
    return RandomFeatures(width, seed)
