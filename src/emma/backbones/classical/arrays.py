"""An array of antennas: its sample covariance, and MUSIC, the azimuth of one source at a calibrated one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from emma.backbones.base import IQ, Complex, Embeddings, Floats

_SPEED_OF_LIGHT = 299792458.0


def positions(kind: str, elements: int, spacing: float) -> Floats:
    """Element positions ``[elements, 2]`` in the unit of ``spacing``, that between neighbours.

    ``circular``: element m at azimuth 360 m / elements; ``linear``: along +x, centred. ValueError for another kind.
    """
    if kind == "circular":
        angle = 2 * np.pi * np.arange(elements) / elements
        radius = spacing / (2 * np.sin(np.pi / elements))
        places: Floats = radius * np.stack([np.cos(angle), np.sin(angle)], axis=1)
        return places
    if kind == "linear":
        along = (np.arange(elements) - (elements - 1) / 2) * spacing
        return np.stack([along, np.zeros(elements)], axis=1)
    raise ValueError(f"kind: {kind}, expected circular or linear")


def steering(places: Floats, azimuth_deg: Floats) -> Complex:
    """Response ``[..., elements]`` to a horizontal plane wave from ``azimuth_deg``: elements nearer to it lead."""
    angle = np.radians(np.asarray(azimuth_deg))[..., None]
    response: Complex = np.exp(2j * np.pi * (np.cos(angle) * places[:, 0] + np.sin(angle) * places[:, 1]))
    return response


def music_azimuth(iq: Complex, places: Floats, sources: int = 1) -> Floats:
    """Azimuth ``[B]`` in degrees, [0, 360), of the highest peak of the MUSIC spectrum.

    A grid of one degree, then the vertex of the parabola through finer and finer neighbours.

    Args:
        iq: complex ``[B, elements, T]``.
        places: ``[elements, 2]`` in wavelengths.
        sources: dimension of the signal subspace.

    Reference: Schmidt, "Multiple emitter location and signal parameter estimation", IEEE TAP 34(3), 1986.
    """
    covariance = iq @ iq.conj().transpose(0, 2, 1) / iq.shape[2]
    noise = np.linalg.eigh(covariance)[1][:, :, : len(places) - sources]
    centre, batch = np.zeros(len(iq)), np.arange(len(iq))
    for width, points in ((180.0, 361), (1.5, 31), (0.15, 31)):
        grid = centre[:, None] + np.linspace(-width, width, points)
        projected = steering(places, grid).conj() @ noise
        leak = np.sum(np.abs(projected) ** 2, axis=2)
        best = np.clip(leak.argmin(axis=1), 1, points - 2)
        left, middle, right = (leak[batch, best + step] for step in (-1, 0, 1))
        bend = np.maximum(left - 2 * middle + right, 1e-30)
        centre = grid[batch, best] + np.clip(0.5 * (left - right) / bend, -1, 1) * 2 * width / (points - 1)
    # The rest of a tiny negative angle is 360 itself.
    return centre % 360.0 % 360.0


class Music:
    """Embeds a scene as cosine and sine of its MUSIC azimuth."""

    name = "music"
    embedding_dim = 2

    def __init__(self, places_m: Floats) -> None:
        self._places_m = places_m

    def embed(self, iq: IQ, sample_rate_hz: float, center_frequency_hz: float) -> Embeddings:
        """Float32 ``[B, 2]`` of complex64 ``[B, A, T]``; ValueError unless A is the array's number of elements."""
        del sample_rate_hz
        if iq.shape[1] != len(self._places_m):
            raise ValueError(f"{iq.shape[1]} antennas, expected the array's {len(self._places_m)}")
        places = self._places_m * center_frequency_hz / _SPEED_OF_LIGHT
        angle = np.radians(music_azimuth(iq.astype(np.complex128), places))
        return np.stack([np.cos(angle), np.sin(angle)], axis=1).astype(np.float32)


def music(
    weights: Mapping[str, NDArray[Any]] | None = None,
    kind: Literal["circular", "linear"] = "circular",
    elements: int = 8,
    spacing_m: float = 0.025844,
) -> Music:
    """Build MUSIC for an array; spacing of neighbours in metres."""
    del weights
    return Music(positions(kind, elements, spacing_m))


class Covariance:
    """Embeds a scene as the sample covariance of its antennas at trace 1, which second-order methods start from.

    Real parts of the upper triangle with its diagonal, row by row, then imaginary parts of the triangle without it:
    the square of the number of antennas, 64 for eight.
    """

    name = "array_covariance"

    def __init__(self, antennas: int) -> None:
        if antennas < 2:
            raise ValueError(f"antennas: {antennas}, expected 2 or more")
        self._antennas, self.embedding_dim = antennas, antennas**2

    def embed(self, iq: IQ, sample_rate_hz: float, center_frequency_hz: float) -> Embeddings:
        """Float32 ``[B, A^2]`` of complex64 ``[B, A, T]``; ValueError for another number of antennas."""
        del sample_rate_hz, center_frequency_hz
        if iq.shape[1] != self._antennas:
            raise ValueError(f"{iq.shape[1]} antennas, expected {self._antennas}")
        return covariance_numbers(iq.astype(np.complex128)).astype(np.float32)


def covariance_numbers(iq: Complex) -> Floats:
    """The sample covariance ``[B, A^2]`` of ``[B, A, T]`` as ``Covariance`` orders it, trace 1; zero for silence."""
    covariance = iq @ iq.conj().transpose(0, 2, 1)
    trace = np.trace(covariance, axis1=1, axis2=2).real[:, None, None]
    covariance = np.divide(covariance, trace, out=np.zeros_like(covariance), where=trace > 0)
    upper, lower = np.triu_indices(iq.shape[1]), np.triu_indices(iq.shape[1], 1)
    return np.concatenate([covariance[:, *upper].real, covariance[:, *lower].imag], axis=1)


def array_covariance(weights: Mapping[str, NDArray[Any]] | None = None, antennas: int = 8) -> Covariance:
    """Build the covariance of a number of antennas."""
    del weights
    return Covariance(antennas)
