"""Source separation: what a textbook passes of a window's spectrum, where the pulse of the signal of interest is known.

Gains of the lines of a window's spectrum, from 0 to 1, are the embedding: a readout turns them into a mask.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emma.backbones.base import IQ, Embeddings, Floats

_TINY = 1e-12
#: Lines of a spectrum that the level of the signal of interest is read from, at least this share of its peak.
_FLAT = 0.5
#: Lines on either side that a spectrum is smoothed over: for the gains, and for the level.
_GAINS, _LEVEL = 2, 4
#: A line is cut out where it is so many times as strong as the signal of interest: 6 dB.
_CUT = 4.0


class MaskEstimator:
    """Embeds a window of one antenna as gains of its lines ``[B, lines]``, DC first.

    Args:
        name: the estimator's name.
        gains: gains ``[B, lines]`` from powers of the lines and the signal of interest's, both ``[B, lines]``.
        baud: symbol rate of the signal of interest, in Hz.
        rolloff: its pulse's.
        lines: samples of a window.
    """

    def __init__(
        self, name: str, gains: Callable[[Floats, Floats], Floats], baud: float, rolloff: float, lines: int
    ) -> None:
        self.name, self.embedding_dim = name, lines
        self._gains, self._baud, self._rolloff = gains, baud, rolloff
        self._taper = np.sin(np.pi * (np.arange(lines) + 0.5) / lines)

    def embed(self, iq: IQ, sample_rate_hz: float, center_frequency_hz: float) -> Embeddings:
        """Float32 ``[B, D]`` of complex64 ``[B, A, lines]``, the first antenna's; ValueError for other lengths."""
        del center_frequency_hz
        if iq.shape[2] != self.embedding_dim:
            raise ValueError(f"{iq.shape[2]} samples, expected windows of {self.embedding_dim}")
        power = np.abs(np.fft.fft(iq[:, 0].astype(np.complex128) * self._taper)) ** 2
        shape = pulse_spectrum(self._baud, self._rolloff, sample_rate_hz, self.embedding_dim)
        return self._gains(power, signal_level(power, shape) * shape).astype(np.float32)


def pulse_spectrum(baud: float, rolloff: float, sample_rate_hz: float, lines: int) -> Floats:
    """Power spectrum ``[lines]`` of symbols in root-raised-cosine pulses, 1 at its peak, DC first: a raised cosine."""
    frequency = np.abs(np.fft.fftfreq(lines) * sample_rate_hz)
    place = np.clip((frequency - (1 - rolloff) * baud / 2) / (rolloff * baud), 0.0, 1.0)
    spectrum: Floats = 0.5 * (1 + np.cos(np.pi * place))
    return spectrum


def signal_level(power: Floats, shape: Floats) -> Floats:
    """Power ``[B, 1]`` of the signal of interest's strongest line: the median over the lines that it fills.

    Of a spectrum smoothed over a few lines and divided by the pulse's: an interferer on fewer than half of those lines
    does not move it.
    """
    inside = shape > _FLAT
    level: Floats = np.median(smooth(power, _LEVEL)[:, inside] / shape[inside], axis=1, keepdims=True)
    return level


def smooth(power: Floats, reach: int) -> Floats:
    """Mean over so many lines on either side, around the circle."""
    mean: Floats = np.mean([np.roll(power, step, axis=1) for step in range(-reach, reach + 1)], axis=0)
    return mean


def wiener(power: Floats, signal: Floats) -> Floats:
    """The linear MMSE gain of a line: the signal of interest's share of the power found there, at most 1.

    Reference: N. Wiener, Extrapolation, Interpolation, and Smoothing of Stationary Time Series, 1949; the power found
    in place of the sum of both as in spectral subtraction (Boll, IEEE Transactions on Acoustics, Speech, and Signal
    Processing 27(2), 1979).
    """
    gain: Floats = np.minimum(signal / (smooth(power, _GAINS) + _TINY), 1.0)
    return gain


def excision(power: Floats, signal: Floats) -> Floats:
    """1 where the signal of interest has half of its peak, but 0 for lines far stronger than it.

    Reference: L. B. Milstein, "Interference rejection techniques in spread spectrum communications", Proceedings of the
    IEEE 76(6), 1988.
    """
    passed: Floats = ((signal > _FLAT * signal.max(axis=1, keepdims=True)) & (power <= _CUT * signal)).astype(float)
    return passed


def wiener_mask(
    weights: Mapping[str, NDArray[Any]] | None = None,
    baud: float = 5e6,
    rolloff: float = 0.35,
    lines: int = 256,
) -> MaskEstimator:
    """Build the linear MMSE gains for a pulse."""
    del weights
    return MaskEstimator("wiener_mask", wiener, baud, rolloff, lines)


def line_excision(
    weights: Mapping[str, NDArray[Any]] | None = None,
    baud: float = 5e6,
    rolloff: float = 0.35,
    lines: int = 256,
) -> MaskEstimator:
    """Build the excision of strong lines."""
    del weights
    return MaskEstimator("line_excision", excision, baud, rolloff, lines)
