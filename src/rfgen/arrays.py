"""Antenna arrays: element positions in wavelengths and the response to a plane wave.

Frame: azimuth in degrees counter-clockwise from +x, zenith in degrees from +z; both name the direction the wave comes
*from*. A wave from azimuth 0 reaches the element at +x first, so that element's phase leads.
"""

import numpy as np


def circular(elements: int, spacing_wavelengths: float = 0.5) -> np.ndarray:
    """Uniform circular array, float64 `[elements, 2]`: element m at azimuth 360 m / elements.

    Neighbours are `spacing_wavelengths` apart, so the radius is spacing / (2 sin(pi / elements))
    wavelengths: kR = 4.105 for eight at half a wavelength.
    """
    angle = 2 * np.pi * np.arange(elements) / elements
    radius = spacing_wavelengths / (2 * np.sin(np.pi / elements)) if elements > 1 else 0.0
    return radius * np.stack([np.cos(angle), np.sin(angle)], axis=-1)


def linear(elements: int, spacing_wavelengths: float = 0.5) -> np.ndarray:
    """Uniform linear array along +x centred on the origin, float64 `[elements, 2]`; broadside is azimuth 90."""
    x = (np.arange(elements) - (elements - 1) / 2) * spacing_wavelengths
    return np.stack([x, np.zeros(elements)], axis=-1)


def arc(elements: int, spacing_wavelengths: float, radius_wavelengths: float) -> np.ndarray:
    """Elements on a circular arc, chord along +x, bulging to +y, centroid at the origin; float64 `[elements, 2]`.

    `spacing_wavelengths` is measured along the arc.
    """
    angle = np.pi / 2 - (np.arange(elements) - (elements - 1) / 2) * spacing_wavelengths / radius_wavelengths
    points = radius_wavelengths * np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    return points - points.mean(axis=0)


def response(positions: np.ndarray, azimuth_deg: np.ndarray, zenith_deg: np.ndarray | float = 90.0) -> np.ndarray:
    """Phase of a plane wave at each element, complex128 `[..., elements]`.

    `positions` is `[elements, 2]` in wavelengths (z = 0); azimuth and zenith broadcast against each other.
    """
    azimuth, zenith = np.broadcast_arrays(np.radians(azimuth_deg), np.radians(zenith_deg))
    projection = np.sin(zenith)
    x, y = projection * np.cos(azimuth), projection * np.sin(azimuth)
    phase = x[..., None] * positions[:, 0] + y[..., None] * positions[:, 1]
    return np.exp(2j * np.pi * phase)
