"""Linear modulations: constellations and band-limited pulses at any, also fractional, number of samples per symbol."""

import numpy as np

from rfgen.physics.types import Complexes, Floats


def constellation(name: str) -> Complexes:
    """Points of a constellation with unit mean power, complex128.

    Known: OOK, 4PAM (real, unequal to BPSK), BPSK, QPSK, 8PSK, 16QAM, 64QAM. ValueError for another name.
    """
    psk = {"BPSK": 2, "QPSK": 4, "8PSK": 8}
    square = {"16QAM": 4, "64QAM": 8}
    if name in psk:
        points: Complexes = np.exp(2j * np.pi * (np.arange(psk[name]) + (0.5 if name == "QPSK" else 0.0)) / psk[name])
    elif name in square:
        levels = 2.0 * np.arange(square[name]) - (square[name] - 1)
        points = (levels[:, None] + 1j * levels).ravel()
    elif name == "4PAM":
        points = np.array([-3.0, -1.0, 1.0, 3.0], complex)
    elif name == "OOK":
        points = np.array([0.0, 1.0], complex)
    else:
        raise ValueError(f"constellation: unknown name {name!r}")
    unit: Complexes = points / np.sqrt(np.mean(np.abs(points) ** 2))
    return unit


def root_raised_cosine(t: Floats | float, rolloff: Floats | float) -> Floats:
    """Root-raised-cosine pulse at times `t` in symbols, unit energy per symbol; `rolloff` broadcasts, in (0, 1]."""
    t, b = np.asarray(t, float), np.asarray(rolloff, float)
    x = 4 * b * t
    with np.errstate(divide="ignore", invalid="ignore"):
        pulse = (np.sin(np.pi * t * (1 - b)) + x * np.cos(np.pi * t * (1 + b))) / (np.pi * t * (1 - x**2))
    # The two removable singularities: t = 0 and |t| = 1 / (4 rolloff).
    pulse = np.where(np.abs(t) < 1e-9, 1 - b + 4 * b / np.pi, pulse)
    edge = b / np.sqrt(2) * ((1 + 2 / np.pi) * np.sin(np.pi / (4 * b)) + (1 - 2 / np.pi) * np.cos(np.pi / (4 * b)))
    return np.where(np.abs(np.abs(x) - 1) < 1e-7, edge, pulse)


def pulse_shape(
    symbols: Complexes,
    samples: int,
    samples_per_symbol: Floats,
    rolloff: Floats,
    start: Floats,
    *,
    span: int = 6,
) -> Complexes:
    """Symbols shaped by root-raised-cosine pulses, complex128 `[n, samples]`.

    `symbols` is `[n, K]` with K at least `samples / samples_per_symbol + 2 span + 2`; `samples_per_symbol`, `rolloff`
    and `start` (timing offset in symbols, [0, 1)) are `[n]`; pulses are cut `span` symbols from their centre.
    """
    u = np.arange(samples) / samples_per_symbol[:, None] + start[:, None] + span
    nearest = np.floor(u).astype(np.int64)
    out = np.zeros(u.shape, complex)
    for k in range(-span + 1, span + 1):
        pulse = root_raised_cosine(u - nearest - k, rolloff[:, None])
        out += np.take_along_axis(symbols, nearest + k, axis=1) * pulse
    return out
