"""Antenna arrays: element positions in wavelengths and the response to a plane wave.

Frame: azimuth in degrees counter-clockwise from +x, zenith in degrees from +z; both name the direction the wave comes
*from*. A wave from azimuth 0 reaches the element at +x first, so that element's phase leads.
"""

from typing import Literal

import numpy as np

from rfgen.physics.fields import Count, Model, Positive
from rfgen.physics.types import Complexes, Floats

SPEED_OF_LIGHT = 299792458.0


class Array(Model):
    """An antenna array; `circular` puts neighbours `spacing_m` metres apart on a circle, `linear` on a line."""

    kind: Literal["circular", "linear"]
    elements: Count
    spacing_m: Positive

    def positions(self, frequency_hz: float) -> Floats:
        """Element positions `[elements, 2]` in wavelengths of a carrier."""
        shape = {"circular": circular, "linear": linear}[self.kind]
        return shape(self.elements, self.spacing_m * frequency_hz / SPEED_OF_LIGHT)

    def neighbours(self) -> Floats:
        """1 where two elements are next to each other, float64 `[elements, elements]`."""
        apart = np.abs(np.subtract.outer(np.arange(self.elements), np.arange(self.elements)))
        closed = apart == self.elements - 1 if self.kind == "circular" and self.elements > 2 else False
        beside: Floats = ((apart == 1) | closed).astype(float)
        return beside


def circular(elements: int, spacing_wavelengths: float = 0.5) -> Floats:
    """Uniform circular array, float64 `[elements, 2]`: element m at azimuth 360 m / elements.

    Neighbours are `spacing_wavelengths` apart, so the radius is spacing / (2 sin(pi / elements))
    wavelengths: kR = 4.105 for eight at half a wavelength.
    """
    angle = 2 * np.pi * np.arange(elements) / elements
    radius = spacing_wavelengths / (2 * np.sin(np.pi / elements)) if elements > 1 else 0.0
    points: Floats = radius * np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    return points


def linear(elements: int, spacing_wavelengths: float = 0.5) -> Floats:
    """Uniform linear array along +x centred on the origin, float64 `[elements, 2]`; broadside is azimuth 90."""
    x = (np.arange(elements) - (elements - 1) / 2) * spacing_wavelengths
    return np.stack([x, np.zeros(elements)], axis=-1)


def arc(elements: int, spacing_wavelengths: float, radius_wavelengths: float) -> Floats:
    """Elements on a circular arc, chord along +x, bulging to +y, centroid at the origin; float64 `[elements, 2]`.

    `spacing_wavelengths` is measured along the arc.
    """
    angle = np.pi / 2 - (np.arange(elements) - (elements - 1) / 2) * spacing_wavelengths / radius_wavelengths
    points: Floats = radius_wavelengths * np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    points -= points.mean(axis=0)
    return points


def response(positions: Floats, azimuth_deg: Floats | float, zenith_deg: Floats | float = 90.0) -> Complexes:
    """Phase of a plane wave at each element, complex128 `[..., elements]`.

    `positions` is `[elements, 2]` in wavelengths (z = 0); azimuth and zenith broadcast against each other.
    """
    azimuth, zenith = np.broadcast_arrays(np.radians(azimuth_deg), np.radians(zenith_deg))
    projection = np.sin(zenith)
    x, y = projection * np.cos(azimuth), projection * np.sin(azimuth)
    phase = x[..., None] * positions[:, 0] + y[..., None] * positions[:, 1]
    steering: Complexes = np.exp(2j * np.pi * phase)
    return steering
