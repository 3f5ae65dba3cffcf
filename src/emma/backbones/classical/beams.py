"""The best of many narrow beams of a linear array, from what a few wide ones receive at the same time.

The wide beams are the orthogonal ones of as many neighbouring elements, half a wavelength apart, so that what the
elements received is theirs turned back. Directions are spatial frequencies, in cycles per element: half the cosine of
the azimuth at the horizon. Narrow beam b of N looks at (b - N / 2) / N.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emma.backbones.base import IQ, Complex, Embeddings, Floats

#: Points of the search over spatial frequency, for each narrow beam.
_POINTS = 16
#: Share of the mean power that is added to every eigenvalue: the covariance of few samples of one source is singular.
_LOADING = 0.01


def directions(beams: int) -> Floats:
    """Spatial frequencies ``[beams]`` at which the orthogonal beams of as many elements look, from -1/2 on."""
    return (np.arange(beams) - beams // 2) / beams


def wide_responses(frequency: Floats, probes: int) -> Complex:
    """What wide beams receive of unit waves of spatial frequencies ``[F]``: ``[F, probes]``, of unit length."""
    elements = np.exp(2j * np.pi * frequency[:, None] * np.arange(probes))
    looks = np.exp(2j * np.pi * directions(probes)[:, None] * np.arange(probes))
    response: Complex = elements @ looks.conj().T / probes
    return response


def narrow_powers(frequency: Floats, beams: int) -> Floats:
    """Powers ``[F, beams]`` of narrow beams for unit waves of spatial frequencies ``[F]``; they sum to 1."""
    off = frequency[:, None] - directions(beams)
    # The pattern of a uniform array, whose value where it looks is 1.
    near = np.abs(np.sin(np.pi * off)) < 1e-9
    ratio = np.sin(np.pi * beams * off) / np.where(near, 1.0, beams * np.sin(np.pi * off))
    powers: Floats = np.where(near, 1.0, ratio**2)
    return powers


class ProbeBackbone:
    """A backbone of scenes whose rows are wide beams, at the same instants."""

    name: str

    def __init__(self, probes: int, beams: int) -> None:
        self._probes, self._beams, self.embedding_dim = probes, beams, beams

    def embed(self, iq: IQ, sample_rate_hz: float, center_frequency_hz: float) -> Embeddings:
        """Float32 ``[B, D]`` of complex64 ``[B, probes, T]``; ValueError for another number of rows."""
        del sample_rate_hz, center_frequency_hz
        if iq.shape[1] != self._probes:
            raise ValueError(f"{iq.shape[1]} rows, expected those of {self._probes} probe beams")
        return self._features(iq.astype(np.complex128)).astype(np.float32)

    @abstractmethod
    def _features(self, iq: Complex) -> Floats:
        """Features ``[B, D]`` of complex128 ``[B, probes, T]``."""


class StrongestProbe(ProbeBackbone):
    """Embeds a scene as the number of the wide beam that receives most, one of ``probes``, 1 in its column."""

    name = "strongest_probe"

    def __init__(self, probes: int, beams: int) -> None:
        super().__init__(probes, beams)
        self.embedding_dim = probes

    def _features(self, iq: Complex) -> Floats:
        power = np.mean(np.abs(iq) ** 2, axis=2)
        chosen: Floats = np.eye(self._probes)[power.argmax(axis=1)]
        return chosen


class ProbeMusic(ProbeBackbone):
    """Embeds a scene as the powers of the narrow beams for the one direction that MUSIC finds on the wide ones.

    Reference: Schmidt, "Multiple emitter location and signal parameter estimation", IEEE TAP 34(3), 1986; in beam
    space: Zoltowski, Kautz and Silverstein, "Beamspace root-MUSIC", IEEE TSP 41(1), 1993.
    """

    name = "probe_music"

    def _features(self, iq: Complex) -> Floats:
        covariance = iq @ iq.conj().transpose(0, 2, 1)
        noise = np.linalg.eigh(covariance)[1][:, :, :-1]
        grid = directions(self._beams * _POINTS)
        leak = np.sum(np.abs(wide_responses(grid, self._probes).conj() @ noise) ** 2, axis=2)
        return narrow_powers(grid[leak.argmin(axis=1)], self._beams)


class ProbeCapon(ProbeBackbone):
    """Embeds a scene as Capon's spectrum where the narrow beams look, 1 at its highest.

    Reference: Capon, "High-resolution frequency-wavenumber spectrum analysis", Proceedings of the IEEE 57(8), 1969.
    """

    name = "probe_capon"

    def _features(self, iq: Complex) -> Floats:
        covariance = iq @ iq.conj().transpose(0, 2, 1) / iq.shape[2]
        level = np.maximum(np.trace(covariance, axis1=1, axis2=2).real / self._probes, 1e-30)[:, None, None]
        inverse = np.linalg.inv(covariance / level + _LOADING * np.eye(self._probes))
        looks = wide_responses(directions(self._beams), self._probes)
        spectrum = 1 / np.sum((looks.conj() @ inverse) * looks, axis=2).real
        powers: Floats = spectrum / spectrum.max(axis=1, keepdims=True)
        return powers


def strongest_probe(
    weights: Mapping[str, NDArray[Any]] | None = None, probes: int = 8, beams: int = 64
) -> StrongestProbe:
    """Build the choice of the strongest of a number of wide beams."""
    del weights
    return StrongestProbe(probes, beams)


def probe_music(weights: Mapping[str, NDArray[Any]] | None = None, probes: int = 8, beams: int = 64) -> ProbeMusic:
    """Build MUSIC on a number of wide beams, for a codebook of narrow ones."""
    del weights
    return ProbeMusic(probes, beams)


def probe_capon(weights: Mapping[str, NDArray[Any]] | None = None, probes: int = 8, beams: int = 64) -> ProbeCapon:
    """Build Capon's spectrum on a number of wide beams, for a codebook of narrow ones."""
    del weights
    return ProbeCapon(probes, beams)
